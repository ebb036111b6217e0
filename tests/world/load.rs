//! A host's own load is no fault of its paths.

use seam::sim::{Settings, World};

use crate::common::{MIB, SECOND, mixed, settings, sound, world};

/// Senders with a third of their rails in use; says how much it was.
fn a_third(seed: u64, prefill: usize, minutes: u64) -> (World, f64) {
    let mut base = settings(seed, prefill, 4);
    // 256 MiB take 86 ms at 25 Gb/s: four a second are 35 % of a sender's rail.
    base.bandwidth_gbps = 25.0;
    base.session_ms = 300.0;
    base.arrivals = Some(mixed(4.0, 227 * MIB, minutes * 60 * SECOND));
    base.arrivals.as_mut().unwrap().limits_bytes = (16 * MIB, 1024 * MIB);
    let mut world = world(Settings { ..base });
    world.run(minutes * 60 * SECOND);
    let delivered = world.audit().requests.values().filter(|fate| fate.delivered_ms.is_some());
    let bytes: u64 = delivered.map(|fate| fate.bytes).sum();
    let share = bytes as f64 * 8.0 / (25e9 * 60.0 * minutes as f64 * prefill as f64);
    assert!(share > 0.3, "seed {seed}: {share}");
    sound(&world, "own load");
    (world, share)
}

#[test]
fn a_sender_that_uses_a_third_of_its_rail_excludes_no_sound_path() {
    const MINUTES: u64 = 20;
    let (world, share) = a_third(1, 1, MINUTES);
    let (audit, percent) = (world.audit(), share * 100.0);
    println!(
        "own load: {percent:.1} % of the rail for {MINUTES} min, {} delivered, {} failed, {} false exclusions",
        audit.delivered,
        audit.failed,
        audit.false_exclusions()
    );
    assert_eq!(audit.false_exclusions(), 0, "{:?}", audit.transitions);
}

#[test]
fn senders_that_meet_at_their_receivers_exclude_no_sound_path() {
    const MINUTES: u64 = 10;
    for seed in 2..5 {
        let (world, share) = a_third(seed, 3, MINUTES);
        let (audit, percent) = (world.audit(), share * 100.0);
        println!(
            "three senders, seed {seed}: {percent:.1} % of their rails for {MINUTES} min, {} delivered, {} failed, \
             {} false exclusions",
            audit.delivered,
            audit.failed,
            audit.false_exclusions()
        );
        assert_eq!(audit.false_exclusions(), 0, "seed {seed}: {:?}", audit.transitions);
    }
}
