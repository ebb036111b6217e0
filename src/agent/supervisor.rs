//! Who watches the actors. An actor that owns a core is not restarted: what it knew can no longer
//! be trusted, so the process ends. One that only does I/O is started anew.

use std::collections::HashMap;
use std::sync::Arc;

use ractor::concurrency::JoinHandle;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};

use super::links::Links;
use crate::transport::BoxFuture;

/// The exit status of a process whose core has failed.
const CORE_FAILED: i32 = 70;

/// Starts an I/O actor under a supervisor.
pub(crate) type Starter = Arc<dyn Fn(ActorCell) -> BoxFuture<'static, Result<ActorCell, SpawnErr>> + Send + Sync>;

/// What the supervisor is sent.
pub(crate) enum Message {
    /// Start this actor, and start it anew whenever it fails.
    Keep(&'static str, Starter),
}

/// The supervisor.
pub(crate) struct Supervisor;

/// Starts a supervisor.
pub(crate) async fn start() -> Result<(ActorRef<Message>, JoinHandle<()>), SpawnErr> {
    Actor::spawn(None, Supervisor, ()).await
}

impl Actor for Supervisor {
    type Msg = Message;
    type State = HashMap<ActorId, (&'static str, Starter)>;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<Self::State, ActorProcessingErr> {
        Ok(HashMap::new())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        Message::Keep(name, starter): Message,
        kept: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let actor = starter(myself.get_cell()).await?;
        kept.insert(actor.get_id(), (name, starter));
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Message>,
        event: SupervisionEvent,
        kept: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(actor, reason) => match kept.remove(&actor.get_id()) {
                Some((name, starter)) => {
                    tracing::error!(actor = name, %reason, "an I/O actor failed and is started anew");
                    myself.send_message(Message::Keep(name, starter))?;
                }
                None => {
                    core_failed(&reason.to_string());
                }
            },
            SupervisionEvent::ActorTerminated(actor, _, _) => {
                kept.remove(&actor.get_id());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Waits for the mesh, which has a thread of its own, to end without having been asked to.
pub(crate) async fn mesh_must_live(links: &Links) {
    if let Some(mesh) = links.mesh.get() {
        mesh.ended().await;
        core_failed("the mesh ended");
    }
}

fn core_failed(reason: &str) -> ! {
    tracing::error!(%reason, "a core failed: its state can no longer be trusted, this process ends");
    std::process::exit(CORE_FAILED);
}
