//! The functions of libucp that are used, and their structures, as its headers declare them.
//!
//! Sizes and offsets were compared with the headers of UCX 1.13.1 and 1.22.0 on x86-64, and both and
//! 1.23 are run against. Newer versions only append fields, and read no field whose bit is not set in
//! the mask: structures that the library reads may be the shorter ones of 1.13, and the one that it
//! writes ([`EpAttr`]) is as long as the fields that are asked for.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

use crate::transport::loader;

/// An object of the library.
pub(super) type Handle = *mut c_void;
/// What a call says: 0 well, 1 under way, below 0 an error.
pub(super) type Status = i8;
/// What a call that may take longer says: null well, an error as a number below 0, or a request.
pub(super) type StatusPtr = *mut c_void;

pub(super) const OK: Status = 0;
pub(super) const IN_PROGRESS: Status = 1;
pub(super) const BUSY: Status = -15;
/// The last error: pointers from here on are errors.
const LAST_ERROR: isize = -100;

/// The interface that is spoken: that of the oldest version.
pub(super) const API: (c_uint, c_uint) = (1, 13);

pub(super) const FEATURE_RMA: u64 = 1 << 1;
pub(super) const FEATURE_WAKEUP: u64 = 1 << 4;
pub(super) const FEATURE_AM: u64 = 1 << 6;
pub(super) const PARAM_FEATURES: u64 = 1;
pub(super) const WORKER_THREAD_MODE: u64 = 1;
pub(super) const THREAD_MODE_SINGLE: c_uint = 0;
pub(super) const MEM_ADDRESS: u64 = 1;
pub(super) const MEM_LENGTH: u64 = 1 << 1;
pub(super) const MEM_PROT: u64 = 1 << 3;
pub(super) const MEM_TYPE: u64 = 1 << 4;
pub(super) const TYPE_HOST: c_uint = 0;
pub(super) const TYPE_CUDA: c_uint = 1;
pub(super) const PROT_LOCAL: c_uint = 1 | 1 << 1;
pub(super) const PROT_REMOTE_WRITE: c_uint = 1 << 9;
pub(super) const EP_ADDRESS: u64 = 1;
pub(super) const EP_ERROR_MODE: u64 = 1 << 1;
pub(super) const EP_ERROR_HANDLER: u64 = 1 << 2;
pub(super) const ERROR_MODE_PEER: c_uint = 1;
pub(super) const EP_TRANSPORTS: u64 = 1 << 3;
pub(super) const AM_ID: u64 = 1;
pub(super) const AM_CALLBACK: u64 = 1 << 2;
pub(super) const AM_ARGUMENT: u64 = 1 << 3;
pub(super) const AM_SEND_EAGER: u32 = 1 << 1;
pub(super) const OP_FLAGS: u32 = 1 << 4;
pub(super) const OP_MEMORY: u32 = 1 << 8;
pub(super) const CLOSE_FORCE: u32 = 1;

/// `ucp_params_t`.
#[repr(C)]
pub(super) struct Params {
    pub(super) field_mask: u64,
    pub(super) features: u64,
    pub(super) request_size: usize,
    pub(super) request_init: Handle,
    pub(super) request_cleanup: Handle,
    pub(super) tag_sender_mask: u64,
    pub(super) mt_workers_shared: c_int,
    pub(super) estimated_num_eps: usize,
    pub(super) estimated_num_ppn: usize,
    pub(super) name: *const c_char,
}

/// `ucp_worker_params_t`.
#[repr(C)]
pub(super) struct WorkerParams {
    pub(super) field_mask: u64,
    pub(super) thread_mode: c_uint,
    pub(super) cpu_mask: [u64; 16],
    pub(super) events: c_uint,
    pub(super) user_data: Handle,
    pub(super) event_fd: c_int,
    pub(super) flags: u64,
    pub(super) name: *const c_char,
    pub(super) am_alignment: usize,
    pub(super) client_id: u64,
}

/// `ucp_mem_map_params_t`.
#[repr(C)]
pub(super) struct MemParams {
    pub(super) field_mask: u64,
    pub(super) address: *mut c_void,
    pub(super) length: usize,
    pub(super) flags: c_uint,
    pub(super) prot: c_uint,
    pub(super) memory_type: c_uint,
}

