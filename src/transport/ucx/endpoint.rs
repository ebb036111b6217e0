//! The way to one peer, and how it is closed.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicI8, Ordering};
use std::time::{Duration, Instant};

use super::api::{
    AM_SEND_EAGER, CLOSE_FORCE, EP_ADDRESS, EP_ERROR_HANDLER, EP_ERROR_MODE, EP_TRANSPORTS, ERROR_MODE_PEER, EpAttr,
    EpParams, Handle, IN_PROGRESS, OK, OP_FLAGS, OP_MEMORY, RequestParam, Said, Status, Transport, said,
};
use super::objects::{ANNOUNCES, Request, Ucp};
use super::transports::{Chosen, printed};
use crate::transport::fabric::FabricError;
use crate::transport::worker::{Announcement, Place, Progress, Span};

/// Transports of one endpoint that are asked for at most.
const MAX_TRANSPORTS: usize = 32;
/// Zeros behind what a peer has sent, in bytes.
const PADDING: usize = 4 * 1024;
/// How long an endpoint is flushed at most before it is closed.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

/// An endpoint with keys to the peer's memory.
pub(super) struct Endpoint {
    ucp: Rc<Ucp>,
    handle: Handle,
    keys: Vec<(Place, Handle)>,
    /// What the library has said of its end; written by it until it is closed.
    failure: Box<AtomicI8>,
}

/// An endpoint that is being closed, with what must outlive it.
pub(super) struct Closing {
    endpoint: Endpoint,
    /// What comes before its closing, and until when at most.
    flush: Option<(Request, Instant)>,
    request: *mut c_void,
}

/// The library says that an endpoint is of no use any more.
///
/// # Safety
/// Called by the library, with the argument that was given for it.
unsafe extern "C" fn failed(argument: *mut c_void, _endpoint: Handle, status: Status) {
    // SAFETY: the argument is the endpoint's boxed number, which is kept until it is closed.
    let failure = unsafe { &*argument.cast_const().cast::<AtomicI8>() };
    failure.store(status, Ordering::Relaxed);
}

