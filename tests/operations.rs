//! What an operator does to a running agent: signals, changed files, sockets; real processes.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "agents/common.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod common;
#[path = "agents/process.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod process;

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;

use process::{Process, Setup, Site, request, until};
use rustix::process::Signal;
use seam::client::Client;
use seam::net::certs;
use serde_json::{Value, json};
use tokio::net::TcpStream;

const OK: &str = "seam_config_reloads_total{result=\"ok\"}";
const REFUSED: &str = "seam_config_reloads_total{result=\"refused\"}";

#[tokio::test]
async fn a_changed_file_holds_from_sighup_on_and_a_bad_one_changes_nothing() {
    let site = Site::new();
    let d0 = site.start("d0", Setup::DECODE).await;
    let before = d0.status().await;
    assert_eq!((before.config_reloads, before.recovering), (0, false));

    d0.rewrite("max_sessions = 4", "max_sessions = 9");
    d0.signal(Signal::HUP);
    until("the new limit is told to the mesh", async || d0.alive("d0").await.unwrap().sessions == Some((0, 9))).await;
    let changed = d0.status().await;
    assert_eq!(changed.config_reloads, 1);
    assert_ne!(changed.config_hash, before.config_hash);
    let info = format!("seam_config_info{{config_hash=\"{}\"}}", changed.config_hash);
    assert_eq!((d0.metric(&info).await, d0.metric(OK).await), (Some(1.0), Some(1.0)));

    // One key that may change, and one that may not: refused as a whole for a third that is wrong.
    d0.rewrite("max_sessions = 9", "max_sessions = 7\nsoft_fraction = 7.0");
    d0.signal(Signal::HUP);
    until("the bad file is refused", async || d0.metric(REFUSED).await == Some(1.0)).await;
    assert_eq!(d0.status().await.config_hash, changed.config_hash);
    assert_eq!(d0.alive("d0").await.unwrap().sessions, Some((0, 9)));
    assert!(d0.log().contains("soft_fraction"), "the error names the key:\n{}", d0.log());

    d0.rewrite("soft_fraction = 7.0", "soft_fraction = 0.5");
    d0.rewrite("pool-d0", "pool-other");
    d0.signal(Signal::HUP);
    until("the rest is taken", async || d0.metric(OK).await == Some(2.0)).await;
    assert_eq!(d0.status().await.pool.unwrap().as_str(), "pool-d0", "a pool stays until the next start");
    until("the limit", async || d0.alive("d0").await.unwrap().sessions == Some((0, 7))).await;
    let warned = d0.log().lines().any(|line| line.contains("WARN") && line.contains("decode.pool"));
    assert!(warned, "what stays is named:\n{}", d0.log());
}

#[tokio::test]
async fn the_policy_decides_by_the_changed_file() {
    let site = Site::new();
    let _d0 = site.start("d0", Setup::DECODE).await;
    let p0 = site.start("p0", Setup::PREFILL).await;
    p0.settled(1).await;
    assert!(p0.route(&request("tiny", 1)).await.is_err(), "no such class yet");
    let class = "[[policy.workloads]]\nname = \"tiny\"\ncriticality = 0.1\nlatency_sla = \"1s\"\njitter_tolerance = 1.0\n[arena]";
    p0.rewrite("[arena]", class);
    p0.signal(Signal::HUP);
    until("the class is known", async || p0.route(&request("tiny", 1)).await.is_ok()).await;
    let record = p0.route(&request("tiny", 1)).await.unwrap();
    assert_eq!(record.config_hash.as_deref(), Some(p0.status().await.config_hash.as_str()));
}

/// What a process tells systemd, each message once.
struct Manager(UnixDatagram);

impl Manager {
    async fn hears(&self, what: &str) -> String {
        let mut heard = String::new();
        until(&format!("{what} is told"), async || {
            let mut buffer = [0; 200];
            while let Ok(count) = self.0.recv(&mut buffer) {
                heard = String::from_utf8(buffer[..count].to_vec()).unwrap();
                if heard.starts_with(what) {
                    return true;
                }
                assert!(heard == "WATCHDOG=1", "{heard} instead of {what}");
            }
            false
        })
        .await;
        heard
    }
}

fn manager(socket: UnixDatagram) -> Manager {
    socket.set_nonblocking(true).unwrap();
    Manager(socket)
}

#[tokio::test]
async fn systemd_hears_of_start_reload_life_and_end() {
    let site = Site::new();
    let path = site.path().join("notify");
    let manager = manager(UnixDatagram::bind(&path).unwrap());
    let env = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "400000")];
    let mut d0 = site.start_with("d0", Setup::DECODE, &env).await;
    manager.hears("READY=1").await;
    manager.hears("WATCHDOG=1").await;
    d0.signal(Signal::HUP);
    let reloading = manager.hears("RELOADING=1\nMONOTONIC_USEC=").await;
    let at: u64 = reloading.rsplit_once('=').unwrap().1.parse().unwrap();
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let uptime_s: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    assert!(at > 0 && at as f64 / 1e6 <= uptime_s + 1.0, "{at} of {uptime_s}");
    manager.hears("READY=1").await;
    d0.signal(Signal::TERM);
    manager.hears("STOPPING=1").await;
    assert_eq!(d0.ended().await.code(), Some(0));
}

