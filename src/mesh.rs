//! The mesh core.

use std::sync::Arc;

use crate::model::{Generation, LoadRecord, NodeName, NodeRecord, PathsRecord};

/// What a member of the mesh learns of another: the face of the mesh towards policy and probes.
#[derive(Clone, Debug, PartialEq)]
pub enum MeshEvent {
    /// A node is alive, or said something new of itself.
    Node {
        /// Its generation.
        generation: Generation,
        /// What it says.
        record: Arc<NodeRecord>,
    },
    /// A node's headroom.
    Load {
        /// Whose.
        node: NodeName,
        /// In which life.
        generation: Generation,
        /// What it says.
        record: LoadRecord,
    },
    /// A node's view of paths that are not healthy; replaces its earlier one.
    Paths {
        /// Whose view.
        observer: NodeName,
        /// What it says.
        record: PathsRecord,
    },
    /// A node left, is down, or its records expired. Everything it said is void.
    Gone {
        /// Which.
        node: NodeName,
        /// Which life of it.
        generation: Generation,
    },
}
