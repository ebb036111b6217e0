//! The one trait of every decision maker, and the time it is told.

use serde::{Deserialize, Serialize};

/// A point on a monotonic clock, in nanoseconds since an arbitrary origin of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mono(pub u64);

impl Mono {
    /// This point moved `ms` milliseconds into the future, saturating.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }

    /// Whole milliseconds from `earlier` to this point; 0 if `earlier` is later.
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }
}

/// The time of one turn, read once by the shell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// Monotonic time; never goes back between two turns.
    pub mono: Mono,
    /// Milliseconds since the Unix epoch; may jump either way.
    pub wall_ms: u64,
}

/// A pure state machine: all it knows came through [`step`](Core::step), all it wants leaves
/// through `out`.
///
/// Deadlines that have passed fire before the input of a turn, so a process that was stopped and
/// continued acts on its overdue deadlines first. One caller owns a core: the order of its calls
/// is the order of its tape.
pub trait Core: Sized {
    /// What the shell tells the core. It has one variant that says only that time has passed.
    type Input: Clone + std::fmt::Debug + Serialize + serde::de::DeserializeOwned;
    /// What the core wants done.
    type Output: Clone + std::fmt::Debug + PartialEq;
    /// The whole state, bounded, from which an equal core can be made.
    type Snapshot: Serialize + serde::de::DeserializeOwned;

    /// Takes one input at one time and appends what follows to `out`.
    fn step(&mut self, now: Now, input: Self::Input, out: &mut Vec<Self::Output>);

    /// When [`step`](Core::step) must be called again even without news.
    fn deadline(&self) -> Option<Mono>;

    /// The state, to be written at the head of a tape.
    fn snapshot(&self) -> Self::Snapshot;

    /// A core that answers any further tape as the one that made `snapshot` would.
    fn restore(snapshot: Self::Snapshot) -> Self;
}
