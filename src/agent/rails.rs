//! The rails of this host: the backend behind each, and how many bytes this host has in flight on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::StartError;
use super::ledger::LedgerLanding;
use super::links::Links;
use crate::arena::Arena;
use crate::config::{Config, RailConfig};
use crate::model::{BackendKind, PathSpec, RailName, RailRecord};
use crate::net::{Endpoint, EndpointOptions, NodeIdentity, RenewError};
use crate::transport::fabric::{Fabric, FabricRail};
use crate::transport::mock::{FaultSwitch, Faulty};
use crate::transport::quic::QuicRail;
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

/// Starts the configured rails. One whose backend is not to be had on this host is left out: the
/// others do without it.
///
/// # Errors
/// An address cannot be had, faults make no sense, or no rail starts.
pub(crate) fn start(
    config: &Config,
    identity: &NodeIdentity,
    arena: &Arc<Arena>,
    links: &Arc<Links>,
) -> Result<Rails, StartError> {
    let (mut rails, mut failed) = (BTreeMap::new(), None);
    for rail in &config.rails {
        let name = rail.name.as_str().to_owned();
        let fence_max = config.transfer.fence_max;
        let landing = Arc::new(LedgerLanding { links: links.clone(), backend: rail.backend, fence_max });
        let options = EndpointOptions { segmentation_offload: rail.segmentation_offload };
        let unbound = |source| StartError::Rail { rail: name.clone(), source };
        let (backend, endpoint): (Arc<dyn Backend>, Endpoint) = match fabric(config, rail, arena) {
            Ok(None) => {
                let quic = QuicRail::start_with(rail.bind, identity, options, arena.clone(), landing);
                let quic = quic.map_err(unbound)?;
                let endpoint = quic.endpoint();
                (Arc::new(quic), endpoint)
            }
            Ok(Some(fabric)) => {
                tracing::info!(rail = %rail.name, fabric = fabric.name(), "the rail's bytes are moved by a library");
                let rail = FabricRail::start(rail.bind, identity, options, fabric, arena.clone(), landing);
                let rail = rail.map_err(unbound)?;
                let endpoint = rail.endpoint();
                (Arc::new(rail), endpoint)
            }
            Err(detail) => {
                tracing::error!(rail = %rail.name, backend = %rail.backend, %detail, "the rail is left out");
                failed = Some(StartError::Backend { rail: name, detail });
                continue;
            }
        };
        let (backend, faults) = with_faults(rail, backend)?;
        rails.insert(rail.name.clone(), Rail::new(rail.backend, backend, faults, Some(endpoint)));
    }
    match failed {
        Some(error) if rails.is_empty() => Err(error),
        _ => Ok(Rails(Arc::new(rails))),
    }
}

/// The library that moves a rail's bytes; none where QUIC does. Why it cannot, in words.
fn fabric(config: &Config, rail: &RailConfig, arena: &Arc<Arena>) -> Result<Option<Arc<dyn Fabric>>, String> {
    match rail.backend {
        BackendKind::Quic | BackendKind::Mock => Ok(None),
        #[cfg(feature = "nixl")]
        BackendKind::Nixl => {
            let options = rail.nixl.clone().unwrap_or_default();
            let receives = config.has_role(crate::model::Role::Decode);
            let nixl = crate::transport::nixl::Nixl::start(&config.node.name, &options, receives, arena.clone());
            nixl.map(|nixl| Some(Arc::new(nixl) as Arc<dyn Fabric>)).map_err(|error| error.to_string())
        }
        #[cfg(feature = "ucx")]
        BackendKind::Ucx => {
            let options = rail.ucx.clone().unwrap_or_default();
            let receives = config.has_role(crate::model::Role::Decode);
            let expected = crate::transport::ucx::Expected {
                rail: rail.name.as_str().to_owned(),
                bandwidth_gbps: rail.bandwidth_gbps,
            };
            let ucx = crate::transport::ucx::Ucx::start(&options, receives, expected, arena.clone());
            ucx.map(|ucx| Some(Arc::new(ucx) as Arc<dyn Fabric>)).map_err(|error| error.to_string())
        }
        // The configuration is refused before.
        backend => {
            let _ = (config, arena);
            Err(format!("{backend} is not available in this build"))
        }
    }
}

/// Puts a switch for faults in front of a backend, where the configuration allows them.
fn with_faults(
    rail: &RailConfig,
    backend: Arc<dyn Backend>,
) -> Result<(Arc<dyn Backend>, Option<FaultSwitch>), StartError> {
    if rail.backend != BackendKind::Mock && !rail.allow_faults {
        return Ok((backend, None));
    }
    let switch = FaultSwitch::new();
    let invalid = |source| StartError::Faults { rail: rail.name.as_str().to_owned(), source };
    switch.set(rail.faults.clone()).map_err(invalid)?;
    Ok((Arc::new(Faulty::new(backend, switch.clone())), Some(switch)))
}

/// What peers are told of the rails that started.
pub(crate) fn records(config: &Config, rails: &Rails) -> Vec<RailRecord> {
    let record = |rail: &RailConfig| {
        Some(RailRecord {
            name: rail.name.clone(),
            group: rail.group.clone(),
            backend: rail.backend,
            address: rails.get(&rail.name)?.backend.address(),
            bandwidth_gbps: rail.bandwidth_gbps,
        })
    };
    config.rails.iter().filter_map(record).collect()
}