#[tokio::test]
async fn systemd_hears_over_an_abstract_socket_too() {
    use std::os::linux::net::SocketAddrExt as _;
    let name = format!("seam-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let manager = manager(UnixDatagram::bind_addr(&address).unwrap());
    let site = Site::new();
    // A watchdog of another process is none of this one's.
    let socket = format!("@{name}");
    let env = [("NOTIFY_SOCKET", socket.as_str()), ("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "1")];
    let mut d0 = site.start_with("d0", Setup::DECODE, &env).await;
    manager.hears("READY=1").await;
    d0.signal(Signal::INT);
    let mut next = [0; 200];
    until("anything more is told", async || manager.0.recv(&mut next).is_ok()).await;
    assert!(next.starts_with(b"STOPPING=1"), "{}", String::from_utf8_lossy(&next));
    assert_eq!(d0.ended().await.code(), Some(0));
}

#[tokio::test]
async fn sigterm_hands_back_leases_leaves_the_mesh_and_ends_with_zero() {
    let site = Site::new();
    let d0 = site.start("d0", Setup::DECODE).await;
    let lasting = "[transfer]\nlease_ttl = \"10m\"\n";
    let mut p0 = site.start("p0", Setup { more: lasting, ..Setup::PREFILL }).await;
    p0.settled(1).await;
    p0.leased(&request("batch", 1)).await;
    assert_eq!(d0.leases().await.len(), 1);
    p0.signal(Signal::TERM);
    assert_eq!(p0.ended().await.code(), Some(0), "{}", p0.log());
    assert!(d0.leases().await.is_empty(), "handed back before the process ended");
    until("p0 has left", async || d0.alive("p0").await.is_none()).await;
    for agent in [&d0, &p0] {
        for line in agent.log().lines() {
            let parsed: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(parsed["level"].is_string() && parsed["timestamp"].is_string(), "{line}");
        }
        assert!(agent.log().contains("the agent runs"));
    }
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_the_shutdown() {
    let site = Site::new();
    let _d0 = site.start("d0", Setup::DECODE).await;
    let mut p0 = site.start("p0", Setup { more: "[transfer]\nbudget = \"1h\"\n", ..Setup::PREFILL }).await;
    p0.settled(1).await;
    let lease = p0.leased(&request("batch", 1 << 20)).await;
    let _: seam::api::Done = p0.client.put("/v1/faults", &json!({"rail": "r0", "mode": "stall"})).await.unwrap();
    // A transfer that does not end keeps the shutdown waiting for 5 s.
    let (client, moving) = (Client::new(&format!("http://{}", p0.api), None).unwrap(), lease.clone());
    let blocks = json!({"lease": moving, "blocks": [{"offset": 0, "bytes": 1 << 20}]});
    let transfer = tokio::spawn(async move { client.post::<Value>("/v1/transfers", &blocks).await });
    // More bytes than the lease has: refused for that until the transfer has begun.
    until("the transfer is under way", async || {
        p0.transfer(&lease, 2 << 20).await.unwrap_err().to_string().contains("is being used")
    })
    .await;
    p0.signal(Signal::TERM);
    until("it shuts down", async || p0.log().contains("shutting down")).await;
    p0.signal(Signal::TERM);
    assert_eq!(p0.ended().await.code(), Some(1), "{}", p0.log());
    assert!(p0.log().contains("ended by a second signal"));
    transfer.abort();
}

#[tokio::test]
async fn the_api_socket_of_a_killed_agent_is_replaced_and_that_of_a_live_one_is_not() {
    let site = Site::new();
    let socket = site.path().join("api.sock");
    let part = format!("socket = \"{}\"", socket.display());
    let mut d0 = site.start("d0", Setup { api: &part, ..Setup::DECODE }).await;
    let client = Client::new(&format!("unix://{}", socket.display()), None).unwrap();
    until("it answers there", async || client.text("/healthz").await.is_ok()).await;
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);

    let mut other = site.spawn("d1", Setup { api: &part, first: false, ..Setup::DECODE }, &[]);
    assert_eq!(other.ended().await.code(), Some(1));
    assert!(other.log().contains("api.socket") && other.log().contains("another process answers there"));
    assert_eq!(client.text("/healthz").await.unwrap(), "ok\n", "the live one is not disturbed");

    d0.kill();
    assert!(socket.exists(), "nobody was there to remove it");
    d0.restart().await;
    until("it answers there again", async || client.text("/healthz").await.is_ok()).await;
    d0.signal(Signal::TERM);
    assert_eq!(d0.ended().await.code(), Some(0));
    assert!(!socket.exists());
}

/// The certificate that an HTTPS server presents.
async fn presented(agent: &Process) -> Option<Vec<u8>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(agent.api).await.ok()?;
    let stream = connector.connect("localhost".try_into().unwrap(), stream).await.ok()?;
    Some(stream.get_ref().1.peer_certificates()?[0].to_vec())
}

#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &rustls::pki_types::CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &rustls::pki_types::CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Writes a new self-signed certificate and its key; the certificate, as it will be presented.
fn self_signed(dir: &Path) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(dir.join("api.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.join("api-key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().to_vec()
}

#[tokio::test]
async fn the_apis_certificate_and_token_are_read_anew_at_sighup() {
    let site = Site::new();
    let dir = site.path().display();
    let first = self_signed(site.path());
    let part = format!("tls = {{ cert = \"{dir}/api.pem\", key = \"{dir}/api-key.pem\" }}");
    let d0 = site.start("d0", Setup { api: &part, ..Setup::DECODE }).await;
    assert_eq!(presented(&d0).await.as_ref(), Some(&first));
    let second = self_signed(site.path());
    d0.signal(Signal::HUP);
    until("the new one is presented", async || presented(&d0).await.as_ref() == Some(&second)).await;
    // Files that do not go together are refused, and the pair of before goes on.
    std::fs::write(site.path().join("api-key.pem"), "no key").unwrap();
    d0.signal(Signal::HUP);
    until("they are refused", async || d0.log().contains("api.tls.key")).await;
    assert_eq!(presented(&d0).await.as_ref(), Some(&second));

    let token_file = site.path().join("token");
    std::fs::write(&token_file, "correct-horse-battery\n").unwrap();
    let part = format!("token_file = \"{}\"", token_file.display());
    let d1 = site.start("d1", Setup { api: &part, first: false, ..Setup::DECODE }).await;
    let with = |token| Client::new(&format!("http://{}", d1.api), Some(token)).unwrap();
    let (old, new) = (with("correct-horse-battery"), with("another-horse-battery"));
    assert!(old.get::<Value>("/v1/status").await.is_ok());
    assert_eq!(new.get::<Value>("/v1/status").await.unwrap_err().status(), Some(401));
    std::fs::write(&token_file, "another-horse-battery\n").unwrap();
    d1.signal(Signal::HUP);
    until("the new token opens", async || new.get::<Value>("/v1/status").await.is_ok()).await;
    assert_eq!(old.get::<Value>("/v1/status").await.unwrap_err().status(), Some(401));
}

#[tokio::test]
async fn a_renewed_node_certificate_is_taken_at_sighup_and_nobody_is_cut_off() {
    let site = Site::new();
    certs::init_ca(site.path(), "seam").unwrap();
    let issue = |name: &str| certs::issue(site.path(), site.path(), &name.parse().unwrap(), &[]).unwrap();
    let tls = |name: &str| {
        let dir = site.path().display();
        format!("ca = \"{dir}/ca.pem\"\ncert = \"{dir}/{name}.pem\"\nkey = \"{dir}/{name}-key.pem\"")
    };
    for name in ["d0", "p0", "p1"] {
        issue(name);
    }
    let d0 = site.start("d0", Setup { tls: Some(&tls("d0")), ..Setup::DECODE }).await;
    let p0 = site.start("p0", Setup { tls: Some(&tls("p0")), ..Setup::PREFILL }).await;
    p0.settled(1).await;

    // A new key and a new certificate in the same files.
    for file in ["d0.pem", "d0-key.pem"] {
        std::fs::remove_file(site.path().join(file)).unwrap();
    }
    issue("d0");
    d0.signal(Signal::HUP);
    until("it is taken", async || d0.metric(OK).await == Some(1.0)).await;

    // Who was connected stays so, and one that connects only now is let in: both move bytes.
    let p1 = site.start("p1", Setup { tls: Some(&tls("p1")), ..Setup::PREFILL }).await;
    for prefill in [&p0, &p1] {
        prefill.settled(1).await;
        let lease = prefill.leased(&request("batch", 100_000)).await;
        let report = prefill.transfer(&lease, 100_000).await.unwrap();
        assert_eq!(report.result, seam::api::TransferResult::Delivered, "{report:?}");
    }
    // Another node's certificate is not taken.
    for (from, to) in [("p1.pem", "d0.pem"), ("p1-key.pem", "d0-key.pem")] {
        std::fs::copy(site.path().join(from), site.path().join(to)).unwrap();
    }
    d0.signal(Signal::HUP);
    until("it is refused", async || d0.metric(REFUSED).await == Some(1.0)).await;
    assert!(d0.alive("p1").await.is_some());
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_counted_and_stops_nothing() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: this machine has no /dev/full");
        return;
    }
    let site = Site::new();
    let mut d0 = site.spawn_into("d0", Setup::DECODE, &[], Path::new("/dev/full"));
    d0.answers().await;
    let lost = "seam_queue_dropped_total{queue=\"log\"}";
    until("lost lines are counted", async || d0.metric(lost).await.is_some_and(|lines| lines >= 1.0)).await;
    assert!(d0.runs());
    d0.signal(Signal::TERM);
    assert_eq!(d0.ended().await.code(), Some(0));
}
