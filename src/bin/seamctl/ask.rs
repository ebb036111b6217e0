//! Plain questions to a running agent.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use seam::api::{Done, LeaseLine, MemberLine, PathLine, Status};
use seam::client::{Client, segment};
use seam::model::LeaseId;
use serde_json::Value;

use crate::exit::{Failure, print, print_json};
use crate::table::{bytes, count, or_dash, pairs, span, table};

/// Which agent.
#[derive(Args)]
pub(crate) struct Agent {
    /// The agent: http://HOST:PORT or unix:///PATH.
    #[arg(long, value_name = "URL", env = "SEAM_AGENT", default_value = "http://127.0.0.1:7980")]
    agent: String,
    /// A file with its bearer token, where it asks for one.
    #[arg(long, value_name = "FILE", env = "SEAM_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl Agent {
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        client(&self.agent, self.token_file.as_deref())
    }
}

/// A client of the agent at `url`.
pub(crate) fn client(url: &str, token_file: Option<&Path>) -> Result<Client, Failure> {
    let token = token_file.map(|path| {
        std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(anyhow::anyhow!("--token-file {}: {error}", path.display())))
    });
    Ok(Client::new(url, token.transpose()?.as_deref())?)
}

/// A question without further arguments.
#[derive(Args)]
pub(crate) struct Plain {
    #[command(flatten)]
    pub(crate) agent: Agent,
    /// Print the agent's answer as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn status(plain: Plain) -> Result<(), Failure> {
    let client = plain.agent.client()?;
    if plain.json {
        return print_json(&client.get::<Value>("/v1/status").await?);
    }
    let status: Status = client.get("/v1/status").await?;
    let roles: Vec<_> = status.roles.iter().map(|role| format!("{role:?}").to_lowercase()).collect();
    let paths: Vec<_> = status.paths.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let work = match (status.ready, status.draining) {
        (_, true) => "draining: takes no new work",
        _ if status.recovering => {
            "recovering: grants no leases until its engine reports, or those of its earlier life are over"
        }
        (true, false) => "ready",
        (false, false) => "not ready: has not joined its mesh yet",
    };
    let text = pairs([
        ("node", format!("{} (cluster {}, generation {})", status.node, status.cluster, status.generation)),
        ("state", format!("{work}; up {}", span(status.uptime_ms))),
        ("roles", roles.join(", ")),
        ("pool", or_dash(status.pool)),
        ("version", format!("{}, profile {}, mover {}", status.version, status.profile, status.mover)),
        ("config", status.config_hash),
        ("mesh", format!("{}, {} members alive", status.mesh_addr, status.members_alive)),
        ("arena", or_dash(status.arena.map(|(path, size)| format!("{path}, {}", bytes(size))))),
        ("paths", if paths.is_empty() { "none".to_owned() } else { paths.join(", ") }),
        ("leases", format!("{} granted, {} held", status.leases_granted, status.leases_held)),
        ("decisions", status.decisions.to_string()),
    ]);
    print(&format!("{text}\nNext: seamctl members, seamctl paths, seamctl decisions\n"))
}

pub(crate) async fn members(plain: Plain) -> Result<(), Failure> {
    let client = plain.agent.client()?;
    if plain.json {
        return print_json(&client.get::<Value>("/v1/members").await?);
    }
    let members: Vec<MemberLine> = client.get("/v1/members").await?;
    let rows = members.iter().map(|member| {
        let roles: Vec<_> = member.roles.iter().map(|role| format!("{role:?}").to_lowercase()).collect();
        let state = if member.draining { format!("{}, draining", member.state) } else { member.state.clone() };
        [
            member.node.to_string(),
            state,
            roles.join(", "),
            or_dash(member.pool.as_ref()),
            or_dash(member.sessions.map(|(active, most)| format!("{active}/{most}"))),
            or_dash(member.kv_bytes_free.map(bytes)),
            member.mesh_addr.clone(),
        ]
    });
    let text = table(["node", "state", "roles", "pool", "sessions", "kv free", "mesh"], rows);
    print(&format!("{text}\n{}. Next: seamctl paths\n", count(members.len(), "member")))
}

pub(crate) async fn paths(plain: Plain) -> Result<(), Failure> {
    let client = plain.agent.client()?;
    if plain.json {
        return print_json(&client.get::<Value>("/v1/paths").await?);
    }
    let paths: Vec<PathLine> = client.get("/v1/paths").await?;
    let rows = paths.iter().map(|line| {
        let health = &line.health;
        [
            line.path.to_string(),
            health.state.to_string(),
            format!("{:.3}", health.gfs),
            format!("{:.2}", health.p99_latency_ms),
            format!("{:.2}", health.jitter_ms),
            format!("{:.1}", health.mean_drop_rate * 100.0),
            format!("{} {}", health.sample_count, format!("{:?}", line.evidence).to_lowercase()),
            or_dash(line.age_ms.map(|ms| format!("{:.1} s", ms as f64 / 1000.0))),
        ]
    });
    let text = table(["path", "state", "gfs", "p99", "jitter", "drop %", "samples", "age"], rows);
    let found = count(paths.len(), "path");
    print(&format!("{text}\n{found}; p99 and jitter in milliseconds. Next: seamctl decisions, seamctl explain ID\n"))
}

pub(crate) async fn drain(plain: Plain, on: bool) -> Result<(), Failure> {
    let client = plain.agent.client()?;
    let done: Done = if on { client.post_empty("/v1/drain").await? } else { client.delete("/v1/drain").await? };
    if plain.json { print_json(&done) } else { print(&format!("{}\nNext: seamctl status\n", done.detail)) }
}

/// What to do with leases.
#[derive(Subcommand)]
pub(crate) enum Lease {
    /// List them.
    List(Plain),
    /// Give one back.
    Release {
        /// The lease: NODE.GENERATION.NUMBER.
        id: LeaseId,
        #[command(flatten)]
        plain: Plain,
    },
}

impl Lease {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(plain) => list(plain).await,
            Self::Release { id, plain } => {
                let client = plain.agent.client()?;
                let done: Done = client.delete(&format!("/v1/leases/{}", segment(&id.to_string()))).await?;
                if plain.json {
                    return print_json(&done);
                }
                print(&format!("{}\nNext: seamctl lease list\n", done.detail))
            }
        }
    }
}

async fn list(plain: Plain) -> Result<(), Failure> {
    let client = plain.agent.client()?;
    if plain.json {
        return print_json(&client.get::<Value>("/v1/leases").await?);
    }
    let leases: Vec<LeaseLine> = client.get("/v1/leases").await?;
    let rows = leases.iter().map(|lease| {
        [
            lease.id.to_string(),
            lease.state.clone(),
            lease.holder.to_string(),
            lease.request_id.to_string(),
            bytes(lease.kv_bytes),
            or_dash(lease.expires_in_ms.map(|ms| format!("{:.1} s", ms as f64 / 1000.0))),
        ]
    });
    let text = table(["lease", "state", "holder", "request", "bytes", "expires in"], rows);
    print(&format!("{text}\n{}. Next: seamctl lease release ID\n", count(leases.len(), "lease")))
}
