//! Which requests count as strict, which as tolerant, and how many do as neither.

use seam::replay::{STRICT_CLASSES, TOLERANT_CLASS, TOLERANT_UP_TO};

/// How many of each: `6 strict, 4 tolerant, 0 neither`.
pub(super) fn counts(strict: u64, tolerant: u64, neither: u64) -> String {
    format!("{strict} strict, {tolerant} tolerant, {neither} neither")
}

/// What makes a request one or the other.
pub(super) fn note() -> String {
    let (last, others) = STRICT_CLASSES.split_last().unwrap_or((&"", &[]));
    format!(
        "Strict are the classes {} and {last}; tolerant are {TOLERANT_CLASS} and, of the\n\
         others, requests of effective criticality up to {TOLERANT_UP_TO}. The rest is neither, and in no share.\n",
        others.join(", ")
    )
}
