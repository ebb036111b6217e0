//! The library as its thread uses it.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::UcxConfig;
use super::endpoint::{Closed, Closing, Endpoint};
use super::fabric::{Expected, Keys, UcxError};
use super::objects::{Request, Ucp, asked, sys};
use super::transports::{Host, doubt, listed};
use crate::model::NodeName;
use crate::transport::bell::wait;
use crate::transport::fabric::FabricError;
use crate::transport::worker::{Announcement, Ends, Engine, Members, Memory, Place, Progress, Span};

/// How long endpoints may take to close when everything is let go of.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// How long connections that peers are just making are looked after before the worker goes.
const SETTLE: Duration = Duration::from_millis(50);

/// A worker with memory mapped, and its endpoints. Fields are let go of in this order.
pub(super) struct UcxEngine {
    endpoints: HashMap<u64, Endpoint>,
    closing: Vec<Closing>,
    next: u64,
    asked: Option<String>,
    expected: Expected,
    ucp: Rc<Ucp>,
}

impl UcxEngine {
    /// Loads the library and maps memory; says what peers must know of it.
    pub(super) fn new(
        config: &UcxConfig,
        receives: bool,
        expected: Expected,
        memory: &Rc<Memory>,
    ) -> Result<(Self, Keys), UcxError> {
        let ucp = Rc::new(Ucp::new(config, receives, memory)?);
        // Asked for once here, so that a library without one is an error now.
        ucp.descriptor()?;
        let keys = Keys { address: ucp.address()?, arena: ucp.key(Place::Arena)?, scratch: ucp.key(Place::Scratch)? };
        let engine =
            Self { endpoints: HashMap::new(), closing: Vec::new(), next: 0, asked: asked(config), expected, ucp };
        Ok((engine, keys))
    }

    fn endpoint(&self, peer: u64) -> Result<&Endpoint, FabricError> {
        self.endpoints.get(&peer).ok_or_else(|| FabricError::PeerGone("its endpoint was given up".to_owned()))
    }

    fn close(&mut self, peer: u64) {
        self.closing.extend(self.endpoints.remove(&peer).map(Endpoint::close));
    }

    fn close_further(&mut self) {
        for mut closing in std::mem::take(&mut self.closing) {
            match closing.step() {
                Closed::NotYet => self.closing.push(closing),
                Closed::Yes => {}
                // With it the worker and its memory, of which it is.
                Closed::Never => std::mem::forget(closing),
            }
        }
    }

    /// Says what the library has chosen, and whether that was to be expected.
    fn report(&self, endpoint: &Endpoint, node: &NodeName) {
        let (chosen, Expected { rail, bandwidth_gbps }) = (endpoint.transports(), &self.expected);
        tracing::info!(%rail, peer = %node, transports = listed(&chosen), "UCX has chosen its transports");
        if let Some(doubt) = doubt(&chosen, self.asked.as_deref(), *bandwidth_gbps, &Host::seen(sys())) {
            tracing::warn!(%rail, peer = %node, found = doubt, "UCX moves bytes by less than was to be expected");
        }
    }
}

impl Engine for UcxEngine {
    type Peer = u64;
    type Words = Keys;
    type Request = Request;

    const NAME: &'static str = "UCX";
    // It wakes by itself when something moves: this is how late a cancellation or a deadline is seen.
    const NAP: Duration = Duration::from_millis(1);
    const WAIT: Duration = Duration::from_millis(1);

    fn know(&mut self, keys: &Keys, node: &NodeName, _is_used: impl Fn(&u64) -> bool) -> Result<u64, FabricError> {
        let mut endpoint = Endpoint::new(&self.ucp, &keys.address)?;
        let keys = [(Place::Arena, &keys.arena), (Place::Scratch, &keys.scratch)];
        if let Err(error) = keys.into_iter().try_for_each(|(place, key)| endpoint.take(place, key)) {
            self.closing.push(endpoint.close());
            return Err(error);
        }
        self.report(&endpoint, node);
        self.next += 1;
        self.endpoints.insert(self.next, endpoint);
        Ok(self.next)
    }

    fn forget(&mut self, peer: &u64) {
        self.close(*peer);
    }

    fn give_up(&mut self, peer: &u64) {
        self.close(*peer);
    }

    unsafe fn post(&mut self, peer: &u64, ends: Ends, spans: &[Span]) -> Result<Request, FabricError> {
        // SAFETY: promised by the caller: that memory is mapped as long as this engine.
        unsafe { self.endpoint(*peer)?.post(ends.place, spans) }
    }

    fn progress(&self, request: &mut Request) -> Progress {
        request.progress()
    }

    fn flush(&mut self, peer: &u64) -> Result<Option<Request>, FabricError> {
        self.endpoint(*peer)?.flush().map(Some)
    }

    fn announce(&mut self, peer: &u64, announcement: &Announcement) -> Result<Option<Request>, FabricError> {
        self.endpoint(*peer)?.announce(announcement).map(Some)
    }

    fn turn(&mut self, members: &Members, _looks: bool) -> bool {
        let moved = self.ucp.progress();
        self.ucp.announced().into_iter().for_each(|one| members.come(one));
        self.close_further();
        moved
    }

    fn is_busy(&self) -> bool {
        !self.closing.is_empty()
    }

    fn rest(&mut self, bell: BorrowedFd<'_>, limit: Option<Duration>) {
        match self.ucp.descriptor().and_then(|descriptor| Ok((descriptor, self.ucp.arm()?))) {
            Ok((descriptor, true)) => {
                wait([bell, descriptor], limit);
            }
            // There is something to do already.
            Ok((_, false)) => {}
            // It wakes nobody: it is looked after.
            Err(_) => {
                wait([bell], Some(limit.unwrap_or(Self::WAIT).min(Self::WAIT)));
            }
        }
    }
}

impl Drop for UcxEngine {
    fn drop(&mut self) {
        self.closing.extend(self.endpoints.drain().map(|(_, endpoint)| endpoint.close()));
        let begun = Instant::now();
        // UCX 1.13 aborts if a worker goes while its answer to a peer's connection is not out.
        while !self.closing.is_empty() || begun.elapsed() < SETTLE {
            if !self.ucp.progress() {
                std::thread::sleep(Self::WAIT);
            }
            self.close_further();
            if begun.elapsed() >= CLOSE_LIMIT && !self.closing.is_empty() {
                tracing::warn!(left = self.closing.len(), "UCX does not close its endpoints; what they use is kept");
                std::mem::forget(std::mem::take(&mut self.closing));
            }
        }
    }
}
