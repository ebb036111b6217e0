//! The library's objects, owned: each is let go of when it is dropped, and none outlives what it was
//! made of. All of them belong to one thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CString, c_void};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr;
use std::rc::Rc;

use super::api::{
    self, AM_ARGUMENT, AM_CALLBACK, AM_ID, AmHandler, Api, BUSY, FEATURE_AM, FEATURE_RMA, FEATURE_WAKEUP, Handle,
    IN_PROGRESS, MEM_ADDRESS, MEM_LENGTH, MEM_PROT, MEM_TYPE, MemParams, OK, PARAM_FEATURES, PROT_LOCAL,
    PROT_REMOTE_WRITE, Params, Said, Status, StatusPtr, THREAD_MODE_SINGLE, TYPE_CUDA, TYPE_HOST, WORKER_THREAD_MODE,
    WorkerParams, said,
};
use super::fabric::UcxError;
use super::{UcxConfig, library};
use crate::arena::Segment;
use crate::transport::fabric::FabricError;
use crate::transport::worker::{Announcement, Memory, Place, Progress, Region};

/// The active message that announces a put.
pub(super) const ANNOUNCES: u32 = 0x5EA;
/// Announcements kept between two looks; further ones are lost, and their puts with them.
const MAX_COME: usize = 65_536;
/// Settings of Seam's own, which the environment and the configuration override. Of a dead peer on
/// the same host nobody hears unless it is looked for. And where large messages may be fetched by their
/// receiver, UCX asks of a transport that it can take back what it gave away, before it puts over it: TCP and
/// shared memory cannot, and every put would be copied through small messages (openucx/ucx, issue 11929). Seam
/// sends no message of more than a few bytes.
const SETTINGS: [(&str, &str); 2] = [("KEEPALIVE_INTERVAL", "250ms"), ("RNDV_THRESH", "inf")];
/// Steps in a row before others get their turn.
const STEPS: u32 = 64;

/// A context with one worker, and this host's memory mapped in it.
pub(super) struct Ucp {
    pub(super) api: Api,
    context: Handle,
    pub(super) worker: Handle,
    mapped: Vec<(Place, Handle)>,
    come: Box<RefCell<Vec<Announcement>>>,
    memory: Rc<Memory>,
}

impl Ucp {
    /// Loads the library and maps memory. `receives`: peers may write to it.
    pub(super) fn new(configured: &UcxConfig, receives: bool, memory: &Rc<Memory>) -> Result<Self, UcxError> {
        let (api, _) = library::open(configured.library.as_deref())?;
        // Owned from here on, so that every early return lets go of it.
        let mut ucp = Self {
            api,
            context: ptr::null_mut(),
            worker: ptr::null_mut(),
            mapped: Vec::new(),
            come: Box::default(),
            memory: Rc::clone(memory),
        };
        ucp.make_context(configured)?;
        ucp.make_worker()?;
        for place in [Place::Arena, Place::Scratch] {
            ucp.map(place, receives)?;
        }
        Ok(ucp)
    }

    fn check(&self, what: &str, status: Status) -> Result<(), UcxError> {
        if status == OK { Ok(()) } else { Err(UcxError::Call(format!("{what}: {}", self.api.words(status)))) }
    }

    fn make_context(&mut self, configured: &UcxConfig) -> Result<(), UcxError> {
        let mut config = ptr::null_mut();
        // SAFETY: no prefix and no file; `config` is where the result goes, and is released below.
        let status = unsafe { (self.api.config_read)(ptr::null(), ptr::null(), &raw mut config) };
        self.check("its settings", status)?;
        let params = Params {
            field_mask: PARAM_FEATURES,
            features: FEATURE_RMA | FEATURE_AM | FEATURE_WAKEUP,
            request_size: 0,
            request_init: ptr::null_mut(),
            request_cleanup: ptr::null_mut(),
            tag_sender_mask: 0,
            mt_workers_shared: 0,
            estimated_num_eps: 0,
            estimated_num_ppn: 0,
            name: ptr::null(),
        };
        let (major, minor) = api::API;
        let made = self.set(config, configured).and_then(|()| {
            let context = &raw mut self.context;
            // SAFETY: both structures live; the result goes to `context`.
            let status = unsafe { (self.api.init_version)(major, minor, &raw const params, config, context) };
            self.check("its context, with rails.ucx.params and UCX_… in the environment", status)
        });
        // SAFETY: made above, used no more.
        unsafe { (self.api.config_release)(config) };
        made
    }

    fn set(&self, config: Handle, configured: &UcxConfig) -> Result<(), UcxError> {
        let own = SETTINGS.iter().filter(|(key, _)| std::env::var_os(format!("UCX_{key}")).is_none());
        let own = own.map(|(key, value)| (*key, *value));
        let params = configured.params.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        for (key, value) in own.chain(params) {
            let wrong = |detail| UcxError::Setting { key: key.to_owned(), value: value.to_owned(), detail };
            let c_string = |text: &str| CString::new(text).map_err(|_| wrong("holds a zero byte".to_owned()));
            let (c_key, c_value) = (c_string(key)?, c_string(value)?);
            // SAFETY: the settings were read before; both texts are C strings and are copied.
            let status = unsafe { (self.api.config_modify)(config, c_key.as_ptr(), c_value.as_ptr()) };
            if status != OK {
                return Err(wrong(self.api.words(status)));
            }
        }
        Ok(())
    }

