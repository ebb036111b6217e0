//! An open device and the memory registered in it.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use rdma_sys as sys;
use rustix::process::{Resource, getrlimit};

use super::api::{Api, AsyncEvent, query_port};
use super::inside::MIN_REQUESTS;
use super::sysfs::{self, Chosen, NoPort};
use super::{VerbsConfig, words};

/// Local write, without which a device grants no remote write, and remote write.
pub(super) const RECEIVES: c_int = 1 | 2;
/// The largest path MTU, as devices number them.
const MTUS: std::ops::RangeInclusive<u32> = 1..=5;

/// Why verbs cannot be used on this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    /// There is no library, or none that fits.
    #[error(
        "{path}: {detail}; install it with its drivers (Debian: libibverbs1 ibverbs-providers), or say where it is in \
         rails.verbs.library"
    )]
    Library {
        /// The file.
        path: String,
        /// The loader's words.
        detail: String,
    },
    /// There is no device, or no port that carries.
    #[error(transparent)]
    Port(#[from] NoPort),
    /// The kernel has the device, and the library does not.
    #[error(
        "libibverbs does not know {device}, it knows: {there}; install the device's driver for it (Debian: ibverbs-providers)"
    )]
    NoDriver {
        /// The device.
        device: String,
        /// What it knows.
        there: String,
    },
    /// The device's file may not be opened.
    #[error("{device} cannot be opened: {detail}; let the agent's user read and write /dev/infiniband/uverbs*")]
    Open {
        /// The device.
        device: String,
        /// The system's words.
        detail: String,
    },
    /// No memory, where the kernel lets this user lock only so much.
    #[error(
        "{bytes} bytes cannot be registered: this user may lock at most {limit} bytes (RLIMIT_MEMLOCK), this rail takes \
         {needed}, and every other that registers the arena as much again; set LimitMEMLOCK=infinity in the agent's \
         unit, or ulimit -l unlimited"
    )]
    Memlock {
        /// What was to be registered.
        bytes: u64,
        /// What may be locked.
        limit: u64,
        /// What all of this rail takes.
        needed: u64,
    },
    /// One of the library's calls fails.
    #[error("{call}: {detail}")]
    Call {
        /// Which.
        call: &'static str,
        /// The system's words.
        detail: String,
    },
    /// The peer cannot be reached from here: no route, or no answer to the question for its hardware address.
    #[error("{call}: {detail}")]
    Unreachable {
        /// Which of the library's calls has found that.
        call: &'static str,
        /// The system's words.
        detail: String,
    },
    /// No thread, or no memory.
    #[error("{0}")]
    System(String),
}

pub(super) fn failed(call: &'static str) -> VerbsError {
    VerbsError::Call { call, detail: io::Error::last_os_error().to_string() }
}

/// The result of a call that answers with an error's number.
pub(super) fn answered(call: &'static str, code: c_int) -> Result<(), VerbsError> {
    match code {
        0 => Ok(()),
        code => Err(VerbsError::Call { call, detail: io::Error::from_raw_os_error(code.abs()).to_string() }),
    }
}

/// The same of a call that looks for the way to a peer.
pub(super) fn routed(call: &'static str, code: c_int) -> Result<(), VerbsError> {
    answered(call, code).map_err(|error| match (code.abs(), error) {
        (libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH, VerbsError::Call { call, detail }) => {
            VerbsError::Unreachable { call, detail }
        }
        (_, error) => error,
    })
}

/// Loads the library and finds all of its functions, as a rail does.
///
/// # Errors
/// The loader's words, or the name of what is missing.
pub fn try_load(config: &VerbsConfig) -> Result<(), VerbsError> {
    load(config).map(drop)
}

fn load(config: &VerbsConfig) -> Result<Api, VerbsError> {
    Api::load(config.library.as_deref()).map_err(|(path, detail)| VerbsError::Library { path, detail })
}

/// An open device, one of its ports, and a protection domain: what is registered in it can be reached by its
/// queue pairs alone.
pub(super) struct Device {
    pub(super) chosen: Chosen,
    /// The largest message of the port, in bytes.
    pub(super) max_message: u64,
    /// What one work request may gather.
    pub(super) max_places: usize,
    pub(super) mtu: u8,
    lid: u16,
    pub(super) domain: *mut sys::ibv_pd,
    pub(super) context: *mut sys::ibv_context,
    pub(super) api: Api,
}

