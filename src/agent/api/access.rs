//! How clients are let in: the token they need, the certificate they are shown.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::ApiError;
use super::guard::Token;
use crate::config::{ApiConfig, ApiTls};

/// The token and the certificate, as their files were when they were read.
#[derive(Default)]
pub struct Access {
    pub(super) token: Option<Token>,
    pub(super) tls: Option<TlsAcceptor>,
}

impl Access {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// [`ApiError::File`]: one cannot be used.
    pub fn load(config: &ApiConfig) -> Result<Self, ApiError> {
        let token = config.token_file.as_deref().map(Token::load).transpose()?;
        let tls = config.tls.as_ref().map(acceptor).transpose()?;
        Ok(Self { token, tls })
    }
}

/// The server's side of TLS.
fn acceptor(files: &ApiTls) -> Result<TlsAcceptor, ApiError> {
    let unusable = |key: &'static str, path: &Path| {
        let path = path.to_owned();
        move |detail: String| ApiError::File { key, path, detail }
    };
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable("api.tls.cert", &files.cert)(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unusable("api.tls.key", &files.key)(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| unusable("api.tls.cert", &files.cert)(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