/// `ucp_ep_params_t`.
#[repr(C)]
pub(super) struct EpParams {
    pub(super) field_mask: u64,
    pub(super) address: *const c_void,
    pub(super) error_mode: c_uint,
    pub(super) error_handler: unsafe extern "C" fn(*mut c_void, Handle, Status),
    pub(super) error_argument: *mut c_void,
    pub(super) user_data: Handle,
    pub(super) flags: c_uint,
    pub(super) socket_address: [usize; 2],
    pub(super) connection_request: Handle,
    pub(super) name: *const c_char,
    pub(super) local_socket_address: [usize; 2],
}

/// `ucp_ep_attr_t`, up to the transports.
#[repr(C)]
pub(super) struct EpAttr {
    pub(super) field_mask: u64,
    pub(super) name: [c_char; 32],
    pub(super) socket_addresses: [u64; 32],
    pub(super) entries: *mut Transport,
    pub(super) entry_count: c_uint,
    pub(super) entry_size: usize,
}

/// `ucp_transport_entry_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Transport {
    pub(super) transport: *const c_char,
    pub(super) device: *const c_char,
}

/// `ucp_am_handler_param_t`.
#[repr(C)]
pub(super) struct AmHandler {
    pub(super) field_mask: u64,
    pub(super) id: c_uint,
    pub(super) flags: u32,
    pub(super) callback:
        unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void, usize, *const c_void) -> Status,
    pub(super) argument: *mut c_void,
}

/// `ucp_request_param_t`.
#[repr(C)]
pub(super) struct RequestParam {
    pub(super) mask: u32,
    pub(super) flags: u32,
    pub(super) request: *mut c_void,
    pub(super) callback: *mut c_void,
    pub(super) datatype: u64,
    pub(super) user_data: *mut c_void,
    pub(super) reply_buffer: *mut c_void,
    pub(super) memory_type: c_uint,
    pub(super) receive_info: *mut c_void,
    pub(super) memory: Handle,
}

impl RequestParam {
    /// One that says nothing.
    pub(super) const NONE: Self = Self {
        mask: 0,
        flags: 0,
        request: std::ptr::null_mut(),
        callback: std::ptr::null_mut(),
        datatype: 0,
        user_data: std::ptr::null_mut(),
        reply_buffer: std::ptr::null_mut(),
        memory_type: 0,
        receive_info: std::ptr::null_mut(),
        memory: std::ptr::null_mut(),
    };
}

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)+) => {
        /// The loaded functions, each without its prefix. They stay valid for ever: the library runs
        /// threads and hooks of its own, and is therefore never unloaded.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
            status_string: unsafe extern "C" fn(Status) -> *const c_char,
        }

        impl Api {
            /// Loads the library and finds every function.
            ///
            /// # Errors
            /// The loader's words, or the name of what is missing.
            pub(super) fn load(path: &Path) -> Result<Self, String> {
                let library = loader::open(path)?;
                let api = Self {
                    $($name: {
                        let symbol = concat!("ucp_", stringify!($name));
                        // SAFETY: these are the arguments that the headers of 1.13 to 1.22 declare;
                        // older versions are refused before any other function is called.
                        *unsafe { library.get(symbol.as_bytes()) }.map_err(|_| format!("{symbol} is missing"))?
                    },)+
                    // SAFETY: as above; it is of a library that this one needs, and found through it.
                    status_string: *unsafe { library.get(b"ucs_status_string") }
                        .map_err(|_| "ucs_status_string is missing".to_owned())?,
                };
                std::mem::forget(library);
                Ok(api)
            }
        }
    };
}

