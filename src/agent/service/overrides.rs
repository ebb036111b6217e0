//! An operator's word on a path or a host.

use super::{Service, ServiceError, done, overloaded};
use crate::agent::clock::wall_ms;
use crate::agent::store::Event;
use crate::api::{Done, OverrideLine, OverrideRequest};
use crate::config::parse_duration;
use crate::policy::overrides::{MAX_OVERRIDE_TTL_MS, MAX_OVERRIDES, Override, OverrideTarget};
use crate::policy::{self};

/// Characters of a reason at most.
const MAX_REASON: usize = 500;

impl Service {
    /// Takes an operator's word; a later one on the same target replaces it.
    ///
    /// # Errors
    /// Bad input, or as many overrides as may hold at a time.
    pub async fn set_override(&self, request: OverrideRequest) -> Result<Done, ServiceError> {
        let agency = self.agency()?;
        let target = target_of(&request.target)?;
        let ttl_ms = match parse_duration(&request.ttl) {
            Ok(ttl) => u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            Err(detail) => return Err(ServiceError::BadInput { field: "ttl", detail: detail.to_string() }),
        };
        if !(1..=MAX_OVERRIDE_TTL_MS).contains(&ttl_ms) {
            let detail = format!("found {:?}, allowed \"1ms\" to \"7days\"", request.ttl);
            return Err(ServiceError::BadInput { field: "ttl", detail });
        }
        let reason = request.reason.trim().to_owned();
        let length = reason.chars().count();
        if !(1..=MAX_REASON).contains(&length) {
            let detail = format!("found {length} characters, allowed 1 to {MAX_REASON}");
            return Err(ServiceError::BadInput { field: "reason", detail });
        }
        let said = Override { target: target.clone(), state: request.state, reason: reason.clone() };
        if !agency.ask_policy_done(move |key| policy::Input::Override { key, said, ttl_ms }).await? {
            agency.links.metrics.dropped("overrides");
            return Err(ServiceError::Overloaded { what: "the table of overrides", limit: MAX_OVERRIDES });
        }
        let (ts, state) = (wall_ms(), Some(request.state));
        agency.links.store.tell(&Event::Override { ts, target: &target, state, reason: Some(&reason) });
        tracing::warn!(%target, state = %request.state, ttl_ms, %reason, "override");
        let meets = match &target {
            OverrideTarget::Path(path) => self.paths().await?.iter().any(|line| line.path == *path),
            OverrideTarget::Node(node) => self.paths().await?.iter().any(|line| line.path.destination == *node),
        };
        let unmet = if meets { "" } else { "; no path of this node is known that it would meet now" };
        Ok(Done { changed: true, detail: format!("{target} counts as {} for {ttl_ms} ms{unmet}", request.state) })
    }

    /// Takes an operator's word back.
    ///
    /// # Errors
    /// Bad input. That there was none is no error.
    pub async fn withdraw_override(&self, target: &str) -> Result<Done, ServiceError> {
        let agency = self.agency()?;
        let target = target_of(target)?;
        let asked = target.clone();
        let changed = agency.ask_policy_done(move |key| policy::Input::Withdraw { key, target: asked }).await?;
        if changed {
            let event = Event::Override { ts: wall_ms(), target: &target, state: None, reason: None };
            agency.links.store.tell(&event);
            tracing::warn!(%target, "override withdrawn");
        }
        Ok(done(changed, format!("{target} is measured again"), format!("{target} was not overridden")))
    }

    /// The overrides that hold.
    ///
    /// # Errors
    /// The agent is full or shutting down.
    pub async fn overrides(&self) -> Result<Vec<OverrideLine>, ServiceError> {
        let policy = self.agency()?.links.policy.get().ok_or(ServiceError::ShuttingDown)?;
        let line = |(said, expires_in_ms): (Override, u64)| OverrideLine {
            target: said.target.to_string(),
            state: said.state,
            reason: said.reason,
            expires_in_ms,
        };
        let read = policy.read(move |core, now| core.overrides().list(now.mono).map(line).collect()).await;
        read.map_err(|full| overloaded("policy", full))?.ok_or(ServiceError::ShuttingDown)
    }
}

fn target_of(text: &str) -> Result<OverrideTarget, ServiceError> {
    let allowed = "allowed a path as `seamctl paths` writes it (source>destination/rail/backend), or a node's name";
    let shown: String = text.chars().take(120).collect();
    text.parse().map_err(|_| ServiceError::BadInput { field: "target", detail: format!("found {shown:?}, {allowed}") })
}
