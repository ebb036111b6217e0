//! What the rails turned away, and what their devices counted of errors, carried over into the metrics.

use super::Counted;
use crate::agent::links::Links;
use crate::model::RailName;

/// What the metrics have been told already.
#[derive(Default)]
pub(super) struct Told {
    refused: Counted<(RailName, &'static str)>,
    errors: Counted<(RailName, &'static str)>,
}

pub(super) fn keep(links: &Links, told: &mut Told) {
    let Some(rails) = links.rails.get() else { return };
    for (name, rail) in rails.0.iter() {
        for (reason, total) in rail.backend.refusals() {
            if let Some(count) = told.refused.news((name.clone(), reason), total) {
                links.metrics.rail_refused(name, reason, count);
            }
        }
        for (counter, total) in rail.backend.device_errors() {
            if let Some(count) = told.errors.news((name.clone(), counter), total) {
                links.metrics.rail_device_errors(name, counter, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::agent::rails::{Rail, Rails};
    use crate::metrics::Metrics;
    use crate::model::BackendKind;
    use crate::transport::{Backend, BoxFuture, PathError, Peer, Write, Written};

    struct Refusing(Arc<AtomicU64>);

    impl Backend for Refusing {
        fn address(&self) -> String {
            String::new()
        }

        fn probe<'a>(&'a self, _: &'a Peer, _: u32, _: Duration) -> BoxFuture<'a, Result<Duration, PathError>> {
            Box::pin(async { Err(PathError::Local("no".to_owned())) })
        }

        fn write<'a>(&'a self, _: &'a Peer, _: Write) -> BoxFuture<'a, Result<Written, PathError>> {
            Box::pin(async { Err(PathError::Local("no".to_owned())) })
        }

        fn refusals(&self) -> Vec<(&'static str, u64)> {
            vec![("malformed", self.0.load(Ordering::Relaxed)), ("broken", 0)]
        }

        fn device_errors(&self) -> Vec<(&'static str, u64)> {
            vec![("link_downed", self.0.load(Ordering::Relaxed))]
        }

        fn close(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    #[test]
    fn each_refusal_and_each_error_is_told_once_and_only_what_happened() {
        let metrics = Arc::new(Metrics::new("reference", 1));
        let links = Links::new(Arc::clone(&metrics));
        let refused = Arc::new(AtomicU64::new(0));
        let rail = Rail::new(BackendKind::Quic, Arc::new(Refusing(Arc::clone(&refused))), None, None);
        let rails = [(RailName::new("r0").unwrap(), rail)];
        assert!(links.rails.set(Rails(Arc::new(rails.into_iter().collect()))).is_ok());
        let mut told = Told::default();
        for total in [0, 2, 2, 5] {
            refused.store(total, Ordering::Relaxed);
            keep(&links, &mut told);
        }
        let text = metrics.render();
        assert!(text.contains("seam_rail_refused_total{rail=\"r0\",reason=\"malformed\"} 5"), "{text}");
        assert!(text.contains("seam_rail_device_errors_total{rail=\"r0\",counter=\"link_downed\"} 5"), "{text}");
        assert!(!text.contains("broken\"}"));
    }
}
