//! Two processes of one name: the younger ends.
//!
//! A node that starts asks its seeds whether its name is taken. If none of them answers in time it
//! starts all the same, and may hear of the other only when it has joined.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::ActorRef;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::actor::{Message, Shared};
use super::frames::PATIENCE;
use super::seeds::{Own, hello};
use crate::model::NodeName;
use crate::net::Endpoint;

/// A node looks for an older one of its name for so long after its start. Later on it is the older
/// one itself.
const JOIN_PHASE: Duration = Duration::from_secs(120);
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Two that started within this time of each other go by their addresses.
const TOGETHER_MS: u64 = 1_000;

/// Who is looking.
pub(super) struct Watch {
    pub(super) me: NodeName,
    pub(super) own: Own,
    pub(super) started: Instant,
    pub(super) endpoint: Endpoint,
    pub(super) actor: ActorRef<Message>,
    pub(super) shared: Arc<Shared>,
}

impl Watch {
    /// Goes where others say that this node's name takes part, and ends the mesh if it is the
    /// younger one.
    pub(super) async fn run(self, mut claims: mpsc::Receiver<SocketAddr>) {
        while let Some(addr) = claims.recv().await {
            if self.started.elapsed() > JOIN_PHASE {
                return;
            }
            if !self.own.is(addr) && self.is_older(addr).await {
                let fault = format!("node.name: {} takes part already, at {addr}; it was there first", self.me);
                tracing::error!("{fault}");
                // Only this task sets it.
                let _ = self.shared.fault.set(fault);
                return self.actor.stop(None);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether a process of this node's name answers there that has been running for longer.
    async fn is_older(&self, addr: SocketAddr) -> bool {
        let Ok(Ok(connection)) = timeout(PATIENCE, self.endpoint.connect(addr, Some(&self.me))).await else {
            return false;
        };
        let Ok(reply) = hello(&connection, &self.me).await else { return false };
        let age_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        yields((age_ms, self.own.advertised), (reply.age_ms, addr))
    }
}

/// Whether `mine` ends for `theirs`; of any two exactly one does.
fn yields(mine: (u64, SocketAddr), theirs: (u64, SocketAddr)) -> bool {
    if mine.0.abs_diff(theirs.0) < TOGETHER_MS { mine.1 > theirs.1 } else { mine.0 < theirs.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_processes_the_younger_yields_and_of_two_that_started_together_one() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        for (mine, theirs) in [((100, at(1)), (5_000, at(2))), ((100, at(2)), (700, at(1)))] {
            assert!(yields(mine, theirs) && !yields(theirs, mine));
        }
    }
}
