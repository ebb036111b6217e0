//! What peers send and ask.

use std::sync::Arc;
use std::time::Instant;

use ractor::ActorRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::LeaseServer;
use super::actor::Message;
use super::frames::{
    Hello, HelloReply, Kind, PATIENCE, StreamError, read_bytes, read_bytes_or_end, read_kind, read_message,
    write_message,
};
use super::mailbox::Mailbox;
use super::peers::Peers;
use super::stats::{Drops, MeshStats, TrafficKind};
use super::views::View;
use crate::agent::clock::wall_ms;
use crate::codec::{self, Blob, Wire};
use crate::mesh::{Input, MAX_SYNC};
use crate::model::{LeaseCall, NodeName};
use crate::net::{Connection, Endpoint};

/// Lease calls of all peers together that are being answered.
const MAX_CALLS: usize = 1024;
/// Streams of one connection that are read at once: what a peer holds up is its own.
const MAX_READ: usize = 8;

/// Everything that an answer may need.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) me: NodeName,
    pub(super) actor: ActorRef<Message>,
    pub(super) mailbox: Mailbox,
    pub(super) stats: Arc<MeshStats>,
    pub(super) leases: Arc<dyn LeaseServer>,
    pub(super) calls: Arc<Semaphore>,
    pub(super) started: Instant,
}

impl Server {
    pub(super) fn new(
        me: NodeName,
        actor: ActorRef<Message>,
        mailbox: Mailbox,
        stats: Arc<MeshStats>,
        leases: Arc<dyn LeaseServer>,
        started: Instant,
    ) -> Self {
        let calls = Arc::new(Semaphore::new(MAX_CALLS));
        Self { me, actor, mailbox, stats, leases, calls, started }
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes connections from others until the endpoint closes.
    pub(super) async fn accept(self, endpoint: Endpoint, peers: Arc<Peers>) {
        while let Some(connection) = endpoint.accept().await {
            if *connection.peer() == self.me {
                // Another process of the same name may ask whether it is one too many, no more.
                tokio::spawn(self.clone().questions(connection));
            } else {
                let initiator = connection.peer().clone();
                peers.adopt(connection, &initiator);
            }
        }
    }

    /// Reads from every connection, whoever made it.
    pub(super) async fn read(self, mut opened: mpsc::Receiver<Connection>) {
        while let Some(connection) = opened.recv().await {
            tokio::spawn(self.clone().packets(connection.clone()));
            tokio::spawn(self.clone().questions(connection));
        }
    }

    async fn packets(self, connection: Connection) {
        while let Ok(bytes) = connection.quinn().read_datagram().await {
            self.stats.received(TrafficKind::Packet, bytes.len());
            let input = Input::Packet { from: connection.peer().clone(), bytes: Blob(bytes.to_vec()) };
            self.mailbox.packet(&self.actor, input);
        }
    }

    async fn questions(self, connection: Connection) {
        let places = Arc::new(Semaphore::new(MAX_READ));
        // Nobody closes the semaphore. Streams that find no place wait unopened, within the
        // connection's own limits.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let Ok((mut send, mut receive)) = connection.quinn().accept_bi().await else { return };
            let (server, peer) = (self.clone(), connection.peer().clone());
            tokio::spawn(async move {
                match server.answer(&peer, &mut send, &mut receive, place).await {
                    // Nothing was reset, so there is nothing to fail.
                    Ok(()) => _ = send.finish(),
                    // Dropped unanswered, both halves of the stream are reset.
                    Err(error) => tracing::debug!(%peer, %error, "question not answered"),
                }
            });
        }
    }

    /// Answers one question. It keeps its `place` among those of its connection until it has been
    /// read to its end.
    async fn answer(
        &self,
        peer: &NodeName,
        send: &mut (impl AsyncWrite + Unpin),
        receive: &mut (impl AsyncRead + Unpin),
        place: OwnedSemaphorePermit,
    ) -> Result<(), StreamError> {
        match read_kind(receive).await? {
            Kind::Hello => self.hello(send, receive).await,
            Kind::Sync | Kind::Lease if *peer == self.me => {
                Err(StreamError("a peer of this node's own name".to_owned()))
            }
            Kind::Sync => self.sync(peer, send, receive).await,
            Kind::Lease => self.lease(peer, send, receive, place).await,
        }
    }

    async fn hello(
        &self,
        send: &mut (impl AsyncWrite + Unpin),
        receive: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), StreamError> {
        let hello: Hello = read_message(receive).await?;
        let permit = self.mailbox.room().await;
        let (reply, answer) = oneshot::channel();
        // An actor that is gone drops the channel.
        let _ = self.actor.cast(Message::View(View::Life(hello.name, reply), permit));
        let known = answer.await.map_err(StreamError::broken)?;
        self.write(send, &HelloReply { known, wall_ms: wall_ms(), age_ms: self.age_ms() }).await
    }

    async fn sync(
        &self,
        peer: &NodeName,
        send: &mut (impl AsyncWrite + Unpin),
        receive: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), StreamError> {
        let bytes = read_bytes(receive, MAX_SYNC).await?;
        self.stats.received(TrafficKind::Sync, bytes.len());
        let permit = self.mailbox.room().await.ok_or_else(|| StreamError("closed".to_owned()))?;
        let (reply, answer) = oneshot::channel();
        // An actor that is gone drops the channel.
        let _ = self.actor.cast(Message::SyncAsked { from: peer.clone(), bytes, reply, permit });
        let answer = answer.await.map_err(StreamError::broken)?;
        write_message(send, &answer).await?;
        self.stats.sent(TrafficKind::Sync, answer.len());

        let Some(bytes) = read_bytes_or_end(receive, MAX_SYNC).await? else { return Ok(()) };
        self.stats.received(TrafficKind::Sync, bytes.len());
        let permit = self.mailbox.room().await;
        let input = Input::SyncPushed { from: peer.clone(), bytes: Blob(bytes) };
        let _ = self.actor.cast(Message::Input(input, permit));
        Ok(())
    }

    async fn lease(
        &self,
        peer: &NodeName,
        send: &mut (impl AsyncWrite + Unpin),
        receive: &mut (impl AsyncRead + Unpin),
        place: OwnedSemaphorePermit,
    ) -> Result<(), StreamError> {
        let bytes = read_bytes(receive, LeaseCall::LIMIT).await?;
        self.stats.received(TrafficKind::Lease, bytes.len());
        let Ok(_slot) = self.calls.try_acquire() else {
            self.stats.count_drop(Drops::Questions);
            return Err(StreamError("too many lease calls at once".to_owned()));
        };
        drop(place);
        let call: LeaseCall = codec::decode(&bytes).map_err(StreamError::broken)?;
        if let LeaseCall::Ask(ask) = &call
            && ask.holder != *peer
        {
            self.stats.count_refusal(crate::mesh::Refusal::WrongSource);
            return Err(StreamError(format!("it asks in the name of {}", ask.holder)));
        }
        let reply = tokio::time::timeout(PATIENCE, self.leases.call(peer, call)).await.map_err(StreamError::broken)?;
        let reply = codec::encode(&reply).map_err(StreamError::broken)?;
        write_message(send, &reply).await?;
        self.stats.sent(TrafficKind::Lease, reply.len());
        Ok(())
    }

    async fn write<T: Wire>(&self, send: &mut (impl AsyncWrite + Unpin), message: &T) -> Result<(), StreamError> {
        write_message(send, &codec::encode(message).map_err(StreamError::broken)?).await
    }
}
