//! Certificates: what is made, what is refused with which words, and who may talk to whom.
#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use seam::model::NodeName;
use seam::net::{Endpoint, NetError, NodeIdentity, TlsError, Traffic, certs};
use tempfile::TempDir;

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A CA for cluster `c` and issued certificates for `nodes` beside it.
fn cluster(nodes: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    certs::init_ca(dir.path(), "c").unwrap();
    for node in nodes {
        certs::issue(dir.path(), dir.path(), &name(node), &[]).unwrap();
    }
    dir
}

fn paths(dir: &Path, node: &str) -> (PathBuf, PathBuf, PathBuf) {
    (dir.join("ca.pem"), dir.join(format!("{node}.pem")), dir.join(format!("{node}-key.pem")))
}

fn load(dir: &Path, node: &str) -> Result<NodeIdentity, TlsError> {
    let (ca, cert, key) = paths(dir, node);
    NodeIdentity::load("c", &name(node), &ca, &cert, &key)
}

#[test]
fn an_issued_certificate_is_an_identity_and_its_key_is_private() {
    let dir = cluster(&["n.1_a"]);
    assert_eq!(certs::cluster_of(dir.path()).unwrap(), "c");
    let identity = load(dir.path(), "n.1_a").unwrap();
    assert_eq!((identity.node().as_str(), identity.cluster()), ("n.1_a", "c"));
    for key in ["ca-key.pem", "n.1_a-key.pem"] {
        let mode = fs::metadata(dir.path().join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
}

#[test]
fn host_names_and_addresses_go_into_the_certificate_and_others_are_refused() {
    let dir = cluster(&[]);
    let sans = ["host.example".to_owned(), "10.1.2.3".to_owned(), "fe80::1".to_owned()];
    let issued = certs::issue(dir.path(), dir.path(), &name("n"), &sans).unwrap();
    assert!(issued.cert.exists());
    let identity = load(dir.path(), "n").unwrap();
    let der = identity.certificate_der();
    for part in [&b"host.example"[..], &[10, 1, 2, 3][..]] {
        assert!(der.windows(part.len()).any(|window| window == part));
    }
    let error = certs::issue(dir.path(), dir.path(), &name("m"), &["a b".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("\"a b\""), "{error}");
    assert!(!dir.path().join("m.pem").exists());
}

#[test]
fn nothing_is_overwritten() {
    let dir = cluster(&["n"]);
    let before = fs::read(dir.path().join("ca.pem")).unwrap();
    assert!(matches!(certs::init_ca(dir.path(), "c"), Err(certs::CertsError::Exists(_))));
    assert!(matches!(certs::issue(dir.path(), dir.path(), &name("n"), &[]), Err(certs::CertsError::Exists(_))));
    assert_eq!(fs::read(dir.path().join("ca.pem")).unwrap(), before);
}

#[test]
fn a_ca_key_that_is_not_the_cas_issues_nothing() {
    let dir = cluster(&[]);
    let other = cluster(&[]);
    fs::copy(other.path().join("ca-key.pem"), dir.path().join("ca-key.pem")).unwrap();
    let error = certs::issue(dir.path(), dir.path(), &name("n"), &[]).unwrap_err();
    assert!(error.to_string().contains("not the key of ca.pem"), "{error}");
}

#[test]
fn each_fault_of_an_identity_has_its_own_words_and_names_the_file() {
    let dir = cluster(&["n", "m"]);
    let other = cluster(&["n"]);
    let garbage = dir.path().join("garbage");
    fs::write(&garbage, "no pem here").unwrap();
    let (ca, cert, key) = paths(dir.path(), "n");
    let missing = dir.path().join("missing");
    let (other_ca, other_cert, other_key) = paths(other.path(), "n");
    let n = name("n");
    let try_load = |ca: &Path, cert: &Path, key: &Path| NodeIdentity::load("c", &n, ca, cert, key).unwrap_err();
    let says = |error: TlsError, words: &str, file: &Path| {
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(file.to_str().unwrap()), "{text}");
    };

    says(try_load(&ca, &missing, &key), "No such file", &missing);
    says(try_load(&ca, &garbage, &key), "expected a certificate", &garbage);
    says(try_load(&ca, &cert, &garbage), "expected a PKCS#8 private key", &garbage);
    says(try_load(&garbage, &cert, &key), "expected a certificate", &garbage);
    says(try_load(&ca, &cert, &other_key), "not the private key of", &other_key);
    says(try_load(&ca, &other_cert, &other_key), "not signed by the CA", &other_cert);
    says(try_load(&other_ca, &cert, &key), "not signed by the CA", &cert);
    let (_, m_cert, m_key) = paths(dir.path(), "m");
    says(try_load(&ca, &m_cert, &m_key), "is for spiffe://seam/c/m, expected spiffe://seam/c/n", &m_cert);
    let error = NodeIdentity::load("d", &n, &ca, &cert, &key).unwrap_err();
    says(error, "expected spiffe://seam/d/n", &cert);
}

#[test]
fn a_certificate_whose_time_is_over_or_whose_key_is_of_another_kind_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ca_key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    fs::write(dir.path().join("ca.pem"), params.self_signed(&ca_key).unwrap().pem()).unwrap();
    let issuer = rcgen::Issuer::new(params, ca_key);
    let write = |params: &rcgen::CertificateParams, key: &rcgen::KeyPair| {
        fs::write(dir.path().join("n.pem"), params.signed_by(key, &issuer).unwrap().pem()).unwrap();
        fs::write(dir.path().join("n-key.pem"), key.serialize_pem()).unwrap();
    };
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI("spiffe://seam/c/n".try_into().unwrap())];
    let ed25519 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    write(&params, &ed25519);
    load(dir.path(), "n").expect("the plain certificate is good");

    write(&params, &rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap());
    assert!(matches!(load(dir.path(), "n"), Err(TlsError::NotEd25519 { .. })));

    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    write(&params, &ed25519);
    let error = load(dir.path(), "n").unwrap_err();
    assert!(error.to_string().contains("expired"), "{error}");

    params.not_after = rcgen::date_time_ymd(4000, 1, 1);
    params.not_before = rcgen::date_time_ymd(3000, 1, 1);
    write(&params, &ed25519);
    let error = load(dir.path(), "n").unwrap_err();
    assert!(error.to_string().contains("not valid before"), "{error}");
}