// SAFETY: the library locks what its objects share: a context may be used from several threads at once.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    pub(super) fn open(config: &VerbsConfig) -> Result<Self, VerbsError> {
        let api = load(config)?;
        let chosen = sysfs::choose(Path::new("/"), config)?;
        let context = open(&api, &chosen.port.device)?;
        let mut device =
            Self { chosen, max_message: 0, max_places: 0, mtu: 0, lid: 0, domain: std::ptr::null_mut(), context, api };
        // SAFETY: the device is open. From here on it is closed when `device` is dropped.
        device.domain = unsafe { (device.api.alloc_pd)(context) };
        if device.domain.is_null() {
            return Err(failed("ibv_alloc_pd"));
        }
        // SAFETY: as above.
        let port = unsafe { query_port(context, device.chosen.port.number) };
        let port = port.or_else(|code| answered("ibv_query_port", code).and(Err(failed("ibv_query_port"))))?;
        let mtu = Some(port.active_mtu).filter(|mtu| MTUS.contains(mtu)).and_then(|mtu| u8::try_from(mtu).ok());
        let unknown = || VerbsError::Call { call: "ibv_query_port", detail: format!("MTU {}", port.active_mtu) };
        device.mtu = mtu.ok_or_else(unknown)?;
        device.lid = port.lid;
        device.max_message = u64::from(port.max_msg_sz).max(1);
        // SAFETY: a plain structure, for which all zero is a value.
        let mut limits: sys::ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: an open device, and a structure of the size that the library knows.
        answered("ibv_query_device", unsafe { (device.api.query_device)(context, &raw mut limits) })?;
        device.max_places = usize::try_from(limits.max_sge).unwrap_or(1).max(1);
        let most = limits.max_qp_wr.min(limits.max_cqe);
        if i64::from(most) < i64::from(MIN_REQUESTS) {
            let detail = format!("its queues hold {most} requests, {MIN_REQUESTS} are needed");
            return Err(VerbsError::Call { call: "ibv_query_device", detail });
        }
        Ok(device)
    }

    /// This end of a link, but for its queue pair.
    pub(super) fn end(&self, queue_pair: u32, first_packet: u32) -> words::End {
        words::End {
            queue_pair,
            first_packet,
            mtu: self.mtu,
            ethernet: self.chosen.port.is_ethernet(),
            lid: self.lid,
            gid: self.chosen.gid,
        }
    }

    /// Where the device tells what happens to it.
    pub(super) fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as the device is.
        unsafe { BorrowedFd::borrow_raw((*self.context).async_fd) }
    }

    /// The kind of the next event, if there is one: only once [`events`](Self::events) does not block.
    pub(super) fn event(&self) -> Option<c_int> {
        let mut event = AsyncEvent { element: std::ptr::null_mut(), kind: 0 };
        // SAFETY: an open device, and a structure that is at least as large as the library's.
        if unsafe { (self.api.get_async_event)(self.context, &raw mut event) } != 0 {
            return None;
        }
        // Before anything else: whatever it is about cannot be destroyed until it is acknowledged.
        // SAFETY: it was just received.
        unsafe { (self.api.ack_async_event)(&raw mut event) };
        Some(event.kind)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: everything else that was made of them holds this value, and is gone.
        unsafe {
            if !self.domain.is_null() && (self.api.dealloc_pd)(self.domain) != 0 {
                tracing::warn!("the device keeps a protection domain until this process ends");
            }
            (self.api.close_device)(self.context);
        }
    }
}

fn open(api: &Api, name: &str) -> Result<*mut sys::ibv_context, VerbsError> {
    let mut count = 0;
    // SAFETY: the library writes the number of devices.
    let list = unsafe { (api.get_device_list)(&raw mut count) };
    if list.is_null() {
        // So it answers on a kernel without RDMA: no device, and no error.
        return Err(VerbsError::NoDriver { device: name.to_owned(), there: "none".to_owned() });
    }
    let mut known = Vec::new();
    let mut opened = None;
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has so many entries, each a device with a name that ends.
        let (device, found) = unsafe {
            let device = *list.add(at);
            (device, CStr::from_ptr((api.get_device_name)(device)).to_string_lossy().into_owned())
        };
        if found == name {
            // SAFETY: a device of the list, which is still there.
            let context = unsafe { (api.open_device)(device) };
            let refused =
                || VerbsError::Open { device: name.to_owned(), detail: io::Error::last_os_error().to_string() };
            opened = Some(if context.is_null() { Err(refused()) } else { Ok(context) });
            break;
        }
        known.push(found);
    }
    // SAFETY: open devices outlive the list.
    unsafe { (api.free_device_list)(list) };
    opened.unwrap_or_else(|| {
        let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(VerbsError::NoDriver { device: name.to_owned(), there })
    })
}

