//! Faults that may be switched on at run time, in front of any backend.

mod faults;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use tokio::time::{Instant, sleep};

use super::{Backend, BoxFuture, PathError, Peer, Write, Written};
use crate::model::NodeName;
pub use faults::{Fault, FaultMode, Faults, InvalidFaults};

/// The faults of one rail, as seen by whoever switches them. Clones share them.
#[derive(Clone, Default)]
pub struct FaultSwitch {
    active: Arc<Mutex<Option<Active>>>,
}

struct Active {
    faults: Faults,
    rng: ChaCha8Rng,
}

impl FaultSwitch {
    /// No faults yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the faults, with `None` by none; the random sequence starts anew. Operations under
    /// way keep what they have drawn.
    ///
    /// # Errors
    /// Names the field at fault; nothing has changed then.
    pub fn set(&self, faults: Option<Faults>) -> Result<(), InvalidFaults> {
        if let Some(faults) = &faults {
            faults.validate()?;
        }
        *self.active() = faults.map(|faults| Active { rng: ChaCha8Rng::seed_from_u64(faults.seed), faults });
        Ok(())
    }

    /// The faults now.
    #[must_use]
    pub fn get(&self) -> Option<Faults> {
        self.active().as_ref().map(|active| active.faults.clone())
    }

    /// What happens to the next operation of `bytes` bytes with `peer`.
    fn draw(&self, peer: &NodeName, bytes: u64) -> Fault {
        match self.active().as_mut() {
            Some(Active { faults, rng }) if faults.concerns(peer) => faults.sample(bytes, rng),
            _ => Fault::Delay(Duration::ZERO),
        }
    }

    fn active(&self) -> MutexGuard<'_, Option<Active>> {
        // A whole value is replaced at once: a panic elsewhere leaves nothing half done.
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A backend with faults in front of it. They meet what this side starts: probes and writes, once
/// each; what it serves is left alone. Injected delay is part of the times that are reported.
pub struct Faulty<B> {
    inner: B,
    switch: FaultSwitch,
}

impl<B: Backend> Faulty<B> {
    /// Puts the faults of `switch` in front of `inner`.
    pub fn new(inner: B, switch: FaultSwitch) -> Self {
        Self { inner, switch }
    }

    /// The backend behind the faults.
    pub fn inner(&self) -> &B {
        &self.inner
    }
}

impl<B: Backend> Backend for Faulty<B> {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn probe<'a>(
        &'a self,
        peer: &'a Peer,
        payload_bytes: u32,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Duration, PathError>> {
        Box::pin(async move {
            let delay = match self.switch.draw(&peer.node, payload_bytes.into()) {
                // The echo of a lost probe is waited for until the end.
                Fault::Lost(_) | Fault::Stall => return Err(timed_out(peer, deadline).await),
                Fault::Refuse => return Err(refused(peer)),
                Fault::Delay(delay) => delay,
                Fault::Unanswered => Duration::ZERO,
            };
            let left = bear(peer, delay, deadline).await?;
            let elapsed = self.inner.probe(peer, payload_bytes, left).await;
            elapsed.map(|elapsed| elapsed + delay).map_err(|error| whole(error, deadline))
        })
    }

    fn write<'a>(&'a self, peer: &'a Peer, write: Write) -> BoxFuture<'a, Result<Written, PathError>> {
        Box::pin(async move {
            let deadline = write.deadline;
            let delay = match self.switch.draw(&peer.node, write.blocks.bytes()) {
                Fault::Stall => return Err(timed_out(peer, deadline).await),
                Fault::Refuse => return Err(refused(peer)),
                Fault::Unanswered => {
                    let began = Instant::now();
                    self.inner.write(peer, write).await?;
                    sleep(deadline.saturating_sub(began.elapsed())).await;
                    return Err(late(peer, deadline));
                }
                Fault::Lost(delay) => {
                    bear(peer, delay, deadline).await?;
                    let detail = "injected fault: the transfer was lost".to_owned();
                    return Err(PathError::PeerGone { peer: peer.node.clone(), detail });
                }
                Fault::Delay(delay) => delay,
            };
            let left = bear(peer, delay, deadline).await?;
            let written = self.inner.write(peer, Write { deadline: left, ..write }).await;
            written
                .map(|written| Written { elapsed: written.elapsed + delay, ..written })
                .map_err(|error| whole(error, deadline))
        })
    }

    fn refusals(&self) -> Vec<(&'static str, u64)> {
        self.inner.refusals()
    }

    fn device_errors(&self) -> Vec<(&'static str, u64)> {
        self.inner.device_errors()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

/// Waits for `delay` and says what is left of `deadline`.
async fn bear(peer: &Peer, delay: Duration, deadline: Duration) -> Result<Duration, PathError> {
    if delay.is_zero() {
        return Ok(deadline);
    }
    match deadline.checked_sub(delay).filter(|left| !left.is_zero()) {
        Some(left) => {
            sleep(delay).await;
            Ok(left)
        }
        None => Err(timed_out(peer, deadline).await),
    }
}

async fn timed_out(peer: &Peer, deadline: Duration) -> PathError {
    sleep(deadline).await;
    late(peer, deadline)
}

fn late(peer: &Peer, deadline: Duration) -> PathError {
    whole(PathError::TimedOut { peer: peer.node.clone(), limit_ms: 0, doubt: None }, deadline)
}

fn refused(peer: &Peer) -> PathError {
    PathError::Refused { peer: peer.node.clone(), detail: "injected fault: refused".to_owned() }
}

/// A timeout names the deadline that the caller gave, not what the delay had left of it.
fn whole(error: PathError, deadline: Duration) -> PathError {
    match error {
        PathError::TimedOut { peer, doubt, .. } => {
            PathError::TimedOut { peer, limit_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX), doubt }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
