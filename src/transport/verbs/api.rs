//! The functions of libibverbs that are used, loaded at run time.
//!
//! `rdma-sys` brings the types, and those functions that are inline in C. Calling one of the others through
//! it would tie the program to the library: it would not start on a host that has none. So they are called
//! by what the loader finds, and a query whose inline form falls back to one of them is made here.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

use libloading::Library;
use rdma_sys as sys;

use crate::transport::loader;

/// The library's file.
const NAME: &str = "libibverbs.so.1";

/// An event of a device. Its kind is a plain number: devices know more of them than `rdma-sys` does.
#[repr(C)]
pub(super) struct AsyncEvent {
    pub(super) element: *mut c_void,
    pub(super) kind: c_int,
}

macro_rules! functions {
    ($($name:ident($($argument:ty),*) -> $result:ty;)+) => {
        /// The loaded functions, each without its prefix. They stay valid as long as this value.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)+
            _library: Library,
        }

        impl Api {
            /// Loads the library and finds every function.
            ///
            /// # Errors
            /// The file that was looked for and the loader's words, or the name of what is missing.
            pub(super) fn load(configured: Option<&Path>) -> Result<Self, (String, String)> {
                let path = match configured {
                    None => NAME.into(),
                    Some(path) if path.is_dir() => path.join(NAME),
                    Some(path) => path.to_owned(),
                };
                let failed = |detail| (path.display().to_string(), detail);
                let library = loader::open(&path).map_err(failed)?;
                Ok(Self {
                    $($name: {
                        let symbol = concat!("ibv_", stringify!($name));
                        // SAFETY: these are the arguments that the library's header declares; its functions
                        // keep them under the version 1.1, which the loader gives out by default.
                        *unsafe { library.get(symbol) }.map_err(|_| failed(format!("{symbol} is missing")))?
                    },)+
                    _library: library,
                })
            }
        }
    };
}

functions! {
    get_device_list(*mut c_int) -> *mut *mut sys::ibv_device;
    free_device_list(*mut *mut sys::ibv_device) -> ();
    get_device_name(*mut sys::ibv_device) -> *const c_char;
    open_device(*mut sys::ibv_device) -> *mut sys::ibv_context;
    close_device(*mut sys::ibv_context) -> c_int;
    query_device(*mut sys::ibv_context, *mut sys::ibv_device_attr) -> c_int;
    get_async_event(*mut sys::ibv_context, *mut AsyncEvent) -> c_int;
    ack_async_event(*mut AsyncEvent) -> ();
    alloc_pd(*mut sys::ibv_context) -> *mut sys::ibv_pd;
    dealloc_pd(*mut sys::ibv_pd) -> c_int;
    reg_mr(*mut sys::ibv_pd, *mut c_void, usize, c_int) -> *mut sys::ibv_mr;
    dereg_mr(*mut sys::ibv_mr) -> c_int;
    create_comp_channel(*mut sys::ibv_context) -> *mut sys::ibv_comp_channel;
    destroy_comp_channel(*mut sys::ibv_comp_channel) -> c_int;
    create_cq(*mut sys::ibv_context, c_int, *mut c_void, *mut sys::ibv_comp_channel, c_int) -> *mut sys::ibv_cq;
    destroy_cq(*mut sys::ibv_cq) -> c_int;
    get_cq_event(*mut sys::ibv_comp_channel, *mut *mut sys::ibv_cq, *mut *mut c_void) -> c_int;
    ack_cq_events(*mut sys::ibv_cq, c_uint) -> ();
    create_qp(*mut sys::ibv_pd, *mut sys::ibv_qp_init_attr) -> *mut sys::ibv_qp;
    modify_qp(*mut sys::ibv_qp, *mut sys::ibv_qp_attr, c_int) -> c_int;
    destroy_qp(*mut sys::ibv_qp) -> c_int;
}

/// What a port is, whole: what the header's inline `___ibv_query_port` does. The function that the library
/// exports knows only a part of the structure, and the inline one of `rdma-sys` 0.3.0 takes the mark of an
/// extended context for one of 32 bits, so that on 64 bits it always ends up with that function.
///
/// # Safety
/// `context` must be an open device of the library.
pub(super) unsafe fn query_port(context: *mut sys::ibv_context, port: u8) -> Result<sys::ibv_port_attr, c_int> {
    // SAFETY: a plain structure, for which all zero is a value.
    let mut attributes: sys::ibv_port_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the caller's promise.
    if unsafe { (*context).abi_compat } as usize != usize::MAX {
        return Err(libc::EOPNOTSUPP);
    }
    // SAFETY: a context with this mark is the last field of the larger structure.
    let table = unsafe { context.byte_sub(std::mem::offset_of!(sys::verbs_context, context)) };
    let table = table.cast::<sys::verbs_context>();
    let below = size_of::<sys::verbs_context>() - std::mem::offset_of!(sys::verbs_context, query_port);
    // SAFETY: `sz` lies behind every function, and says how far the structure of this library reaches back.
    let known = unsafe { (*table).sz } >= below;
    // SAFETY: it was just looked at whether the field is there.
    let query = if known { unsafe { (*table).query_port } } else { None };
    let query = query.ok_or(libc::EOPNOTSUPP)?;
    // SAFETY: an open device, and a structure whose size is said.
    match unsafe { query(context, port, &raw mut attributes, size_of::<sys::ibv_port_attr>()) } {
        0 => Ok(attributes),
        code => Err(code),
    }
}
