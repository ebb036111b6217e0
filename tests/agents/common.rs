//! What tests of agents share, be they in this process or in their own.

use std::time::Duration;

use seam::api::RouteRequest;
use tokio::time::{Instant, sleep};

/// Whatever must become true is waited for as long as this: far longer than it takes on any machine but an emulated
/// one, which says so in its environment.
pub(crate) fn patience() -> Duration {
    let seconds = std::env::var("SEAM_TEST_PATIENCE_S").ok().map(|seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds.unwrap_or(60))
}

/// Waits for something that must become true.
pub(crate) async fn until<F: AsyncFnMut() -> bool>(what: &str, mut ask: F) {
    let (start, patience) = (Instant::now(), patience());
    while !ask().await {
        assert!(start.elapsed() < patience, "still not true: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn request(workload: &str, kv_bytes: u64) -> RouteRequest {
    RouteRequest::new(workload.parse().unwrap(), kv_bytes)
}
