//! The engine's own word on its sessions, and which leases it contains already.

use super::{EngineWord, Held, Ledger, Stage};
use crate::core::Now;

impl Ledger {
    /// Takes the engine's word, unless a later reading was taken already.
    pub(super) fn engine_said(&mut self, now: Now, mut word: EngineWord) -> bool {
        // No reading is of the future: a clock that runs ahead, here or there, must neither absorb
        // what the engine has not seen nor shut out what it says next.
        word.as_of_ms = word.as_of_ms.map(|said| said.min(now.wall_ms));
        if let (Some(known), Some(said)) = (self.engine.as_of_ms, word.as_of_ms)
            && said < known.min(now.wall_ms)
        {
            return false;
        }
        self.recover_by(now, &word);
        // An engine that names its leases is believed by name alone: a delivered lease that it has
        // not taken up yet would otherwise count nowhere.
        let contained: Vec<u64> = match (word.adopted.take(), word.as_of_ms) {
            (Some(named), _) => {
                named.iter().filter(|lease| self.find(lease).is_some()).map(|lease| lease.number).collect()
            }
            (None, Some(as_of_ms)) => {
                let before = |held: &Held| held.stage == Stage::Delivered && held.delivered_ms < as_of_ms;
                self.held.iter().filter(|(_, held)| before(held)).map(|(&number, _)| number).collect()
            }
            (None, None) => Vec::new(),
        };
        for number in contained {
            self.absorb(number);
        }
        self.engine = word;
        true
    }

    /// The engine's own numbers contain this lease from now on.
    fn absorb(&mut self, number: u64) {
        if let Some(held) = self.held.get_mut(&number)
            && !held.absorbed
        {
            held.absorbed = true;
            self.unabsorbed_sessions -= 1;
            self.unabsorbed_bytes -= held.lease.kv_bytes;
        }
    }
}
