//! Certificates of a cluster: one CA, one certificate a node, all with Ed25519 keys.
//!
//! A node's certificate names it by the URI `spiffe://seam/<cluster>/<name>`; the CA's own is
//! `spiffe://seam/<cluster>`, which is how [`issue`] knows the cluster.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, SanType, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::mesh::node_uri;
use crate::model::NodeName;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Certificates are valid from a day ago, for hosts whose clocks run behind.
const BACKDATED: Duration = DAY;
const CA_VALID: Duration = Duration::from_secs(3_650 * 24 * 3600);
const NODE_VALID: Duration = Duration::from_secs(365 * 24 * 3600);
const MAX_SANS: usize = 64;

/// The CA certificate's file name in a CA directory.
pub const CA_CERT: &str = "ca.pem";
/// The CA key's file name in a CA directory.
pub const CA_KEY: &str = "ca-key.pem";

/// Why no certificate was made. No file was changed, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// The file exists; replacing a CA or a key is left to its owner.
    #[error("{} exists already; move it away first", .0.display())]
    Exists(PathBuf),
    /// A file could not be read or written. Files written before it remain.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// A file holds something else than it should.
    #[error("{}: {detail}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What was found and what is expected.
        detail: String,
    },
    /// A cluster name or a subject name that cannot be used.
    #[error("{field} {found:?}: {allowed}")]
    Name {
        /// Which argument.
        field: &'static str,
        /// What was found.
        found: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The certificate could not be built.
    #[error("certificate generation failed: {0}")]
    Generate(#[from] rcgen::Error),
}

/// The two files that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The certificate, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM (PKCS#8), readable by its owner only.
    pub key: PathBuf,
}

/// Makes the CA of `cluster` in `dir` (created if missing): `ca.pem` and `ca-key.pem`, valid for
/// ten years.
///
/// # Errors
/// Refuses to replace either file; says which file or name is at fault.
pub fn init_ca(dir: &Path, cluster: &str) -> Result<Issued, CertsError> {
    check_cluster(cluster)?;
    let issued = Issued { cert: dir.join(CA_CERT), key: dir.join(CA_KEY) };
    refuse_existing(&issued)?;
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let cert = ca_params(cluster)?.self_signed(&key)?;
    create_dir(dir)?;
    write_new(&issued.key, &key.serialize_pem(), 0o600)?;
    write_new(&issued.cert, &cert.pem(), 0o644)?;
    Ok(issued)
}

/// Makes a certificate for `node`, valid for a year as server and client, signed by the CA in
/// `ca_dir`: `NAME.pem` and `NAME-key.pem` in `out_dir`. `sans` are further host names or IP
/// addresses.
///
/// # Errors
/// Refuses to replace either file; says which file or name is at fault.
pub fn issue(ca_dir: &Path, out_dir: &Path, node: &NodeName, sans: &[String]) -> Result<Issued, CertsError> {
    let issued = Issued { cert: out_dir.join(format!("{node}.pem")), key: out_dir.join(format!("{node}-key.pem")) };
    refuse_existing(&issued)?;
    let minted = Ca::load(ca_dir)?.mint(node, sans)?;
    create_dir(out_dir)?;
    write_new(&issued.key, &minted.key.serialize_pem(), 0o600)?;
    write_new(&issued.cert, &minted.cert.pem(), 0o644)?;
    Ok(issued)
}

/// The cluster that the CA in `ca_dir` belongs to.
///
/// # Errors
/// Says what is wrong with the CA's certificate file.
pub fn cluster_of(ca_dir: &Path) -> Result<String, CertsError> {
    read_ca(&ca_dir.join(CA_CERT)).map(|(_, cluster)| cluster)
}

