//! The library's objects, each let go of when dropped, in the order that the library asks for.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rdma_sys as sys;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Resource, getrlimit};

use super::api::{Api, AsyncEvent, query_port};
use super::sysfs::{self, Chosen, NoPort};
use super::worker::MIN_REQUESTS;
use super::{VerbsConfig, words};

/// Local write, without which a device grants no remote write, and remote write.
const RECEIVES: c_int = 1 | 2;
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
    /// The kernel lets this user lock too little memory.
    #[error(
        "{bytes} bytes cannot be registered: this user may lock at most {limit} bytes (RLIMIT_MEMLOCK), needed are at \
         least {needed}; set LimitMEMLOCK=infinity in the agent's unit, or ulimit -l unlimited"
    )]
    Memlock {
        /// What was to be registered.
        bytes: u64,
        /// What may be locked.
        limit: u64,
        /// What all of it takes.
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
    /// No thread, or no memory.
    #[error("{0}")]
    System(String),
}

fn failed(call: &'static str) -> VerbsError {
    VerbsError::Call { call, detail: io::Error::last_os_error().to_string() }
}

/// The result of a call that answers with an error's number.
fn answered(call: &'static str, code: c_int) -> Result<(), VerbsError> {
    match code {
        0 => Ok(()),
        code => Err(VerbsError::Call { call, detail: io::Error::from_raw_os_error(code.abs()).to_string() }),
    }
}

/// An open device, one of its ports, and a protection domain: what is registered in it can be reached by its
/// queue pairs alone.
pub(super) struct Device {
    pub(super) chosen: Chosen,
    /// The largest message of the port, in bytes.
    pub(super) max_message: u64,
    /// What one work request may gather.
    pub(super) max_places: usize,
    mtu: u8,
    lid: u16,
    domain: *mut sys::ibv_pd,
    context: *mut sys::ibv_context,
    api: Api,
}

// SAFETY: the library locks what its objects share: a context may be used from several threads at once.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    pub(super) fn open(config: &VerbsConfig) -> Result<Self, VerbsError> {
        let api = Api::load(config.library.as_deref());
        let api = api.map_err(|(path, detail)| VerbsError::Library { path, detail })?;
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
    /// Registers memory. `all` is what is to be registered in all, for whoever may not lock so much.
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
            let limit = getrlimit(Resource::Memlock).current;
            return Err(match (error.raw_os_error(), limit) {
                (Some(libc::ENOMEM), Some(limit)) if limit < all => VerbsError::Memlock { bytes, limit, needed: all },
                _ => VerbsError::Call { call: "ibv_reg_mr", detail: format!("{bytes} bytes: {error}") },
            });
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

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was registered and is not used any more.
        if unsafe { (self.device.api.dereg_mr)(self.region) } != 0 {
            // Its pages then stay the device's own: nothing else of this process ever gets them.
            tracing::warn!(bytes = self.bytes, "the device keeps memory registered until this process ends");
        }
    }
}

/// Where completions are announced.
pub(super) struct Channel {
    channel: *mut sys::ibv_comp_channel,
    device: Arc<Device>,
}

impl Channel {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self, VerbsError> {
        // SAFETY: the device is open.
        let channel = unsafe { (device.api.create_comp_channel)(device.context) };
        if channel.is_null() {
            return Err(failed("ibv_create_comp_channel"));
        }
        let channel = Self { channel, device: Arc::clone(device) };
        let call = |error: rustix::io::Errno| VerbsError::Call { call: "fcntl", detail: error.to_string() };
        let flags = fcntl_getfl(channel.events()).map_err(call)?;
        fcntl_setfl(channel.events(), flags | OFlags::NONBLOCK).map_err(call)?;
        Ok(channel)
    }

