//! From a raw measurement to a sample that counts, or a reason why it does not.

use super::window::Point;
use super::{Discard, Sample, SampleOutcome, Settings};

/// Nothing on a path takes longer than a day, in milliseconds: a larger number is a broken clock.
pub const MAX_ELAPSED_MS: f64 = 86_400_000.0;

/// From this wire time on, in milliseconds, a sample's speed is judged: below, the noise of the
/// measurement is as large as what is measured.
pub const MIN_WIRE_MS: f64 = 0.1;

/// This host's other bytes that can stand before a small probe at most: what the sockets and the
/// network card hold. A probe goes over a connection of its own, so it waits for their queues, not
/// for the end of a transfer that is under way.
pub const RAIL_QUEUE_BYTES: u64 = 4 * 1024 * 1024;

/// A sample that counts, and what its bytes explain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// The sample without what its bytes, and this host's other bytes, explain.
    pub(super) point: Point,
    /// How many bytes it moved, or was to move, without an echo.
    pub(super) size_bytes: u64,
    /// How long those alone take on the wire, in milliseconds.
    pub(super) alone_ms: f64,
    /// How long its bytes take beside this host's other bytes in flight, in milliseconds.
    pub(super) explained_ms: f64,
    /// It worked faster than the wire can be: what it took is not to be believed.
    pub(super) too_fast: bool,
}

/// Checks `sample` and takes out of its latency what its own bytes, and this host's other bytes in
/// flight, explain on a rail of `bandwidth_gbps`.
pub(super) fn admit(settings: &Settings, bandwidth_gbps: f64, sample: &Sample) -> Result<Measured, Discard> {
    let valid = |number: f64| number.is_finite() && number >= 0.0;
    if !valid(sample.elapsed_ms) || !valid(sample.late_ms) {
        return Err(Discard::Invalid);
    }
    if sample.elapsed_ms > MAX_ELAPSED_MS {
        return Err(Discard::Implausible);
    }
    if is_late(settings, sample) {
        return Err(Discard::Late);
    }
    let moved_ms = wire_ms(sample.bytes as f64, bandwidth_gbps);
    // What failed may have failed sooner than the bytes could move; what worked cannot. Half the
    // wire time leaves room for a bandwidth that is configured too low.
    let too_fast = sample.outcome == SampleOutcome::Ok && moved_ms >= MIN_WIRE_MS && sample.elapsed_ms < moved_ms / 2.0;
    // bytes / (bandwidth * bytes / (bytes + inflight)): at its fair share the sample takes as long
    // as all bytes together take alone.
    let explained_ms = wire_ms(sample.bytes as f64 + settings.beside_bytes(sample) as f64, bandwidth_gbps);
    let size_bytes = sample.bytes.max(sample.attempted_bytes);
    Ok(Measured {
        point: Point {
            latency_ms: (sample.elapsed_ms - explained_ms).max(0.0),
            drop_rate: match sample.outcome {
                SampleOutcome::Ok => 0.0,
                SampleOutcome::Lost | SampleOutcome::Failed => 1.0,
            },
            bytes: sample.bytes,
        },
        size_bytes,
        alone_ms: wire_ms(size_bytes as f64, bandwidth_gbps),
        explained_ms,
        too_fast,
    })
}

/// Whether this host itself was late while it measured. Where nothing came for a whole deadline, it is
/// to blame only if it stalled for most of that: else a busy host, which stalls for a few milliseconds
/// in any second, would never learn of a path that is dead.
pub(super) fn is_late(settings: &Settings, sample: &Sample) -> bool {
    let borne_ms = match sample.outcome {
        SampleOutcome::Ok => settings.max_late_ms,
        SampleOutcome::Lost | SampleOutcome::Failed => settings.max_late_ms.max(sample.elapsed_ms / 2.0),
    };
    sample.late_ms > borne_ms
}

