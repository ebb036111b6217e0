//! RDMA devices as the kernel shows them: ports, their states, addresses and counters.
//!
//! The library tells the type of an address only from a later version on than is common, and the order of
//! a port's addresses means nothing: so one is chosen by the type that is read here.

use std::fs;
use std::path::{Path, PathBuf};

use super::VerbsConfig;

/// Where the devices are, below the root.
const DEVICES: &str = "sys/class/infiniband";
/// Ports of one host and addresses of one port that are looked at.
const MAX_PORTS: usize = 256;
const MAX_GIDS: usize = 1_024;
/// The type of address that routes between Ethernet networks.
const ROCE_V2: &str = "RoCE v2";

/// What a port counts that tells of errors, in either of its folders: those that every port has, and
/// those of the devices in use. What a device does not count is left out.
const ERRORS: [&str; 25] = [
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "duplicate_request",
    "out_of_sequence",
    "out_of_seq_request",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "send_rnr_err",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "completer_retry_err",
    "send_err",
    "req_cqe_error",
    "resp_cqe_error",
    "roce_slow_restart",
];

/// An address of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its place in the port's table.
    pub index: u32,
    /// Its type, in the kernel's words.
    pub kind: String,
    /// Itself; none where the kernel does not say.
    pub raw: Option<[u8; 16]>,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The device.
    pub device: String,
    /// Its number, from 1 on.
    pub number: u8,
    /// Its state, in the kernel's words: `4: ACTIVE` is the one that carries.
    pub state: String,
    /// `Ethernet` or `InfiniBand`.
    pub layer: String,
    /// Its addresses, as far as they are in use.
    pub gids: Vec<Gid>,
    folder: PathBuf,
}

/// A port and the address to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The port.
    pub port: Port,
    /// The address's place in the port's table.
    pub gid_index: u8,
    /// The address.
    pub gid: [u8; 16],
}

/// Why no port can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPort {
    /// The kernel knows no device at all.
    #[error(
        "this host has no RDMA device: load its driver (for Soft-RoCE: rdma link add rxe0 type rxe netdev NAME), or \
         choose another backend"
    )]
    NoDevice,
    /// There are others.
    #[error("there is no RDMA {wanted}; there are: {there}")]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// What there is.
        there: String,
    },
    /// It carries nothing.
    #[error(
        "port {port} of {device} is in the state {state}, needed is ACTIVE: bring its network device up (ip link set \
         NAME up; rdma link shows which it is), or look after its cable"
    )]
    Down {
        /// The device.
        device: String,
        /// Its port.
        port: u8,
        /// Its state.
        state: String,
    },
    /// It has no address that fits.
    #[error(
        "port {port} of {device} ({layer}) has no address of the type {ROCE_V2}, found: {found}; give its network device \
         an IP address"
    )]
    NoGid {
        /// The device.
        device: String,
        /// Its port.
        port: u8,
        /// What it is a port of.
        layer: String,
        /// The types that there are.
        found: String,
    },
    /// The one that was asked for does not fit.
    #[error("port {port} of {device} has no usable address at index {index}, found: {found}")]
    BadIndex {
        /// The device.
        device: String,
        /// Its port.
        port: u8,
        /// The index.
        index: u8,
        /// The types that there are.
        found: String,
    },
    /// None of them can be used, each for its own reason.
    #[error("no RDMA port can be used: {0}")]
    None(String),
}

impl Port {
    /// Whether it carries anything.
    #[must_use]
    pub fn is_active(&self) -> bool {
        is_active(&self.state)
    }

    /// Whether its addresses must be of a type that routes.
    #[must_use]
    pub fn is_ethernet(&self) -> bool {
        self.layer == "Ethernet"
    }

    /// The types of its addresses, each with its place.
    #[must_use]
    pub fn kinds(&self) -> String {
        let kinds: Vec<String> = self.gids.iter().map(|gid| format!("{} at {}", gid.kind, gid.index)).collect();
        if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
    }

    /// Whether an address of it can be used.
    #[must_use]
    pub fn fits(&self, gid: &Gid) -> bool {
        !self.is_ethernet() || gid.kind == ROCE_V2
    }

    /// What it says of its state now.
    #[must_use]
    pub fn state_now(&self) -> String {
        text(&self.folder.join("state")).unwrap_or_else(|| "gone".to_owned())
    }

