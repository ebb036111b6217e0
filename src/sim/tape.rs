//! What the cores of one node were told, to be told again.

use crate::core::Now;
use crate::{health, ledger, mesh, policy};

/// Inputs kept of each core.
const MAX_INPUTS: usize = 1_000_000;

/// Every input of one node's cores since the run began, and every output, in order.
#[derive(Debug, Default)]
pub struct Tapes {
    /// Of the health core.
    pub health: Tape<health::Input, health::Output>,
    /// Of the policy.
    pub policy: Tape<policy::Input, policy::Output>,
    /// Of the ledger.
    pub ledger: Tape<ledger::Input, ledger::Output>,
    /// Of the mesh core.
    pub mesh: Tape<mesh::Input, mesh::Output>,
}

/// One core's inputs and outputs.
#[derive(Debug)]
pub struct Tape<I, O> {
    /// What it was told, and when.
    pub inputs: Vec<(Now, I)>,
    /// What it said.
    pub outputs: Vec<O>,
    /// Inputs beyond the limit.
    pub left_out: u64,
}

impl<I, O> Default for Tape<I, O> {
    fn default() -> Self {
        Self { inputs: Vec::new(), outputs: Vec::new(), left_out: 0 }
    }
}

impl<I: Clone, O: Clone> Tape<I, O> {
    pub(super) fn note(&mut self, now: Now, input: &I) -> bool {
        let room = self.inputs.len() < MAX_INPUTS;
        if room {
            self.inputs.push((now, input.clone()));
        } else {
            self.left_out += 1;
        }
        room
    }
}
