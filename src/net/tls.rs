//! Who this node is, and what it accepts of others: certificates that chain to the cluster's CA
//! and name a node of the cluster, over TLS 1.3 with both sides authenticated.
//!
//! There is no session resumption and no 0-RTT: every connection proves both identities anew.

mod verify;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ServerConfig};

use super::ResetSecret;
use super::certs::{self, Ca, CertsError};
use crate::mesh::node_uri;
use crate::model::NodeName;
use verify::{ChainFault, MemberVerifier, Trust};
pub(crate) use verify::{Expected, Usage};

/// The DER encoding of an Ed25519 public key, up to the key itself.
const ED25519_SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The file does not hold what it should.
    #[error("{}: {detail}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What was expected.
        detail: String,
    },
    /// The certificate has another kind of key.
    #[error("{}: the certificate's key is not Ed25519", path.display())]
    NotEd25519 {
        /// The certificate.
        path: PathBuf,
    },
    /// Key and certificate do not belong together.
    #[error("{}: not the private key of {}", key.display(), cert.display())]
    KeyMismatch {
        /// The key.
        key: PathBuf,
        /// The certificate.
        cert: PathBuf,
    },
    /// The certificate is not the CA's work.
    #[error("{}: not signed by the CA in {} ({detail})", cert.display(), ca.display())]
    NotSigned {
        /// The certificate.
        cert: PathBuf,
        /// The CA's certificate.
        ca: PathBuf,
        /// What the check found.
        detail: String,
    },
    /// The certificate's time is over or has not come.
    #[error("{}: {detail}", path.display())]
    OutOfDate {
        /// The certificate.
        path: PathBuf,
        /// Since when, or from when on.
        detail: String,
    },
    /// The certificate names something else.
    #[error("{}: the certificate is for {found}, expected {expected}", path.display())]
    WrongName {
        /// The certificate.
        path: PathBuf,
        /// The URI it should have.
        expected: String,
        /// What it has.
        found: String,
    },
    /// The throw-away CA could not be made or used.
    #[error("development certificates: {0}")]
    Dev(#[from] CertsError),
}

/// One node's certificate, its key, and the CA of its cluster.
#[derive(Clone)]
pub struct NodeIdentity {
    node: NodeName,
    chain: Vec<CertificateDer<'static>>,
    key_pkcs8: Arc<[u8]>,
    trust: Arc<Trust>,
    reset: Option<ResetSecret>,
}

impl std::fmt::Debug for NodeIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeIdentity({})", node_uri(self.cluster(), &self.node))
    }
}

impl NodeIdentity {
    /// Reads and checks the identity of `node` in `cluster`: `ca` and `cert` in PEM form (the
    /// node's certificate first, intermediate ones after it), `key` as PKCS#8 PEM.
    ///
    /// # Errors
    /// One for each thing that can be wrong, naming the file at fault.
    pub fn load(cluster: &str, node: &NodeName, ca: &Path, cert: &Path, key: &Path) -> Result<Self, TlsError> {
        certs::check_cluster(cluster)?;
        let ca_ders = read_certs(ca)?;
        let [ca_der] = ca_ders.as_slice() else {
            return Err(content(ca, format!("expected one CA certificate, found {}", ca_ders.len())));
        };
        let trust = Trust::new(cluster, ca_der.clone()).map_err(|error| content(ca, error))?;
        if let Some(fault) = trust.ca_out_of_date(UnixTime::now()) {
            return Err(TlsError::OutOfDate { path: ca.to_owned(), detail: fault });
        }
        let chain = read_certs(cert)?;
        let key_pem = fs::read(key).map_err(|source| TlsError::Unreadable { path: key.to_owned(), source })?;
        let key_der = PrivatePkcs8KeyDer::from_pem_slice(&key_pem)
            .map_err(|error| content(key, format!("expected a PKCS#8 private key in PEM form ({error})")))?;
        let identity = Self {
            node: node.clone(),
            chain,
            key_pkcs8: key_der.secret_pkcs8_der().into(),
            trust: Arc::new(trust),
            reset: None,
        };
        identity.check(ca, cert, key)?;
        Ok(identity)
    }

