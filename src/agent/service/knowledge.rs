//! What an agent knows, as it tells it.

use std::sync::atomic::Ordering;

use super::{DecisionFilter, Service, ServiceError, json, millis};
use crate::api::{LeaseLine, MemberLine, PathLine, Status};
use crate::model::{DecisionId, PathState};

impl Service {
    /// This node at a glance.
    ///
    /// # Errors
    /// The agent is full or shutting down.
    pub async fn status(&self) -> Result<Status, ServiceError> {
        let agency = self.agency()?;
        let mesh = agency.links.mesh.get().ok_or(ServiceError::ShuttingDown)?;
        let config = agency.config.borrow().clone();
        let paths = self.paths().await?;
        let in_state = |state: PathState| paths.iter().filter(|path| path.health.state == state).count();
        let states = PathState::ALL.iter().map(|&state| (state.as_str().to_owned(), count(in_state(state))));
        let leases = self.leases().await?;
        let members = mesh.members().await;
        let recovering = match agency.links.ledger.get() {
            Some(ledger) => ledger.read(|ledger, _| ledger.is_recovering()).await,
            None => Ok(Some(false)),
        };
        Ok(Status {
            node: agency.node.clone(),
            cluster: config.node.cluster.clone(),
            generation: agency.generation,
            roles: config.node.roles.clone(),
            pool: config.decode.as_ref().map(|decode| decode.pool.clone()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            profile: config.policy.profile.as_str().to_owned(),
            mover: config.transfer.mover.as_str().to_owned(),
            config_hash: config.hash(),
            config_reloads: agency.reloads.load(Ordering::Relaxed),
            uptime_ms: millis(agency.started.elapsed()),
            draining: agency.draining.load(Ordering::Acquire),
            recovering: recovering.map_err(|full| super::overloaded("ledger", full))?.unwrap_or(false),
            ready: self.ready(),
            mesh_addr: mesh.addr().to_string(),
            arena: config.arena.as_ref().map(|arena| (arena.path.display().to_string(), arena.size)),
            members_alive: count(members.iter().filter(|member| member.state == "alive").count()),
            paths: states.filter(|(_, paths)| *paths > 0).collect(),
            decisions: agency.links.store.total(),
            leases_granted: count(leases.iter().filter(|lease| lease.id.node == agency.node).count()),
            leases_held: count(leases.iter().filter(|lease| lease.id.node != agency.node).count()),
        })
    }

    /// The members of the mesh, with their headroom where it is known.
    ///
    /// # Errors
    /// The agent is full or shutting down.
    pub async fn members(&self) -> Result<Vec<MemberLine>, ServiceError> {
        let mesh = self.agency()?.links.mesh.get().ok_or(ServiceError::ShuttingDown)?;
        Ok(mesh.members().await)
    }

    /// The paths from this node.
    ///
    /// # Errors
    /// The agent is full or shutting down.
    pub async fn paths(&self) -> Result<Vec<PathLine>, ServiceError> {
        let policy = self.agency()?.links.policy.get().ok_or(ServiceError::ShuttingDown)?;
        let line = |path: crate::policy::view::ViewedPath| PathLine {
            path: path.spec.id,
            pool: Some(path.target.pool.clone()),
            health: path.health,
            evidence: path.evidence,
            age_ms: path.age_ms,
        };
        let read = policy.read(move |core, now| core.view().paths(now).map(line).collect()).await;
        read.map_err(|full| super::overloaded("policy", full))?.ok_or(ServiceError::ShuttingDown)
    }

    /// The leases that this host has granted, then those that it holds on others.
    ///
    /// # Errors
    /// The agent is full or shutting down.
    pub async fn leases(&self) -> Result<Vec<LeaseLine>, ServiceError> {
        let agency = self.agency()?;
        let mut lines = Vec::new();
        if let Some(ledger) = agency.links.ledger.get() {
            let granted = ledger.read(|core, now| {
                let line = |held: &crate::ledger::Held| LeaseLine {
                    id: held.lease.id.clone(),
                    state: held.stage.as_str().to_owned(),
                    holder: held.ask.holder.clone(),
                    request_id: held.ask.request_id.clone(),
                    kv_bytes: held.lease.kv_bytes,
                    extents: held.lease.extents.clone(),
                    expires_in_ms: held.until.map(|until| until.ms_since(now.mono)),
                };
                core.held().map(line).collect::<Vec<_>>()
            });
            lines.extend(granted.await.map_err(|full| super::overloaded("ledger", full))?.unwrap_or_default());
        }
        let policy = agency.links.policy.get().ok_or(ServiceError::ShuttingDown)?;
        let holder = agency.node.clone();
        let held = policy.read(move |core, now| {
            let line = |(request_id, lease, until): (&_, &crate::model::Lease, crate::core::Mono)| LeaseLine {
                id: lease.id.clone(),
                state: "held".to_owned(),
                holder: holder.clone(),
                request_id: Clone::clone(request_id),
                kv_bytes: lease.kv_bytes,
                extents: lease.extents.clone(),
                expires_in_ms: Some(until.ms_since(now.mono)),
            };
            core.leases().map(line).collect::<Vec<_>>()
        });
        lines.extend(held.await.map_err(|full| super::overloaded("policy", full))?.unwrap_or_default());
        Ok(lines)
    }

    /// Every mesh record that this node holds, as JSON values.
    ///
    /// # Errors
    /// The agent is shutting down.
    pub async fn records(&self) -> Result<Vec<serde_json::Value>, ServiceError> {
        let mesh = self.agency()?.links.mesh.get().ok_or(ServiceError::ShuttingDown)?;
        Ok(mesh.records().await)
    }

    /// Decision records as JSON, newest first.
    ///
    /// # Errors
    /// The agent is shutting down.
    pub async fn decisions(&self, filter: DecisionFilter) -> Result<Vec<String>, ServiceError> {
        self.agency()?.links.store.find(&filter).iter().map(|record| json(record)).collect()
    }

    /// One decision record as JSON.
    ///
    /// # Errors
    /// The id is none, or is not known any more.
    pub async fn decision(&self, id: String) -> Result<String, ServiceError> {
        let agency = self.agency()?;
        let id: DecisionId = id.parse().map_err(|invalid: crate::model::InvalidName| ServiceError::BadInput {
            field: "id",
            detail: invalid.to_string(),
        })?;
        let found = agency.links.store.get(&id);
        let record = found.ok_or_else(|| ServiceError::NotFound(format!("no decision {id} is remembered here")))?;
        json(&record)
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
