//! The rounds of exchanges, as the one who asks.

use std::net::SocketAddr;
use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::oneshot;

use super::actor::Message;
use super::frames::{Kind, StreamError, read_bytes, within, write_message, write_question};
use super::peers::Peers;
use super::stats::{MeshStats, TrafficKind};
use crate::mesh::{Input, MAX_SYNC};
use crate::model::NodeName;

/// Asks, brings the answer to the actor, and sends what the actor has to add.
pub(super) async fn ask(
    peers: Arc<Peers>,
    stats: Arc<MeshStats>,
    actor: ActorRef<Message>,
    exchange: u64,
    to: NodeName,
    addr: SocketAddr,
    bytes: Vec<u8>,
) {
    if let Err(error) = attempt(&peers, &stats, &actor, exchange, &to, addr, bytes).await {
        tracing::debug!(peer = %to, %error, "exchange failed");
        // An actor that is gone waits for nothing. There are few exchanges at a time, so this
        // needs no permit.
        let _ = actor.cast(Message::Input(Input::SyncFailed { exchange }, None));
    }
}

async fn attempt(
    peers: &Arc<Peers>,
    stats: &MeshStats,
    actor: &ActorRef<Message>,
    exchange: u64,
    to: &NodeName,
    addr: SocketAddr,
    bytes: Vec<u8>,
) -> Result<(), StreamError> {
    // A peer may be slow to answer, to admit a stream, or to read.
    let (connection, mut send, mut receive) = within(async {
        let connection = peers.to(to, addr).await?;
        let (mut send, receive) = connection.quinn().open_bi().await.map_err(StreamError::broken)?;
        write_question(&mut send, Kind::Sync, &bytes).await?;
        Ok((connection, send, receive))
    })
    .await?;
    stats.sent(TrafficKind::Sync, bytes.len());
    let reply = read_bytes(&mut receive, MAX_SYNC).await?;
    stats.received(TrafficKind::Sync, reply.len());

    let (push, more) = oneshot::channel();
    let from = connection.peer().clone();
    // An actor that is gone drops the channel, which ends this exchange.
    let _ = actor.cast(Message::SyncReplied { exchange, from, bytes: reply, push });
    if let Ok(bytes) = more.await {
        write_message(&mut send, &bytes).await?;
        stats.sent(TrafficKind::Sync, bytes.len());
    }
    // Nothing was reset, so there is nothing to fail.
    let _ = send.finish();
    Ok(())
}