    pub(super) fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as the channel is.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    /// The tag of the next queue that has something, if any has.
    pub(super) fn event(&self) -> Option<u64> {
        let (mut queue, mut tag) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel is there, and does not block.
        if unsafe { (self.device.api.get_cq_event)(self.channel, &raw mut queue, &raw mut tag) } != 0 {
            return None;
        }
        // At once: a queue cannot be destroyed before.
        // SAFETY: the kernel takes back the events of a queue that is destroyed, so this one is not.
        unsafe { (self.device.api.ack_cq_events)(queue, 1) };
        Some(tag as u64)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: every queue that used it holds it, and is gone.
        unsafe { (self.device.api.destroy_comp_channel)(self.channel) };
    }
}

/// A queue pair of a reliable connection with the queue of its completions.
pub(super) struct QueuePair {
    pair: *mut sys::ibv_qp,
    queue: *mut sys::ibv_cq,
    channel: Rc<Channel>,
}

/// A completion.
pub(super) struct Completion {
    /// The request's own number.
    pub(super) request: u64,
    pub(super) status: u32,
    pub(super) vendor: u32,
    /// What was announced, where it is the end of a receive.
    pub(super) announced: Option<u32>,
}

/// A write.
pub(super) struct Request<'a> {
    pub(super) number: u64,
    pub(super) local: &'a [(u64, u32)],
    pub(super) local_key: u32,
    pub(super) remote: u64,
    pub(super) remote_key: u32,
    /// Whether its end is told.
    pub(super) signalled: bool,
    /// What is announced at the peer once it is there.
    pub(super) announces: Option<u32>,
}

/// How long a link waits for its peer.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// The time until a packet is sent again: 4.096 µs, doubled so often.
    pub(super) timeout: u8,
    /// How often that is done.
    pub(super) retries: u8,
    /// How often a peer is asked again that had no receive posted.
    pub(super) receive_retries: u8,
    /// How long it must then be left alone: a number of the device's table.
    pub(super) receive_pause: u8,
}

impl QueuePair {
    /// Makes one whose queues hold `sends` and `receives` requests of `places` each. `tag` comes with its events.
    pub(super) fn new(
        channel: &Rc<Channel>,
        tag: u64,
        sends: u32,
        receives: u32,
        places: usize,
    ) -> Result<Self, VerbsError> {
        let (channel, Device { api, context, domain, .. }) = (Rc::clone(channel), &*channel.device);
        let entries = c_int::try_from(sends.saturating_add(receives)).unwrap_or(c_int::MAX);
        // SAFETY: the device is open and the channel is of it.
        let queue = unsafe { (api.create_cq)(*context, entries, tag as *mut c_void, channel.channel, 0) };
        if queue.is_null() {
            return Err(failed("ibv_create_cq"));
        }
        // SAFETY: a plain structure, for which all zero is a value.
        let mut wanted: sys::ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        (wanted.send_cq, wanted.recv_cq) = (queue, queue);
        wanted.qp_type = sys::ibv_qp_type::IBV_QPT_RC;
        (wanted.cap.max_send_wr, wanted.cap.max_recv_wr) = (sends, receives);
        (wanted.cap.max_send_sge, wanted.cap.max_recv_sge) = (u32::try_from(places).unwrap_or(1), 1);
        // SAFETY: the domain and the queue are of the same open device.
        let pair = unsafe { (api.create_qp)(*domain, &raw mut wanted) };
        if pair.is_null() {
            let error = failed("ibv_create_qp");
            // SAFETY: nothing uses it.
            unsafe { (api.destroy_cq)(queue) };
            return Err(error);
        }
        Ok(Self { pair, queue, channel })
    }

    fn device(&self) -> &Device {
        &self.channel.device
    }

    pub(super) fn number(&self) -> u32 {
        // SAFETY: the pair is there until it is dropped.
        unsafe { (*self.pair).qp_num }
    }

