//! The functions of `libnixl_capi.so` that are used, as its header declares them (NIXL 1.x).

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

use libloading::Library;

use crate::transport::loader;

/// An object of the library.
pub(super) type Handle = *mut c_void;
/// What a call says: 0 well, 1 under way, below 0 an error.
pub(super) type Status = c_int;

pub(super) const SUCCESS: Status = 0;
pub(super) const IN_PROGRESS: Status = 1;
pub(super) const INVALID_PARAM: Status = -1;
pub(super) const INVALID_STATE: Status = -3;
/// Kinds of memory.
pub(super) const DRAM: c_int = 0;
pub(super) const VRAM: c_int = 1;
pub(super) const WRITE: c_int = 1;

/// How an agent is made.
#[repr(C)]
pub(super) struct AgentConfig {
    pub(super) enable_prog_thread: bool,
    pub(super) enable_listen_thread: bool,
    pub(super) listen_port: c_int,
    pub(super) thread_sync: c_int,
    pub(super) num_workers: c_uint,
    pub(super) pthr_delay_us: u64,
    pub(super) lthr_delay_us: u64,
    pub(super) capture_telemetry: bool,
}

macro_rules! functions {
    ($($name:ident($($argument:ty),*);)+) => {
        /// The loaded functions, each without its prefix. They stay valid as long as this value.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Status,)+
            _library: Library,
        }

        impl Api {
            /// Loads the library and finds every function.
            ///
            /// # Errors
            /// The loader's words, or the name of what is missing.
            pub(super) fn load(path: &Path) -> Result<Self, String> {
                let library = loader::open(path)?;
                Ok(Self {
                    $($name: {
                        let symbol = concat!("nixl_capi_", stringify!($name));
                        // SAFETY: these are the arguments that the header of 1.5 declares. Wheels from
                        // 0.10.1 on export the same names and were found to work with them; one that
                        // says that it is older than 1.0 is refused before, and one that does not say
                        // is the operator's to choose.
                        *unsafe { library.get(symbol.as_bytes()) }.map_err(|_| format!("{symbol} is missing"))?
                    },)+
                    _library: library,
                })
            }
        }
    };
}

functions! {
    create_configured_agent(*const c_char, *const AgentConfig, *mut Handle);
    destroy_agent(Handle);
    get_local_md(Handle, *mut *mut c_void, *mut usize);
    load_remote_md(Handle, *const c_void, usize, *mut *mut c_char);
    invalidate_remote_md(Handle, *const c_char);
    get_available_plugins(Handle, *mut Handle);
    string_list_size(Handle, *mut usize);
    string_list_get(Handle, usize, *mut *const c_char);
    destroy_string_list(Handle);
    get_plugin_params(Handle, *const c_char, *mut Handle, *mut Handle);
    params_add(Handle, *const c_char, *const c_char);
    destroy_params(Handle);
    destroy_mem_list(Handle);
    create_backend(Handle, *const c_char, Handle, *mut Handle);
    destroy_backend(Handle);
    create_opt_args(*mut Handle);
    destroy_opt_args(Handle);
    opt_args_add_backend(Handle, Handle);
    create_reg_dlist(c_int, *mut Handle);
    reg_dlist_add_desc(Handle, usize, usize, u64, *const c_void, usize);
    destroy_reg_dlist(Handle);
    register_mem(Handle, Handle, Handle);
    deregister_mem(Handle, Handle, Handle);
    create_xfer_dlist(c_int, *mut Handle);
    xfer_dlist_add_desc(Handle, usize, usize, u64);
    destroy_xfer_dlist(Handle);
    create_xfer_req(Handle, c_int, Handle, Handle, *const c_char, *mut Handle, Handle);
    post_xfer_req(Handle, Handle, Handle);
    get_xfer_status(Handle, Handle);
    release_xfer_req(Handle, Handle);
    destroy_xfer_req(Handle);
    gen_notif(Handle, *const c_char, *const c_void, usize, Handle);
    create_notif_map(*mut Handle);
    destroy_notif_map(Handle);
    get_notifs(Handle, Handle, Handle);
    notif_map_size(Handle, *mut usize);
    notif_map_get_agent_at(Handle, usize, *mut *const c_char);
    notif_map_get_notifs_size(Handle, *const c_char, *mut usize);
    notif_map_get_notif(Handle, *const c_char, usize, *mut *const c_void, *mut usize);
    notif_map_clear(Handle);
}

/// A status in words.
pub(super) fn words(status: Status) -> &'static str {
    match status {
        SUCCESS => "well",
        IN_PROGRESS => "under way",
        INVALID_PARAM => "a parameter is not allowed",
        -2 => "its backend failed",
        INVALID_STATE => "not in this state",
        -4 => "an exception inside",
        -5 => "no telemetry",
        -6 => "not found",
        _ => "an error that this version of Seam does not know",
    }
}
