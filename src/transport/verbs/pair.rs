//! The two ends of links: puts on their way out, and announcements that come in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::device::VerbsError;
use super::plan::Plan;
use super::queue_pair::{Patience, QueuePair, Request};
use super::status;
use super::window::Window;
use super::words::End;
use crate::transport::fabric::{Arrivals, FabricError, Put};

/// How long the last writes of a put that was given up may take to end; then the queue pair is stopped.
const DRAIN: Duration = Duration::from_secs(3);
/// Completions taken in one turn: others want theirs.
const AT_ONCE: usize = 256;

/// What is to be put.
pub(super) struct Job {
    /// Its number on this side.
    pub(super) id: u64,
    pub(super) plan: Plan,
    /// The address here that the plan's places count from, and its key.
    pub(super) source: (u64, u32),
    /// The same at the peer.
    pub(super) target: (u64, u32),
    /// What is announced to the peer with the last write, one without bytes if there is no other.
    pub(super) announces: Option<u32>,
    pub(super) deadline: Instant,
    pub(super) done: oneshot::Sender<Put>,
}

/// A put under way.
struct Transfer {
    job: Job,
    /// The number of its last write until now; 0 before the first.
    last: u64,
    /// Why nothing more of it is written, and how long what is under way is waited for.
    given_up: Option<(FabricError, Instant)>,
}

/// The sending end of a link.
pub(super) struct Sending {
    queue_pair: QueuePair,
    first_packet: u32,
    window: Window,
    transfers: VecDeque<Transfer>,
    /// Told to whoever holds the link.
    over: Arc<AtomicBool>,
    failed: Option<FabricError>,
}

impl Sending {
    pub(super) fn new(queue_pair: QueuePair, first_packet: u32, over: Arc<AtomicBool>) -> Self {
        let (window, transfers) = (Window::default(), VecDeque::new());
        Self { queue_pair, first_packet, window, transfers, over, failed: None }
    }

    pub(super) fn connect(&mut self, peer: &End, patience: Patience) -> Result<(), VerbsError> {
        self.queue_pair.receive_from(peer, patience)?;
        self.queue_pair.send_from(self.first_packet, patience)
    }

    pub(super) fn queue_pair(&mut self) -> &mut QueuePair {
        &mut self.queue_pair
    }

    pub(super) fn is_idle(&self) -> bool {
        self.transfers.is_empty()
    }

    pub(super) fn put(&mut self, job: Job) {
        match &self.failed {
            Some(error) => {
                let error = FabricError::PeerGone(format!("the link has failed before: {error}"));
                // Fails only if nobody waits any more.
                let _ = job.done.send(Put { result: Err(error), over: true });
            }
            None => self.transfers.push_back(Transfer { job, last: 0, given_up: None }),
        }
    }

    pub(super) fn cancel(&mut self, id: u64, now: Instant) {
        if let Some(transfer) = self.transfers.iter_mut().find(|transfer| transfer.job.id == id) {
            transfer.give_up(FabricError::Cancelled, now);
        }
    }

    /// Takes what the device says. True if there is more.
    pub(super) fn take(&mut self) -> bool {
        for _ in 0..AT_ONCE {
            let completion = match self.queue_pair.completion() {
                Ok(Some(completion)) => completion,
                Ok(None) => return false,
                Err(error) => {
                    self.fail(FabricError::Local(error.to_string()));
                    return false;
                }
            };
            if completion.status == status::SUCCESS {
                self.window.end(completion.request);
            } else if self.failed.is_none() {
                // All before it has ended well. What follows says only that the pair has failed.
                self.window.end(completion.request.saturating_sub(1));
                self.fail(status::error(completion.status, completion.vendor));
            }
        }
        true
    }

    /// Ends what has ended, and posts what there is room for.
    pub(super) fn step(&mut self, now: Instant) {
        for transfer in &mut self.transfers {
            if now >= transfer.job.deadline {
                transfer.give_up(FabricError::TimedOut, now);
            }
        }
        if self.transfers.iter().any(|transfer| transfer.given_up.as_ref().is_some_and(|(_, until)| now >= *until)) {
            self.fail(FabricError::PeerGone("a put that was given up has not ended".to_owned()));
        }
        let window = &self.window;
        self.transfers.retain_mut(|transfer| !transfer.has_ended(window));
        if let Err(error) = self.post() {
            self.fail(FabricError::Local(error.to_string()));
        }
    }

    /// When [`step`](Self::step) has something to do even if nothing happens.
    pub(super) fn wakes(&self) -> Option<Instant> {
        let of = |transfer: &Transfer| match &transfer.given_up {
            Some((_, until)) => *until,
            None => transfer.job.deadline,
        };
        self.transfers.iter().map(of).min()
    }

