//! The library's objects, owned: each is let go of when it is dropped, and none outlives what it was
//! made of. All of them belong to one thread.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::rc::Rc;

use super::NixlConfig;
use super::api::{
    AgentConfig, Api, DRAM, Handle, IN_PROGRESS, INVALID_PARAM, INVALID_STATE, SUCCESS, Status, VRAM, WRITE, words,
};
use super::fabric::NixlError;
use crate::arena::Segment;
use crate::transport::fabric::FabricError;
use crate::transport::worker::{Ends, Progress, Region, Span};

/// How long the library's own thread sleeps between two looks, in microseconds.
const PROGRESS_DELAY_US: u64 = 100;

/// An agent of the library, with one plugin.
pub(super) struct Agent {
    api: Rc<Api>,
    handle: Handle,
    backend: Handle,
    options: Handle,
}

/// Registered memory.
pub(super) struct Registered {
    agent: Rc<Agent>,
    list: Handle,
}

/// What is under way.
pub(super) struct Request {
    agent: Rc<Agent>,
    handle: Handle,
    local: Handle,
    remote: Handle,
    /// Why it did not begin as a whole.
    refused: Option<FabricError>,
}

/// What a request's status says: what was asked is at fault, or the way to the peer.
fn fault(status: Status) -> FabricError {
    let words = format!("{} ({status})", words(status));
    match status {
        INVALID_PARAM | INVALID_STATE => FabricError::Local(words),
        _ => FabricError::PeerGone(words),
    }
}

fn check(what: &str, status: Status) -> Result<(), String> {
    if status == SUCCESS { Ok(()) } else { Err(format!("{what}: {} ({status})", words(status))) }
}

