//! What changes without an event: read off once a second and set as gauges.

mod mesh;
mod rails;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::links::Links;
use crate::model::{NodeName, PathId, PathState};

/// How often gauges are set.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often histograms are compacted, in intervals.
const UPKEEP_INTERVALS: u32 = 5;

/// Sets the gauges until it is dropped.
pub(crate) async fn keep(links: Arc<Links>, node: NodeName) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut counted, mut told) = (Counted::default(), rails::Told::default());
    let mut refused_paths = 0;
    let mut beyond = BTreeSet::new();
    for round in 0u32.. {
        interval.tick().await;
        paths_and_pools(&links, &node, &mut refused_paths, &mut beyond).await;
        leases(&links).await;
        mesh::keep(&links, &mut counted).await;
        rails::keep(&links, &mut told);
        links.metrics.set("seam_node_late_ratio", &[], links.lateness.take_ratio());
        if round % UPKEEP_INTERVALS == 0 {
            links.metrics.run_upkeep();
        }
    }
}

/// How much of others' counters the metrics have been told already.
struct Counted<K>(BTreeMap<K, u64>);

impl<K> Default for Counted<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Counted<K> {
    /// What came on top since the last time, if anything did.
    fn news(&mut self, key: K, total: u64) -> Option<u64> {
        let told = self.0.entry(key).or_default();
        let news = total.saturating_sub(std::mem::replace(told, total));
        (news > 0).then_some(news)
    }
}

/// One path as the gauges need it.
struct Line {
    path: PathId,
    pool: String,
    state: PathState,
    gfs: f64,
    /// Left to its canaries, however much of its pool is excluded.
    on_trial: bool,
}

async fn paths_and_pools(links: &Links, node: &NodeName, refused_paths: &mut u64, beyond: &mut BTreeSet<String>) {
    let Some(policy) = links.policy.get() else { return };
    let own = node.clone();
    let read = policy.read(move |core, now| {
        let lines: Vec<Line> = core
            .view()
            .paths(now)
            .map(|path| Line {
                pool: path.target.pool.as_str().to_owned(),
                state: path.health.state,
                gfs: path.health.gfs,
                on_trial: path.health.failed_bytes > 0,
                path: path.spec.id,
            })
            .collect();
        let loads: Vec<(NodeName, u32, u64)> = core
            .view()
            .loads(now)
            .map(|(node, load, _)| {
                (node.clone(), load.max_sessions.saturating_sub(load.active_sessions), load.kv_bytes_free)
            })
            .collect();
        let mut held: BTreeMap<NodeName, u32> = BTreeMap::new();
        for (_, lease, _) in core.leases() {
            *held.entry(lease.id.node.clone()).or_default() += 1;
        }
        let limits = (core.view().refused_paths(), core.max_excluded_fraction());
        (lines, loads, held, core.view().observers_of(&own), limits)
    });
    let Ok(Some((lines, loads, held, observers, (refused, share)))) = read.await else { return };
    if refused > *refused_paths {
        links.metrics.dropped_many("paths", refused - std::mem::replace(refused_paths, refused));
    }
    for &state in PathState::ALL {
        let paths = lines.iter().filter(|line| line.state == state).count();
        links.metrics.set("seam_paths", &[state.as_str()], paths as f64);
    }
    if let Some(gfs) = weighted_mean(&lines, &held) {
        links.metrics.set("seam_node_gfs", &["source"], gfs);
    }
    if let Some(gfs) = median(observers) {
        links.metrics.set("seam_node_gfs", &["destination"], gfs);
    }
    excluded(links, &lines, share, beyond);
    headroom(links, &loads);
}

/// A source's GFS: over its paths, each weighted by the sessions that this node has on it, or all
/// alike while it has none.
fn weighted_mean(lines: &[Line], held: &BTreeMap<NodeName, u32>) -> Option<f64> {
    let sessions = |line: &Line| f64::from(held.get(&line.path.destination).copied().unwrap_or(0));
    let total: f64 = lines.iter().map(sessions).sum();
    if lines.is_empty() {
        None
    } else if total > 0.0 {
        Some(lines.iter().map(|line| line.gfs * sessions(line)).sum::<f64>() / total)
    } else {
        Some(lines.iter().map(|line| line.gfs).sum::<f64>() / lines.len() as f64)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => values.get(middle).copied(),
        _ => Some((values.get(middle - 1)? + values.get(middle)?) / 2.0),
    }
}

