//! A simulated decode engine: it adopts what arrives, reads it back, keeps a session for its
//! length, frees it, and reports its capacity late, as real engines do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::book::Book;
use super::plan::Plan;
use super::source::read_back;
use crate::api::{Arrival, CapacityReport, Done};
use crate::arena::Arena;
use crate::client::Client;
use crate::model::{Lease, LeaseId};

/// How often the engine takes a reading of itself.
const READING_EVERY: Duration = Duration::from_millis(100);
/// How old a reading is when it is reported.
const READING_AGE: Duration = Duration::from_millis(150);
/// How often a session's end is told to a host that does not answer.
const RELEASE_TRIES: u32 = 3;
/// A host that does not answer is asked again after this long.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The engine of one decode host.
pub(crate) struct Engine {
    client: Client,
    arena: Arc<Arena>,
    plan: Arc<Plan>,
    book: Arc<Book>,
    sessions: Sessions,
    readings: Readings,
    /// Hashing, releases, reports: as many as there are sessions, and two.
    work: JoinSet<Worked>,
    reporting: bool,
}

/// What a piece of background work leads to.
enum Worked {
    /// The bytes of a session were read back.
    Adopted(LeaseId, Duration),
    Reported,
    Released,
}

impl Engine {
    pub(crate) fn new(client: Client, arena: Arena, plan: Arc<Plan>, book: Arc<Book>) -> Self {
        Self {
            client,
            arena: Arc::new(arena),
            plan,
            book,
            sessions: Sessions::default(),
            readings: Readings::default(),
            work: JoinSet::new(),
            reporting: false,
        }
    }

    /// Works until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut arrivals = match self.client.events("/v1/arrivals").await {
            Ok(arrivals) => arrivals,
            Err(error) => return self.book.error(error),
        };
        let mut readings = interval(READING_EVERY);
        readings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next_end = self.sessions.next_end();
            tokio::select! {
                () = stop.cancelled() => return,
                arrival = arrivals.next() => match arrival {
                    Ok(Some(event)) => match event.json() {
                        Ok(arrival) => self.adopt(arrival),
                        Err(error) => self.book.error(format!("an event that is no arrival: {error}")),
                    },
                    Ok(None) => return self.book.error("a stream of arrivals ended"),
                    Err(error) => return self.book.error(error),
                },
                () = sleep_until(next_end.unwrap_or_else(Instant::now)), if next_end.is_some() => self.end_sessions(),
                _ = readings.tick() => self.read(),
                Some(done) = self.work.join_next() => match done {
                    Ok(Worked::Adopted(lease, length)) => self.sessions.begin(lease, Instant::now() + length),
                    Ok(Worked::Reported) => self.reporting = false,
                    Ok(Worked::Released) => {}
                    Err(error) => self.book.error(error),
                },
            }
        }
    }

    /// The bytes are here: the session counts from now on, and decodes once they are read back.
    fn adopt(&mut self, arrival: Arrival) {
        let Some((index, planned)) =
            self.book.index(&arrival.request_id).and_then(|index| Some((index, self.plan.requests.get(index)?)))
        else {
            // Somebody else's request, on a mesh that was kept: nobody decodes it, so it is freed.
            return self.release(arrival.lease);
        };
        self.book.granted(&Lease {
            id: arrival.lease.clone(),
            kv_bytes: arrival.bytes,
            extents: arrival.extents.clone(),
            ttl_ms: 0,
        });
        self.sessions.admit(arrival.lease.clone());
        let (arena, book, length) = (self.arena.clone(), self.book.clone(), planned.session);
        self.work.spawn_blocking(move || {
            match read_back(&arena, &arrival.extents, arrival.bytes) {
                Some(hash) => book.arrived(index, hash, &arrival.hash),
                None => book.error(format!("{}: its extents do not hold its bytes", arrival.lease)),
            }
            Worked::Adopted(arrival.lease, length)
        });
    }

    fn end_sessions(&mut self) {
        for lease in self.sessions.end(Instant::now()) {
            self.book.ending(&lease);
            self.release(lease);
        }
    }

    fn release(&mut self, lease: LeaseId) {
        let (client, book) = (self.client.clone(), self.book.clone());
        self.work.spawn(async move {
            for left in (0..RELEASE_TRIES).rev() {
                match client.delete::<Done>(&format!("/v1/leases/{lease}")).await {
                    Ok(_) => break,
                    Err(error) if left == 0 => book.error(error),
                    Err(_) => tokio::time::sleep(RETRY_AFTER).await,
                }
            }
            Worked::Released
        });
    }

    /// Takes a reading, and reports the newest that is old enough.
    fn read(&mut self) {
        self.readings.take(Instant::now(), SystemTime::now(), self.sessions.leases());
        if self.reporting {
            return;
        }
        let Some(reading) = self.readings.due(Instant::now()) else { return };
        let report = CapacityReport {
            active_sessions: u32::try_from(reading.leases.len()).unwrap_or(u32::MAX),
            max_sessions: None,
            kv_bytes_free: None,
            token_time_ms: Some(self.plan.token_time_ms),
            adopted: Some(reading.leases),
            as_of: Some(reading.as_of),
        };
        self.reporting = true;
        let (client, book) = (self.client.clone(), self.book.clone());
        self.work.spawn(async move {
            if let Err(error) = client.put::<Done>("/v1/capacity", &report).await {
                book.error(error);
            }
            Worked::Reported
        });
    }
}

