//! Sends requests at their time, each a task of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use seam::api::{Done, RouteRequest, Status, TransferReport, TransferRequest, TransferResult};
use seam::client::{Client, segment};
use seam::model::{Extent, LeaseId, NodeName, RequestId, Role};
use seam::policy::record::DecisionRecord;
use seam::trace::Arrival;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::arrivals::Arrivals;
use super::tally::{Delivery, Seen, Tally};
use crate::exit::Failure;

/// How often the end of a session is told to a host that does not answer.
const RELEASE_TRIES: u32 = 3;
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// What is under way at the end is waited for this long; what is left then expires at its hosts.
const FINISH: Duration = Duration::from_secs(8);
/// Nobody waits longer.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The agents, by what they do.
pub(super) struct Hosts {
    prefill: Vec<Client>,
    decode: BTreeMap<NodeName, Client>,
}

impl Hosts {
    pub(super) async fn ask(clients: Vec<Client>) -> Result<Self, Failure> {
        let mut hosts = Self { prefill: Vec::new(), decode: BTreeMap::new() };
        for client in clients {
            let status: Status = client.get("/v1/status").await?;
            if status.roles.contains(&Role::Prefill) {
                hosts.prefill.push(client.clone());
            }
            if status.roles.contains(&Role::Decode) {
                hosts.decode.insert(status.node, client);
            }
        }
        if hosts.prefill.is_empty() {
            return Err(Failure::usage(anyhow::anyhow!(
                "--agent: found no prefill host, allowed at least one, and every decode host that it may choose"
            )));
        }
        Ok(hosts)
    }
}

/// How fast, how long, how many at once.
pub(super) struct Pace {
    pub(super) rate: Option<f64>,
    pub(super) hold: Duration,
    pub(super) concurrency: usize,
    pub(super) duration: Option<Duration>,
}

/// Sends until the time is over or `stop`; the trace's error, if it had one, beside what was done.
pub(super) async fn run(
    hosts: Hosts,
    mut arrivals: Arrivals,
    pace: Pace,
    stop: &CancellationToken,
) -> (Tally, Result<(), Failure>) {
    let (hosts, mut tally, begun) = (Arc::new(hosts), Tally::default(), Instant::now());
    let permits = Arc::new(Semaphore::new(pace.concurrency));
    // Ends sessions early, and the sending.
    let over = stop.child_token();
    let mut tasks: JoinSet<(Arrival, Seen)> = JoinSet::new();
    let mut prefill = hosts.prefill.iter().cycle();
    let length = pace.duration.unwrap_or(LONGEST).min(LONGEST);
    let mut ended = Ok(());
    for number in 0_u64.. {
        let arrival = tokio::select! {
            () = over.cancelled() => break,
            arrival = arrivals.recv() => arrival,
        };
        let arrival = match arrival {
            Some(Ok(arrival)) => arrival,
            Some(Err(error)) => {
                ended = Err(Failure::usage(error));
                break;
            }
            None => break,
        };
        let at = pace.rate.map_or(arrival.at_ms / 1_000.0, |rate| number as f64 / rate);
        let at = Duration::try_from_secs_f64(at).unwrap_or(LONGEST).min(length);
        tokio::select! {
            () = over.cancelled() => break,
            () = sleep_until(begun + at) => {}
        }
        if at == length {
            break;
        }
        while let Some(done) = tasks.try_join_next() {
            note(&mut tally, done);
        }
        let (Some(client), Ok(permit)) = (prefill.next().cloned(), permits.clone().try_acquire_owned()) else {
            tally.count(arrival.workload.as_str(), Seen::Shed);
            continue;
        };
        let (hosts, over, hold) = (hosts.clone(), over.clone(), pace.hold);
        tasks.spawn(async move {
            let seen = serve(&hosts, &client, &arrival, hold, &over).await;
            drop(permit);
            (arrival, seen)
        });
    }
    over.cancel();
    let finishing = async {
        while let Some(done) = tasks.join_next().await {
            note(&mut tally, done);
        }
    };
    if timeout(FINISH, finishing).await.is_err() {
        eprintln!("seamctl: {} requests were still under way after {} s and were left", tasks.len(), FINISH.as_secs());
        tally.left(tasks.len());
    }
    tally.lasted(begun.elapsed());
    (tally, ended)
}

