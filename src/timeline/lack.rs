//! What a life's journal lacks between two of its entries, or at its end.

/// Something of a journal that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A segment that cannot be read on.
    Damaged,
    /// So many segments.
    Missing(u64),
}

/// All that is not there in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacks {
    damaged: bool,
    missing: u64,
}

impl Lacks {
    pub(super) fn add(&mut self, lack: Lack) {
        match lack {
            Lack::Damaged => self.damaged = true,
            Lack::Missing(segments) => self.missing = self.missing.saturating_add(segments),
        }
    }

    /// In two words, for what has little room.
    pub(super) fn short(self) -> &'static str {
        if self.damaged { "journal damaged" } else { "segments missing" }
    }

    pub(super) fn words(self) -> String {
        let missing = match self.missing {
            1 => "1 segment is missing".to_owned(),
            segments => format!("{segments} segments are missing"),
        };
        match (self.damaged, self.missing) {
            (true, 0) => "the journal is damaged".to_owned(),
            (true, _) => format!("the journal is damaged, and {missing}"),
            (false, _) => missing,
        }
    }
}