    /// One write of each put in turn.
    fn post(&mut self) -> Result<(), VerbsError> {
        // Puts in a row that had nothing to write.
        let mut idle = 0;
        while self.window.has_room() && idle < self.transfers.len() {
            let Some(mut transfer) = self.transfers.pop_front() else { break };
            let posted = transfer.post(&mut self.queue_pair, &mut self.window);
            self.transfers.push_back(transfer);
            idle = if posted? { 0 } else { idle + 1 };
        }
        Ok(())
    }

    /// The link is of no use any more: every put of it ends.
    fn fail(&mut self, error: FabricError) {
        if self.failed.is_some() {
            return;
        }
        self.over.store(true, Ordering::Relaxed);
        if let Err(stopped) = self.queue_pair.stop() {
            tracing::debug!(%stopped, "a queue pair that has failed does not stop");
        }
        for mut transfer in self.transfers.drain(..) {
            if !transfer.has_ended(&self.window) {
                let over = self.window.has_ended(transfer.last);
                let error = transfer.given_up.take().map_or_else(|| error.clone(), |(error, _)| error);
                // Fails only if nobody waits any more.
                let _ = transfer.job.done.send(Put { result: Err(error), over });
            }
        }
        self.failed = Some(error);
    }
}

impl Transfer {
    fn give_up(&mut self, error: FabricError, now: Instant) {
        self.job.plan.give_up();
        self.job.announces = None;
        self.given_up.get_or_insert((error, now + DRAIN));
    }

    /// Says so if it has.
    fn has_ended(&mut self, window: &Window) -> bool {
        if !self.job.plan.is_over() || self.job.announces.is_some() || !window.has_ended(self.last) {
            return false;
        }
        let result = self.given_up.take().map_or(Ok(()), |(error, _)| Err(error));
        let (done, _) = oneshot::channel();
        // Fails only if nobody waits any more.
        let _ = std::mem::replace(&mut self.job.done, done).send(Put { result, over: true });
        true
    }

    /// Posts its next write, if it has one.
    fn post(&mut self, queue_pair: &mut QueuePair, window: &mut Window) -> Result<bool, VerbsError> {
        let Job { plan, source, target, announces, .. } = &mut self.job;
        let step = match plan.next() {
            Some(step) => step,
            // All that is left is to announce it. Or it was given up after a write whose end nobody tells: an empty one
            // after that does.
            None if announces.is_some() || !window.is_told(self.last) => Default::default(),
            None => return Ok(false),
        };
        let is_last = plan.is_over();
        let ticket = window.post(step.bytes, is_last);
        let local: Vec<(u64, u32)> = step.local.iter().map(|(at, bytes)| (source.0 + at, *bytes)).collect();
        let request = Request {
            number: ticket.number,
            local: &local,
            local_key: source.1,
            remote: target.0.wrapping_add(step.remote),
            remote_key: target.1,
            signalled: ticket.signalled,
            announces: if is_last { announces.take() } else { None },
        };
        self.last = ticket.number;
        // SAFETY: jobs are made of pieces of the arena or of the scratch memory, whose regions outlive all queue pairs.
        unsafe { queue_pair.write(&request)? };
        Ok(true)
    }
}

/// The receiving end of a link.
pub(super) struct Receiving {
    queue_pair: QueuePair,
    arrivals: Arc<Arrivals>,
    failed: bool,
}

impl Receiving {
    pub(super) fn new(queue_pair: QueuePair, arrivals: Arc<Arrivals>) -> Self {
        Self { queue_pair, arrivals, failed: false }
    }

    /// Takes what has come, and makes room for as many again. True if there is more.
    pub(super) fn take(&mut self) -> bool {
        for _ in 0..AT_ONCE {
            match self.queue_pair.completion() {
                Ok(None) => return false,
                Ok(Some(completion)) if completion.status == status::SUCCESS => {
                    if let Some(number) = completion.announced {
                        self.arrivals.come(u64::from(number));
                    }
                    if let Err(error) = self.queue_pair.receive() {
                        self.fail(&error.to_string());
                    }
                }
                Ok(Some(completion)) => self.fail(&status::error(completion.status, completion.vendor).to_string()),
                Err(error) => {
                    self.fail(&error.to_string());
                    return false;
                }
            }
        }
        true
    }

    /// Its sender hears of it with its next write, and opens another.
    fn fail(&mut self, detail: &str) {
        if !std::mem::replace(&mut self.failed, true) {
            tracing::debug!(detail, "the receiving end of a link has failed");
        }
    }

    pub(super) fn queue_pair(&mut self) -> &mut QueuePair {
        &mut self.queue_pair
    }

    /// True if nothing more of its peer can land.
    pub(super) fn close(self) -> bool {
        self.queue_pair.destroy()
    }
}
