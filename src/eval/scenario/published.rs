//! The six scenarios as the prototype published them.

use std::sync::Arc;

use super::Binding::{self, May, Must};
use super::{Ask, Expected, PoolSetup, Scenario, ScenarioName};
use crate::fault::FaultPattern::{self, Clean, Degraded, Drops, Jitter};
use crate::model::{Capacity, NodeName, PoolName, builtin_workloads};

/// Sessions that fit every pool.
const MAX_CAPACITY: u32 = 8;
/// The share of them from which a pool is soft saturated.
const SOFT_FRACTION: f64 = 0.75;

/// Name, pattern, base latency in milliseconds, samples, active sessions.
type PoolRow = (&'static str, FaultPattern, f64, u32, u32);
/// Class, the pattern of the pool it is expected on, whether it must be there.
type AskRow = (&'static str, FaultPattern, Binding);

struct Row {
    name: ScenarioName,
    title: &'static str,
    node: &'static str,
    pools: &'static [PoolRow],
    asks: &'static [AskRow],
}

/// A sound path has 2 ms; a path has 24 samples unless the publication says otherwise.
const ROWS: &[Row] = &[
    Row {
        name: ScenarioName::A,
        title: "clean baseline",
        node: "scenario-a",
        pools: &[("clean-0", Clean, 2.0, 24, 0), ("clean-1", Clean, 2.0, 24, 0)],
        asks: &[("interactive", Clean, Must)],
    },
    Row {
        name: ScenarioName::B,
        title: "latency",
        node: "scenario-b",
        pools: &[("degraded", Degraded, 6.0, 24, 0), ("clean", Clean, 2.0, 24, 0)],
        asks: &[("release", Clean, Must)],
    },
    Row {
        name: ScenarioName::C,
        title: "jitter storm",
        node: "scenario-c",
        pools: &[("jitter", Jitter, 7.0, 24, 0), ("clean", Clean, 2.0, 24, 0)],
        asks: &[("interactive", Clean, Must)],
    },
    Row {
        name: ScenarioName::D,
        title: "drop storm",
        node: "scenario-d",
        pools: &[("drops", Drops, 5.0, 40, 0), ("clean", Clean, 2.0, 12, 0)],
        asks: &[("interactive", Clean, Must)],
    },
    Row {
        name: ScenarioName::E,
        title: "gray failure",
        node: "scenario-e",
        pools: &[("jitter", Jitter, 6.0, 28, 0), ("clean", Clean, 2.0, 20, 0)],
        asks: &[("batch", Jitter, May), ("interactive", Clean, Must), ("release", Clean, Must)],
    },
    Row {
        name: ScenarioName::F,
        title: "capacity pressure",
        node: "scenario-f",
        pools: &[("clean", Clean, 2.0, 24, 7), ("jitter", Jitter, 6.0, 24, 2)],
        asks: &[("batch", Jitter, Must), ("interactive-sync", Clean, Must), ("release", Clean, Must)],
    },
];

/// Every published scenario, in the order of their letters.
#[must_use]
pub fn published() -> Vec<Scenario> {
    ROWS.iter().filter_map(Row::scenario).collect()
}

/// One of them.
#[must_use]
pub fn named(name: ScenarioName) -> Option<Scenario> {
    ROWS.iter().find(|row| row.name == name)?.scenario()
}

impl Row {
    /// None only if a name in the table is no name.
    fn scenario(&self) -> Option<Scenario> {
        Some(Scenario {
            name: self.name,
            title: self.title,
            node: NodeName::new(self.node).ok()?,
            pools: self.pools.iter().map(pool).collect::<Option<_>>()?,
            asks: self.asks.iter().map(ask).collect::<Option<_>>()?,
        })
    }
}

fn pool(&(name, pattern, base_ms, samples, active_sessions): &PoolRow) -> Option<PoolSetup> {
    let pool = PoolName::new(name).ok()?;
    let capacity = Capacity { active_sessions, max_capacity: MAX_CAPACITY, soft_fraction: SOFT_FRACTION };
    Some(PoolSetup { pool, pattern, base_ms, samples, capacity })
}

fn ask(&(class, pattern, binding): &AskRow) -> Option<Ask> {
    let workload = builtin_workloads().into_iter().find(|workload| workload.name.as_str() == class)?;
    Some(Ask { workload: Arc::new(workload), expected: Expected { pattern, binding } })
}
