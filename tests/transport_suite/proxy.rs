//! A stretch of network that can be cut: forwards datagrams between one client and one server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::net::UdpSocket;

pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    budget: Arc<AtomicI64>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Forwards everything until told otherwise.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        far.connect(server).await.unwrap();
        let addr = near.local_addr().unwrap();
        let budget = Arc::new(AtomicI64::new(i64::MAX));
        let task = tokio::spawn(forward(near, far, Arc::clone(&budget)));
        Self { addr, budget, task }
    }

    /// Lets `bytes` more bytes through, both directions together, and then nothing.
    pub(crate) fn cut_after(&self, bytes: i64) {
        self.budget.store(bytes, Ordering::SeqCst);
    }

    pub(crate) fn mend(&self) {
        self.budget.store(i64::MAX, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(near: UdpSocket, far: UdpSocket, budget: Arc<AtomicI64>) {
    let mut client = None;
    let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
    let passes = |length: usize| budget.fetch_sub(i64::try_from(length).unwrap(), Ordering::SeqCst) > 0;
    loop {
        // A send that fails is a lost datagram.
        tokio::select! {
            Ok((length, from)) = near.recv_from(&mut up) => {
                client = Some(from);
                if passes(length) {
                    let _ = far.send(&up[..length]).await;
                }
            }
            Ok(length) = far.recv(&mut down) => {
                if let Some(client) = client && passes(length) {
                    let _ = near.send_to(&down[..length], client).await;
                }
            }
        }
    }
}
