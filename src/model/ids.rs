//! Names and numbers that identify things. Every name is validated where it enters, so the rest of
//! the crate never meets an empty, endless or unprintable one.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

/// A name that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {found:?} is not allowed: {allowed}")]
pub struct InvalidName {
    /// Which kind of name.
    pub kind: &'static str,
    /// What was found, cut to a printable length.
    pub found: String,
    /// What is allowed instead.
    pub allowed: &'static str,
}

impl InvalidName {
    fn new(kind: &'static str, found: &str, allowed: &'static str) -> Self {
        Self { kind, found: found.chars().take(80).collect(), allowed }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $ty:ident, $kind:literal, $max:literal, $allowed:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $ty(Arc<str>);

        impl $ty {
            /// Checks `text` and makes the name.
            ///
            /// # Errors
            /// Says what was found and what is allowed.
            pub fn new(text: &str) -> Result<Self, InvalidName> {
                let ok: fn(u8) -> bool = $ok;
                if text.is_empty() || text.len() > $max || !text.bytes().all(ok) {
                    return Err(InvalidName::new($kind, text, $allowed));
                }
                Ok(Self(text.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl TryFrom<String> for $ty {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(&text)
            }
        }

        impl FromStr for $ty {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

name!(
    /// The name of one agent, unique in its cluster.
    NodeName, "node name", 64, "1 to 64 letters, digits, '-', '_' or '.'", word
);
name!(
    /// The name of a decode resource group.
    PoolName, "pool", 64, "1 to 64 letters, digits, '-', '_' or '.'", word
);
name!(
    /// The name of one network attachment of a host.
    RailName, "rail", 32, "1 to 32 letters, digits, '-', '_' or '.'", word
);
name!(
    /// The name of a workload class.
    WorkloadName, "workload", 64, "1 to 64 letters, digits, '-', '_' or '.'", word
);
name!(
    /// Hosts that fail together (a rack, a switch, a power feed).
    RiskGroup, "risk_group", 64, "1 to 64 letters, digits, '-', '_' or '.'", word
);
name!(
    /// The model that an engine serves, as its operator names it.
    ModelName, "model", 128, "1 to 128 printable ASCII characters without space", |b| b.is_ascii_graphic()
);
name!(
    /// The caller's name of one request.
    RequestId, "request_id", 128, "1 to 128 printable ASCII characters without space", |b| b.is_ascii_graphic()
);

/// One life of an agent: larger than any earlier life of the same name.
pub type Generation = u64;

/// The library that moves the bytes of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// QUIC over UDP sockets.
    Quic,
    /// QUIC with faults that may be switched on.
    Mock,
    /// NVIDIA's NIXL.
    Nixl,
    /// RDMA verbs.
    Verbs,
    /// UCX.
    Ucx,
}

impl BackendKind {
    /// All kinds, in the order of their wire numbers.
    pub const ALL: [Self; 5] = [Self::Quic, Self::Mock, Self::Nixl, Self::Verbs, Self::Ucx];

    /// The name in configuration, metrics and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Mock => "mock",
            Self::Nixl => "nixl",
            Self::Verbs => "verbs",
            Self::Ucx => "ucx",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for BackendKind {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| InvalidName::new("backend", text, "one of quic, mock, nixl, verbs, ucx"))
    }
}

/// A directed route: source instance, destination instance, rail (the source's name of it),
/// backend. Written `source>destination/rail/backend`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PathId {
    /// Where the bytes come from.
    pub source: NodeName,
    /// Where the bytes go.
    pub destination: NodeName,
    /// The source's rail.
    pub rail: RailName,
    /// What moves the bytes.
    pub backend: BackendKind,
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}>{}/{}/{}", self.source, self.destination, self.rail, self.backend)
    }
}

impl fmt::Debug for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PathId {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let bad = || InvalidName::new("path", text, "source>destination/rail/backend");
        let (source, rest) = text.split_once('>').ok_or_else(bad)?;
        let mut parts = rest.split('/');
        let (Some(destination), Some(rail), Some(backend), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        Ok(Self {
            source: source.parse()?,
            destination: destination.parse()?,
            rail: rail.parse()?,
            backend: backend.parse()?,
        })
    }
}

macro_rules! numbered_id {
    ($(#[$doc:meta])* $ty:ident, $kind:literal, $field:ident, $(#[$fdoc:meta])*) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $ty {
            /// The node that gave the number.
            pub node: NodeName,
            /// The life of that node in which it did.
            pub generation: Generation,
            $(#[$fdoc])*
            pub $field: u64,
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}.{}.{}", self.node, self.generation, self.$field)
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $ty {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                let bad = || InvalidName::new($kind, text, "NODE.GENERATION.NUMBER");
                let mut parts = text.rsplitn(3, '.');
                let (Some(number), Some(generation), Some(node)) = (parts.next(), parts.next(), parts.next()) else {
                    return Err(bad());
                };
                Ok(Self {
                    node: node.parse()?,
                    generation: generation.parse().map_err(|_| bad())?,
                    $field: number.parse().map_err(|_| bad())?,
                })
            }
        }

        impl TryFrom<String> for $ty {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                text.parse()
            }
        }

        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

numbered_id!(
    /// One decode host's grant. Written `node.generation.number`.
    LeaseId, "lease", number,
    /// Counts the grants of that life.
);
numbered_id!(
    /// One routing decision. Written `node.generation.input`.
    DecisionId, "decision id", input,
    /// The number of the policy input that was decided.
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_their_alphabet_or_length_are_refused_with_what_is_allowed() {
        for bad in ["", "a b", "a/b", "ä", &"x".repeat(65)] {
            let error = NodeName::new(bad).unwrap_err();
            assert!(error.to_string().contains("1 to 64"), "{error}");
        }
        assert_eq!(NodeName::new("p-0.rack_1").unwrap().as_str(), "p-0.rack_1");
    }

    #[test]
    fn compound_ids_survive_their_text_form() {
        let path: PathId = "p0>d.1/r0/quic".parse().unwrap();
        assert_eq!(path.to_string(), "p0>d.1/r0/quic");
        let lease: LeaseId = "d.1.17.3".parse().unwrap();
        assert_eq!((lease.node.as_str(), lease.generation, lease.number), ("d.1", 17, 3));
        assert_eq!(serde_json::to_string(&lease).unwrap(), "\"d.1.17.3\"");
        for bad in ["", "p0", "p0>d0/r0", "p0>d0/r0/tcp", "p0>d0/r0/quic/x"] {
            assert!(bad.parse::<PathId>().is_err(), "{bad}");
        }
        for bad in ["d", "d.1", "d.x.1", "d.1.-2", ".1.2"] {
            assert!(bad.parse::<LeaseId>().is_err(), "{bad}");
        }
    }
}
