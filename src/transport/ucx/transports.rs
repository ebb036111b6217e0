//! Which transports UCX has chosen, and whether they are those that were to be expected.

use std::fmt;
use std::fs;
use std::path::Path;

/// A transport and the device that it uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chosen {
    pub(super) transport: String,
    pub(super) device: String,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.transport, self.device)
    }
}

/// As a list, for people.
pub(super) fn listed(chosen: &[Chosen]) -> String {
    match chosen {
        [] => "unknown".to_owned(),
        _ => chosen.iter().map(Chosen::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// What this host has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Host {
    /// RDMA devices with an active port.
    pub(super) rdma: Vec<String>,
    /// The speeds of the network devices that say so, in megabits per second.
    pub(super) speeds: Vec<(String, u64)>,
}

impl Host {
    /// As the kernel shows it below `/sys`.
    pub(super) fn seen(sys: &Path) -> Self {
        let names = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let (rdma, net) = (sys.join("class/infiniband"), sys.join("class/net"));
        let is_active = |device: &String| {
            let ports = rdma.join(device).join("ports");
            let state = |port: String| fs::read_to_string(ports.join(port).join("state")).unwrap_or_default();
            names(&ports).into_iter().any(|port| state(port).trim_end().ends_with("ACTIVE"))
        };
        let speed = |device: String| {
            // Minus one where there is none.
            let speed = fs::read_to_string(net.join(&device).join("speed")).ok()?.trim().parse().ok()?;
            Some((device, speed))
        };
        let mut rdma: Vec<String> = names(&rdma).into_iter().filter(is_active).collect();
        let mut speeds: Vec<(String, u64)> = names(&net).into_iter().filter_map(speed).collect();
        rdma.sort();
        speeds.sort();
        Self { rdma, speeds }
    }
}

fn is_rdma(transport: &str) -> bool {
    transport == "ib" || ["rc", "dc", "ud", "srd", "gga"].iter().any(|prefix| transport.starts_with(prefix))
}

/// Transports that end within a host: over these, no network was to be expected.
fn is_local(transport: &str) -> bool {
    ["self", "posix", "sysv", "xpmem", "cma", "knem"].contains(&transport)
}

/// What is the matter with a choice, if RDMA was to be expected and is not part of it, or if the
/// network device is far from what the rail promises. `asked` is UCX's list of transports, where
/// somebody has set it.
pub(super) fn doubt(chosen: &[Chosen], asked: Option<&str>, bandwidth_gbps: f64, host: &Host) -> Option<String> {
    let has = |kind: fn(&str) -> bool| chosen.iter().any(|one| kind(&one.transport));
    if chosen.is_empty() || has(is_rdma) || has(is_local) {
        return None;
    }
    let asked = asked.filter(|asked| *asked != "all" && !asked.is_empty());
    let chosen_words = listed(chosen);
    match asked {
        Some(asked) if !asked.starts_with('^') => {
            let mut names = asked.split(',').map(|name| name.trim().trim_start_matches('\\'));
            if names.any(is_rdma) {
                return Some(format!("{chosen_words}, though TLS = {asked:?} asks for RDMA"));
            }
        }
        // A list of what is not wanted may well be about RDMA.
        Some(_) => {}
        None => {
            if !host.rdma.is_empty() {
                return Some(format!("{chosen_words}, though this host has RDMA by {}", host.rdma.join(", ")));
            }
        }
    }
    let speed = chosen.iter().filter_map(|one| host.speeds.iter().find(|(device, _)| *device == one.device));
    let (device, megabits) = speed.max_by_key(|(_, megabits)| *megabits)?;
    let gbps = *megabits as f64 / 1_000.0;
    // Twice: whoever promises a bonded device's speed is not far off.
    (bandwidth_gbps > 2.0 * gbps)
        .then(|| format!("{chosen_words}: {device} has {gbps} Gb/s, and the rail promises {bandwidth_gbps}"))
}

/// What UCX prints of an endpoint, for versions that do not tell otherwise: lines such as
/// `lane[0]:  5:tcp/eth0.0 md[1] …`.
pub(super) fn printed(text: &str) -> Vec<Chosen> {
    let lane = |line: &str| {
        let (_, rest) = line.split_once("lane[")?.1.split_once("]:")?;
        let (transport, device) = rest.split_whitespace().next()?.split_once(':')?.1.split_once('/')?;
        // The number behind the device is UCX's own.
        let device = device.rsplit_once('.').map_or(device, |(device, _)| device);
        Some(Chosen { transport: transport.to_owned(), device: device.to_owned() })
    };
    let mut chosen: Vec<Chosen> = text.lines().filter_map(lane).collect();
    chosen.sort();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(list: &[(&str, &str)]) -> Vec<Chosen> {
        list.iter()
            .map(|(transport, device)| Chosen { transport: (*transport).to_owned(), device: (*device).to_owned() })
            .collect()
    }

    fn host(rdma: &[&str]) -> Host {
        Host {
            rdma: rdma.iter().map(|name| (*name).to_owned()).collect(),
            speeds: vec![("eth0".to_owned(), 25_000), ("eth1".to_owned(), 100_000)],
        }
    }

    #[test]
    fn tcp_where_rdma_was_to_be_expected_is_said_by_name() {
        let tcp = chosen(&[("tcp", "eth0")]);
        let asked = doubt(&tcp, Some("rc,tcp"), 25.0, &host(&[]));
        assert_eq!(asked.as_deref(), Some("tcp on eth0, though TLS = \"rc,tcp\" asks for RDMA"));
        for asks in ["ib", "tcp, ud_v", "\\dc_x,tcp"] {
            assert!(doubt(&tcp, Some(asks), 25.0, &host(&[])).is_some(), "{asks}");
        }
        let there = doubt(&tcp, None, 25.0, &host(&["mlx5_0", "mlx5_1"]));
        assert_eq!(there.as_deref(), Some("tcp on eth0, though this host has RDMA by mlx5_0, mlx5_1"));
        assert!(doubt(&tcp, Some("all"), 25.0, &host(&["mlx5_0"])).is_some());
    }

    #[test]
    fn a_network_device_far_from_what_the_rail_promises_is_said_with_both_figures() {
        let tcp = chosen(&[("tcp", "eth0")]);
        let slow = doubt(&tcp, Some("tcp"), 400.0, &host(&[]));
        assert_eq!(slow.as_deref(), Some("tcp on eth0: eth0 has 25 Gb/s, and the rail promises 400"));
        assert_eq!(doubt(&chosen(&[("tcp", "eth0"), ("tcp", "eth1")]), None, 200.0, &host(&[])), None);
        assert_eq!(doubt(&chosen(&[("tcp", "lo")]), None, 400.0, &host(&[])), None, "nobody knows its speed");
    }

    #[test]
    fn what_was_asked_for_or_stays_on_the_host_is_no_doubt() {
        let with = host(&["mlx5_0"]);
        assert_eq!(doubt(&chosen(&[("rc_mlx5", "mlx5_0:1"), ("tcp", "eth0")]), Some("rc,tcp"), 400.0, &with), None);
        assert_eq!(doubt(&chosen(&[("tcp", "eth0")]), Some("tcp"), 25.0, &with), None);
        assert_eq!(doubt(&chosen(&[("tcp", "eth0")]), Some("^ib"), 25.0, &with), None);
        assert_eq!(doubt(&chosen(&[("cma", "memory"), ("posix", "memory")]), Some("all"), 400.0, &with), None);
        assert_eq!(doubt(&[], Some("rc"), 400.0, &with), None, "unknown is no fallback");
    }

    #[test]
    fn lanes_are_read_from_what_1_13_prints() {
        let text = "#\n# UCP endpoint x\n#\n#               peer: <no debug data>\n\
                    #                 lane[0]: 10:tcp/eth0.1 md[2]      -> md[2]/tcp/sysdev[255] am am_bw#0 wireup\n\
                    #                 lane[1]:  4:cma/memory.0 md[5]      -> md[5]/cma/sysdev[255] rma_bw#0\n\
                    #                 lane[2]: 10:tcp/eth0.1 md[2]      -> md[2]/tcp/sysdev[255]\n#\n";
        assert_eq!(printed(text), chosen(&[("cma", "memory"), ("tcp", "eth0")]));
        assert_eq!(printed("nothing of that kind"), []);
        assert_eq!((listed(&printed(text)).as_str(), listed(&[]).as_str()), ("cma on memory, tcp on eth0", "unknown"));
    }

    #[test]
    fn a_host_is_seen_as_its_kernel_shows_it() {
        let sys = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
            ("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
            ("class/net/eth0/speed", "25000\n"),
            ("class/net/veth/speed", "-1\n"),
        ] {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let seen = Host::seen(sys.path());
        assert_eq!((seen.rdma, seen.speeds), (vec!["mlx5_0".to_owned()], vec![("eth0".to_owned(), 25_000)]));
        assert_eq!(Host::seen(Path::new("/nowhere")), Host::default());
    }
}