impl Endpoint {
    /// Begins to connect to a worker's address.
    pub(super) fn new(ucp: &Rc<Ucp>, address: &[u8]) -> Result<Self, FabricError> {
        let address = padded("address", address)?;
        let failure = Box::new(AtomicI8::new(OK));
        let params = EpParams {
            field_mask: EP_ADDRESS | EP_ERROR_MODE | EP_ERROR_HANDLER,
            address: address.as_ptr().cast(),
            error_mode: ERROR_MODE_PEER,
            error_handler: failed,
            error_argument: (&raw const *failure).cast_mut().cast(),
            user_data: ptr::null_mut(),
            flags: 0,
            socket_address: [0; 2],
            connection_request: ptr::null_mut(),
            name: ptr::null(),
            local_socket_address: [0; 2],
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the address is read before the call returns, and is believed to be one that a library
        // has made: it came from a member of the cluster, and zeros follow it. The handler's argument is
        // kept.
        let status = unsafe { (ucp.api.ep_create)(ucp.worker, &raw const params, &raw mut handle) };
        if status != OK {
            return Err(ucp.fault("an endpoint", status));
        }
        Ok(Self { ucp: Rc::clone(ucp), handle, keys: Vec::new(), failure })
    }

    /// Takes a key to the peer's memory.
    pub(super) fn take(&mut self, place: Place, key: &[u8]) -> Result<(), FabricError> {
        let (key, mut handle) = (padded("key", key)?, ptr::null_mut());
        // SAFETY: the key is read before the call returns, and believed like the address.
        let status = unsafe { (self.ucp.api.ep_rkey_unpack)(self.handle, key.as_ptr().cast(), &raw mut handle) };
        if status != OK {
            return Err(FabricError::Skew(format!("the peer's key: {}", self.ucp.api.words(status))));
        }
        self.keys.push((place, handle));
        Ok(())
    }

    /// Why nothing more is begun on it.
    fn check(&self, what: &str) -> Result<(), FabricError> {
        match self.failure.load(Ordering::Relaxed) {
            OK => Ok(()),
            status => Err(FabricError::PeerGone(format!("{what}: {}", self.ucp.api.words(status)))),
        }
    }

    /// Begins to write.
    ///
    /// # Safety
    /// Local addresses must be within mapped memory of that place.
    pub(super) unsafe fn post(&self, place: Place, spans: &[Span]) -> Result<Request, FabricError> {
        const WHAT: &str = "a put";
        self.check(WHAT)?;
        let key = self.keys.iter().find(|(of, _)| *of == place).map(|(_, key)| *key);
        let key = key.ok_or_else(|| FabricError::Local("no key to the peer's memory".to_owned()))?;
        let param = RequestParam { mask: OP_MEMORY, memory: self.ucp.memory(place), ..RequestParam::NONE };
        let (mut request, mut begun) = (Request::new(&self.ucp, WHAT), false);
        for (from, to, length) in spans {
            // SAFETY: the endpoint is open and the key is of it; the caller promises the memory, and
            // remote memory is the library's and the peer's to check.
            let put = unsafe {
                let from = *from as *const c_void;
                (self.ucp.api.put_nbx)(self.handle, from, *length, *to as u64, key, &raw const param)
            };
            if !request.add(put) {
                break;
            }
            begun = true;
        }
        match request.refused() {
            Some(error) if !begun => Err(error),
            _ => Ok(request),
        }
    }

    /// Begins to wait until everything that was written is there.
    pub(super) fn flush(&self) -> Result<Request, FabricError> {
        const WHAT: &str = "a flush";
        self.check(WHAT)?;
        let (mut request, param) = (Request::new(&self.ucp, WHAT), RequestParam::NONE);
        // SAFETY: the endpoint is open.
        request.add(unsafe { (self.ucp.api.ep_flush_nbx)(self.handle, &raw const param) });
        Ok(request)
    }

    pub(super) fn announce(&self, announcement: &Announcement) -> Result<Request, FabricError> {
        const WHAT: &str = "an announcement";
        self.check(WHAT)?;
        let mut request = Request::new(&self.ucp, WHAT);
        let words = request.keep(announcement.to_bytes());
        let param = RequestParam { mask: OP_FLAGS, flags: AM_SEND_EAGER, ..RequestParam::NONE };
        // SAFETY: the endpoint is open, and the request keeps the words until they are sent.
        let sent = unsafe {
            let api = &self.ucp.api;
            (api.am_send_nbx)(self.handle, ANNOUNCES, words, Announcement::BYTES, ptr::null(), 0, &raw const param)
        };
        request.add(sent);
        Ok(request)
    }

    /// What the library has chosen for it.
    pub(super) fn transports(&self) -> Vec<Chosen> {
        let mut entries = [Transport { transport: ptr::null(), device: ptr::null() }; MAX_TRANSPORTS];
        let mut attr = EpAttr {
            field_mask: EP_TRANSPORTS,
            name: [0; 32],
            socket_addresses: [0; 32],
            entries: entries.as_mut_ptr(),
            entry_count: MAX_TRANSPORTS as u32,
            entry_size: size_of::<Transport>(),
        };
        // SAFETY: the endpoint is open; the result goes to `attr` and to the entries that it points to.
        // A library that does not know this field leaves both alone.
        let status = unsafe { (self.ucp.api.ep_query)(self.handle, &raw mut attr) };
        let told = entries.iter().take(attr.entry_count as usize).take_while(|entry| !entry.transport.is_null());
        // SAFETY: C strings of the library, which live as long as the endpoint.
        let told = told.map(|entry| unsafe { Chosen { transport: text(entry.transport), device: text(entry.device) } });
        let mut told: Vec<Chosen> = if status == OK { told.collect() } else { Vec::new() };
        told.sort();
        told.dedup();
        if told.is_empty() { printed(&self.printed()) } else { told }
    }

    /// What the library prints of it; nothing if it cannot.
    fn printed(&self) -> String {
        let (mut buffer, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the stream writes to a buffer of its own, which it says and which is freed, after the
        // stream was closed.
        unsafe {
            let stream = libc::open_memstream(&raw mut buffer, &raw mut length);
            if stream.is_null() {
                return String::new();
            }
            (self.ucp.api.ep_print_info)(self.handle, stream);
            libc::fclose(stream);
            let text = std::slice::from_raw_parts(buffer.cast::<u8>(), length).to_vec();
            libc::free(buffer.cast());
            String::from_utf8_lossy(&text).into_owned()
        }
    }

    /// Begins to close it. It is flushed first: UCX 1.13 aborts the peer's process if a connection ends
    /// before the peer's answer to its beginning is out.
    pub(super) fn close(self) -> Closing {
        let flush = self.flush().unwrap_or_else(|_| Request::new(&self.ucp, "nothing"));
        Closing { endpoint: self, flush: Some((flush, Instant::now() + FLUSH_LIMIT)), request: ptr::null_mut() }
    }
}

/// How the closing of an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    NotYet,
    Yes,
    /// It does not close: what it uses must be kept for ever, as the library may use it.
    Never,
}

impl Closing {
    /// Takes it further, until it is closed.
    pub(super) fn step(&mut self) -> Closed {
        if let Some((request, until)) = &mut self.flush {
            if matches!(request.progress(), Progress::UnderWay) && Instant::now() < *until {
                return Closed::NotYet;
            }
            self.flush = None;
            return self.begin();
        }
        self.wait()
    }

    /// Closes it. Whatever is under way on it ends, with an error.
    fn begin(&mut self) -> Closed {
        let Endpoint { ucp, handle, .. } = &self.endpoint;
        let param = RequestParam { mask: OP_FLAGS, flags: CLOSE_FORCE, ..RequestParam::NONE };
        // SAFETY: the endpoint is open and used no more: only this value has it, and comes here once.
        match said(unsafe { (ucp.api.ep_close_nbx)(*handle, &raw const param) }) {
            Said::UnderWay(request) => self.request = request,
            Said::Done => {}
            Said::Failed(status) => {
                tracing::warn!(error = ucp.api.words(status), "UCX does not close an endpoint");
                return Closed::Never;
            }
        }
        self.wait()
    }

    fn wait(&mut self) -> Closed {
        let ucp = &self.endpoint.ucp;
        if !self.request.is_null() {
            // SAFETY: it is this value's until it is freed.
            if unsafe { (ucp.api.request_check_status)(self.request) } == IN_PROGRESS {
                return Closed::NotYet;
            }
            // SAFETY: it has ended and is used no more.
            unsafe { (ucp.api.request_free)(self.request) };
            self.request = ptr::null_mut();
        }
        for (_, key) in self.endpoint.keys.drain(..) {
            // SAFETY: nothing that uses it is under way any more.
            unsafe { (ucp.api.rkey_destroy)(key) };
        }
        Closed::Yes
    }
}

/// What a peer has sent, followed by zeros: the library is not told where such words end, and of shorter ones than
/// it expects it reads on.
fn padded(what: &str, words: &[u8]) -> Result<Vec<u8>, FabricError> {
    if words.is_empty() {
        return Err(FabricError::Skew(format!("the peer's {what} is empty")));
    }
    Ok([words, &[0; PADDING]].concat())
}

/// # Safety
/// Null, or a C string.
unsafe fn text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