    /// What it has counted of errors until now.
    #[must_use]
    pub fn errors(&self) -> Vec<(&'static str, u64)> {
        let read = |name: &'static str| {
            let folders = ["hw_counters", "counters"].into_iter();
            let mut found = folders.filter_map(|folder| text(&self.folder.join(folder).join(name))?.parse().ok());
            found.next().map(|count| (name, count))
        };
        ERRORS.into_iter().filter_map(read).collect()
    }

    fn choose(&self, index: Option<u8>) -> Result<Chosen, NoPort> {
        let (device, port) = (self.device.clone(), self.number);
        if !self.is_active() {
            return Err(NoPort::Down { device, port, state: self.state.clone() });
        }
        let usable = |gid: &&Gid| self.fits(gid) && gid.raw.is_some_and(|raw| raw != [0; 16]);
        let wanted = |gid: &&Gid| index.is_none_or(|index| gid.index == u32::from(index));
        let best = self.gids.iter().filter(usable).filter(wanted).min_by_key(|gid| (rank(gid), gid.index));
        let chosen = best.and_then(|gid| Some((u8::try_from(gid.index).ok()?, gid.raw?)));
        match (chosen, index) {
            (Some((gid_index, gid)), _) => Ok(Chosen { port: self.clone(), gid_index, gid }),
            (None, Some(index)) => Err(NoPort::BadIndex { device, port, index, found: self.kinds() }),
            (None, None) => Err(NoPort::NoGid { device, port, layer: self.layer.clone(), found: self.kinds() }),
        }
    }
}

/// Whether a port in this state carries anything.
#[must_use]
pub fn is_active(state: &str) -> bool {
    state.ends_with("ACTIVE")
}

/// Whether it stands for an IPv4 address.
#[must_use]
pub fn is_ipv4(gid: &[u8; 16]) -> bool {
    u128::from_be_bytes(*gid) >> 32 == 0xffff
}

/// Addresses that reach further come first: those of IPv4, those of IPv6, those of one link.
fn rank(gid: &Gid) -> u8 {
    match gid.raw {
        Some(raw) if is_ipv4(&raw) => 0,
        Some([0xfe, second, ..]) if second & 0xc0 == 0x80 => 2,
        _ => 1,
    }
}

/// All ports of this host, by device and number.
#[must_use]
pub fn ports(root: &Path) -> Vec<Port> {
    let devices = root.join(DEVICES);
    let of = |device: String| {
        let ports = devices.join(&device).join("ports");
        numbers(&ports).into_iter().map(move |number| (device.clone(), ports.clone(), number))
    };
    let all = names(&devices).into_iter().flat_map(of);
    all.filter_map(|(device, ports, number)| port(device, ports.join(number.to_string()), number))
        .take(MAX_PORTS)
        .collect()
}

/// The port that is configured, or else the first that can be used.
///
/// # Errors
/// [`NoPort`] says what is the matter with it, or with each.
pub fn choose(root: &Path, config: &VerbsConfig) -> Result<Chosen, NoPort> {
    let all = ports(root);
    if all.is_empty() {
        return Err(NoPort::NoDevice);
    }
    let is_meant = |port: &&Port| {
        config.device.as_ref().is_none_or(|device| port.device == *device)
            && config.port.is_none_or(|number| port.number == number)
    };
    let mut tried: Vec<Result<Chosen, NoPort>> = Vec::new();
    for port in all.iter().filter(is_meant) {
        match port.choose(config.gid_index) {
            Ok(chosen) => return Ok(chosen),
            error => tried.push(error),
        }
    }
    let mut errors: Vec<NoPort> = tried.into_iter().filter_map(Result::err).collect();
    match (errors.pop(), errors.is_empty()) {
        (Some(only), true) => Err(only),
        (Some(last), false) => {
            let words: Vec<String> = errors.iter().chain([&last]).map(ToString::to_string).collect();
            Err(NoPort::None(words.join("; ")))
        }
        (None, _) => {
            let there: Vec<String> = all.iter().map(|port| format!("{} port {}", port.device, port.number)).collect();
            let device = config.device.as_deref().map_or("device".to_owned(), |device| format!("device {device}"));
            let port = config.port.map_or(String::new(), |port| format!(" with a port {port}"));
            Err(NoPort::Unknown { wanted: format!("{device}{port}"), there: there.join(", ") })
        }
    }
}

fn port(device: String, folder: PathBuf, number: u32) -> Option<Port> {
    let of = |file: &str| text(&folder.join(file)).unwrap_or_else(|| "unknown".to_owned());
    let types = folder.join("gid_attrs/types");
    let gids = numbers(&types).into_iter().take(MAX_GIDS).filter_map(|index| {
        // Reading the type of one that is not in use fails.
        let kind = text(&types.join(index.to_string())).filter(|kind| !kind.is_empty())?;
        let raw = text(&folder.join("gids").join(index.to_string())).and_then(|text| parsed(&text));
        Some(Gid { index, kind, raw })
    });
    let gids = gids.collect();
    let (state, layer, number) = (of("state"), of("link_layer"), u8::try_from(number).ok()?);
    Some(Port { device, number, state, layer, gids, folder })
}

