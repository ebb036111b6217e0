//! Whose word a record is: certificates of the cluster's authority, and Ed25519 signatures.

use std::fmt;
use std::time::Duration;

use pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::model::NodeName;

/// What the name in a node's certificate must be.
#[must_use]
pub fn node_uri(cluster: &str, node: &NodeName) -> String {
    format!("spiffe://seam/{cluster}/{node}")
}

/// The origin's Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublicKey([u8; 32]);

impl PublicKey {
    pub(crate) fn verifies(&self, signature: &[u8], bytes: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(bytes, signature).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey")
    }
}

/// The algorithms with which an authority may have signed a certificate.
static SIGNED_WITH: &[&dyn SignatureVerificationAlgorithm] = &[
    webpki::ring::ED25519,
    webpki::ring::ECDSA_P256_SHA256,
    webpki::ring::ECDSA_P384_SHA384,
    webpki::ring::RSA_PKCS1_2048_8192_SHA256,
    webpki::ring::RSA_PKCS1_2048_8192_SHA384,
    webpki::ring::RSA_PKCS1_2048_8192_SHA512,
];

/// An Ed25519 `SubjectPublicKeyInfo` up to the key's 32 bytes.
const ED25519_SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The key of `node` out of its certificate, if the authority vouches for it at this time.
pub(crate) fn key_of(
    ca_der: &[u8],
    cluster: &str,
    node: &NodeName,
    certificate: &[u8],
    wall_ms: u64,
) -> Option<PublicKey> {
    let authority = CertificateDer::from(ca_der);
    let anchor = anchor_from_trusted_cert(&authority).ok()?;
    let certificate = CertificateDer::from(certificate);
    let certificate = EndEntityCert::try_from(&certificate).ok()?;
    let at = UnixTime::since_unix_epoch(Duration::from_millis(wall_ms));
    certificate.verify_for_usage(SIGNED_WITH, &[anchor], &[], at, KeyUsage::client_auth(), None, None).ok()?;
    let mut names = certificate.valid_uri_names().filter(|name| name.starts_with("spiffe:"));
    if names.next()? != node_uri(cluster, node) || names.next().is_some() {
        return None;
    }
    let info = certificate.subject_public_key_info();
    let key = info.as_ref().strip_prefix(&ED25519_SPKI)?;
    Some(PublicKey(key.try_into().ok()?))
}

/// Signs this node's records. The core asks for signatures and never holds the key.
pub struct RecordSigner(Ed25519KeyPair);

impl RecordSigner {
    /// Takes a PKCS#8 private key.
    ///
    /// # Errors
    /// The bytes are no Ed25519 key.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, NotEd25519> {
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Self).map_err(|error| NotEd25519(error.to_string()))
    }

    /// The signature of `bytes`, 64 bytes; always the same.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).as_ref().to_vec()
    }
}

impl fmt::Debug for RecordSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordSigner")
    }
}

/// A private key that cannot sign records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node's private key is not a PKCS#8 Ed25519 key: {0}")]
pub struct NotEd25519(String);