fn note(tally: &mut Tally, done: Result<(Arrival, Seen), tokio::task::JoinError>) {
    match done {
        Ok((arrival, seen)) => tally.count(arrival.workload.as_str(), seen),
        Err(error) => {
            eprintln!("seamctl: a request's task ended: {error}");
            tally.left(1);
        }
    }
}

/// One request from its route to the end of its session.
async fn serve(hosts: &Hosts, client: &Client, arrival: &Arrival, hold: Duration, over: &CancellationToken) -> Seen {
    let asked = Instant::now();
    let question = RouteRequest::new(arrival.workload.clone(), arrival.kv_bytes);
    let record: DecisionRecord = match client.post("/v1/route", &question).await {
        Ok(record) => record,
        Err(error) => return Seen::Unanswered(error.to_string()),
    };
    let outcome = record.outcome;
    let Some(lease) = record.lease else { return Seen::Refused(outcome) };
    let blocks = vec![Extent { offset: 0, bytes: arrival.kv_bytes }];
    let question = TransferRequest { lease: lease.id.clone(), blocks, chunk: None };
    let report: TransferReport = match client.post("/v1/transfers", &question).await {
        Ok(report) => report,
        Err(error) => return Seen::Failed(outcome, given_up(client, record.request_id, error.to_string()).await),
    };
    if report.result == TransferResult::Delivered {
        let elapsed_ms = asked.elapsed().as_secs_f64() * 1_000.0;
        let held = async {
            tokio::select! { () = over.cancelled() => {}, () = sleep(hold) => {} }
        };
        tokio::join!(held, end_failed(hosts, &report));
        let released = release(hosts, &report.lease.map_or(lease.id, |last| last.id)).await;
        let delivery = Delivery { bytes: report.bytes, elapsed_ms, attempts: report.attempts.len(), released };
        return Seen::Delivered(outcome, delivery);
    }
    end_failed(hosts, &report).await;
    let last = report.attempts.last();
    let error = last.and_then(|attempt| attempt.error.as_deref()).unwrap_or("no reason given");
    let path = last.map_or_else(|| "no path".to_owned(), |attempt| attempt.path.to_string());
    Seen::Failed(outcome, given_up(client, record.request_id, format!("{path}: {error}")).await)
}

/// Frees what is left of a request on either side, as a gateway does that gives up; says why it does, and what went
/// wrong with that.
async fn given_up(client: &Client, request: Option<RequestId>, error: String) -> String {
    let Some(request) = request else { return error };
    match client.delete::<Done>(&format!("/v1/requests/{}", segment(request.as_str()))).await {
        Ok(_) => error,
        Err(second) => format!("{error}; {second}"),
    }
}

/// Ends what attempts that failed may have left: the bytes of one whose answer was lost have landed, and nobody comes
/// for them. A host that does not answer is left alone: most attempts fail because it is gone.
async fn end_failed(hosts: &Hosts, report: &TransferReport) {
    let failed = report.attempts.iter().filter(|attempt| attempt.result != TransferResult::Delivered);
    let _ = join_all(failed.map(|attempt| release(hosts, &attempt.lease))).await;
}

/// Tells the decode host that the session is over, as its engine would.
async fn release(hosts: &Hosts, lease: &LeaseId) -> Result<(), String> {
    let Some(host) = hosts.decode.get(&lease.node) else {
        return Err(format!("lease {lease} stays: {} is not among the agents", lease.node));
    };
    let path = format!("/v1/leases/{}", segment(&lease.to_string()));
    let mut tries_left = RELEASE_TRIES;
    loop {
        tries_left -= 1;
        match host.delete::<Done>(&path).await {
            Ok(_) => return Ok(()),
            Err(error) if tries_left == 0 => return Err(error.to_string()),
            Err(_) => sleep(RETRY_AFTER).await,
        }
    }
}