/// An address as the kernel writes it: eight groups of four digits.
fn parsed(text: &str) -> Option<[u8; 16]> {
    let address: std::net::Ipv6Addr = text.parse().ok()?;
    Some(address.octets())
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn numbers(folder: &Path) -> Vec<u32> {
    let mut numbers: Vec<u32> = names(folder).iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const V4: &str = "0000:0000:0000:0000:0000:ffff:0a4d:0101";
    const LINK: &str = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
    const V6: &str = "2001:0db8:0000:0000:0000:0000:0000:0001";
    const NONE: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

    fn write(dir: &TempDir, path: &str, text: &str) {
        let path = dir.path().join(DEVICES).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn device(dir: &TempDir, name: &str, state: &str, layer: &str, gids: &[(&str, &str)]) {
        write(dir, &format!("{name}/ports/1/state"), state);
        write(dir, &format!("{name}/ports/1/link_layer"), layer);
        for (index, (kind, gid)) in gids.iter().enumerate() {
            write(dir, &format!("{name}/ports/1/gid_attrs/types/{index}"), kind);
            write(dir, &format!("{name}/ports/1/gids/{index}"), gid);
        }
    }

    fn named(device: &str) -> VerbsConfig {
        VerbsConfig { device: Some(device.to_owned()), ..VerbsConfig::default() }
    }

    #[test]
    fn the_address_is_chosen_by_its_type_and_reach_never_by_its_place() {
        let dir = TempDir::new().unwrap();
        let gids = [
            ("IB/RoCE v1", LINK),
            ("RoCE v2", LINK),
            ("IB/RoCE v1", V4),
            ("RoCE v2", V6),
            ("RoCE v2", NONE),
            ("RoCE v2", V4),
        ];
        device(&dir, "mlx5_0", "4: ACTIVE", "Ethernet", &gids);
        let chosen = choose(dir.path(), &VerbsConfig::default()).unwrap();
        assert_eq!((chosen.port.device.as_str(), chosen.port.number, chosen.gid_index), ("mlx5_0", 1, 5));
        assert!(is_ipv4(&chosen.gid));
        let at = |index| choose(dir.path(), &VerbsConfig { gid_index: Some(index), ..VerbsConfig::default() });
        assert_eq!(at(1).unwrap().gid_index, 1);
        for unfit in [0, 2, 4, 9] {
            let error = at(unfit).unwrap_err().to_string();
            assert!(error.contains(&format!("no usable address at index {unfit}, found: IB/RoCE v1 at 0")), "{error}");
        }
    }

    #[test]
    fn infiniband_needs_no_type_and_ten_comes_after_nine() {
        let dir = TempDir::new().unwrap();
        let mut gids = vec![("", NONE); 9];
        gids.extend([("IB/RoCE v1", LINK), ("IB/RoCE v1", LINK)]);
        device(&dir, "mlx5_1", "4: ACTIVE", "InfiniBand", &gids);
        assert_eq!(choose(dir.path(), &VerbsConfig::default()).unwrap().gid_index, 9);
    }

    #[test]
    fn the_first_port_that_can_be_used_is_and_a_named_one_says_what_it_lacks() {
        let dir = TempDir::new().unwrap();
        assert_eq!(choose(dir.path(), &VerbsConfig::default()), Err(NoPort::NoDevice));
        device(&dir, "a", "1: DOWN", "Ethernet", &[("RoCE v2", V4)]);
        let error = choose(dir.path(), &VerbsConfig::default()).unwrap_err().to_string();
        assert!(error.starts_with("port 1 of a is in the state 1: DOWN, needed is ACTIVE: bring"), "{error}");
        device(&dir, "b", "4: ACTIVE", "Ethernet", &[("IB/RoCE v1", V4)]);
        let error = choose(dir.path(), &named("b")).unwrap_err().to_string();
        let expected = "port 1 of b (Ethernet) has no address of the type RoCE v2, found: IB/RoCE v1 at 0; give";
        assert!(error.starts_with(expected), "{error}");
        let error = choose(dir.path(), &VerbsConfig::default()).unwrap_err().to_string();
        assert!(error.starts_with("no RDMA port can be used: port 1 of a is in") && error.contains("; port 1 of b"));
        device(&dir, "c", "4: ACTIVE", "Ethernet", &[("RoCE v2", V4)]);
        assert_eq!(choose(dir.path(), &VerbsConfig::default()).unwrap().port.device, "c");
        let error = choose(dir.path(), &named("d")).unwrap_err().to_string();
        assert_eq!(error, "there is no RDMA device d; there are: a port 1, b port 1, c port 1");
        let second = VerbsConfig { port: Some(2), ..named("c") };
        assert!(choose(dir.path(), &second).unwrap_err().to_string().contains("device c with a port 2;"));
    }

    #[test]
    fn errors_are_read_from_wherever_a_device_counts_them() {
        let dir = TempDir::new().unwrap();
        device(&dir, "rxe0", "4: ACTIVE", "Ethernet", &[("RoCE v2", V4)]);
        write(&dir, "rxe0/ports/1/hw_counters/retry_exceeded_err", "7");
        write(&dir, "rxe0/ports/1/hw_counters/sent_pkts", "900");
        write(&dir, "rxe0/ports/1/counters/link_downed", "2");
        write(&dir, "rxe0/ports/1/counters/symbol_error", "N/A (no PMA)");
        let port = ports(dir.path()).remove(0);
        assert_eq!(port.errors(), [("link_downed", 2), ("retry_exceeded_err", 7)]);
        assert_eq!(port.state_now(), "4: ACTIVE");
        fs::remove_dir_all(dir.path().join(DEVICES)).unwrap();
        assert_eq!(port.state_now(), "gone");
    }
}