impl Agent {
    pub(super) fn new(api: Rc<Api>, name: &str, receives: bool, config: &NixlConfig) -> Result<Self, NixlError> {
        let c_name = c_string(name).map_err(NixlError::Call)?;
        let settings = AgentConfig {
            // Bytes that peers put over TCP land only while somebody looks after them.
            enable_prog_thread: receives,
            enable_listen_thread: false,
            listen_port: 0,
            thread_sync: 0,
            num_workers: 1,
            pthr_delay_us: PROGRESS_DELAY_US,
            lthr_delay_us: 0,
            capture_telemetry: false,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: both pointers are to live values, and `handle` is where the result goes.
        let status = unsafe { (api.create_configured_agent)(c_name.as_ptr(), &raw const settings, &raw mut handle) };
        check("its agent", status).map_err(NixlError::Call)?;
        // Owned from here on, so that every early return lets go of it.
        let mut agent = Self { api, handle, backend: ptr::null_mut(), options: ptr::null_mut() };
        agent.open_plugin(config)?;
        // SAFETY: `options` is where the result goes; the handles were made by this library.
        let status = unsafe { (agent.api.create_opt_args)(&raw mut agent.options) };
        check("its options", status).map_err(NixlError::Call)?;
        // SAFETY: as above.
        let status = unsafe { (agent.api.opt_args_add_backend)(agent.options, agent.backend) };
        check("its options", status).map_err(NixlError::Call)?;
        Ok(agent)
    }

    fn open_plugin(&mut self, config: &NixlConfig) -> Result<(), NixlError> {
        let failed = |detail: String, agent: &Self| NixlError::Plugin {
            plugin: config.plugin.clone(),
            detail,
            available: agent.plugins(),
        };
        let plugin = c_string(&config.plugin).map_err(|detail| failed(detail, self))?;
        let (mut memories, mut params) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the agent lives, the name is a C string, and the two results are owned here.
        let status =
            unsafe { (self.api.get_plugin_params)(self.handle, plugin.as_ptr(), &raw mut memories, &raw mut params) };
        check("this plugin cannot be asked what it takes", status).map_err(|detail| failed(detail, self))?;
        let mut result = Ok(());
        for (key, value) in &config.params {
            result = result.and_then(|()| {
                let (key, value) = (c_string(key)?, c_string(value)?);
                // SAFETY: `params` was made above; both texts are C strings and are copied.
                check("a parameter", unsafe { (self.api.params_add)(params, key.as_ptr(), value.as_ptr()) })
            });
        }
        if result.is_ok() {
            // SAFETY: as above; the backend belongs to the agent.
            let status =
                unsafe { (self.api.create_backend)(self.handle, plugin.as_ptr(), params, &raw mut self.backend) };
            result = check("its start", status);
        }
        // SAFETY: made above, used no more.
        unsafe {
            (self.api.destroy_params)(params);
            (self.api.destroy_mem_list)(memories);
        }
        result.map_err(|detail| failed(detail, self))
    }

    /// The names of the plugins that there are.
    fn plugins(&self) -> String {
        let (mut list, mut count) = (ptr::null_mut(), 0);
        // SAFETY: `list` is where the result goes, and is destroyed below.
        if unsafe { (self.api.get_available_plugins)(self.handle, &raw mut list) } != SUCCESS {
            return "none that it names".to_owned();
        }
        let mut names = Vec::new();
        // SAFETY: the list lives until it is destroyed; indices are below its size, and the texts are
        // its own and copied at once.
        unsafe {
            (self.api.string_list_size)(list, &raw mut count);
            for index in 0..count {
                let mut name: *const c_char = ptr::null();
                if (self.api.string_list_get)(list, index, &raw mut name) == SUCCESS && !name.is_null() {
                    names.push(CStr::from_ptr(name).to_string_lossy().into_owned());
                }
            }
            (self.api.destroy_string_list)(list);
        }
        names.sort();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// What a peer must know to reach this agent and what is registered in it.
    pub(super) fn metadata(&self) -> Result<Vec<u8>, NixlError> {
        let (mut data, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the results are where they go.
        let status = unsafe { (self.api.get_local_md)(self.handle, &raw mut data, &raw mut length) };
        check("its metadata", status).map_err(NixlError::Call)?;
        // SAFETY: the call went well, so `data` has `length` bytes from malloc, for the caller to free.
        Ok(unsafe { take_bytes(data, length) })
    }

    /// Makes a peer known by its metadata; says its name.
    pub(super) fn load(&self, metadata: &[u8]) -> Result<CString, FabricError> {
        let mut name: *mut c_char = ptr::null_mut();
        // SAFETY: the metadata is only read; the name is the caller's, copied, then freed.
        let status =
            unsafe { (self.api.load_remote_md)(self.handle, metadata.as_ptr().cast(), metadata.len(), &raw mut name) };
        check("the peer's metadata", status).map_err(FabricError::Skew)?;
        if name.is_null() {
            return Err(FabricError::Skew("the peer's metadata names nobody".to_owned()));
        }
        // SAFETY: a C string that was allocated for the caller.
        let copy = unsafe { CStr::from_ptr(name) }.to_owned();
        // SAFETY: allocated by the library with malloc, as its header says.
        unsafe { libc::free(name.cast()) };
        Ok(copy)
    }

    /// Forgets a peer and its connections.
    pub(super) fn forget(&self, name: &CStr) {
        // SAFETY: a C string; an unknown name is an error that changes nothing.
        unsafe { (self.api.invalidate_remote_md)(self.handle, name.as_ptr()) };
    }

    /// Announces something to a peer.
    pub(super) fn announce(&self, peer: &CStr, words: &[u8]) -> Result<(), String> {
        // SAFETY: the words are copied before the call returns.
        let status = unsafe {
            (self.api.gen_notif)(self.handle, peer.as_ptr(), words.as_ptr().cast(), words.len(), self.options)
        };
        check("its announcement", status)
    }

    /// What peers have announced since the last call.
    pub(super) fn announced(&self) -> Vec<Vec<u8>> {
        let (api, mut all, mut map) = (&self.api, Vec::new(), ptr::null_mut());
        // SAFETY: the map is made, read and destroyed here; indices are below the sizes that it says,
        // and what it points to is copied while it lives.
        unsafe {
            if (api.create_notif_map)(&raw mut map) != SUCCESS {
                return all;
            }
            let mut agents = 0;
            if (api.get_notifs)(self.handle, map, self.options) == SUCCESS {
                (api.notif_map_size)(map, &raw mut agents);
            }
            for agent in 0..agents {
                let (mut name, mut count) = (ptr::null(), 0);
                if (api.notif_map_get_agent_at)(map, agent, &raw mut name) != SUCCESS {
                    continue;
                }
                (api.notif_map_get_notifs_size)(map, name, &raw mut count);
                for index in 0..count {
                    let (mut data, mut length): (*const c_void, usize) = (ptr::null(), 0);
                    if (api.notif_map_get_notif)(map, name, index, &raw mut data, &raw mut length) == SUCCESS {
                        all.push(bytes(data, length));
                    }
                }
            }
            (api.notif_map_clear)(map);
            (api.destroy_notif_map)(map);
        }
        all
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // SAFETY: whatever was made of it holds a reference, so nothing of it is left. A handle that
        // was never made is null and not passed on.
        unsafe {
            if !self.options.is_null() {
                (self.api.destroy_opt_args)(self.options);
            }
            if !self.backend.is_null() {
                (self.api.destroy_backend)(self.backend);
            }
            (self.api.destroy_agent)(self.handle);
        }
    }
}

impl Registered {
    /// Registers memory.
    ///
    /// # Safety
    /// The memory must stay where it is until this value is dropped.
    pub(super) unsafe fn new(agent: &Rc<Agent>, region: Region) -> Result<Self, NixlError> {
        let (mut list, (kind, device)) = (ptr::null_mut(), kind(region.segment));
        // SAFETY: `list` is where the result goes.
        check("a list", unsafe { (agent.api.create_reg_dlist)(kind, &raw mut list) }).map_err(NixlError::Call)?;
        let Region { address, bytes, .. } = region;
        // SAFETY: the list lives; no metadata is given.
        let added = unsafe { (agent.api.reg_dlist_add_desc)(list, address, bytes, device, ptr::null(), 0) };
        // SAFETY: the caller promises that the memory stays.
        let register = || unsafe { (agent.api.register_mem)(agent.handle, list, agent.options) };
        let registered = check("a region", added).and_then(|()| check("its registration of memory", register()));
        if let Err(error) = registered {
            // SAFETY: made above, used no more.
            unsafe { (agent.api.destroy_reg_dlist)(list) };
            return Err(NixlError::Call(error));
        }
        Ok(Self { agent: Rc::clone(agent), list })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let api = &self.agent.api;
        // SAFETY: registered with this list, which is used no more.
        unsafe {
            (api.deregister_mem)(self.agent.handle, self.list, self.agent.options);
            (api.destroy_reg_dlist)(self.list);
        }
    }
}

impl Request {
    /// Begins to write spans to a peer.
    ///
    /// # Safety
    /// Local addresses must be within memory that is registered until the request has ended.
    pub(super) unsafe fn post(agent: &Rc<Agent>, peer: &CStr, ends: Ends, spans: &[Span]) -> Result<Self, FabricError> {
        let ((from_kind, from_device), (to_kind, to_device)) = (kind(ends.from), kind(ends.to));
        let mut request = Self {
            agent: Rc::clone(agent),
            handle: ptr::null_mut(),
            local: ptr::null_mut(),
            remote: ptr::null_mut(),
            refused: None,
        };
        let well = |status: Status| if status < SUCCESS { Err(fault(status)) } else { Ok(()) };
        let local = |status: Status| check("a list of pieces", status).map_err(FabricError::Local);
        let api = &agent.api;
        // SAFETY: every handle is made here and owned by `request`, which destroys it; the caller
        // promises that local memory is registered, and remote memory is the library's to check.
        unsafe {
            local((api.create_xfer_dlist)(from_kind, &raw mut request.local))?;
            local((api.create_xfer_dlist)(to_kind, &raw mut request.remote))?;
            for (from, to, length) in spans {
                local((api.xfer_dlist_add_desc)(request.local, *from, *length, from_device))?;
                local((api.xfer_dlist_add_desc)(request.remote, *to, *length, to_device))?;
            }
            well((api.create_xfer_req)(
                agent.handle,
                WRITE,
                request.local,
                request.remote,
                peer.as_ptr(),
                &raw mut request.handle,
                agent.options,
            ))?;
            let posted = (api.post_xfer_req)(agent.handle, request.handle, agent.options);
            // A part of it may have begun.
            request.refused = well(posted).err();
        }
        Ok(request)
    }

    pub(super) fn progress(&self) -> Progress {
        if let Some(error) = &self.refused {
            return Progress::Failed(error.clone());
        }
        // SAFETY: both live.
        match unsafe { (self.agent.api.get_xfer_status)(self.agent.handle, self.handle) } {
            SUCCESS => Progress::Done,
            IN_PROGRESS => Progress::UnderWay,
            status => Progress::Failed(fault(status)),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let api = &self.agent.api;
        // SAFETY: made by `post`, used no more; what was not made is null and not passed on. One that
        // is under way is given up: its bytes may still land.
        unsafe {
            if !self.handle.is_null() {
                (api.release_xfer_req)(self.agent.handle, self.handle);
                (api.destroy_xfer_req)(self.handle);
            }
            for list in [self.local, self.remote] {
                if !list.is_null() {
                    (api.destroy_xfer_dlist)(list);
                }
            }
        }
    }
}

/// The library's word for a kind of memory, and the device that it is of.
fn kind(segment: Segment) -> (c_int, u64) {
    match segment {
        Segment::Dram => (DRAM, 0),
        Segment::Vram { device } => (VRAM, u64::from(device)),
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} holds a zero byte"))
}

/// A copy of what the library points to.
///
/// # Safety
/// `length` bytes at `data` must be readable, or `data` null.
unsafe fn bytes(data: *const c_void, length: usize) -> Vec<u8> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(data.cast(), length) }.to_vec()
}

/// A copy of what the library has allocated for the caller, which is freed.
///
/// # Safety
/// As [`bytes`], and `data` must come from malloc and be used no more.
unsafe fn take_bytes(data: *mut c_void, length: usize) -> Vec<u8> {
    // SAFETY: promised by the caller.
    unsafe {
        let copy = bytes(data, length);
        libc::free(data);
        copy
    }
}
