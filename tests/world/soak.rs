//! Random faults: whatever happens, nothing is given out twice.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use seam::ledger::EngineWord;
use seam::mesh::MeshSize;
use seam::sim::{Action, Fault, Settings, Then, World};

use crate::common::{MIB, SECOND, class, cores, held, mixed, settings, sound, warm, world};

/// Draws what is done, and undone a while later.
fn mischief(world: &mut World, rng: &mut ChaCha8Rng, prefill: usize, decode: usize) {
    let (at, lasts) = (world.now_ms(), rng.random_range(200..9_000));
    let any = rng.random_range(0..prefill + decode);
    let (source, host) = (rng.random_range(0..prefill), prefill + rng.random_range(0..decode));
    let path = world.path(source, host).unwrap();
    let (done, undone) = match rng.random_range(0..9) {
        0 => (Action::Kill(any), Action::Start(any)),
        1 => (Action::Stop(any), Action::Continue(any)),
        2 => (Action::Partition(vec![any]), Action::Heal),
        3 => (Action::Partition((0..any).collect()), Action::Heal),
        4 => (Action::Cut { from: source, to: host }, Action::Mend { from: source, to: host }),
        5 => (Action::Deafen(any), Action::Heal),
        6 => (
            Action::Clock { node: any, offset_ms: rng.random_range(-30_000..30_000) },
            Action::Clock { node: any, offset_ms: 0 },
        ),
        7 => (
            Action::Loss { from: source, to: host, loss: Some(0.3) },
            Action::Loss { from: source, to: host, loss: None },
        ),
        _ => {
            let fault = match rng.random_range(0..6) {
                0 => Fault::Degraded { base_ms: 6.0 },
                1 => Fault::Jitter { base_ms: 7.0 },
                2 => Fault::Drops { base_ms: 5.0 },
                3 => Fault::Collapse { bandwidth_gbps: 0.5 },
                4 => Fault::Stall { from_bytes: MIB },
                _ => Fault::Refuse,
            };
            (Action::Fault { path: path.clone(), fault: Some(fault) }, Action::Fault { path, fault: None })
        }
    };
    world.act(done);
    world.at(at + lasts, undone);
}

fn soak(base: Settings, run_s: u64) -> World {
    let (seed, prefill, decode) = (base.seed, base.prefill, base.decode);
    let mut rng = ChaCha8Rng::seed_from_u64(!seed);
    let mut world = world(base);
    world.run(3 * SECOND);
    while world.now_ms() < run_s * SECOND {
        mischief(&mut world, &mut rng, prefill, decode);
        world.run(rng.random_range(500..3_000));
    }
    // Everything is mended; what was held is free again in time.
    world.run(40 * SECOND);
    world
}

/// A host of four sessions whose engine runs four, killed and started again.
fn full_and_restarted(engine_word_ms: u64) -> (World, usize) {
    let mut base = settings(3, 2, 1);
    base.ledger.max_sessions = 4;
    base.session_ms = 1e7;
    base.engine_word_ms = Some(engine_word_ms);
    let mut world = warm(base);
    let host = world.decode(0);
    for _ in 0..4 {
        world.route(0, &class("batch"), MIB, None, Then::Transfer { after_ms: 10 }).unwrap();
        world.run(SECOND);
    }
    assert_eq!(world.audit().announced.len(), 4, "its engine runs four sessions");
    world.act(Action::Kill(host));
    world.run(10 * SECOND);
    world.act(Action::Start(host));
    world.run(10 * SECOND);
    (world, host)
}

#[test]
fn an_engine_that_outlives_its_agent_is_not_over_committed_by_the_next_life_and_one_that_lies_is_seen_to_be() {
    let ask = |world: &mut World| {
        world.route(0, &class("batch"), MIB, None, Then::Hold).unwrap();
        world.run(2 * SECOND);
    };
    let (mut honest, host) = full_and_restarted(100);
    assert!(!honest.ledger(host).unwrap().is_recovering());
    ask(&mut honest);
    assert_eq!(held(&honest, host), 0, "all four sessions still run");
    sound(&honest, "an engine that says what it runs");

    let (mut lying, host) = full_and_restarted(100_000_000);
    lying.engine_word(host, EngineWord::default());
    lying.run(SECOND);
    ask(&mut lying);
    assert_eq!(held(&lying, host), 1, "it says that it runs none");
    assert_eq!(lying.audit().over_commits, 1, "and runs four");
}

#[test]
fn twelve_schedules_of_random_faults_lead_to_no_over_commit_and_leave_nothing_held() {
    for seed in 0..12 {
        let mut base = settings(seed, 4, 5);
        base.bandwidth_gbps = 10.0;
        base.ledger.max_sessions = 4;
        base.ledger.arena_bytes = Some(512 * MIB);
        base.ledger.kv_bytes = 512 * MIB;
        base.arrivals = Some(mixed(4.0, 64 * MIB, 60 * SECOND));
        base.engine_word_ms = (seed % 2 == 0).then_some(100);
        let world = soak(base, 60);
        let audit = world.audit();
        println!(
            "soak, seed {seed}: {} requests, {} delivered, {} failed, {} asks, {} leases",
            audit.requests.len(),
            audit.delivered,
            audit.failed,
            audit.asked.len(),
            audit.stages.iter().filter(|(_, _, from, _)| from.is_none()).count()
        );
        sound(&world, &format!("soak, seed {seed}"));
        assert!(audit.delivered > 100, "seed {seed}: {}", audit.delivered);
        for host in 4..9 {
            let held: Vec<_> = world.ledger(host).into_iter().flat_map(|ledger| ledger.held()).collect();
            assert!(held.is_empty(), "seed {seed}: {host} still holds {held:?}");
        }
    }
}

#[test]
fn random_faults_over_the_real_mesh_lead_to_no_over_commit() {
    for seed in 0..3 {
        let mut base = Settings { gossip: cores(MeshSize::Local, 3, 3), ..settings(seed, 3, 3) };
        base.bandwidth_gbps = 10.0;
        base.ledger.max_sessions = 4;
        base.arrivals = Some(mixed(3.0, 64 * MIB, 15 * SECOND));
        let world = soak(base, 15);
        println!("soak over the real mesh, seed {seed}: {} delivered", world.audit().delivered);
        sound(&world, &format!("soak over the real mesh, seed {seed}"));
        assert!(world.audit().delivered > 30, "seed {seed}");
    }
}

#[test]
fn forty_hosts_serve_their_stream_while_two_of_them_die_with_either_gossip() {
    let direct = settings(1, 16, 24).gossip;
    for (gossip, until_ms) in [(direct, 20 * SECOND), (cores(MeshSize::Lan, 16, 24), 8 * SECOND)] {
        let arrivals = Some(mixed(2.0, 16 * MIB, until_ms));
        let mut world = world(Settings { gossip, arrivals, ..settings(1, 16, 24) });
        world.at(until_ms / 2, Action::Kill(3));
        world.at(until_ms / 2, Action::Kill(20));
        world.run(until_ms + 4 * SECOND);
        let audit = world.audit();
        println!(
            "forty hosts: {} requests, {} delivered, {} failed",
            audit.requests.len(),
            audit.delivered,
            audit.failed
        );
        assert!(audit.delivered * 2 > audit.requests.len() as u64, "{} of {}", audit.delivered, audit.requests.len());
        sound(&world, "forty hosts");
    }
}
