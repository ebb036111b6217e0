//! What makes a peer's certificate acceptable.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};

use crate::model::NodeName;

/// Which node must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Any node of the cluster: incoming connections, and seeds known by address only.
    AnyMember,
    /// This one.
    Node(NodeName),
}

/// What a certificate is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    Server,
    Client,
}

/// Why a chain is not acceptable.
#[derive(Debug)]
pub(crate) enum ChainFault {
    OutOfDate(String),
    Other(webpki::Error),
}

/// The cluster's CA and name.
#[derive(Debug)]
pub(crate) struct Trust {
    cluster: String,
    ca: CertificateDer<'static>,
    anchor: TrustAnchor<'static>,
}

impl Trust {
    pub(crate) fn new(cluster: &str, ca: CertificateDer<'static>) -> Result<Self, String> {
        let anchor = webpki::anchor_from_trusted_cert(&ca)
            .map_err(|error| format!("not a usable CA certificate ({error})"))?
            .to_owned();
        Ok(Self { cluster: cluster.to_owned(), ca, anchor })
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }

    pub(crate) fn ca(&self) -> &[u8] {
        &self.ca
    }

    /// Whether the CA's own time is over; path validation does not look at an anchor's dates.
    pub(crate) fn ca_out_of_date(&self, now: UnixTime) -> Option<String> {
        match self.check_chain(&self.ca, &[], Usage::Server, now) {
            Err(ChainFault::OutOfDate(detail)) => Some(detail),
            _ => None,
        }
    }

    pub(crate) fn check_chain(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        usage: Usage,
        now: UnixTime,
    ) -> Result<(), ChainFault> {
        let usage = match usage {
            Usage::Server => KeyUsage::server_auth(),
            Usage::Client => KeyUsage::client_auth(),
        };
        EndEntityCert::try_from(leaf)
            .and_then(|cert| {
                let algorithms = provider::default_provider().signature_verification_algorithms.all;
                cert.verify_for_usage(
                    algorithms,
                    std::slice::from_ref(&self.anchor),
                    intermediates,
                    now,
                    usage,
                    None,
                    None,
                )
                .map(drop)
            })
            .map_err(|error| match error {
                webpki::Error::CertExpired { time, not_after } => ChainFault::OutOfDate(format!(
                    "expired {} s ago",
                    time.as_secs().saturating_sub(not_after.as_secs())
                )),
                webpki::Error::CertNotValidYet { time, not_before } => ChainFault::OutOfDate(format!(
                    "not valid before {} s from now; is the clock right?",
                    not_before.as_secs().saturating_sub(time.as_secs())
                )),
                other => ChainFault::Other(other),
            })
    }

    /// The node that `cert` names, if it is one of the cluster.
    pub(crate) fn member_name(&self, cert: &CertificateDer<'_>) -> Result<NodeName, String> {
        let parsed = EndEntityCert::try_from(cert).map_err(|error| error.to_string())?;
        let mut uris = parsed.valid_uri_names();
        let (Some(uri), None) = (uris.next(), uris.next()) else {
            return Err("a certificate with exactly one URI was expected".to_owned());
        };
        let name = uri
            .strip_prefix("spiffe://seam/")
            .and_then(|rest| rest.strip_prefix(self.cluster.as_str()))
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(|| format!("{uri} is not of cluster {}", self.cluster))?;
        NodeName::new(name).map_err(|error| error.to_string())
    }

    fn check_peer(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        usage: Usage,
        expected: &Expected,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        self.check_chain(leaf, intermediates, usage, now).map_err(|fault| match fault {
            ChainFault::OutOfDate(detail) => refused(detail),
            ChainFault::Other(webpki::Error::UnknownIssuer) => refused("signed by another CA".to_owned()),
            ChainFault::Other(error) => refused(format!("{error:?}")),
        })?;
        let found = self.member_name(leaf).map_err(refused)?;
        match expected {
            Expected::Node(node) if *node != found => Err(refused(format!("this is {found}, expected {node}"))),
            Expected::Node(_) | Expected::AnyMember => Ok(()),
        }
    }
}

/// A refusal in words, which the connection error then carries.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

fn refused(detail: String) -> rustls::Error {
    CertificateError::Other(OtherError(Arc::new(Refusal(detail)))).into()
}

/// Accepts certificates of the cluster, in either direction of a connection.
#[derive(Debug)]
pub(crate) struct MemberVerifier {
    trust: Arc<Trust>,
    expected: Expected,
}

impl MemberVerifier {
    pub(crate) fn new(trust: Arc<Trust>, expected: Expected) -> Self {
        Self { trust, expected }
    }
}

/// What both directions check alike: TLS 1.3, and Ed25519 alone.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("TLS 1.2 is not spoken here".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = provider::default_provider().signature_verification_algorithms;
            verify_tls13_signature(message, cert, signed, &algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }
    };
}

impl ServerCertVerifier for MemberVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.trust.check_peer(end_entity, intermediates, Usage::Server, &self.expected, now)?;
        Ok(ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for MemberVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.trust.check_peer(end_entity, intermediates, Usage::Client, &self.expected, now)?;
        Ok(ClientCertVerified::assertion())
    }

    signatures!();
}
