//! Where another node may be: a host name or an address, with or without a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A mesh endpoint's port where none is named.
pub const DEFAULT_MESH_PORT: u16 = 7981;

/// A host name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// As a resolver takes it: a name, or an address without brackets.
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

/// What a text is instead of a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {found:?}, allowed HOST, HOST:PORT, an IPv4 address with or without a port, an IPv6 address, \
     [IPV6] or [IPV6]:PORT; without a port {DEFAULT_MESH_PORT} is meant"
)]
pub struct InvalidHostPort {
    found: String,
}

impl FromStr for HostPort {
    type Err = InvalidHostPort;

    fn from_str(text: &str) -> Result<Self, InvalidHostPort> {
        parse(text).ok_or_else(|| InvalidHostPort { found: text.chars().take(80).collect() })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

fn parse(text: &str) -> Option<HostPort> {
    let address =
        |ip: IpAddr, port: u16| (!ip.is_unspecified() && port != 0).then(|| HostPort { host: ip.to_string(), port });
    if let Ok(at) = text.parse::<SocketAddr>() {
        return address(at.ip(), at.port());
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>() {
        return if bare.is_some() && ip.is_ipv4() { None } else { address(ip, DEFAULT_MESH_PORT) };
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, DEFAULT_MESH_PORT),
    };
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    // What ends in a number is a mistyped address, never a name.
    let last = host.rsplit('.').next()?;
    let number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let name = (1..=253).contains(&host.len()) && host.bytes().all(letters) && !number;
    (name && port != 0).then(|| HostPort { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_taken_with_and_without_a_port() {
        for (text, host, port) in [
            ("[::1]:7000", "::1", 7000),
            ("::1", "::1", 7981),
            ("[::1]", "::1", 7981),
            ("2001:db8::7:7981", "2001:db8::7:7981", 7981),
            ("192.0.2.1", "192.0.2.1", 7981),
            ("192.0.2.1:9", "192.0.2.1", 9),
            ("seed-1.example", "seed-1.example", 7981),
            ("seed-1.example:9", "seed-1.example", 9),
            ("seed_0", "seed_0", 7981),
        ] {
            let parsed: HostPort = text.parse().unwrap();
            assert_eq!((parsed.host.as_str(), parsed.port), (host, port), "{text}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_in_words() {
        for text in [
            "",
            ":7981",
            "host:",
            "host:0",
            "host:70000",
            "host:x",
            "[::1",
            "::1]",
            "[::1]:",
            "[::1]:0",
            "[host]:1",
            "[1.2.3.4]",
            "0.0.0.0",
            "0.0.0.0:7981",
            "::",
            "[::]:7981",
            "a b",
            "http://host:1",
            "1.2.3.4.5",
            "300.1.1.1",
            "1:2:3",
        ] {
            let error = text.parse::<HostPort>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("found {text:?}, allowed HOST")), "{error}");
        }
    }
}
