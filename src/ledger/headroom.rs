//! What is free, as askers are quoted it and as the mesh is told of it.

use super::{Ledger, Output};
use crate::core::Now;
use crate::model::{LoadRecord, Quote};

impl Ledger {
    /// The headroom as an asker is told of it. What is not known counts as used.
    #[must_use]
    pub fn quote(&self) -> Quote {
        let max_sessions = self.max_sessions();
        let (active_sessions, kv_bytes_free) = match self.is_recovering() {
            true => (max_sessions, 0),
            false => (self.used_sessions(), self.kv_bytes_free()),
        };
        Quote {
            revision: self.revision,
            active_sessions,
            max_sessions,
            kv_bytes_free,
            inbound_bytes: self.inbound_bytes,
            token_time_ms: self.engine.token_time_ms,
        }
    }

    pub(super) fn used_sessions(&self) -> u32 {
        self.engine.active_sessions.saturating_add(self.unabsorbed_sessions)
    }

    pub(super) fn max_sessions(&self) -> u32 {
        self.engine.max_sessions.unwrap_or(self.settings.max_sessions)
    }

    pub(super) fn kv_bytes_free(&self) -> u64 {
        let engine = self.engine.kv_bytes_free.unwrap_or(self.settings.kv_bytes).saturating_sub(self.unabsorbed_bytes);
        if self.settings.arena_bytes.is_some() { engine.min(self.pages.free_bytes()) } else { engine }
    }

    /// The most bytes that one lease could ever have.
    pub(super) fn kv_bytes_total(&self) -> u64 {
        match self.settings.arena_bytes {
            Some(_) => self.settings.kv_bytes.min(self.pages.total_bytes()),
            None => self.settings.kv_bytes,
        }
    }

    /// Tells the mesh of a changed headroom, at most once per interval.
    pub(super) fn tell(&mut self, now: Now, out: &mut Vec<Output>) {
        let quantum = (self.kv_bytes_total() / 64).max(1);
        let quote = self.quote();
        let load = LoadRecord {
            revision: quote.revision,
            active_sessions: quote.active_sessions,
            max_sessions: quote.max_sessions,
            soft_fraction: self.settings.soft_fraction,
            kv_bytes_free: quote.kv_bytes_free / quantum * quantum,
            inbound_bytes: quote.inbound_bytes.div_ceil(quantum) * quantum,
            token_time_ms: quote.token_time_ms,
            draining: self.draining,
        };
        self.tell_at = None;
        if let Some((at, told)) = &self.told {
            if !self.quoted && (LoadRecord { revision: load.revision, ..told.clone() }) == load {
                return;
            }
            let earliest = at.plus_ms(self.settings.load_interval_ms);
            if now.mono < earliest {
                self.tell_at = Some(earliest);
                return;
            }
        }
        self.quoted = false;
        self.told = Some((now.mono, load.clone()));
        out.push(Output::Load(load));
    }
}