    /// An identity from a throw-away CA under `dir` (`dev-ca-CLUSTER`), made there on first use.
    /// Agents of one machine that share `dir` share the CA and so accept one another. The node's
    /// own certificate and key are new at every start and never touch the disk.
    ///
    /// # Errors
    /// Says which file could not be made or read.
    pub fn dev(cluster: &str, node: &NodeName, dir: &Path) -> Result<Self, TlsError> {
        certs::check_cluster(cluster)?;
        let ca_dir = dir.join(format!("dev-ca-{cluster}"));
        if !ca_dir.exists() {
            make_dev_ca(cluster, dir, &ca_dir)?;
        }
        let ca = Ca::load(&ca_dir)?;
        let minted = ca.mint(node, &["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()])?;
        let ca_path = ca_dir.join(certs::CA_CERT);
        let trust = Trust::new(&ca.cluster, ca.cert.clone()).map_err(|error| content(&ca_path, error))?;
        let identity = Self {
            node: node.clone(),
            chain: vec![minted.cert.der().clone()],
            key_pkcs8: minted.key.serialized_der().into(),
            trust: Arc::new(trust),
            reset: None,
        };
        identity.check(&ca_path, &ca_dir, &ca_dir)?;
        Ok(identity)
    }

    /// The same, whose endpoints end the connections of an earlier life of theirs: see
    /// [`ResetSecret`]. Without one, peers of a process that was killed find out by their idle
    /// timeout.
    #[must_use]
    pub fn with_reset_secret(self, secret: ResetSecret) -> Self {
        Self { reset: Some(secret), ..self }
    }

    pub(super) fn reset_secret(&self) -> Option<&ResetSecret> {
        self.reset.as_ref()
    }

    /// The node's name.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// The cluster's name.
    #[must_use]
    pub fn cluster(&self) -> &str {
        self.trust.cluster()
    }

    /// The node's certificate.
    #[must_use]
    pub fn certificate_der(&self) -> &[u8] {
        self.chain.first().map_or(&[], |cert| cert)
    }

    /// The CA's certificate.
    #[must_use]
    pub fn ca_der(&self) -> &[u8] {
        self.trust.ca()
    }

    /// The node's Ed25519 private key, PKCS#8: what signs its records.
    #[must_use]
    pub fn private_key_pkcs8(&self) -> &[u8] {
        &self.key_pkcs8
    }

    /// What will be the matter with its certificate, or with its CA's, in so much time; none if nothing.
    #[must_use]
    pub fn over_within(&self, time: Duration) -> Option<String> {
        let then = UnixTime::since_unix_epoch(Duration::from_secs(UnixTime::now().as_secs()).saturating_add(time));
        let (leaf, intermediates) = self.chain.split_first()?;
        match self.trust.check_chain(leaf, intermediates, Usage::Server, then) {
            Err(ChainFault::OutOfDate(detail)) => Some(detail),
            Err(ChainFault::Other(error)) => Some(error.to_string()),
            Ok(()) => self.trust.ca_out_of_date(then),
        }
    }

    pub(crate) fn server_config(&self, alpn: &[u8]) -> Result<ServerConfig, rustls::Error> {
        let verifier = Arc::new(MemberVerifier::new(Arc::clone(&self.trust), Expected::AnyMember));
        let mut config = ServerConfig::builder_with_provider(crypto_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), self.key())?;
        config.alpn_protocols = vec![alpn.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok(config)
    }

    pub(crate) fn client_config(&self, alpn: &[u8], expected: Expected) -> Result<ClientConfig, rustls::Error> {
        let verifier = Arc::new(MemberVerifier::new(Arc::clone(&self.trust), expected));
        let mut config = ClientConfig::builder_with_provider(crypto_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(self.chain.clone(), self.key())?;
        config.alpn_protocols = vec![alpn.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        config.enable_early_data = false;
        Ok(config)
    }

    /// The name in a certificate that the handshake has already verified.
    pub(crate) fn member_name(&self, cert: &CertificateDer<'_>) -> Result<NodeName, String> {
        self.trust.member_name(cert)
    }

    /// This identity's trust with the other's certificate: what only a hand-made peer has.
    #[cfg(test)]
    pub(crate) fn presenting(&self, other: &Self) -> Self {
        Self { trust: Arc::clone(&self.trust), ..other.clone() }
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key_pkcs8.to_vec()).into()
    }

    fn check(&self, ca: &Path, cert: &Path, key: &Path) -> Result<(), TlsError> {
        let leaf = self.chain.first().ok_or_else(|| content(cert, "no certificate in it".to_owned()))?;
        let parsed = webpki::EndEntityCert::try_from(leaf)
            .map_err(|error| content(cert, format!("not a usable certificate ({error})")))?;
        let spki = parsed.subject_public_key_info();
        let public =
            spki.strip_prefix(&ED25519_SPKI_PREFIX).ok_or_else(|| TlsError::NotEd25519 { path: cert.to_owned() })?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&self.key_pkcs8)
            .map_err(|error| content(key, format!("not an Ed25519 private key ({error})")))?;
        if pair.public_key().as_ref() != public {
            return Err(TlsError::KeyMismatch { key: key.to_owned(), cert: cert.to_owned() });
        }
        let intermediates = self.chain.get(1..).unwrap_or_default();
        for usage in [Usage::Server, Usage::Client] {
            self.trust.check_chain(leaf, intermediates, usage, UnixTime::now()).map_err(|fault| match fault {
                ChainFault::OutOfDate(detail) => TlsError::OutOfDate { path: cert.to_owned(), detail },
                ChainFault::Other(error) => {
                    TlsError::NotSigned { cert: cert.to_owned(), ca: ca.to_owned(), detail: format!("{error:?}") }
                }
            })?;
        }
        let expected = node_uri(self.cluster(), &self.node);
        let found: Vec<_> = parsed.valid_uri_names().collect();
        if found != [expected.as_str()] {
            let found = if found.is_empty() { "no URI".to_owned() } else { found.join(", ") };
            return Err(TlsError::WrongName { path: cert.to_owned(), expected, found });
        }
        Ok(())
    }
}

/// ring, with AES-128-GCM first: it is the fastest on every host with AES instructions.
fn crypto_provider() -> Arc<CryptoProvider> {
    let mut chosen = provider::default_provider();
    chosen.cipher_suites = vec![
        provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
        provider::cipher_suite::TLS13_AES_256_GCM_SHA384,
        provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(chosen)
}

/// Makes the CA beside its final place and moves it there whole: of several makers at once, one
/// wins and the others use its work.
fn make_dev_ca(cluster: &str, dir: &Path, ca_dir: &Path) -> Result<(), TlsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Unreadable { path, source }
    };
    fs::create_dir_all(dir).map_err(unreadable(dir))?;
    let draft = tempfile::Builder::new().prefix(".dev-ca-").tempdir_in(dir).map_err(unreadable(dir))?;
    certs::init_ca(draft.path(), cluster)?;
    match fs::rename(draft.path(), ca_dir) {
        Ok(()) => {
            let _gone = draft.keep();
            Ok(())
        }
        Err(_) if ca_dir.exists() => Ok(()),
        Err(source) => Err(TlsError::Unreadable { path: ca_dir.to_owned(), source }),
    }
}

fn read_certs(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })?;
    let certs = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| content(path, format!("not valid PEM ({error})")))?;
    if certs.is_empty() {
        return Err(content(path, "expected a certificate in PEM form, found none".to_owned()));
    }
    Ok(certs)
}

fn content(path: &Path, detail: String) -> TlsError {
    TlsError::Content { path: path.to_owned(), detail }
}
