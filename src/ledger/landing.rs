//! Bytes that come: who may write into a lease, and what is known once they are there.

use super::{Arrived, Ledger, OpenRefusal, Output, Stage};
use crate::core::Now;
use crate::model::{Extent, LeaseId, NodeName};

impl Ledger {
    pub(super) fn open(&mut self, lease: &LeaseId, sender: &NodeName, bytes: u64) -> Result<Vec<Extent>, OpenRefusal> {
        let held = self.find(lease).ok_or_else(|| OpenRefusal::Unknown(lease.clone()))?;
        if held.ask.holder != *sender {
            return Err(OpenRefusal::NotHolder(lease.clone()));
        }
        match held.stage {
            Stage::Granted => {}
            stage @ (Stage::Delivered | Stage::Fenced) => {
                return Err(OpenRefusal::Stage { lease: lease.clone(), stage });
            }
        }
        if held.open {
            return Err(OpenRefusal::Busy(lease.clone()));
        }
        let granted = held.lease.kv_bytes;
        if bytes == 0 || bytes > granted {
            return Err(OpenRefusal::Size { lease: lease.clone(), granted, found: bytes });
        }
        let extents = held.lease.extents.clone();
        if let Some(held) = self.held.get_mut(&lease.number) {
            held.open = true;
        }
        Ok(extents)
    }

    pub(super) fn delivered(
        &mut self,
        now: Now,
        lease: &LeaseId,
        bytes: u64,
        out: &mut Vec<Output>,
    ) -> Result<Arrived, OpenRefusal> {
        let held = self.find(lease).ok_or_else(|| OpenRefusal::Unknown(lease.clone()))?;
        match held.stage {
            Stage::Granted => {}
            stage @ (Stage::Delivered | Stage::Fenced) => {
                return Err(OpenRefusal::Stage { lease: lease.clone(), stage });
            }
        }
        let granted = held.lease.kv_bytes;
        if bytes == 0 || bytes > granted {
            return Err(OpenRefusal::Size { lease: lease.clone(), granted, found: bytes });
        }
        let Some(held) = self.held.get_mut(&lease.number) else {
            return Err(OpenRefusal::Unknown(lease.clone()));
        };
        held.stage = Stage::Delivered;
        held.delivered_ms = now.wall_ms;
        if let Some(until) = held.until.take() {
            self.deadlines.remove(&(until, lease.number));
        }
        self.inbound_bytes -= granted;
        out.push(Output::Staged { lease: lease.clone(), from: Some(Stage::Granted), to: Some(Stage::Delivered) });
        Ok(Arrived {
            request_id: held.ask.request_id.clone(),
            source: held.ask.holder.clone(),
            extents: held.lease.extents.clone(),
        })
    }

    pub(super) fn quiet(&mut self, lease: &LeaseId, out: &mut Vec<Output>) {
        if self.find(lease).is_none() {
            return;
        }
        let Some(held) = self.held.get_mut(&lease.number) else { return };
        held.open = false;
        match held.stage {
            Stage::Fenced => self.free(lease.number, out),
            Stage::Granted | Stage::Delivered => {}
        }
    }
}
