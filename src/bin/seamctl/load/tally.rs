//! What came of the requests.

use std::collections::{BTreeMap, VecDeque};

use seam::model::Outcome;
use serde::{Serialize, Serializer};

use crate::table::{bytes, count, numbers};

/// Times kept for each class at most: the newest.
const MAX_TIMES: usize = 16_384;
/// Errors kept in words; later ones are only counted.
const MAX_ERRORS: usize = 16;

/// What became of one request.
#[derive(Debug)]
pub(super) enum Seen {
    /// More requests were under way than may be.
    Shed,
    /// The agent did not answer, or refused the question.
    Unanswered(String),
    /// Decided without a lease.
    Refused(Outcome),
    /// A lease, and no delivery.
    Failed(Outcome, String),
    /// Its bytes landed.
    Delivered(Outcome, Delivery),
}

/// Bytes that landed.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) bytes: u64,
    /// From the question to the delivery.
    pub(super) elapsed_ms: f64,
    pub(super) attempts: usize,
    /// Whether its session's end was told; if not, why.
    pub(super) released: Result<(), String>,
}

/// The summary of a run. `requests` is the sum of `shed`, `unanswered`, `refused`, `failed`, `delivered`
/// and `left`; those of a class have no `left`, as what was asked is known of a request once it has ended.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    requests: u64,
    shed: u64,
    unanswered: u64,
    refused: u64,
    failed: u64,
    delivered: u64,
    /// Their end was not seen: they were under way for too long after the last was sent, or their task panicked.
    left: u64,
    /// Of the delivered ones, those that took more than one attempt.
    retried: u64,
    released: u64,
    bytes: u64,
    elapsed_s: f64,
    decisions: BTreeMap<&'static str, u64>,
    classes: BTreeMap<String, Class>,
    errors: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Class {
    requests: u64,
    delivered: u64,
    #[serde(flatten, serialize_with = "percentiles")]
    times_ms: VecDeque<f64>,
}

impl Tally {
    pub(super) fn count(&mut self, class: &str, seen: Seen) {
        self.requests += 1;
        let of_class = self.classes.entry(class.to_owned()).or_default();
        of_class.requests += 1;
        let (outcome, error) = match seen {
            Seen::Shed => return self.shed += 1,
            Seen::Unanswered(error) => {
                self.unanswered += 1;
                (None, Some(error))
            }
            Seen::Refused(outcome) => {
                self.refused += 1;
                (Some(outcome), None)
            }
            Seen::Failed(outcome, error) => {
                self.failed += 1;
                (Some(outcome), Some(error))
            }
            Seen::Delivered(outcome, delivery) => {
                self.delivered += 1;
                self.retried += u64::from(delivery.attempts > 1);
                self.bytes += delivery.bytes;
                self.released += u64::from(delivery.released.is_ok());
                of_class.delivered += 1;
                of_class.times_ms.truncate(MAX_TIMES - 1);
                of_class.times_ms.push_front(delivery.elapsed_ms);
                (Some(outcome), delivery.released.err())
            }
        };
        if let Some(outcome) = outcome {
            *self.decisions.entry(outcome.as_str()).or_default() += 1;
        }
        if let Some(error) = error.filter(|_| self.errors.len() < MAX_ERRORS) {
            self.errors.push(error);
        }
    }

    /// So many requests' end was not seen.
    pub(super) fn left(&mut self, requests: usize) {
        let requests = u64::try_from(requests).unwrap_or(u64::MAX);
        self.requests += requests;
        self.left += requests;
    }

    pub(super) fn lasted(&mut self, elapsed: std::time::Duration) {
        self.elapsed_s = elapsed.as_secs_f64();
    }

    /// Whether any request was decided; true where none was sent.
    pub(super) fn answered_any(&self) -> bool {
        self.requests == self.shed || self.requests > self.shed + self.unanswered + self.left
    }

    pub(super) fn to_text(&self) -> String {
        let rows = self.classes.iter().map(|(name, class)| {
            let ms = |share| quantile(&class.times_ms, share).map_or("-".to_owned(), |ms| format!("{ms:.1}"));
            [name.clone(), class.requests.to_string(), class.delivered.to_string(), ms(0.5), ms(0.99)]
        });
        let table = numbers(["class", "requests", "delivered", "p50 ms", "p99 ms"], rows);
        let mut text = format!(
            "{table}\n{} in {:.1} s: {} delivered ({}), {} after a retry, {} released; {} refused, {} failed, \
             {} unanswered, {} not sent, {} left under way\n",
            count(usize::try_from(self.requests).unwrap_or(usize::MAX), "request"),
            self.elapsed_s,
            self.delivered,
            bytes(self.bytes),
            self.retried,
            self.released,
            self.refused,
            self.failed,
            self.unanswered,
            self.shed,
            self.left
        );
        for error in &self.errors {
            text.push_str(&format!("  {error}\n"));
        }
        text
    }
}

/// The value below which this share of the times lies.
fn quantile(times: &VecDeque<f64>, share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = times.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied()
}

fn percentiles<S: Serializer>(times: &VecDeque<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    let all = [("p50_ms", 0.5), ("p99_ms", 0.99)].map(|(name, share)| (name, quantile(times, share)));
    BTreeMap::from(all).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_once_and_the_times_are_the_newest() {
        let mut tally = Tally::default();
        assert!(tally.answered_any());
        tally.count("batch", Seen::Unanswered("gone".to_owned()));
        assert!(!tally.answered_any());
        tally.left(2);
        assert!(!tally.answered_any());
        tally.count("batch", Seen::Shed);
        tally.count("batch", Seen::Refused(Outcome::NoAdmissiblePool));
        tally.count("release", Seen::Failed(Outcome::Admitted, "lost".to_owned()));
        for time in 0..MAX_TIMES + 100 {
            let delivery = Delivery { bytes: 2, elapsed_ms: time as f64, attempts: 2, released: Ok(()) };
            tally.count("release", Seen::Delivered(Outcome::Admitted, delivery));
        }
        assert!(tally.answered_any());
        let sum = tally.shed + tally.unanswered + tally.refused + tally.failed + tally.delivered + tally.left;
        assert_eq!((tally.requests, tally.retried), (sum, tally.delivered));
        let times = &tally.classes["release"].times_ms;
        assert_eq!((times.len(), quantile(times, 0.0), quantile(times, 1.0)), (MAX_TIMES, Some(100.0), Some(16_483.0)));
        let json = serde_json::to_value(&tally).unwrap();
        assert_eq!(json["classes"]["release"]["p50_ms"], 8_291.0);
        assert_eq!(json["classes"]["batch"]["p99_ms"], serde_json::Value::Null);
        assert_eq!(json["decisions"]["no_admissible_pool"], 1);
        assert_eq!(json["left"], 2);
        assert_eq!(json["errors"].as_array().unwrap().len(), 2);
        assert!(tally.to_text().lines().all(|line| line.chars().count() <= 200), "{}", tally.to_text());
    }
}
