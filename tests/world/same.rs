//! The same seed gives the same run, and a tape gives the same outputs.

use seam::core::{Core, Now};
use seam::health::HealthCore;
use seam::mesh::{MeshCore, MeshSize};
use seam::policy::Policy;
use seam::sim::{Action, Fault, Gossip, Settings, Tapes, World};

use crate::common::{MIB, SECOND, cores, mixed, sound, world};

fn busy(seed: u64, gossip: Gossip) -> World {
    let arrivals = Some(mixed(4.0, 16 * MIB, 20 * SECOND));
    let mut world = world(Settings { gossip, arrivals, taped: Some("p0".to_owned()), ..Settings::new(seed, 3, 4) });
    let gray = world.path(world.prefill(0), world.decode(0)).unwrap();
    world.at(6 * SECOND, Action::Fault { path: gray, fault: Some(Fault::Jitter { base_ms: 7.0 }) });
    world.at(8 * SECOND, Action::Kill(world.decode(1)));
    world.at(10 * SECOND, Action::Stop(world.decode(2)));
    world.at(13 * SECOND, Action::Continue(world.decode(2)));
    world.at(14 * SECOND, Action::Start(world.decode(1)));
    world.run(18 * SECOND);
    world
}

fn decisions(world: &World) -> String {
    let lines = world.audit().decisions.iter().map(|record| serde_json::to_string(&**record).unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_same_seed_gives_the_same_decisions_byte_for_byte_and_another_seed_others() {
    let direct = Settings::new(1, 3, 4).gossip;
    for gossip in [direct, cores(MeshSize::Local, 3, 4)] {
        let (one, same, other) = (busy(1, gossip.clone()), busy(1, gossip.clone()), busy(2, gossip));
        sound(&one, "seed 1");
        println!("{} decisions, {} delivered", one.audit().decisions.len(), one.audit().delivered);
        assert!(one.audit().decisions.len() > 100 && one.audit().delivered > 100);
        assert!(decisions(&one) == decisions(&same), "two runs of one seed differ");
        assert_eq!(one.audit().transitions, same.audit().transitions);
        assert!(decisions(&one) != decisions(&other), "the seed changes nothing");
    }
}

/// Feeds a core its tape and returns what it says.
fn play<C: Core>(mut core: C, tape: &[(Now, C::Input)]) -> Vec<C::Output> {
    let mut out = Vec::new();
    for (now, input) in tape {
        core.step(*now, input.clone(), &mut out);
    }
    out
}

#[test]
fn the_cores_of_one_node_say_the_same_when_their_tapes_are_played_again() {
    let gossip = cores(MeshSize::Local, 3, 4);
    let world = busy(3, gossip.clone());
    let Tapes { health, policy, mesh, .. } = world.tapes().unwrap();
    assert!(health.inputs.len() > 100 && policy.inputs.len() > 100 && mesh.inputs.len() > 100);
    assert_eq!(play(HealthCore::default(), &health.inputs), health.outputs);

    // What a node starts with is what it has before it hears anything.
    let fresh = world_of_age_zero(gossip);
    let snapshot = |policy: &Policy| policy.snapshot();
    assert_eq!(play(Policy::restore(snapshot(fresh.policy(0).unwrap())), &policy.inputs[1..]), policy.outputs);
    let first = MeshCore::restore(fresh.mesh(0).unwrap().snapshot());
    assert_eq!(play(first, &mesh.inputs), mesh.outputs);
}

fn world_of_age_zero(gossip: Gossip) -> World {
    world(Settings { gossip, ..Settings::new(3, 3, 4) })
}