#[test]
fn agents_that_start_at_once_in_one_directory_share_one_development_ca() {
    let dir = tempfile::tempdir().unwrap();
    let identities: Vec<_> = std::thread::scope(|scope| {
        let make = |index: usize| {
            let dir = dir.path();
            scope.spawn(move || NodeIdentity::dev("c", &name(&format!("n{index}")), dir).unwrap())
        };
        let threads: Vec<_> = (0..8).map(make).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(identities.iter().all(|identity| identity.ca_der() == identities[0].ca_der()));
    let leftovers = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(leftovers, 1, "drafts of the losers are gone");
}

async fn connect_pair(
    from: &NodeIdentity,
    to: &NodeIdentity,
    expected: Option<&str>,
    traffic: Traffic,
) -> (Result<String, NetError>, Option<String>, u64) {
    let server = Endpoint::bind(local(), to, traffic).unwrap();
    let client = Endpoint::bind(local(), from, traffic).unwrap();
    let expected = expected.map(name);
    let connected = client.connect(server.local_addr(), expected.as_ref()).await;
    let accepted = match &connected {
        Ok(_) => server.accept().await.map(|connection| connection.peer().to_string()),
        Err(_) => None,
    };
    let peer = connected.map(|connection| connection.peer().to_string());
    client.close().await;
    server.close().await;
    (peer, accepted, server.counters().accepted)
}

#[tokio::test]
async fn nodes_of_one_cluster_connect_and_know_each_other_by_certificate() {
    let dir = cluster(&["a", "b"]);
    let (a, b) = (load(dir.path(), "a").unwrap(), load(dir.path(), "b").unwrap());
    for traffic in [Traffic::Mesh, Traffic::Rail] {
        for expected in [None, Some("b")] {
            let (peer, accepted, _) = connect_pair(&a, &b, expected, traffic).await;
            assert_eq!((peer.unwrap().as_str(), accepted.as_deref()), ("b", Some("a")));
        }
    }
}

#[tokio::test]
async fn another_node_than_the_expected_is_refused() {
    let dir = cluster(&["a", "b"]);
    let (a, b) = (load(dir.path(), "a").unwrap(), load(dir.path(), "b").unwrap());
    let (peer, _, accepted) = connect_pair(&a, &b, Some("c"), Traffic::Mesh).await;
    let error = peer.unwrap_err();
    assert!(matches!(&error, NetError::Identity { detail, .. } if detail.contains("this is b, expected c")), "{error}");
    assert_eq!(accepted, 0);
}

#[tokio::test]
async fn a_node_of_another_ca_or_cluster_is_refused_by_either_side() {
    let (dir, other) = (cluster(&["a", "b"]), cluster(&["a"]));
    let (a, b) = (load(dir.path(), "a").unwrap(), load(dir.path(), "b").unwrap());
    let stranger = load(other.path(), "a").unwrap();
    for (from, to) in [(&stranger, &b), (&b, &stranger)] {
        let (peer, _, accepted) = connect_pair(from, to, None, Traffic::Rail).await;
        let error = peer.unwrap_err();
        assert!(matches!(error, NetError::Identity { .. }), "{error}");
        assert_eq!(accepted, 0);
    }
    assert!(connect_pair(&a, &b, None, Traffic::Rail).await.0.is_ok(), "the same nodes do connect otherwise");
}

#[test]
fn a_new_certificate_is_valid_for_hosts_whose_clocks_are_an_hour_off() {
    let dir = cluster(&["n"]);
    let identity = load(dir.path(), "n").unwrap();
    let (ca, leaf) = (identity.ca_der().to_vec().into(), identity.certificate_der().to_vec().into());
    let anchor = webpki::anchor_from_trusted_cert(&ca).unwrap();
    let leaf = webpki::EndEntityCert::try_from(&leaf).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let valid = |at: u64| {
        let at = pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(at));
        let usage = webpki::KeyUsage::client_auth();
        leaf.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, std::slice::from_ref(&anchor), &[], at, usage, None, None)
            .is_ok()
    };
    assert!([now - 3_600, now, now + 3_600].into_iter().all(valid));
    assert!(!valid(now - 2 * 86_400) && !valid(now + 366 * 86_400), "its time has ends");
}