/// How long bytes take alone, in milliseconds.
pub(super) fn wire_ms(bytes: f64, bandwidth_gbps: f64) -> f64 {
    bytes * 8.0 / (bandwidth_gbps * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::SampleKind;
    use crate::model::Profile;

    fn sample(elapsed_ms: f64, bytes: u64) -> Sample {
        Sample {
            path: "p0>d0/r0/quic".parse().unwrap(),
            kind: SampleKind::Probe,
            outcome: SampleOutcome::Ok,
            elapsed_ms,
            bytes,
            attempted_bytes: bytes,
            inflight_bytes: 0,
            late_ms: 0.0,
            taken: None,
        }
    }

    fn point(sample: &Sample) -> Result<Point, Discard> {
        admit(&Settings::default(), 8.0, sample).map(|measured| measured.point)
    }

    #[test]
    fn the_bytes_own_time_on_the_wire_is_no_latency() {
        // 8 Gb/s is a megabyte a millisecond.
        assert_eq!(point(&sample(12.0, 10_000_000)).unwrap().latency_ms, 2.0);
        assert_eq!(point(&sample(12.0, 0)).unwrap().latency_ms, 12.0);
        assert_eq!(point(&sample(9.0, 10_000_000)).unwrap().latency_ms, 0.0);
    }

    #[test]
    fn delay_that_other_bytes_in_flight_explain_is_no_latency() {
        let shared = Sample { inflight_bytes: 10_000_000, ..sample(22.0, 10_000_000) };
        assert_eq!(point(&shared).unwrap().latency_ms, 2.0);
    }

    #[test]
    fn before_a_small_probe_stand_the_queues_at_most_and_only_the_mesh_profile_knows() {
        let mesh = Settings { profile: Profile::Mesh, ..Settings::default() };
        let probe = Sample { inflight_bytes: 1 << 30, ..sample(40.0, 64) };
        let latency = |settings: &Settings, sample: &Sample| admit(settings, 8.0, sample).unwrap().point.latency_ms;
        assert_eq!(latency(&Settings::default(), &probe), 0.0);
        let queue_ms = (RAIL_QUEUE_BYTES + 64) as f64 / 1e6;
        assert!((latency(&mesh, &probe) - (40.0 - queue_ms)).abs() < 1e-9);
        for kind in [SampleKind::Bulk, SampleKind::Transfer, SampleKind::Reported] {
            assert_eq!(latency(&mesh, &Sample { kind, ..probe.clone() }), 0.0, "{kind:?}");
        }
    }

    #[test]
    fn what_was_lost_or_failed_counts_as_dropped_with_the_latency_as_measured() {
        for outcome in [SampleOutcome::Lost, SampleOutcome::Failed] {
            let found = point(&Sample { outcome, ..sample(250.0, 0) }).unwrap();
            assert_eq!((found.latency_ms, found.drop_rate), (250.0, 1.0));
        }
    }

    #[test]
    fn invalid_implausible_and_late_samples_are_discarded() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.001] {
            assert_eq!(point(&sample(bad, 64)), Err(Discard::Invalid));
            assert_eq!(point(&Sample { late_ms: bad, ..sample(1.0, 64) }), Err(Discard::Invalid));
        }
        assert_eq!(point(&sample(86_400_001.0, 64)), Err(Discard::Implausible));
        assert!(point(&sample(86_400_000.0, 64)).is_ok());
        let too_fast = |elapsed_ms| admit(&Settings::default(), 8.0, &sample(elapsed_ms, 10_000_000)).unwrap().too_fast;
        assert!(too_fast(4.9) && !too_fast(5.1));
        assert_eq!(point(&Sample { late_ms: 20.1, ..sample(1.0, 64) }), Err(Discard::Late));
        assert!(point(&Sample { late_ms: 20.0, ..sample(1.0, 64) }).is_ok());
    }

    #[test]
    fn a_missed_deadline_counts_unless_this_host_stalled_for_most_of_it() {
        for outcome in [SampleOutcome::Lost, SampleOutcome::Failed] {
            let missed = |late_ms| point(&Sample { outcome, late_ms, ..sample(700.0, 64) });
            assert_eq!(missed(350.0).unwrap().drop_rate, 1.0);
            assert_eq!(missed(350.1), Err(Discard::Late));
            let refused_at_once = |late_ms| point(&Sample { outcome, late_ms, ..sample(1.0, 64) });
            assert!(refused_at_once(20.0).is_ok());
            assert_eq!(refused_at_once(20.1), Err(Discard::Late));
        }
        assert_eq!(point(&Sample { late_ms: 20.1, ..sample(700.0, 64) }), Err(Discard::Late));
    }

    #[test]
    fn small_samples_and_failures_may_be_faster_than_the_wire() {
        assert!(point(&sample(0.0, 64)).is_ok());
        let refused = Sample { outcome: SampleOutcome::Failed, ..sample(0.2, 10_000_000) };
        assert_eq!(point(&refused).unwrap().drop_rate, 1.0);
    }
}
