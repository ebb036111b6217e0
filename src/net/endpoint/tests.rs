//! What needs the inside of connections or identities that no file can hold.

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