    /// From the beginning to where receives can be posted. Without `receives` the peer may write nothing.
    pub(super) fn initialise(&mut self, receives: bool) -> Result<(), VerbsError> {
        use sys::ibv_qp_attr_mask as Mask;
        let mut to = attributes(sys::ibv_qp_state::IBV_QPS_INIT);
        to.port_num = self.device().chosen.port.number;
        to.qp_access_flags = if receives { RECEIVES.unsigned_abs() } else { 0 };
        let mask = [Mask::IBV_QP_STATE, Mask::IBV_QP_PKEY_INDEX, Mask::IBV_QP_PORT, Mask::IBV_QP_ACCESS_FLAGS];
        self.modify("ibv_modify_qp to INIT", to, &mask)
    }

    /// To where it receives, from this peer alone.
    pub(super) fn receive_from(&mut self, peer: &words::End, patience: Patience) -> Result<(), VerbsError> {
        use sys::ibv_qp_attr_mask as Mask;
        let mut to = attributes(sys::ibv_qp_state::IBV_QPS_RTR);
        to.path_mtu = u32::from(peer.mtu.min(self.device().mtu));
        (to.dest_qp_num, to.rq_psn) = (peer.queue_pair, peer.first_packet);
        // Nothing is ever read; some devices want to hear of at least one all the same.
        to.max_dest_rd_atomic = 1;
        to.min_rnr_timer = patience.receive_pause;
        to.ah_attr.is_global = 1;
        to.ah_attr.grh.dgid = sys::ibv_gid { raw: peer.gid };
        to.ah_attr.grh.sgid_index = self.device().chosen.gid_index;
        to.ah_attr.grh.hop_limit = 64;
        to.ah_attr.dlid = peer.lid;
        to.ah_attr.port_num = self.device().chosen.port.number;
        let mask = [
            Mask::IBV_QP_STATE,
            Mask::IBV_QP_AV,
            Mask::IBV_QP_PATH_MTU,
            Mask::IBV_QP_DEST_QPN,
            Mask::IBV_QP_RQ_PSN,
            Mask::IBV_QP_MAX_DEST_RD_ATOMIC,
            Mask::IBV_QP_MIN_RNR_TIMER,
        ];
        self.modify("ibv_modify_qp to RTR", to, &mask)
    }

    /// To where it sends, too.
    pub(super) fn send_from(&mut self, first_packet: u32, patience: Patience) -> Result<(), VerbsError> {
        use sys::ibv_qp_attr_mask as Mask;
        let mut to = attributes(sys::ibv_qp_state::IBV_QPS_RTS);
        (to.sq_psn, to.max_rd_atomic) = (first_packet, 1);
        (to.timeout, to.retry_cnt, to.rnr_retry) = (patience.timeout, patience.retries, patience.receive_retries);
        let mask = [
            Mask::IBV_QP_STATE,
            Mask::IBV_QP_SQ_PSN,
            Mask::IBV_QP_MAX_QP_RD_ATOMIC,
            Mask::IBV_QP_TIMEOUT,
            Mask::IBV_QP_RETRY_CNT,
            Mask::IBV_QP_RNR_RETRY,
        ];
        self.modify("ibv_modify_qp to RTS", to, &mask)
    }

    /// To where it neither sends nor receives; what waits in it comes back.
    pub(super) fn stop(&mut self) -> Result<(), VerbsError> {
        let to = attributes(sys::ibv_qp_state::IBV_QPS_ERR);
        self.modify("ibv_modify_qp to ERR", to, &[sys::ibv_qp_attr_mask::IBV_QP_STATE])
    }

    fn modify(
        &mut self,
        call: &'static str,
        mut to: sys::ibv_qp_attr,
        mask: &[sys::ibv_qp_attr_mask],
    ) -> Result<(), VerbsError> {
        let mask = mask.iter().fold(0, |all, one| all | one.0);
        // SAFETY: the pair is there, and the structure is whole.
        let code = unsafe { (self.device().api.modify_qp)(self.pair, &raw mut to, mask.cast_signed()) };
        answered(call, code)
    }

    /// Posts a receive for one announcement.
    pub(super) fn receive(&mut self) -> Result<(), VerbsError> {
        let mut request =
            sys::ibv_recv_wr { wr_id: 0, next: std::ptr::null_mut(), sg_list: std::ptr::null_mut(), num_sge: 0 };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the pair is there; the request is read before the call ends, and refers to no memory.
        answered("ibv_post_recv", unsafe { sys::ibv_post_recv(self.pair, &raw mut request, &raw mut bad) })
    }

