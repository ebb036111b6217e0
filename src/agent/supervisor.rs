//! Who watches the actors. An actor that owns a core is not restarted: what it knew can no longer
//! be trusted, so the process ends. One that only does I/O is started anew.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::concurrency::JoinHandle;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};

use super::exit::exit;
use super::journal;
use super::links::Links;
use crate::transport::BoxFuture;

/// The exit status of a process whose core has failed.
const CORE_FAILED: i32 = 70;
/// The process ends with this status when an older one of the same name takes part.
const NOT_WANTED: i32 = 1;

/// How long it may take to bring the journal to the disk before the process ends.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// An actor that fails at once does not keep a processor busy with its restarts.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// How often its start is tried, each pause twice as long as the one before; then the process ends.
const START_ATTEMPTS: u32 = 6;

/// Starts an I/O actor under a supervisor.
pub(crate) type Starter = Arc<dyn Fn(ActorCell) -> BoxFuture<'static, Result<ActorCell, SpawnErr>> + Send + Sync>;

/// What the supervisor is sent.
pub(crate) enum Message {
    /// Start this actor, and start it anew whenever it fails.
    Keep(&'static str, Starter),
    /// The same, after so many attempts that failed.
    Retry(&'static str, Starter, u32),
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
        message: Message,
        kept: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let (name, starter, failures) = match message {
            Message::Keep(name, starter) => (name, starter, 0),
            Message::Retry(name, starter, failures) => (name, starter, failures),
        };
        match starter(myself.get_cell()).await {
            Ok(actor) => {
                kept.insert(actor.get_id(), (name, starter));
            }
            Err(error) => match retry_pause(failures + 1) {
                Some(pause) => {
                    tracing::error!(actor = name, %error, "an I/O actor cannot be started: it is tried again");
                    myself.send_after(pause, move || Message::Retry(name, starter, failures + 1));
                }
                None => {
                    tracing::error!(actor = name, %error, "an I/O actor cannot be started: this process ends");
                    end_process();
                }
            },
        }
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
                    myself.send_after(RESTART_PAUSE, move || Message::Keep(name, starter));
                }
                None => {
                    core_failed(&reason.to_string());
                }
            },
            // Whoever takes the agent down stops the supervisor first: nobody asked for this one.
            SupervisionEvent::ActorTerminated(actor, _, reason) => {
                let name = kept.remove(&actor.get_id()).map(|(name, _)| name);
                tracing::error!(actor = name, id = %actor.get_id(), reason, "an actor ended and is not started anew");
            }
            _ => {}
        }
        Ok(())
    }
}

/// Waits until something ends that must live as long as the agent: the supervisor, or the mesh, which
/// has a thread of its own.
pub(crate) async fn watch(supervisor: JoinHandle<()>, links: Arc<Links>) {
    let Some(mesh) = links.mesh.get() else { return };
    tokio::select! {
        _ = supervisor => core_failed("the supervisor ended"),
        () = mesh.ended() => match mesh.fault() {
            Some(reason) => {
                tracing::error!(%reason, "this process ends");
                journal::flush_all(FLUSH_LIMIT);
                exit(NOT_WANTED);
            }
            None => core_failed("the mesh ended"),
        },
    }
}

/// A task without which the agent is not one: if it panics, this process ends.
pub(crate) async fn vital(name: &'static str, task: impl Future<Output = ()>) {
    struct EndsTheProcess(&'static str);
    impl Drop for EndsTheProcess {
        fn drop(&mut self) {
            if std::thread::panicking() {
                core_failed(&format!("{} panicked", self.0));
            }
        }
    }
    let _guard = EndsTheProcess(name);
    task.await;
}

fn core_failed(reason: &str) -> ! {
    tracing::error!(%reason, "a core failed: its state can no longer be trusted, this process ends");
    end_process();
}

/// Brings the journal to the disk, and ends.
fn end_process() -> ! {
    journal::flush_all(FLUSH_LIMIT);
    exit(CORE_FAILED);
}

/// How long an actor waits that could not be started so many times; none if it is not tried again.
fn retry_pause(failures: u32) -> Option<Duration> {
    (failures < START_ATTEMPTS).then(|| RESTART_PAUSE * 2_u32.saturating_pow(failures.saturating_sub(1)))
}

#[cfg(test)]
mod tests;
