//! Traces to be decided again, plain and compressed.

use std::io::Cursor;

use seam::model::{Outcome, Profile};
use seam::replay::{MAX_CANDIDATES, Metrics, Placed, Settings, Sink, replay};
use seam::rivals::Choosable;

/// Requests of one input at most: a small compressed file may hold a long trace.
const MAX_REQUESTS: u64 = 2_000;

/// What holds of each request: as many choices as policies, and none where nothing is admissible.
struct Checked {
    requests: u64,
    rows: u64,
}

impl Sink for Checked {
    fn placed(&mut self, placed: &Placed<'_>) -> std::io::Result<()> {
        self.requests += 1;
        self.rows += placed.rows as u64;
        assert!((1..=MAX_CANDIDATES).contains(&placed.rows), "{placed:?}");
        assert_eq!(placed.policies.len(), placed.chosen.len(), "{placed:?}");
        if placed.outcome == Outcome::NoAdmissiblePool {
            assert!(placed.chosen.iter().all(Option::is_none), "{placed:?}");
        } else {
            assert!(placed.chosen.iter().all(Option::is_some), "{placed:?}");
        }
        if self.requests < MAX_REQUESTS { Ok(()) } else { Err(std::io::Error::other("enough")) }
    }
}

/// What was decided is counted, and what was refused is said in a bounded text.
pub fn run(data: &[u8]) {
    for profile in [Profile::Reference, Profile::Mesh] {
        let settings = Settings { rivals_see: Choosable::AdmissibleOnly, ..Settings::of(profile) };
        let mut checked = Checked { requests: 0, rows: 0 };
        match replay("fuzz", Cursor::new(data.to_vec()), settings, &mut checked) {
            Ok(summary) => {
                assert_eq!((summary.replay_requests, summary.replay_rows), (checked.requests, checked.rows));
                let within = |share: Option<f64>| share.is_none_or(|share| (0.0..=100.0).contains(&share));
                for (policy, metrics) in &summary.policy_metrics {
                    let Metrics { strict_choice_count, no_pool_count, requests, .. } = *metrics;
                    assert!(within(metrics.strict_healthy_pct) && within(metrics.tolerant_degraded_pct), "{policy}");
                    assert!(strict_choice_count + no_pool_count <= requests, "{policy}: {metrics:?}");
                }
                summary.write_csv(std::io::sink()).expect("a summary can be written");
            }
            Err(error) => assert!(error.to_string().len() < 4_096, "an endless error"),
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let header = "timestamp,request_id,workload_type,pool_id,latency_ms,jitter_ms,drop_rate,occupancy,max_capacity,soft_capacity_fraction,criticality,sla_ms,jitter_tolerance,is_release_path,is_prefill_decode_strict,alternate_count";
    let rows = [
        "2026-05-02T09:00:03Z,r1,release,a,4.31,2.83,0.0,6,8,0.75,0.95,15,0.1,true,true,1",
        "2026-05-02T09:00:03Z,r1,release,b,3.39,0.78,0.0,8,8,0.75,0.95,15,0.1,true,true,1",
        "2026-05-02T09:00:06+02:00,r2,batch,a,3.62,9.89,0.002,2,12,0.75,0.2,200,0.9,false,false,0",
        "1777712406.5,r3,interactive,b,3.62,0.89,0.2,2,12,0.5,0.7,30,0.3,0,1,0",
    ];
    let plain = format!("{header}\n{}\n", rows.join("\n"));
    let quoted = format!("\u{feff}{header}\r\n\"{}\"\r\n", rows[0].replace(',', "\" , \""));
    let blocks = format!("{header},prefix_blocks\n{},1 2 3\n{},1 2 3\n", rows[0], rows[1]);
    let packed = crate::trace::stored_gzip(plain.as_bytes());
    let mut seeds: Vec<Vec<u8>> = [plain, quoted, blocks].map(String::into_bytes).to_vec();
    seeds.push(packed);
    seeds
}