    /// Posts a write.
    ///
    /// # Safety
    /// What it reads must be within a region of this device that lives until the write has ended, or until this
    /// value is gone.
    pub(super) unsafe fn write(&mut self, request: &Request<'_>) -> Result<(), VerbsError> {
        let lkey = request.local_key;
        let mut places: Vec<sys::ibv_sge> =
            request.local.iter().map(|&(addr, length)| sys::ibv_sge { addr, length, lkey }).collect();
        // SAFETY: a plain structure, for which all zero is a value.
        let mut wanted: sys::ibv_send_wr = unsafe { std::mem::zeroed() };
        wanted.wr_id = request.number;
        (wanted.sg_list, wanted.num_sge) = (places.as_mut_ptr(), c_int::try_from(places.len()).unwrap_or(c_int::MAX));
        wanted.opcode = sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE;
        if let Some(announced) = request.announces {
            wanted.opcode = sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
            wanted.imm_data_invalidated_rkey_union.imm_data = announced.to_be();
        }
        wanted.send_flags = if request.signalled { sys::ibv_send_flags::IBV_SEND_SIGNALED.0 } else { 0 };
        wanted.wr.rdma = sys::rdma_t { remote_addr: request.remote, rkey: request.remote_key };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the pair is there; request and places are read before the call ends; the caller promises what
        // they refer to.
        answered("ibv_post_send", unsafe { sys::ibv_post_send(self.pair, &raw mut wanted, &raw mut bad) })
    }

    /// Asks for an event with the next completion.
    pub(super) fn arm(&mut self) -> Result<(), VerbsError> {
        // SAFETY: the queue is there until this value is dropped.
        answered("ibv_req_notify_cq", unsafe { sys::ibv_req_notify_cq(self.queue, 0) })
    }

    /// The next completion, if there is one.
    pub(super) fn completion(&mut self) -> Result<Option<Completion>, VerbsError> {
        // SAFETY: a plain structure, for which all zero is a value.
        let mut found: sys::ibv_wc = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is there, and there is room for one.
        match unsafe { sys::ibv_poll_cq(self.queue, 1, &raw mut found) } {
            0 => Ok(None),
            1 => {
                let is_announced = found.status == super::status::SUCCESS
                    && found.opcode == sys::ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM;
                // SAFETY: a receive that ends so has these bytes there, and any bytes are a number.
                let announced = unsafe { found.imm_data_invalidated_rkey_union.imm_data };
                Ok(Some(Completion {
                    request: found.wr_id,
                    status: found.status,
                    vendor: found.vendor_err,
                    announced: is_announced.then(|| u32::from_be(announced)),
                }))
            }
            _ => Err(failed("ibv_poll_cq")),
        }
    }

    /// Destroys the pair. True if it is gone: the device then takes no packet for it any more, and has written all
    /// that it had taken before.
    pub(super) fn destroy(mut self) -> bool {
        self.destroy_pair()
    }

    fn destroy_pair(&mut self) -> bool {
        let pair = std::mem::replace(&mut self.pair, std::ptr::null_mut());
        // SAFETY: it was made, and is not used any more.
        pair.is_null() || unsafe { (self.device().api.destroy_qp)(pair) } == 0
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if !self.destroy_pair() {
            tracing::warn!("the device keeps a queue pair until this process ends");
            return;
        }
        // SAFETY: its only pair is gone.
        unsafe { (self.device().api.destroy_cq)(self.queue) };
    }
}

fn attributes(state: sys::ibv_qp_state::Type) -> sys::ibv_qp_attr {
    // SAFETY: a plain structure, for which all zero is a value.
    let mut attributes: sys::ibv_qp_attr = unsafe { std::mem::zeroed() };
    attributes.qp_state = state;
    attributes
}
