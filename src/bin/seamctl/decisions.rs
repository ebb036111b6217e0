//! What an agent decided, why, and asking it to decide.

use clap::Args;
use seam::api::RouteRequest;
use seam::client::{Client, segment};
use seam::config::parse_size;
use seam::model::{DecisionId, ModelName, NodeName, Outcome, RequestId, WorkloadName};
use seam::policy::explain::explain;
use seam::policy::record::DecisionRecord;
use serde_json::Value;

use crate::ask::Agent;
use crate::exit::{Failure, print, print_json};
use crate::number::whole;
use crate::table::{count, or_dash, table};

/// What it decided.
#[derive(Args)]
pub(crate) struct Decisions {
    #[command(flatten)]
    agent: Agent,
    /// Print new decisions as they are made, until interrupted.
    #[arg(long)]
    follow: bool,
    /// Only this class.
    #[arg(long)]
    class: Option<WorkloadName>,
    /// Only this outcome.
    #[arg(long, value_parser = outcome)]
    outcome: Option<Outcome>,
    /// At most so many, 1 to 1000.
    #[arg(long, default_value_t = 20, allow_negative_numbers = true, value_parser = whole(1..=1000_u16))]
    limit: u16,
    /// Print the records as JSON: an array, or one a line with --follow.
    #[arg(long)]
    json: bool,
}

/// Why.
#[derive(Args)]
pub(crate) struct Explain {
    /// The decision: NODE.GENERATION.NUMBER.
    id: DecisionId,
    #[command(flatten)]
    agent: Agent,
    /// Print the record as JSON.
    #[arg(long)]
    json: bool,
}

/// Decide now.
#[derive(Args)]
pub(crate) struct Route {
    /// The class.
    class: WorkloadName,
    /// How many KV bytes will move, such as 64MiB.
    #[arg(long, default_value = "64MiB", allow_negative_numbers = true, value_parser = parse_size)]
    bytes: u64,
    /// Decide only; ask for no lease.
    #[arg(long)]
    dry_run: bool,
    /// A name of the request; the same again gets the same answer.
    #[arg(long, value_name = "ID")]
    request_id: Option<RequestId>,
    /// Only hosts of this model.
    #[arg(long)]
    model: Option<ModelName>,
    /// Decide for another source, from what this agent knows; only with --dry-run.
    #[arg(long, value_name = "NODE", requires = "dry_run")]
    source: Option<NodeName>,
    /// A decode host not to be used; may be repeated.
    #[arg(long, value_name = "NODE")]
    exclude: Vec<NodeName>,
    #[command(flatten)]
    agent: Agent,
    /// Print the record as JSON.
    #[arg(long)]
    json: bool,
}

fn outcome(text: &str) -> Result<Outcome, String> {
    let allowed = || Outcome::ALL.iter().map(|outcome| outcome.as_str()).collect::<Vec<_>>().join(", ");
    Outcome::ALL
        .iter()
        .copied()
        .find(|outcome| outcome.as_str() == text)
        .ok_or_else(|| format!("allowed: {}", allowed()))
}

impl Decisions {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = self.agent.client()?;
        if self.follow {
            return self.follow(&client).await;
        }
        let mut path = format!("/v1/decisions?limit={}", self.limit);
        if let Some(class) = &self.class {
            path.push_str(&format!("&class={}", segment(class.as_str())));
        }
        if let Some(outcome) = self.outcome {
            path.push_str(&format!("&outcome={outcome}"));
        }
        if self.json {
            return print_json(&client.get::<Value>(&path).await?);
        }
        let records: Vec<DecisionRecord> = client.get(&path).await?;
        let rows = records.iter().map(|record| {
            [
                record.id.to_string(),
                or_dash(record.ts.map(clock)),
                record.workload.name.to_string(),
                record.outcome.to_string(),
                record.chosen.as_ref().map_or_else(|| "-".to_owned(), target),
                record.candidates.len().to_string(),
            ]
        });
        let text = table(["decision", "time (UTC)", "class", "outcome", "chosen", "of"], rows);
        let example = records.first().map_or_else(|| "ID".to_owned(), |record| record.id.to_string());
        print(&format!("{text}\n{}. Next: seamctl explain {example}\n", count(records.len(), "decision")))
    }

    async fn follow(&self, client: &Client) -> Result<(), Failure> {
        let mut events = client.events("/v1/events").await?;
        while let Some(event) = events.next().await? {
            let Ok(value) = event.json::<Value>() else { continue };
            match value.get("kind").and_then(Value::as_str) {
                Some("decision") => self.show(value.get("record").cloned().unwrap_or_default())?,
                Some("lagged") => {
                    let missed = value.get("missed").and_then(Value::as_u64).unwrap_or_default();
                    eprintln!("seamctl: {missed} events were missed: they came faster than they were read");
                }
                _ => {}
            }
        }
        eprintln!("seamctl: the agent has ended the stream");
        Ok(())
    }

    fn show(&self, value: Value) -> Result<(), Failure> {
        let Ok(record) = serde_json::from_value::<DecisionRecord>(value.clone()) else { return Ok(()) };
        let other_class = self.class.as_ref().is_some_and(|class| record.workload.name != *class);
        let other_outcome = self.outcome.is_some_and(|outcome| record.outcome != outcome);
        if other_class || other_outcome {
            return Ok(());
        }
        if self.json {
            return print_json(&value);
        }
        print(&format!(
            "{}  {}  {}  {}  {}\n",
            or_dash(record.ts.map(clock)),
            record.id,
            record.workload.name,
            record.outcome,
            record.chosen.as_ref().map_or_else(|| "-".to_owned(), target),
        ))
    }
}

impl Explain {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = self.agent.client()?;
        let path = format!("/v1/decisions/{}", segment(&self.id.to_string()));
        if self.json {
            return print_json(&client.get::<Value>(&path).await?);
        }
        let record: DecisionRecord = client.get(&path).await?;
        print(&format!(
            "{}\nNext: seamctl paths, seamctl decisions --class {}\n",
            explain(&record),
            record.workload.name
        ))
    }
}

impl Route {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = self.agent.client()?;
        let request = RouteRequest {
            workload: self.class,
            kv_bytes: self.bytes,
            request_id: self.request_id,
            model: self.model,
            source: self.source,
            exclude: self.exclude,
            transfer_budget_ms: None,
            dry_run: self.dry_run,
        };
        if self.json {
            return print_json(&client.post::<Value>("/v1/route", &request).await?);
        }
        let record: DecisionRecord = client.post("/v1/route", &request).await?;
        let next = match &record.lease {
            Some(lease) => format!("seamctl lease release {} (it expires in {} ms otherwise)", lease.id, lease.ttl_ms),
            None => "seamctl paths".to_owned(),
        };
        print(&format!("{}\nNext: {next}\n", explain(&record)))
    }
}

/// The host and the pool that were chosen.
fn target(chosen: &seam::policy::record::Chosen) -> String {
    match &chosen.node {
        Some(node) => format!("{node} ({})", chosen.pool),
        None => chosen.pool.to_string(),
    }
}

/// The time of day of a Unix time in milliseconds.
fn clock(ts: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ts);
    let text = humantime::format_rfc3339_millis(time).to_string();
    text.split_once('T').map_or(text.clone(), |(_, time)| time.trim_end_matches('Z').to_owned())
}
