//! The rails of this host: the backend behind each, and how many bytes this host has in flight on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::{BackendKind, PathSpec, RailName};
use crate::net::{Endpoint, NodeIdentity, RenewError};
use crate::transport::mock::FaultSwitch;
use crate::transport::{Backend, Peer};

/// One rail.
pub(crate) struct Rail {
    pub(crate) kind: BackendKind,
    pub(crate) backend: Arc<dyn Backend>,
    /// Where faults may be switched, the switch.
    pub(crate) faults: Option<FaultSwitch>,
    /// What its peers are shown a certificate by; none for a backend that knows no certificates.
    endpoint: Option<Endpoint>,
    in_flight_bytes: AtomicU64,
}

impl Rail {
    pub(crate) fn new(
        kind: BackendKind,
        backend: Arc<dyn Backend>,
        faults: Option<FaultSwitch>,
        endpoint: Option<Endpoint>,
    ) -> Self {
        Self { kind, backend, faults, endpoint, in_flight_bytes: AtomicU64::new(0) }
    }

    /// Bytes that this host is sending on it.
    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes.load(Ordering::Relaxed)
    }

    /// Counts `bytes` as in flight until the guard is dropped.
    pub(crate) fn sending(&self, bytes: u64) -> InFlight<'_> {
        self.in_flight_bytes.fetch_add(bytes, Ordering::Relaxed);
        InFlight { rail: self, bytes }
    }
}

/// Bytes in flight; gone when dropped.
pub(crate) struct InFlight<'a> {
    rail: &'a Rail,
    bytes: u64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.rail.in_flight_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// All rails, by name.
#[derive(Clone, Default)]
pub(crate) struct Rails(pub(crate) Arc<BTreeMap<RailName, Rail>>);

impl Rails {
    pub(crate) fn get(&self, name: &RailName) -> Option<&Rail> {
        self.0.get(name)
    }

    /// New connections of every rail present this from now on; open ones stay.
    pub(crate) fn set_identity(&self, identity: &NodeIdentity) -> Result<(), RenewError> {
        self.0
            .values()
            .filter_map(|rail| rail.endpoint.as_ref())
            .try_for_each(|endpoint| endpoint.set_identity(identity))
    }

    pub(crate) async fn close(&self) {
        for rail in self.0.values() {
            rail.backend.close().await;
        }
    }
}

/// The far end of a path.
pub(crate) fn peer(path: &PathSpec) -> Peer {
    Peer { node: path.id.destination.clone(), address: path.address.clone() }
}