/// Another certificate of `node` of the CA in `dir`, with a new key.
fn renewed(dir: &Path, node: &str) -> NodeIdentity {
    let out = tempfile::tempdir_in(dir).unwrap();
    let issued = certs::issue(dir, out.path(), &name(node), &[]).unwrap();
    NodeIdentity::load("c", &name(node), &dir.join("ca.pem"), &issued.cert, &issued.key).unwrap()
}

#[tokio::test]
async fn a_renewed_certificate_is_presented_in_new_handshakes_and_old_connections_stay() {
    let dir = cluster(&["a", "b"]);
    let (a, b) = (load(dir.path(), "a").unwrap(), load(dir.path(), "b").unwrap());
    for traffic in [Traffic::Mesh, Traffic::Rail] {
        let server = Endpoint::bind(local(), &b, traffic).unwrap();
        let client = Endpoint::bind(local(), &a, traffic).unwrap();
        let connect = async || {
            let connected = client.connect(server.local_addr(), Some(&name("b"))).await.unwrap();
            (connected, server.accept().await.unwrap())
        };
        let (old_out, old_in) = connect().await;
        assert_eq!(old_out.peer_certificate().unwrap(), b.certificate_der());

        let (new_a, new_b) = (renewed(dir.path(), "a"), renewed(dir.path(), "b"));
        assert_ne!(new_b.certificate_der(), b.certificate_der());
        server.set_identity(&new_b).unwrap();
        client.set_identity(&new_a).unwrap();
        let (new_out, new_in) = connect().await;
        assert_eq!(new_out.peer_certificate().unwrap(), new_b.certificate_der());
        assert_eq!(new_in.peer_certificate().unwrap(), new_a.certificate_der());
        assert_eq!(old_in.peer_certificate().unwrap(), a.certificate_der());
        assert!(old_out.is_open() && old_in.is_open(), "the swap touches no connection");
    }
}

#[tokio::test]
async fn a_running_endpoint_takes_no_other_name_cluster_or_ca() {
    let dir = cluster(&["a", "b"]);
    let other = cluster(&["a"]);
    let a = load(dir.path(), "a").unwrap();
    let endpoint = Endpoint::bind(local(), &a, Traffic::Mesh).unwrap();
    let refused = |identity: &NodeIdentity| endpoint.set_identity(identity).unwrap_err().to_string();
    let text = refused(&load(dir.path(), "b").unwrap());
    assert!(text.starts_with("node.name: the new certificate has \"b\", this node runs with \"a\""), "{text}");
    let text = refused(&load(other.path(), "a").unwrap());
    assert!(text.starts_with("tls.ca: the new certificate has another CA"), "{text}");
    let elsewhere = tempfile::tempdir().unwrap();
    certs::init_ca(elsewhere.path(), "d").unwrap();
    certs::issue(elsewhere.path(), elsewhere.path(), &name("a"), &[]).unwrap();
    let (ca, cert, key) = paths(elsewhere.path(), "a");
    let text = refused(&NodeIdentity::load("d", &name("a"), &ca, &cert, &key).unwrap());
    assert!(text.starts_with("node.cluster: the new certificate has \"d\""), "{text}");
    endpoint.set_identity(&a).unwrap();
}

#[tokio::test]
async fn mesh_and_rail_endpoints_do_not_mix() {
    let dir = cluster(&["a", "b"]);
    let (a, b) = (load(dir.path(), "a").unwrap(), load(dir.path(), "b").unwrap());
    let server = Endpoint::bind(local(), &b, Traffic::Mesh).unwrap();
    let client = Endpoint::bind(local(), &a, Traffic::Rail).unwrap();
    let error = client.connect(server.local_addr(), None).await.unwrap_err();
    assert!(matches!(error, NetError::Identity { .. }), "{error}");
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_unreachable_and_a_taken_one_cannot_be_bound() {
    let dir = cluster(&["a"]);
    let a = load(dir.path(), "a").unwrap();
    let client = Endpoint::bind(local(), &a, Traffic::Mesh).unwrap();
    let silent = std::net::UdpSocket::bind(local()).unwrap();
    let addr = silent.local_addr().unwrap();
    assert!(matches!(client.connect(addr, None).await, Err(NetError::Unreachable { .. })));
    assert!(matches!(Endpoint::bind(addr, &a, Traffic::Mesh), Err(NetError::Bind { .. })));
    client.close().await;
    assert!(matches!(client.connect(addr, None).await, Err(NetError::Closed)));
}