/// Sessions by lease; `None` until their bytes are read back.
#[derive(Default)]
struct Sessions(BTreeMap<LeaseId, Option<Instant>>);

impl Sessions {
    fn admit(&mut self, lease: LeaseId) {
        self.0.insert(lease, None);
    }

    fn begin(&mut self, lease: LeaseId, ends: Instant) {
        self.0.insert(lease, Some(ends));
    }

    fn next_end(&self) -> Option<Instant> {
        self.0.values().flatten().min().copied()
    }

    fn end(&mut self, now: Instant) -> Vec<LeaseId> {
        let over = |ends: &Option<Instant>| ends.is_some_and(|ends| ends <= now);
        let ended = self.0.iter().filter(|(_, ends)| over(ends)).map(|(lease, _)| lease.clone()).collect();
        self.0.retain(|_, ends| !over(ends));
        ended
    }

    fn leases(&self) -> Vec<LeaseId> {
        self.0.keys().cloned().collect()
    }
}

/// What the engine said of itself, and when.
struct Reading {
    taken: Instant,
    /// In milliseconds since the Unix epoch.
    as_of: u64,
    leases: Vec<LeaseId>,
}

/// Readings that are not reported yet; a few.
#[derive(Default)]
struct Readings(VecDeque<Reading>);

impl Readings {
    fn take(&mut self, now: Instant, wall: SystemTime, leases: Vec<LeaseId>) {
        let since = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let as_of = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        self.0.push_back(Reading { taken: now, as_of, leases });
        // With a report under way none leaves; the oldest is worth least.
        while self.0.len() > 8 {
            self.0.pop_front();
        }
    }

    /// The newest that is as old as a report must be; older ones are dropped.
    fn due(&mut self, now: Instant) -> Option<Reading> {
        let due = self.0.iter().take_while(|reading| now.duration_since(reading.taken) >= READING_AGE).count();
        self.0.drain(..due).next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(number: u64) -> LeaseId {
        format!("d0.1.{number}").parse().unwrap()
    }

    #[test]
    fn a_session_counts_from_its_arrival_and_ends_after_its_length() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut sessions = Sessions::default();
        sessions.admit(lease(1));
        sessions.admit(lease(2));
        assert_eq!((sessions.leases().len(), sessions.next_end()), (2, None));
        sessions.begin(lease(1), at(20));
        sessions.begin(lease(2), at(10));
        assert_eq!(sessions.next_end(), Some(at(10)));
        assert_eq!(sessions.end(at(9)), []);
        assert_eq!(sessions.end(at(10)), [lease(2)]);
        assert_eq!(sessions.leases(), [lease(1)]);
    }

    #[test]
    fn a_reading_is_reported_late_with_the_time_at_which_it_was_true() {
        let start = Instant::now();
        let mut readings = Readings::default();
        for step in 0..3_u64 {
            let after = Duration::from_millis(100 * step);
            readings.take(start + after, UNIX_EPOCH + after, vec![lease(step)]);
        }
        assert!(readings.due(start + Duration::from_millis(149)).is_none());
        let due = readings.due(start + Duration::from_millis(260)).unwrap();
        assert_eq!((due.as_of, due.leases), (100, vec![lease(1)]));
        assert!(readings.due(start + Duration::from_millis(260)).is_none());
        for step in 0..100 {
            readings.take(start + Duration::from_secs(step), UNIX_EPOCH, Vec::new());
        }
        assert_eq!(readings.0.len(), 8);
    }
}