/// Memory that the device may read, and that peers may write if so registered.
pub(super) struct Region {
    region: *mut sys::ibv_mr,
    pub(super) address: u64,
    pub(super) bytes: u64,
    device: Arc<Device>,
}

impl Region {
    /// Registers memory. `all` is what this rail registers in all, for whoever may not lock so much.
    ///
    /// # Safety
    /// The memory must stay mapped, and nothing may be referred to in it, as long as the region lives.
    pub(super) unsafe fn new(
        device: &Arc<Device>,
        address: usize,
        bytes: u64,
        receives: bool,
        all: u64,
    ) -> Result<Self, VerbsError> {
        let length = usize::try_from(bytes).map_err(|error| VerbsError::System(error.to_string()))?;
        let access = if receives { RECEIVES } else { 0 };
        // SAFETY: the domain is the device's; the caller promises the memory.
        let region = unsafe { (device.api.reg_mr)(device.domain, address as *mut c_void, length, access) };
        if region.is_null() {
            let error = io::Error::last_os_error();
            return Err(not_registered(bytes, all, &error, getrlimit(Resource::Memlock).current));
        }
        Ok(Self { region, address: address as u64, bytes, device: Arc::clone(device) })
    }

    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: the region is there until it is dropped.
        unsafe { (*self.region).lkey }
    }

    /// What a peer must know to write to it.
    pub(super) fn memory(&self) -> words::Memory {
        // SAFETY: as above.
        let key = unsafe { (*self.region).rkey };
        words::Memory { address: self.address, bytes: self.bytes, key }
    }
}

/// What other rails have locked counts as well, so that the limit may be at fault however large it is.
fn not_registered(bytes: u64, all: u64, error: &io::Error, limit: Option<u64>) -> VerbsError {
    match (error.raw_os_error(), limit) {
        (Some(libc::ENOMEM), Some(limit)) => VerbsError::Memlock { bytes, limit, needed: all },
        _ => VerbsError::Call { call: "ibv_reg_mr", detail: format!("{bytes} bytes: {error}") },
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was registered and is not used any more.
        if unsafe { (self.device.api.dereg_mr)(self.region) } != 0 {
            // Its pages then stay the device's own: nothing else of this process ever gets them.
            tracing::warn!(bytes = self.bytes, "the device keeps memory registered until this process ends");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::inside::fault;
    use super::*;
    use crate::transport::fabric::FabricError;

    #[test]
    fn a_peer_that_cannot_be_reached_is_no_fault_of_this_host() {
        for code in [libc::ETIMEDOUT, libc::EHOSTUNREACH, -libc::ENETUNREACH] {
            let error = routed("ibv_modify_qp to RTR", code).unwrap_err();
            assert!(matches!(error, VerbsError::Unreachable { .. }), "{error:?}");
            assert!(
                matches!(fault(error), FabricError::PeerGone(words) if words.starts_with("ibv_modify_qp to RTR: "))
            );
        }
        let error = routed("ibv_modify_qp to RTR", libc::EINVAL).unwrap_err();
        assert!(matches!(fault(error), FabricError::Local(_)));
        assert_eq!(routed("ibv_modify_qp to RTR", 0), Ok(()));
    }

    #[test]
    fn a_limit_is_named_wherever_there_is_one_and_memory_is_refused() {
        let refused =
            |limit| not_registered(1_000, 3_000, &io::Error::from_raw_os_error(libc::ENOMEM), limit).to_string();
        for limit in [2_000, 5_000] {
            let words = refused(Some(limit));
            assert!(
                words.contains(&format!("lock at most {limit} bytes (RLIMIT_MEMLOCK), this rail takes 3000")),
                "{words}"
            );
        }
        assert!(refused(None).starts_with("ibv_reg_mr: 1000 bytes: "), "{}", refused(None));
    }
}
