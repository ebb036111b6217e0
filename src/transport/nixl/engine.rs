//! The library as its thread uses it.

use std::ffi::CString;
use std::rc::Rc;
use std::time::Duration;

use super::NixlConfig;
use super::fabric::NixlError;
use super::library::{self, Found};
use super::objects::{Agent, Registered, Request};
use crate::model::NodeName;
use crate::transport::fabric::FabricError;
use crate::transport::worker::{Announcement, Ends, Engine, Members, Memory, Place, Progress, Span};

/// An agent with memory registered. Fields are let go of in this order.
pub(super) struct NixlEngine {
    _registered: [Registered; 2],
    agent: Rc<Agent>,
}

impl NixlEngine {
    /// Loads the library and registers memory in it; says what peers must know of it.
    pub(super) fn new(
        found: &Found,
        node: &NodeName,
        receives: bool,
        config: &NixlConfig,
        memory: &Memory,
    ) -> Result<(Self, Vec<u8>), NixlError> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| NixlError::System(error.to_string()))?;
        // Each life has a name of its own: what peers know of an earlier one is of no use to them.
        let name = format!("{node}.{:016x}", u64::from_le_bytes(random));
        let api = Rc::new(library::load(found)?);
        let agent = Rc::new(Agent::new(api, &name, receives, config)?);
        let register = |place| {
            // SAFETY: memory stays until after the engine is dropped.
            unsafe { Registered::new(&agent, memory.region(place)) }
        };
        let registered = [register(Place::Arena)?, register(Place::Scratch)?];
        let metadata = agent.metadata()?;
        Ok((Self { _registered: registered, agent }, metadata))
    }
}

impl Engine for NixlEngine {
    type Peer = CString;
    type Words = Vec<u8>;
    type Request = Request;

    const NAME: &'static str = "NIXL";
    const NAP: Duration = Duration::from_micros(50);
    const WAIT: Duration = Duration::from_micros(200);

    fn know(
        &mut self,
        metadata: &Vec<u8>,
        node: &NodeName,
        is_used: impl Fn(&CString) -> bool,
    ) -> Result<CString, FabricError> {
        let name = self.agent.load(metadata)?;
        // Metadata says by itself whose it is; only the peer's certificate says who the peer is.
        let owner = name.to_str().ok().and_then(|name| name.rsplit_once('.')).map(|(owner, _)| owner);
        if owner != Some(node.as_str()) {
            if !is_used(&name) {
                self.agent.forget(&name);
            }
            return Err(FabricError::Protection(format!("{node} gave the metadata of {}", name.to_string_lossy())));
        }
        Ok(name)
    }

    fn forget(&mut self, peer: &CString) {
        self.agent.forget(peer);
    }

    unsafe fn post(&mut self, peer: &CString, ends: Ends, spans: &[Span]) -> Result<Request, FabricError> {
        // SAFETY: promised by the caller: that memory is registered as long as this engine.
        unsafe { Request::post(&self.agent, peer, ends, spans) }
    }

    fn progress(&self, request: &mut Request) -> Progress {
        request.progress()
    }

    fn flush(&mut self, _peer: &CString) -> Result<Option<Request>, FabricError> {
        // A request that is done is done at the peer as well.
        Ok(None)
    }

    fn announce(&mut self, peer: &CString, announcement: &Announcement) -> Result<Option<Request>, FabricError> {
        self.agent.announce(peer, &announcement.to_bytes()).map(|()| None).map_err(FabricError::PeerGone)
    }

    fn turn(&mut self, members: &Members, looks: bool) -> bool {
        if !looks {
            return false;
        }
        let announced = self.agent.announced();
        announced.iter().filter_map(|words| Announcement::from_bytes(words)).for_each(|one| members.come(one));
        !announced.is_empty()
    }
}
