//! The words that every layer shares: names, workloads, path health, capacity, reasons, leases and
//! the records that the mesh spreads. Data only; the rules live in the cores.

mod capacity;
mod ids;
mod lease;
mod path;
mod profile;
mod reason;
mod records;
mod workload;

pub use capacity::Capacity;
pub use ids::{
    BackendKind, DecisionId, Generation, InvalidName, LeaseId, ModelName, NodeName, PathId, PoolName, RailName,
    RequestId, RiskGroup, WorkloadName,
};
pub use lease::{
    Extent, Lease, LeaseAsk, LeaseCall, LeaseCallReply, LeaseRefusal, LeaseReply, Mover, PAGE_BYTES, Quote,
};
pub use path::{Blame, Evidence, PathHealth, PathSpec, PathState, paths_between};
pub use profile::{InvalidProfile, Profile};
pub(crate) use reason::coded;
pub use reason::{Outcome, Reason};
pub use records::{LoadRecord, NodeRecord, ObservedPath, PathsRecord, RailRecord, Role};
pub use workload::{Mode, OnNoAdmissible, STRICT_FROM, Workload, builtin_workloads};
