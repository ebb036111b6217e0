//! What needs the inside of connections or identities that no file can hold.

use super::super::ResetSecret;
use super::*;

async fn mtu_after_bulk(traffic: Traffic, enough: u16, at_most: usize) -> u16 {
    let dir = tempfile::tempdir().unwrap();
    let bind = |name: &str| {
        let identity = NodeIdentity::dev("c", &NodeName::new(name).unwrap(), dir.path()).unwrap();
        Endpoint::bind("127.0.0.1:0".parse().unwrap(), &identity, traffic).unwrap()
    };
    let (client, server) = (bind("a"), bind("b"));
    let connection = client.connect(server.local_addr(), None).await.unwrap();
    let accepted = server.accept().await.unwrap();
    let mtu = || connection.quinn().stats().path.current_mtu;
    for _ in 0..at_most {
        if mtu() >= enough {
            break;
        }
        let (mut out, _) = connection.quinn().open_bi().await.unwrap();
        out.write_all(&[7; 100_000]).await.unwrap();
        out.finish().unwrap();
        let (_, mut back) = accepted.quinn().accept_bi().await.unwrap();
        back.read_to_end(100_000).await.unwrap();
    }
    mtu()
}

#[tokio::test]
async fn only_rails_over_loopback_grow_datagrams_beyond_what_any_network_carries() {
    assert!(mtu_after_bulk(Traffic::Rail, 60_000, 1_000).await >= 60_000);
    assert!(mtu_after_bulk(Traffic::Mesh, 1_473, 50).await <= 1_472);
}

#[tokio::test]
async fn a_client_that_accepts_the_server_still_hears_that_its_own_certificate_was_refused() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let identity = |name: &str, dir: &tempfile::TempDir| {
        NodeIdentity::dev("c", &NodeName::new(name).unwrap(), dir.path()).unwrap()
    };
    let server_identity = identity("b", &ours);
    let client_identity = server_identity.presenting(&identity("a", &theirs));
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = Endpoint::bind(any, &server_identity, Traffic::Mesh).unwrap();
    let client = Endpoint::bind(any, &client_identity, Traffic::Mesh).unwrap();
    let error = client.connect(server.local_addr(), None).await.unwrap_err();
    assert!(
        matches!(&error, NetError::Identity { detail, .. } if detail.contains("did not accept this node")),
        "{error}"
    );
    assert_eq!(server.counters().accepted, 0);
}

/// One life of an endpoint, on a runtime of its own.
struct Life {
    runtime: tokio::runtime::Runtime,
    endpoint: Endpoint,
}

impl Life {
    /// Starts at `addr`; an earlier life may need a moment to let go of it.
    async fn start(identity: &NodeIdentity, traffic: Traffic, addr: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        for _ in 0..500 {
            let entered = runtime.enter();
            let bound = Endpoint::bind(addr, identity, traffic);
            drop(entered);
            match bound {
                Ok(endpoint) => return Self { runtime, endpoint },
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("{addr} is never free");
    }

    /// Ends it as a killed process ends: nothing runs that could tell the peers.
    async fn kill(self) {
        let Self { runtime, endpoint } = self;
        tokio::task::spawn_blocking(move || {
            runtime.shutdown_timeout(Duration::from_secs(10));
            drop(endpoint);
        })
        .await
        .unwrap();
    }
}

/// How a connection to an endpoint ends that is killed and starts anew at the same address, and how
/// long after the new start.
async fn end_after_restart(traffic: Traffic, secrets: [ResetSecret; 2]) -> (ConnectionError, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let identity = |name: &str| NodeIdentity::dev("c", &NodeName::new(name).unwrap(), dir.path()).unwrap();
    let [earlier, later] = secrets.map(|secret| identity("b").with_reset_secret(secret));
    let client = Endpoint::bind("127.0.0.1:0".parse().unwrap(), &identity("a"), traffic).unwrap();

    let first = Life::start(&earlier, traffic, "127.0.0.1:0".parse().unwrap()).await;
    let addr = first.endpoint.local_addr();
    let connection = client.connect(addr, None).await.unwrap();
    let accepted = first.endpoint.accept().await.unwrap();
    first.kill().await;
    drop(accepted);
    assert!(connection.is_open(), "nobody told it");

    let second = Life::start(&later, traffic, addr).await;
    let started = std::time::Instant::now();
    // A prober has something to send now and then; it is what draws the reset.
    let send = async {
        loop {
            if let Ok((mut stream, _)) = connection.quinn().open_bi().await {
                let _ = stream.write_all(&[1; 64]).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let error = tokio::select! {
        error = connection.quinn().closed() => error,
        () = send => unreachable!("it never ends"),
    };
    let took = started.elapsed();
    let again = client.connect(addr, None).await;
    assert!(again.is_ok(), "{:?}", again.err());
    second.kill().await;
    (error, took)
}

#[tokio::test]
async fn a_killed_endpoint_that_starts_again_ends_its_old_connections_by_its_secret_alone() {
    let dir = tempfile::tempdir().unwrap();
    let secret = |name: &str| ResetSecret::load_or_create(&dir.path().join(name)).unwrap();
    for traffic in [Traffic::Mesh, Traffic::Rail] {
        let (error, took) = end_after_restart(traffic, [secret("one"), secret("one")]).await;
        println!("{traffic:?}: {error} after {took:?}");
        assert_eq!(error, ConnectionError::Reset, "{traffic:?}");
    }
    let (error, took) = end_after_restart(Traffic::Mesh, [secret("one"), secret("other")]).await;
    println!("another secret: {error} after {took:?}");
    assert_eq!(error, ConnectionError::TimedOut);
}