    fn make_worker(&mut self) -> Result<(), UcxError> {
        let params = WorkerParams {
            field_mask: WORKER_THREAD_MODE,
            thread_mode: THREAD_MODE_SINGLE,
            cpu_mask: [0; 16],
            events: 0,
            user_data: ptr::null_mut(),
            event_fd: 0,
            flags: 0,
            name: ptr::null(),
            am_alignment: 0,
            client_id: 0,
        };
        // SAFETY: the context lives; the result goes to `worker`.
        let status = unsafe { (self.api.worker_create)(self.context, &raw const params, &raw mut self.worker) };
        self.check("its worker", status)?;
        let handler = AmHandler {
            field_mask: AM_ID | AM_CALLBACK | AM_ARGUMENT,
            id: ANNOUNCES,
            flags: 0,
            callback: come,
            argument: (&raw const *self.come).cast_mut().cast(),
        };
        // SAFETY: the callback takes what the library gives, and its argument is boxed and outlives the
        // worker.
        let status = unsafe { (self.api.worker_set_am_recv_handler)(self.worker, &raw const handler) };
        self.check("its handler of announcements", status)
    }

    fn map(&mut self, place: Place, receives: bool) -> Result<(), UcxError> {
        let Region { segment, address, bytes: length } = self.memory.region(place);
        let params = MemParams {
            field_mask: MEM_ADDRESS | MEM_LENGTH | MEM_PROT | MEM_TYPE,
            address: address as *mut c_void,
            length,
            flags: 0,
            prot: PROT_LOCAL | if receives { PROT_REMOTE_WRITE } else { 0 },
            memory_type: match segment {
                Segment::Dram => TYPE_HOST,
                Segment::Vram { .. } => TYPE_CUDA,
            },
        };
        let mut mapped = ptr::null_mut();
        // SAFETY: memory stays where it is as long as this value, which unmaps it before.
        let status = unsafe { (self.api.mem_map)(self.context, &raw const params, &raw mut mapped) };
        self.check(&format!("its mapping of {length} bytes"), status)?;
        self.mapped.push((place, mapped));
        Ok(())
    }

    /// The handle of mapped memory; null, which the library takes for none, if it is not mapped.
    pub(super) fn memory(&self, place: Place) -> Handle {
        self.mapped.iter().find(|(mapped, _)| *mapped == place).map_or(ptr::null_mut(), |(_, handle)| *handle)
    }

    /// What a peer needs to write to mapped memory.
    pub(super) fn key(&self, place: Place) -> Result<Vec<u8>, UcxError> {
        let (mut buffer, mut length) = (ptr::null_mut(), 0);
        let memory = self.memory(place);
        // SAFETY: the context and what is mapped in it live; the results go to both places.
        let status = unsafe { (self.api.rkey_pack)(self.context, memory, &raw mut buffer, &raw mut length) };
        self.check("its key", status)?;
        // SAFETY: the call went well, so that many bytes are there; they are copied, then released.
        unsafe {
            let key = std::slice::from_raw_parts(buffer.cast::<u8>(), length).to_vec();
            (self.api.rkey_buffer_release)(buffer);
            Ok(key)
        }
    }

