//! Where an agent listens.

use std::fmt;
use std::path::PathBuf;

/// Where an agent listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// `host:port`.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let allowed = "allowed http://HOST:PORT or unix:///PATH";
        if let Some(path) = url.strip_prefix("unix://") {
            let absolute = path.starts_with('/') && path.len() > 1;
            return if absolute { Ok(Self::Unix(path.into())) } else { Err(allowed.to_owned()) };
        }
        if url.starts_with("https://") {
            return Err(format!("https is not spoken here; {allowed}, or reach the agent through a Unix socket"));
        }
        let authority = url.strip_prefix("http://").ok_or(allowed)?.trim_end_matches('/');
        let printable = authority.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || !printable || authority.contains(['/', '@', '?', '#']) {
            return Err(allowed.to_owned());
        }
        let port = authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
        match port {
            None => Ok(Self::Tcp(format!("{authority}:80"))),
            Some(port) if port.parse::<u16>().is_ok_and(|port| port != 0) => Ok(Self::Tcp(authority.to_owned())),
            Some(_) => Err(allowed.to_owned()),
        }
    }

    /// The value of the `Host` header.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Tcp(authority) => authority,
            Self::Unix(_) => "localhost",
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "http://{authority}"),
            Self::Unix(path) => write!(f, "unix://{}:", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_agents_are_understood() {
        let tcp = |text: &str| Ok(Endpoint::Tcp(text.to_owned()));
        assert_eq!(Endpoint::parse("http://127.0.0.1:7980"), tcp("127.0.0.1:7980"));
        assert_eq!(Endpoint::parse("http://host/"), tcp("host:80"));
        assert_eq!(Endpoint::parse("http://[::1]:7980"), tcp("[::1]:7980"));
        assert_eq!(Endpoint::parse("http://[::1]"), tcp("[::1]:80"));
        assert_eq!(Endpoint::parse("unix:///run/seam.sock"), Ok(Endpoint::Unix("/run/seam.sock".into())));
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for url in
            ["", "127.0.0.1:7980", "http://", "http://h:0", "http://h:x", "http://u@h:1", "http://h/p", "unix://p"]
        {
            assert!(Endpoint::parse(url).unwrap_err().contains("http://HOST:PORT"), "{url}");
        }
        assert!(Endpoint::parse("https://h:1").unwrap_err().contains("https is not spoken"));
    }
}
