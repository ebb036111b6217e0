//! Requests, as gateways and engines make them.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use seam::api::{Done, TransferReport, TransferResult};
use seam::client::Client;
use seam::model::LeaseId;
use seam::policy::record::DecisionRecord;
use serde_json::json;
use tokio::time::sleep;

use crate::process::{Process, request};

const CLASSES: [&str; 3] = ["batch", "interactive", "release"];
/// After a host did not answer.
const PAUSE: Duration = Duration::from_millis(20);

/// Where the agents are, and what became of the requests.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Name and address of every host.
    hosts: RefCell<Vec<(String, String)>>,
    pub(crate) sent: Cell<u64>,
    pub(crate) answered: Cell<u64>,
    pub(crate) leased: Cell<u64>,
    pub(crate) delivered: Cell<u64>,
    /// Who answered which request, and when, newest last.
    answers: RefCell<Vec<Answer>>,
}

/// A request that was decided.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) by: String,
    pub(crate) record: DecisionRecord,
    /// When the answer was there, in milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
}

/// Milliseconds since the Unix epoch: the clock that all agents of this machine share.
pub(crate) fn wall_ms() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64
}

impl Load {
    /// A host takes part.
    pub(crate) fn joined(&self, host: &Process) {
        self.hosts.borrow_mut().push((host.name.clone(), host.api.to_string()));
    }

    /// What was answered since this was asked last.
    pub(crate) fn take_answers(&self) -> Vec<Answer> {
        self.answers.take()
    }

    /// How many answers of `host` there are that nobody has taken; of a decode host, how many chose it.
    pub(crate) fn reached(&self, host: &str) -> usize {
        let chose = |answer: &Answer| answer.record.lease.as_ref().is_some_and(|lease| lease.id.node.as_str() == host);
        self.answers.borrow().iter().filter(|answer| answer.by == host || chose(answer)).count()
    }

    /// One caller of a prefill host: route, move, release, until `goes_on` says no. A host that is
    /// away is asked again.
    pub(crate) async fn call(&self, host: &str, goes_on: impl Fn(u64) -> bool) {
        let client = self.client(host);
        while goes_on(self.sent.get()) {
            let number = self.sent.replace(self.sent.get() + 1);
            let kv_bytes = 1 + number * 7_919 % 200_000;
            let asked = request(CLASSES[number as usize % CLASSES.len()], kv_bytes);
            let Ok(record) = client.post::<DecisionRecord>("/v1/route", &asked).await else {
                sleep(PAUSE).await;
                continue;
            };
            self.answered.set(self.answered.get() + 1);
            let lease = record.lease.as_ref().map(|lease| lease.id.clone());
            self.answers.borrow_mut().push(Answer { by: host.to_owned(), record, at_ms: wall_ms() });
            let Some(lease) = lease else {
                sleep(PAUSE).await;
                continue;
            };
            self.leased.set(self.leased.get() + 1);
            let blocks = json!({"lease": lease, "blocks": [{"offset": 0, "bytes": kv_bytes}]});
            if let Ok(report) = client.post::<TransferReport>("/v1/transfers", &blocks).await
                && report.result == TransferResult::Delivered
            {
                self.delivered.set(self.delivered.get() + 1);
                self.release(&report.lease.map_or(lease, |lease| lease.id)).await;
            }
        }
    }

    /// What the decode engine does with a session at its end.
    async fn release(&self, lease: &LeaseId) {
        let _ = self.client(lease.node.as_str()).delete::<Done>(&format!("/v1/leases/{lease}")).await;
    }

    fn client(&self, host: &str) -> Client {
        let hosts = self.hosts.borrow();
        let (_, api) = hosts.iter().find(|(name, _)| name == host).unwrap();
        Client::new(&format!("http://{api}"), None).unwrap()
    }
}
