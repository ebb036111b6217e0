//! The secret by which a restarted node ends the connections of its earlier life.
//!
//! A peer that sends into a connection which this process does not know gets a stateless reset
//! (RFC 9000, section 10.3) and so dials again at once, instead of waiting for its idle timeout.
//! For that, a later process must recognise the connection ids of an earlier one and make the same
//! tokens for them.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quinn::EndpointConfig;
use quinn_proto::HashedConnectionIdGenerator;
use ring::hmac;

use super::TlsError;

/// The file's name in the folder that it is kept in.
const FILE: &str = "reset-secret";
const BYTES: usize = 32;
/// Between two resets of one endpoint: a restarted node resets a thousand peers in a second. Each is
/// smaller than what provoked it.
const RESET_EVERY: Duration = Duration::from_millis(1);

/// A node's secret, the same in all its lives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ResetSecret([u8; BYTES]);

impl fmt::Debug for ResetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetSecret")
    }
}

impl ResetSecret {
    /// Reads the secret in `dir`; makes it, readable by its owner only, where there is none yet.
    ///
    /// # Errors
    /// Says which file cannot be read or written, or holds something else.
    pub fn load_or_create(dir: &Path) -> Result<Self, TlsError> {
        let path = dir.join(FILE);
        let failed = |source| TlsError::Unreadable { path: path.clone(), source };
        match fs::read(&path) {
            Ok(bytes) => bytes.as_slice().try_into().map(Self).map_err(|_| TlsError::Content {
                path: path.clone(),
                detail: format!("found {} bytes, expected {BYTES}; remove it to have a new one made", bytes.len()),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut secret = [0; BYTES];
                getrandom::fill(&mut secret).map_err(|error| failed(io::Error::other(error.to_string())))?;
                fs::create_dir_all(dir).map_err(failed)?;
                // Temporary files are readable by their owner only.
                let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
                file.write_all(&secret).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
                file.persist(&path).map_err(|persist| failed(persist.error))?;
                Ok(Self(secret))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Keys for the endpoint at `addr` that speaks `alpn`. No two endpoints share them: one must
    /// not give away the tokens of another's connections.
    pub(super) fn apply(&self, config: &mut EndpointConfig, alpn: &[u8], addr: SocketAddr) {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let derive = |purpose: &str| {
            let label = [purpose.as_bytes(), b"\0", alpn, b"\0", addr.to_string().as_bytes()].concat();
            hmac::sign(&secret, &label)
        };
        let cid_key =
            derive("seam connection ids").as_ref().iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte));
        config
            .reset_key(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, derive("seam stateless reset").as_ref())))
            .cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(cid_key)))
            .min_reset_interval(RESET_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_secret_is_made_once_for_its_owner_alone_and_another_content_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("data");
        let secret = ResetSecret::load_or_create(&dir).unwrap();
        assert_eq!(ResetSecret::load_or_create(&dir).unwrap(), secret);
        assert_ne!(ResetSecret::load_or_create(&dir.join("other")).unwrap(), secret);
        assert_eq!(fs::metadata(dir.join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(dir.join(FILE), "x").unwrap();
        let text = ResetSecret::load_or_create(&dir).unwrap_err().to_string();
        assert!(text.contains("reset-secret") && text.contains("found 1 bytes, expected 32"), "{text}");
    }
}
