//! Makes decisions with their records, for `instructions` to count. Arguments: candidates, decisions,
//! profile.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "a program, not a library")]

mod fabric;

use std::hint::black_box;

use seam::health::Thresholds;
use seam::model::Profile;
use seam::policy::decide::{Terms, decide};
use seam::policy::record::DecisionRecord;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (count, decisions) = (numbers.next().unwrap_or(8), numbers.next().unwrap_or(1));
    let profile: Profile = std::env::args().nth(3).map_or(Profile::default(), |name| name.parse().unwrap());
    let thresholds = Thresholds::of(profile);
    let workload = fabric::interactive();
    let context = fabric::context(&workload);
    let candidates = fabric::candidates(count);
    for _ in 0..decisions {
        let decision = decide(&Terms::new(profile, &thresholds, &workload), black_box(&candidates));
        black_box(DecisionRecord::new(context.clone(), &candidates, &decision));
    }
}
