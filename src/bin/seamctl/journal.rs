//! `seamctl journal`: what agents recorded, read without playing it.

mod cat;
mod walk;

use clap::Subcommand;

use crate::exit::Failure;

/// What to do with journals.
#[derive(Subcommand)]
pub(crate) enum Journal {
    /// Every entry as one JSON object a line.
    Cat(cat::Cat),
    /// Whether every checksum is right; nothing is played again.
    Verify(walk::Walk),
}

impl Journal {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Cat(cat) => cat.run(),
            Self::Verify(walk) => walk.run(),
        }
    }
}