/// How much of each pool is excluded; a pool beyond the `share` that may be is told of once, when it
/// comes to be, and once when that has ended.
fn excluded(links: &Links, lines: &[Line], share: f64, beyond: &mut BTreeSet<String>) {
    let mut pools: BTreeMap<&str, (u32, u32, u32)> = BTreeMap::new();
    for line in lines {
        let (excluded, tried, all) = pools.entry(&line.pool).or_default();
        *all += 1;
        *excluded += u32::from(!line.state.carries());
        *tried += u32::from(!line.state.carries() && line.on_trial);
    }
    links.metrics.clear("seam_excluded_fraction");
    beyond.retain(|pool| {
        let stays =
            pools.get(pool.as_str()).is_some_and(|(excluded, tried, all)| is_beyond(excluded - tried, *all, share));
        if !stays {
            tracing::info!(pool, "no more of the pool is excluded than may be");
        }
        stays
    });
    for (pool, (excluded, tried, all)) in pools {
        links.metrics.set("seam_excluded_fraction", &[pool], f64::from(excluded) / f64::from(all));
        if is_beyond(excluded - tried, all, share) && beyond.insert(pool.to_owned()) {
            tracing::warn!(
                pool,
                excluded,
                all,
                share,
                "more of the pool is bad than may be excluded: ranked, not refused"
            );
        }
    }
}

/// One path of a pool may always be excluded.
fn is_beyond(excluded: u32, all: u32, share: f64) -> bool {
    excluded > 1 && f64::from(excluded) > f64::from(all) * share
}

fn headroom(links: &Links, loads: &[(NodeName, u32, u64)]) {
    let mut pools: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (node, sessions, kv_bytes) in loads {
        if let Some(pool) = links.pool_of(node) {
            let sum = pools.entry(pool.as_str().to_owned()).or_default();
            *sum = (sum.0 + u64::from(*sessions), sum.1.saturating_add(*kv_bytes));
        }
    }
    links.metrics.clear("seam_headroom_sessions");
    links.metrics.clear("seam_headroom_kv_bytes");
    for (pool, (sessions, kv_bytes)) in pools {
        links.metrics.set("seam_headroom_sessions", &[&pool], sessions as f64);
        links.metrics.set("seam_headroom_kv_bytes", &[&pool], kv_bytes as f64);
    }
}

async fn leases(links: &Links) {
    let mut states: BTreeMap<&'static str, u32> =
        ["granted", "delivered", "fenced", "held"].into_iter().map(|state| (state, 0)).collect();
    if let Some(ledger) = links.ledger.get()
        && let Ok(Some((stages, recovering))) =
            ledger.read(|core, _| (core.held().map(|held| held.stage).collect::<Vec<_>>(), core.is_recovering())).await
    {
        links.metrics.set("seam_recovering", &[], f64::from(u8::from(recovering)));
        for stage in stages {
            *states.entry(stage.as_str()).or_default() += 1;
        }
    }
    if let Some(policy) = links.policy.get()
        && let Ok(Some(held)) = policy.read(|core, _| core.leases().count()).await
    {
        states.insert("held", u32::try_from(held).unwrap_or(u32::MAX));
    }
    for (state, leases) in states {
        links.metrics.set("seam_leases", &[state], f64::from(leases));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(to: &str, gfs: f64) -> Line {
        Line {
            path: format!("p0>{to}/r0/quic").parse().unwrap(),
            pool: "pool".to_owned(),
            state: PathState::Healthy,
            gfs,
            on_trial: false,
        }
    }

    #[test]
    fn a_source_is_as_gray_as_the_paths_its_sessions_are_on() {
        let lines = [line("d0", 0.4), line("d1", 0.0)];
        assert_eq!(weighted_mean(&[], &BTreeMap::new()), None);
        assert_eq!(weighted_mean(&lines, &BTreeMap::new()), Some(0.2));
        let held = BTreeMap::from([("d0".parse().unwrap(), 3), ("d1".parse().unwrap(), 1)]);
        assert!((weighted_mean(&lines, &held).unwrap() - 0.3).abs() < 1e-12);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![0.3, 0.1, 0.2]), Some(0.2));
        assert_eq!(median(vec![0.4, 0.0, 0.2, 0.0]), Some(0.1));
    }
}
