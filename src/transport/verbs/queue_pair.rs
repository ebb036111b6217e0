//! Queue pairs and the queues of their completions, each let go of when dropped, in the order that the library
//! asks for.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;

use rdma_sys as sys;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::device::{Device, RECEIVES, VerbsError, answered, failed, routed};
use super::{status, words};

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
    /// The device would not destroy the pair.
    stays: bool,
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
        Ok(Self { pair, queue, stays: false, channel })
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
        routed(call, code)
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
                let is_announced =
                    found.status == status::SUCCESS && found.opcode == sys::ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM;
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
        // SAFETY: it was made, and is not used any more; one that stays is not tried twice.
        if !self.pair.is_null() && !self.stays && unsafe { (self.device().api.destroy_qp)(self.pair) } == 0 {
            self.pair = std::ptr::null_mut();
        } else if !self.pair.is_null() && !std::mem::replace(&mut self.stays, true) {
            tracing::warn!("the device keeps a queue pair until this process ends");
        }
        self.pair.is_null()
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if self.destroy_pair() {
            // SAFETY: its only pair is gone.
            unsafe { (self.device().api.destroy_cq)(self.queue) };
        }
    }
}

fn attributes(state: sys::ibv_qp_state::Type) -> sys::ibv_qp_attr {
    // SAFETY: a plain structure, for which all zero is a value.
    let mut attributes: sys::ibv_qp_attr = unsafe { std::mem::zeroed() };
    attributes.qp_state = state;
    attributes
}
