//! What a completion's status says about the path.

use crate::transport::fabric::FabricError;

/// It is done.
#[cfg(feature = "verbs")]
pub(super) const SUCCESS: u32 = 0;

/// The error of a work request that ended with `status`, which is not 0. Devices and drivers add
/// codes: one that is not known here is an error like another.
pub(super) fn error(status: u32, vendor: u32) -> FabricError {
    let words = words(status);
    let detail = format!("{words} (status {status}, vendor code {vendor})");
    match status {
        1..=4 | 6 | 8 | 14..=18 | 22 => FabricError::Local(detail),
        9 => FabricError::Skew(detail),
        10 => FabricError::Protection(detail),
        _ => FabricError::PeerGone(detail),
    }
}

fn words(status: u32) -> &'static str {
    match status {
        1 => "a length that the queue pair does not allow",
        2 | 3 | 14..=18 | 22 => "the queue pair does not allow that",
        4 | 8 => "this side's memory is not registered for that",
        5 => "given up, because the queue pair had failed before",
        6 => "a memory window could not be bound",
        7 => "the far end answered with something unexpected",
        9 => "the far end does not understand the request",
        10 => "the far end's memory may not be written there",
        11 => "the far end could not carry it out",
        12 => "the far end no longer answers: retries are used up",
        13 => "the far end takes no announcements: retries are used up",
        19 => "the device has failed",
        20 => "the far end did not answer in time",
        21 => "an error that the device does not explain",
        _ => "an error that this version of Seam does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_says_whose_fault_it_is() {
        let gone = [5, 7, 11, 12, 13, 19, 20, 21];
        assert!(gone.into_iter().all(|status| matches!(error(status, 0), FabricError::PeerGone(_))));
        assert!([1, 2, 4, 8].into_iter().all(|status| matches!(error(status, 0), FabricError::Local(_))));
        assert!(matches!(error(9, 0), FabricError::Skew(_)));
        assert!(matches!(error(10, 0), FabricError::Protection(_)));
        let words = error(12, 129).to_string();
        assert_eq!(words, "the far end no longer answers: retries are used up (status 12, vendor code 129)");
    }

    #[test]
    fn a_status_that_nobody_knows_is_an_error_and_no_panic() {
        for status in [23, 24, 99, u32::MAX] {
            let FabricError::PeerGone(words) = error(status, 0) else { panic!("{status}") };
            assert!(words.starts_with("an error that this version of Seam does not know"), "{words}");
        }
    }
}