    /// What a peer needs to reach the worker.
    pub(super) fn address(&self) -> Result<Vec<u8>, UcxError> {
        let (mut address, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the worker lives; the results go to both places.
        let status = unsafe { (self.api.worker_get_address)(self.worker, &raw mut address, &raw mut length) };
        self.check("its address", status)?;
        // SAFETY: the call went well, so that many bytes are there; they are copied, then released.
        unsafe {
            let copy = std::slice::from_raw_parts(address.cast::<u8>(), length).to_vec();
            (self.api.worker_release_address)(self.worker, address);
            Ok(copy)
        }
    }

    /// Readable when there is something to do, once it was [armed](Self::arm).
    pub(super) fn descriptor(&self) -> Result<BorrowedFd<'_>, UcxError> {
        let mut descriptor = -1;
        // SAFETY: the worker lives; the result goes to `descriptor`.
        self.check("its descriptor", unsafe { (self.api.worker_get_efd)(self.worker, &raw mut descriptor) })?;
        // SAFETY: the call went well, so it is open, and the worker keeps it open as long as it lives.
        Ok(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Whether there is nothing to do at this moment.
    pub(super) fn arm(&self) -> Result<bool, UcxError> {
        // SAFETY: the worker lives.
        match unsafe { (self.api.worker_arm)(self.worker) } {
            BUSY => Ok(false),
            status => self.check("its descriptor", status).map(|()| true),
        }
    }

    /// Takes everything a few steps further. Whether anything has moved.
    pub(super) fn progress(&self) -> bool {
        // SAFETY: the worker lives, and this is its thread. The callbacks that are called touch only
        // what outlives it, and nothing of that is borrowed here.
        let step = || unsafe { (self.api.worker_progress)(self.worker) } > 0;
        let mut steps = 0;
        while steps < STEPS && step() {
            steps += 1;
        }
        steps > 0
    }

    /// What peers have announced since the last call.
    pub(super) fn announced(&self) -> Vec<Announcement> {
        self.come.take()
    }

    /// What a status says: what was asked is at fault, or the way to the peer.
    pub(super) fn fault(&self, what: &str, status: Status) -> FabricError {
        let words = format!("{what}: {}", self.api.words(status));
        match status {
            // No memory, a wrong parameter or address, not there, a limit, not supported.
            -4 | -5 | -7 | -8 | -19 | -21 | -22 => FabricError::Local(words),
            _ => FabricError::PeerGone(words),
        }
    }
}

impl Drop for Ucp {
    fn drop(&mut self) {
        // SAFETY: whatever was made of it holds a reference, so nothing of it is left but what is let
        // go of here, in this order. What was never made is null and not passed on.
        unsafe {
            for (_, memory) in self.mapped.drain(..) {
                (self.api.mem_unmap)(self.context, memory);
            }
            if !self.worker.is_null() {
                (self.api.worker_destroy)(self.worker);
            }
            if !self.context.is_null() {
                (self.api.cleanup)(self.context);
            }
        }
    }
}

/// An active message has come.
///
/// # Safety
/// Called by the library, with the argument that was given for it.
unsafe extern "C" fn come(
    argument: *mut c_void,
    header: *const c_void,
    length: usize,
    _data: *mut c_void,
    _data_length: usize,
    _param: *const c_void,
) -> Status {
    if header.is_null() || length != Announcement::BYTES {
        return OK;
    }
    // SAFETY: the library gives so many bytes for the time of this call.
    let words = unsafe { std::slice::from_raw_parts(header.cast::<u8>(), length) };
    // SAFETY: the argument is the boxed cell of the worker's owner, which outlives the worker.
    let all = unsafe { &*argument.cast_const().cast::<RefCell<Vec<Announcement>>>() };
    if let (Some(announcement), Ok(mut all)) = (Announcement::from_bytes(words), all.try_borrow_mut())
        && all.len() < MAX_COME
    {
        all.push(announcement);
    }
    OK
}

/// Calls of the library that have not ended. Dropped, they are left to it.
pub(super) struct Request {
    ucp: Rc<Ucp>,
    what: &'static str,
    under_way: VecDeque<*mut c_void>,
    failed: Option<Status>,
    /// What the library reads until the call has ended.
    words: Option<Box<[u8; Announcement::BYTES]>>,
}

impl Request {
    pub(super) fn new(ucp: &Rc<Ucp>, what: &'static str) -> Self {
        Self { ucp: Rc::clone(ucp), what, under_way: VecDeque::new(), failed: None, words: None }
    }

    /// Adds what a call has said. Whether it went well so far.
    pub(super) fn add(&mut self, pointer: StatusPtr) -> bool {
        match said(pointer) {
            Said::Done => {}
            Said::UnderWay(request) => self.under_way.push_back(request),
            Said::Failed(status) => self.failed = self.failed.or(Some(status)),
        }
        self.failed.is_none()
    }

    /// Why a call was refused, if one was.
    pub(super) fn refused(&self) -> Option<FabricError> {
        self.failed.map(|status| self.ucp.fault(self.what, status))
    }

    /// Keeps what the library reads, where it stays.
    pub(super) fn keep(&mut self, words: [u8; Announcement::BYTES]) -> *const c_void {
        (&raw const **self.words.insert(Box::new(words))).cast()
    }

    /// Fails only once all of its calls have ended.
    pub(super) fn progress(&mut self) -> Progress {
        let api = &self.ucp.api;
        while let Some(&request) = self.under_way.front() {
            // SAFETY: it is this value's until it is freed.
            match unsafe { (api.request_check_status)(request) } {
                IN_PROGRESS => return Progress::UnderWay,
                OK => {}
                status => self.failed = self.failed.or(Some(status)),
            }
            self.under_way.pop_front();
            // SAFETY: it has ended and is used no more.
            unsafe { (api.request_free)(request) };
        }
        self.refused().map_or(Progress::Done, Progress::Failed)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.under_way.is_empty() {
            // The library may still read them: better lost than gone.
            std::mem::forget(self.words.take());
        }
        for request in self.under_way.drain(..) {
            // SAFETY: used no more here; the library keeps it until it has ended.
            unsafe { (self.ucp.api.request_free)(request) };
        }
    }
}

/// UCX's list of transports, where somebody has set it.
pub(super) fn asked(configured: &UcxConfig) -> Option<String> {
    configured.params.get("TLS").cloned().or_else(|| std::env::var("UCX_TLS").ok())
}

/// Where the kernel shows devices.
pub(super) fn sys() -> &'static Path {
    Path::new("/sys")
}