functions! {
    get_version(*mut c_uint, *mut c_uint, *mut c_uint);
    init_version(c_uint, c_uint, *const Params, Handle, *mut Handle) -> Status;
    cleanup(Handle);
    config_read(*const c_char, *const c_char, *mut Handle) -> Status;
    config_modify(Handle, *const c_char, *const c_char) -> Status;
    config_release(Handle);
    worker_create(Handle, *const WorkerParams, *mut Handle) -> Status;
    worker_destroy(Handle);
    worker_progress(Handle) -> c_uint;
    worker_get_efd(Handle, *mut c_int) -> Status;
    worker_arm(Handle) -> Status;
    worker_get_address(Handle, *mut Handle, *mut usize) -> Status;
    worker_release_address(Handle, Handle);
    worker_set_am_recv_handler(Handle, *const AmHandler) -> Status;
    mem_map(Handle, *const MemParams, *mut Handle) -> Status;
    mem_unmap(Handle, Handle) -> Status;
    rkey_pack(Handle, Handle, *mut Handle, *mut usize) -> Status;
    rkey_buffer_release(Handle);
    ep_create(Handle, *const EpParams, *mut Handle) -> Status;
    ep_close_nbx(Handle, *const RequestParam) -> StatusPtr;
    ep_flush_nbx(Handle, *const RequestParam) -> StatusPtr;
    ep_query(Handle, *mut EpAttr) -> Status;
    ep_print_info(Handle, *mut libc::FILE);
    ep_rkey_unpack(Handle, *const c_void, *mut Handle) -> Status;
    rkey_destroy(Handle);
    put_nbx(Handle, *const c_void, usize, u64, Handle, *const RequestParam) -> StatusPtr;
    am_send_nbx(Handle, c_uint, *const c_void, usize, *const c_void, usize, *const RequestParam) -> StatusPtr;
    request_check_status(*mut c_void) -> Status;
    request_free(*mut c_void);
}

impl Api {
    /// Major, minor, release.
    pub(super) fn version(&self) -> (u32, u32, u32) {
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: three places for the result.
        unsafe { (self.get_version)(&raw mut major, &raw mut minor, &raw mut release) };
        (major, minor, release)
    }

    /// A status in words.
    pub(super) fn words(&self, status: Status) -> String {
        // SAFETY: a C string that lives as long as the library, for any status.
        let words = unsafe { CStr::from_ptr((self.status_string)(status)) };
        format!("{} ({status})", words.to_string_lossy())
    }
}

/// What such a pointer says.
pub(super) enum Said {
    Done,
    Failed(Status),
    UnderWay(*mut c_void),
}

pub(super) fn said(pointer: StatusPtr) -> Said {
    match pointer as isize {
        0 => Said::Done,
        // Such a number is one of a status: it fits.
        error @ LAST_ERROR..0 => Said::Failed(error as Status),
        _ => Said::UnderWay(pointer),
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn structures_are_laid_out_as_the_headers_of_1_13_declare_them() {
        assert_eq!(
            (size_of::<Params>(), offset_of!(Params, mt_workers_shared), offset_of!(Params, name)),
            (80, 48, 72)
        );
        let worker = (offset_of!(WorkerParams, events), offset_of!(WorkerParams, flags));
        assert_eq!((size_of::<WorkerParams>(), worker, offset_of!(WorkerParams, client_id)), (200, (144, 168), 192));
        let ep = (offset_of!(EpParams, error_handler), offset_of!(EpParams, error_argument));
        let ep = (ep, offset_of!(EpParams, user_data), offset_of!(EpParams, socket_address));
        assert_eq!((size_of::<EpParams>(), ep), (104, ((24, 32), 40, 56)));
        assert_eq!((size_of::<MemParams>(), offset_of!(MemParams, prot)), (40, 28));
        let request = (offset_of!(RequestParam, datatype), offset_of!(RequestParam, memory_type));
        assert_eq!((size_of::<RequestParam>(), request, offset_of!(RequestParam, memory)), (72, (24, 48), 64));
        let am = (offset_of!(AmHandler, id), offset_of!(AmHandler, flags), offset_of!(AmHandler, callback));
        assert_eq!((size_of::<AmHandler>(), am, offset_of!(AmHandler, argument)), (32, (8, 12, 16), 24));
        // Of 1.22; 1.13 ends where the entries begin.
        let attr = (offset_of!(EpAttr, entries), offset_of!(EpAttr, entry_count), offset_of!(EpAttr, entry_size));
        assert_eq!((attr, size_of::<EpAttr>(), size_of::<Transport>()), ((296, 304, 312), 320, 16));
    }

    #[test]
    fn pointers_are_told_from_errors() {
        assert!(matches!(said(std::ptr::null_mut()), Said::Done));
        assert!(matches!(said(-25_isize as StatusPtr), Said::Failed(-25)));
        assert!(matches!(said(-100_isize as StatusPtr), Said::Failed(-100)));
        assert!(matches!(said(0x7000_usize as StatusPtr), Said::UnderWay(_)));
        assert!(matches!(said(-4_096_isize as StatusPtr), Said::UnderWay(_)));
    }
}
