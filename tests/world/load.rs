//! A host's own load is no fault of its paths.

use seam::sim::Settings;

use crate::common::{MIB, SECOND, mixed, settings, sound, world};

#[test]
fn rails_at_a_third_of_their_bandwidth_exclude_no_sound_path() {
    const MINUTES: u64 = 10;
    let mut counted = 0;
    for seed in 0..2 {
        let mut base = settings(seed, 3, 4);
        // 256 MiB take 86 ms at 25 Gb/s: four a second are 35 % of a sender's rail.
        base.bandwidth_gbps = 25.0;
        base.session_ms = 300.0;
        base.arrivals = Some(mixed(4.0, 227 * MIB, MINUTES * 60 * SECOND));
        base.arrivals.as_mut().unwrap().limits_bytes = (16 * MIB, 1024 * MIB);
        let mut world = world(Settings { ..base });
        world.run(MINUTES * 60 * SECOND);
        let audit = world.audit();
        let bytes: u64 = audit.requests.values().filter(|f| f.delivered_ms.is_some()).map(|f| f.bytes).sum();
        let share = bytes as f64 * 8.0 / (25e9 * 60.0 * MINUTES as f64 * 3.0);
        println!(
            "own load, seed {seed}: {:.1} % of the senders' rails for {MINUTES} min, {} delivered, {} failed, {} false exclusions",
            share * 100.0,
            audit.delivered,
            audit.failed,
            audit.false_exclusions()
        );
        for (at, path, from, to, _) in audit.transitions.iter().take(12) {
            println!("  {at} ms {path}: {from} to {to}");
        }
        assert!(share > 0.3, "seed {seed}: {share}");
        counted += audit.false_exclusions();
        sound(&world, "own load");
    }
    assert_eq!(counted, 0, "sound paths left HEALTHY");
}
