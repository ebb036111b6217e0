//! Peers that do not keep to the protocol: strangers with datagrams, members with garbage.

use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use seam::net::NodeIdentity;
use seam::transport::Backend as _;

use crate::world::{AMPLE, Kind, Node, World, extent, lease};

/// A member's bare connection to a QUIC rail: whatever it wants to say on it.
async fn bare_connection(identity: &NodeIdentity, to: &Node) -> (quinn::Endpoint, quinn::Connection) {
    bare_connection_as(b"seam-rail/1", identity, to).await
}

async fn bare_connection_as(
    protocol: &[u8],
    identity: &NodeIdentity,
    to: &Node,
) -> (quinn::Endpoint, quinn::Connection) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let cert = CertificateDer::from(identity.certificate_der().to_vec());
    let key = PrivatePkcs8KeyDer::from(identity.private_key_pkcs8().to_vec());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_client_auth_cert(vec![cert], key.into())
        .unwrap();
    tls.alpn_protocols = vec![protocol.to_vec()];
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connection = endpoint.connect_with(config, to.addr, "d").unwrap().await.unwrap();
    (endpoint, connection)
}

/// Sends `bytes` as one stream and returns all that comes back.
async fn say(connection: &quinn::Connection, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let talk = async {
        let (mut out, mut back) = connection.open_bi().await.map_err(|error| error.to_string())?;
        // The other side may have had enough before all is said.
        let _ = out.write_all(bytes).await;
        let _ = out.finish();
        back.read_to_end(4_096).await.map_err(|error| error.to_string())
    };
    tokio::time::timeout(AMPLE, talk).await.expect("the stream was never ended")
}

/// A request frame to write `bytes` (below 251) into the lease `d.1.1`.
fn write_request(bytes: u8) -> Vec<u8> {
    let message = [&[1, 1, 5][..], b"d.1.1", &[bytes, 200]].concat();
    [&u32::try_from(message.len()).unwrap().to_le_bytes()[..], &message].concat()
}

async fn serves_as_ever(world: &World, d: &Node) {
    let p = world.node("p", 1_000);
    d.ledger.grant(lease(1), "p", &[extent(10, 100)]);
    p.probe(&d.peer, 64).await.unwrap();
    p.write(&d.peer, lease(1), &[extent(0, 100)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_datagrams_change_nothing() {
    let world = World::new(Kind::Quic);
    let d = world.node("d", 1_000);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..2_000 {
        let mut datagram = vec![0; rng.random_range(0..1_400)];
        rng.fill_bytes(&mut datagram);
        // A full socket buffer only loses garbage.
        let _ = socket.send_to(&datagram, d.addr);
    }
    serves_as_ever(&world, &d).await;
    assert!(d.untouched_outside(&[extent(10, 100)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_streams_of_a_member_changes_nothing() {
    let world = World::new(Kind::Quic);
    let d = world.node("d", 1_000);
    d.ledger.grant(lease(1), "p", &[extent(10, 100)]);
    let (_endpoint, connection) = bare_connection(&world.identity("p"), &d).await;
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
    let mut garbage = vec![
        Vec::new(),
        vec![0, 0],
        vec![0xff; 4],
        vec![0, 0, 0, 0],
        vec![1, 0, 0, 0, 9],
        // A name that would take 2^63 bytes.
        vec![12, 0, 0, 0, 1, 1, 253, 0, 0, 0, 0, 0, 0, 0, 0x80, 1],
    ];
    for _ in 0..100 {
        let mut payload = vec![0; rng.random_range(1..200)];
        rng.fill_bytes(&mut payload);
        let framed = [&u32::try_from(payload.len()).unwrap().to_le_bytes()[..], &payload].concat();
        garbage.extend([payload, framed]);
    }
    for bytes in &garbage {
        assert_eq!(say(&connection, bytes).await.ok(), None, "{bytes:?} was answered");
    }
    assert_eq!(d.quic().counters().malformed, garbage.len() as u64);
    assert!(d.quic().refusals().contains(&("malformed", garbage.len() as u64)), "{:?}", d.quic().refusals());
    assert_eq!(d.ledger.of(&lease(1)).opened, 0);
    assert!(d.untouched_outside(&[]));
    serves_as_ever(&world, &d).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_with_too_few_or_too_many_bytes_or_another_hash_does_not_count_as_delivered() {
    let world = World::new(Kind::Quic);
    let d = world.node("d", 1_000);
    let (_endpoint, connection) = bare_connection(&world.identity("p"), &d).await;
    let payload = [7; 100];
    let hash = blake3::hash(&payload);
    let refused = b"other than the announced bytes";
    let cases: [(&str, Vec<u8>, &[u8]); 5] = [
        ("no bytes", vec![], refused),
        ("few bytes", payload[..99].to_vec(), refused),
        ("half a hash", [&payload[..], &hash.as_bytes()[..16]].concat(), refused),
        ("more", [&payload[..], hash.as_bytes(), &[0]].concat(), refused),
        ("another hash", [&payload[..], &[0; 32]].concat(), &[1, 2]),
    ];
    for (index, (case, body, expected)) in cases.iter().enumerate() {
        d.ledger.grant(lease(1), "p", &[extent(10, 100)]);
        let answer = say(&connection, &[&write_request(100)[..], body].concat()).await.unwrap();
        assert!(answer.windows(expected.len()).any(|part| part == *expected), "{case}: {answer:?}");
        let granted = d.ledger.of(&lease(1));
        assert_eq!((granted.delivered, granted.opened, granted.quiet), (None, 1, 1), "{case} ({index})");
    }
    assert!(d.untouched_outside(&[extent(10, 100)]));
    serves_as_ever(&world, &d).await;
}

/// A member need not be polite to the one it attacks.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_gets_no_more_sessions_of_a_fabric_than_it_can_need() {
    let world = World::new(Kind::Memory);
    let d = world.node("d", 1_000);
    let (_endpoint, connection) = bare_connection_as(b"seam-fabric/1", &world.identity("x"), &d).await;
    let (mut streams, mut refusals) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        let (mut out, mut back) = connection.open_bi().await.unwrap();
        // A hello with an empty greeting.
        out.write_all(&[3, 0, 0, 0, 1, 0, 0]).await.unwrap();
        let mut length = [0; 4];
        back.read_exact(&mut length).await.unwrap();
        let mut answer = vec![0; u32::from_le_bytes(length) as usize];
        back.read_exact(&mut answer).await.unwrap();
        match answer[1] {
            0 => streams.push((out, back)),
            _ => refusals.push(String::from_utf8_lossy(&answer[3..]).into_owned()),
        }
    }
    assert_eq!((streams.len(), refusals.len()), (8, 4), "{refusals:?}");
    assert!(refusals.iter().all(|words| words == "x has 8 sessions open, no more are allowed"), "{refusals:?}");
    assert_eq!(d.refusals("refused"), 4);
    // Others have their own.
    world.node("p", 1_000).probe(&d.peer, 64).await.unwrap();
}
