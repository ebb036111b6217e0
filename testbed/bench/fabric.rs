//! Candidates and a context for the benchmarks: a fabric in which some paths are degraded and some
//! hosts are full.

use std::borrow::Cow;
use std::sync::Arc;

use seam::health::window::Point;
use seam::health::{Thresholds, Track};
use seam::model::{Capacity, DecisionId, Mover, Profile, Workload, builtin_workloads};
use seam::policy::decide::{Candidate, Target};
use seam::policy::record::Context;

/// `count` candidates, each of another host.
pub fn candidates(count: usize) -> Vec<Candidate> {
    (0..count).map(candidate).collect()
}

fn candidate(index: usize) -> Candidate {
    let thresholds = Thresholds::default();
    let node = format!("decode-{index:04}");
    let mut track = Track::default();
    for sample in 0..20_usize {
        let spread = ((sample * 7 + index * 13) % 17) as f64;
        // Every fifth path swings, every ninth loses.
        let swing = if index % 5 == 4 { 0.9 } else { 0.05 };
        let drop_rate = if index % 9 == 8 && sample % 4 == 0 { 0.2 } else { 0.0 };
        track.feed(&thresholds, Point { latency_ms: 2.0 + swing * spread, drop_rate, bytes: 65_536 });
    }
    let target = Target {
        pool: format!("pool-{:02}", index % 16).parse().unwrap(),
        node: Some(node.parse().unwrap()),
        path: Some(format!("prefill-0>{node}/rail-0/quic").parse().unwrap()),
    };
    let capacity = Capacity { active_sessions: (index % 9) as u32, max_capacity: 8, soft_fraction: 0.75 };
    Candidate {
        risk_group: Some(format!("rack-{:02}", index % 8).parse().unwrap()),
        health_age_ms: Some(120),
        capacity_age_ms: Some(80),
        predicted_ms: Some(12.0 + index as f64),
        ..Candidate::new(Arc::new(target), track.health(&thresholds), capacity)
    }
}

/// The class `interactive`.
pub fn interactive() -> Arc<Workload> {
    Arc::new(builtin_workloads().into_iter().find(|class| class.name.as_str() == "interactive").unwrap())
}

/// What an agent adds to a record.
pub fn context(workload: &Arc<Workload>) -> Context {
    let node: seam::model::NodeName = "prefill-0".parse().unwrap();
    Context {
        id: DecisionId { node: node.clone(), generation: 17, input: 42 },
        ts: Some(1_700_000_000_000),
        node: Some(node),
        request_id: Some("request-42".parse().unwrap()),
        attempt: 1,
        parent: None,
        traceparent: None,
        workload: Arc::clone(workload),
        profile: Profile::Reference,
        policy: Cow::Borrowed("seam"),
        config_hash: Some("09af27c1".into()),
        mover: Some(Mover::Seam),
    }
}