/// A certificate that is not in a file yet.
pub(crate) struct Minted {
    pub(crate) cert: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

/// A loaded CA.
pub(crate) struct Ca {
    pub(crate) cluster: String,
    pub(crate) cert: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub(crate) fn load(dir: &Path) -> Result<Self, CertsError> {
        let (cert, cluster) = read_ca(&dir.join(CA_CERT))?;
        let path = dir.join(CA_KEY);
        let key = KeyPair::from_pem(&read(&path)?).map_err(|error| CertsError::Content {
            path: path.clone(),
            detail: format!("not a PKCS#8 private key in PEM form ({error})"),
        })?;
        let matches = webpki::EndEntityCert::try_from(&cert)
            .is_ok_and(|parsed| parsed.subject_public_key_info().ends_with(key.public_key_raw()));
        if !matches {
            return Err(CertsError::Content { path, detail: format!("not the key of {CA_CERT} beside it") });
        }
        // The issuer name and key identifier follow from the cluster and the key alone.
        let issuer = Issuer::new(ca_params(&cluster)?, key);
        Ok(Self { cluster, cert, issuer })
    }

    pub(crate) fn mint(&self, node: &NodeName, sans: &[String]) -> Result<Minted, CertsError> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut params = base_params(NODE_VALID);
        params.distinguished_name.push(DnType::CommonName, node.as_str());
        params.subject_alt_names.push(SanType::URI(node_uri(&self.cluster, node).try_into()?));
        params.subject_alt_names.extend(host_names(sans)?);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Ok(Minted { cert: params.signed_by(&key, &self.issuer)?, key })
    }
}

fn cluster_uri(cluster: &str) -> String {
    format!("spiffe://seam/{cluster}")
}

/// A cluster name follows the rules of node names.
pub(crate) fn check_cluster(cluster: &str) -> Result<(), CertsError> {
    NodeName::new(cluster).map(drop).map_err(|error| CertsError::Name {
        field: "cluster",
        found: error.found,
        allowed: error.allowed,
    })
}

fn base_params(valid: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch.saturating_sub(BACKDATED);
    params.not_after = epoch + since_epoch + valid;
    params
}

fn ca_params(cluster: &str) -> Result<CertificateParams, CertsError> {
    let mut params = base_params(CA_VALID);
    params.distinguished_name.push(DnType::CommonName, format!("Seam CA of {cluster}"));
    params.subject_alt_names.push(SanType::URI(cluster_uri(cluster).try_into()?));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn host_names(sans: &[String]) -> Result<Vec<SanType>, CertsError> {
    let bad =
        |found: &str, allowed| CertsError::Name { field: "san", found: found.chars().take(80).collect(), allowed };
    if sans.len() > MAX_SANS {
        return Err(bad(&sans.len().to_string(), "at most 64 names"));
    }
    sans.iter()
        .map(|san| match san.parse() {
            Ok(address) => Ok(SanType::IpAddress(address)),
            Err(_) if rustls::pki_types::DnsName::try_from(san.as_str()).is_ok() => {
                Ok(SanType::DnsName(san.as_str().try_into()?))
            }
            Err(_) => Err(bad(san, "a host name or an IP address")),
        })
        .collect()
}

fn read_ca(path: &Path) -> Result<(CertificateDer<'static>, String), CertsError> {
    let content = |detail: String| CertsError::Content { path: path.to_owned(), detail };
    let cert = CertificateDer::from_pem_slice(read(path)?.as_bytes())
        .map_err(|error| content(format!("not a certificate in PEM form ({error})")))?;
    let cluster = {
        let parsed = webpki::EndEntityCert::try_from(&cert).map_err(|error| content(error.to_string()))?;
        let cluster = parsed.valid_uri_names().find_map(|uri| uri.strip_prefix("spiffe://seam/").map(str::to_owned));
        cluster.ok_or_else(|| content("not a CA of a Seam cluster: it has no name spiffe://seam/CLUSTER".to_owned()))?
    };
    check_cluster(&cluster).map_err(|error| content(error.to_string()))?;
    Ok((cert, cluster))
}

fn refuse_existing(issued: &Issued) -> Result<(), CertsError> {
    match [&issued.cert, &issued.key].into_iter().find(|path| path.exists()) {
        Some(path) => Err(CertsError::Exists(path.clone())),
        None => Ok(()),
    }
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> CertsError {
    move |source| CertsError::File { path: path.to_owned(), source }
}

fn read(path: &Path) -> Result<String, CertsError> {
    fs::read_to_string(path).map_err(file_error(path))
}

fn create_dir(path: &Path) -> Result<(), CertsError> {
    fs::create_dir_all(path).map_err(file_error(path))
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CertsError> {
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(file_error(path))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(file_error(path))
}
