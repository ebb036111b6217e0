//! Who takes part.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::model::{Generation, NodeName};

/// One appearance of a node in the mesh. A later one replaces an earlier one of the same name, so
/// a node that restarts takes its own place at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: NodeName,
    /// Where its mesh endpoint listens.
    pub addr: SocketAddr,
    /// Its life.
    pub generation: Generation,
    /// How often it rejoined in this life after others took it for down.
    pub renewals: u32,
}

impl Member {
    /// Whether this appearance is later than `other`, of the same name. The address decides
    /// between two that claim the same moment, so that all sides choose alike.
    #[must_use]
    pub fn supersedes(&self, other: &Self) -> bool {
        (self.generation, self.renewals, self.addr) > (other.generation, other.renewals, other.addr)
    }
}

impl foca::Identity for Member {
    type Addr = NodeName;

    fn renew(&self) -> Option<Self> {
        Some(Self { renewals: self.renewals.checked_add(1)?, ..self.clone() })
    }

    fn addr(&self) -> NodeName {
        self.name.clone()
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.supersedes(adversary)
    }
}

/// Whether a member takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// It answers.
    Alive,
    /// It did not answer a probe, and has not yet said otherwise.
    Suspect,
    /// It left, or did not answer in time.
    Down,
}

impl MemberState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Alive, Self::Suspect, Self::Down];

    /// The name in metrics and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Down => "down",
        }
    }
}

impl From<foca::State> for MemberState {
    fn from(state: foca::State) -> Self {
        match state {
            foca::State::Alive => Self::Alive,
            foca::State::Suspect => Self::Suspect,
            foca::State::Down => Self::Down,
        }
    }
}

#[cfg(test)]
mod tests {
    use foca::Identity;

    use super::*;

    fn member(generation: Generation, renewals: u32, port: u16) -> Member {
        let name = NodeName::new("p0").unwrap();
        Member { name, addr: SocketAddr::from(([127, 0, 0, 1], port)), generation, renewals }
    }

    #[test]
    fn generation_then_renewals_then_address_decide_and_a_renewal_wins() {
        assert!(member(2, 0, 1).supersedes(&member(1, 9, 9)));
        assert!(member(1, 1, 1).supersedes(&member(1, 0, 9)));
        assert!(member(1, 1, 2).supersedes(&member(1, 1, 1)));
        assert!(!member(1, 1, 1).supersedes(&member(1, 1, 1)));
        let first = member(3, 0, 1);
        assert!(first.renew().unwrap().win_addr_conflict(&first));
        assert_eq!(member(3, u32::MAX, 1).renew(), None);
    }
}
