//! The host: clock, buffers, locked memory, RDMA devices, libraries.

use rustix::process::{Resource, getrlimit};

use super::{Finding, Kernel};
use crate::config::{Config, RailConfig};
use crate::model::BackendKind;
use crate::transport::fabric::SCRATCH_BYTES;
use crate::transport::nixl;
use crate::transport::verbs::sysfs::{self, Port};

/// What a rail's endpoint asks of the system for its buffers, in bytes.
const SOCKET_BUFFER: u64 = 4 * 1024 * 1024;

pub(super) fn examine(kernel: &Kernel, config: Option<&Config>) -> Vec<Finding> {
    let mut findings = vec![clock(), buffers(kernel), memlock(getrlimit(Resource::Memlock).current, config)];
    findings.extend(devices(kernel));
    #[cfg(feature = "verbs")]
    findings.extend(verbs_libraries(config));
    findings.extend(verbs_rails(kernel, config));
    findings.extend(nixl_libraries(config));
    #[cfg(feature = "ucx")]
    findings.extend(ucx_libraries(config));
    #[cfg(not(feature = "ucx"))]
    findings.push(ucx(kernel));
    findings
}

/// Journals of several hosts share one axis of time, and certificates have dates.
fn clock() -> Finding {
    const WHAT: &str = "clock";
    // SAFETY: all zero is a valid value of this plain structure, and `modes` zero only asks.
    let mut asked: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: a plain system call that fills the structure.
    match unsafe { libc::adjtimex(&raw mut asked) } {
        -1 => Finding::warn(
            WHAT,
            "the kernel does not say whether it is synchronised",
            "run chrony or another NTP client",
        ),
        libc::TIME_ERROR => Finding::warn(
            WHAT,
            "not synchronised",
            "run chrony or another NTP client: journals of several hosts and certificates go by it",
        ),
        _ => Finding::ok(WHAT, "synchronised"),
    }
}

fn buffers(kernel: &Kernel) -> Finding {
    const WHAT: &str = "socket buffers";
    let limit = |name: &str| -> Option<u64> { kernel.text(format!("proc/sys/net/core/{name}"))?.parse().ok() };
    let small: Vec<String> = ["rmem_max", "wmem_max"]
        .into_iter()
        .filter_map(|name| Some((name, limit(name)?)))
        .filter(|(_, found)| *found < SOCKET_BUFFER)
        .map(|(name, found)| format!("net.core.{name} is {found}"))
        .collect();
    if small.is_empty() {
        return Finding::ok(WHAT, format!("rails get the {SOCKET_BUFFER} bytes that they ask for"));
    }
    let remedy = format!("sysctl -w net.core.rmem_max={SOCKET_BUFFER} net.core.wmem_max={SOCKET_BUFFER}");
    Finding::warn(WHAT, format!("{}; rails ask for {SOCKET_BUFFER}", small.join(", ")), remedy)
}

/// Libraries that register memory lock it.
fn memlock(limit: Option<u64>, config: Option<&Config>) -> Finding {
    const WHAT: &str = "locked memory";
    let Some(limit) = limit else { return Finding::ok(WHAT, "unlimited") };
    let arena_bytes = config.and_then(|config| config.arena.as_ref()).map_or(0, |arena| arena.size);
    let rails = config.into_iter().flat_map(|config| &config.rails);
    let registers = |rail: &&RailConfig| !matches!(rail.backend, BackendKind::Quic | BackendKind::Mock);
    let rails = rails.filter(registers).count() as u64;
    // Each registers all of it anew, and each time counts.
    let needed = arena_bytes.saturating_add(SCRATCH_BYTES).saturating_mul(rails);
    if limit >= needed {
        return Finding::ok(WHAT, format!("at most {limit} bytes; rails register no more than {needed}"));
    }
    Finding::warn(
        WHAT,
        format!("at most {limit} bytes, and {rails} rails register the arena and memory for probes, {needed} in all"),
        "LimitMEMLOCK=infinity in the agent's unit, or ulimit -l unlimited: RDMA devices refuse to register more",
    )
}

/// RDMA devices, their ports and addresses.
fn devices(kernel: &Kernel) -> Vec<Finding> {
    let ports = sysfs::ports(&kernel.root);
    if ports.is_empty() {
        return vec![Finding::ok("RDMA devices", "none: rails over quic need none")];
    }
    ports.iter().map(device_port).collect()
}

fn device_port(port: &Port) -> Finding {
    let (what, Port { device, number, state, layer, .. }) =
        (format!("RDMA {} port {}", port.device, port.number), port);
    if !port.is_active() {
        return Finding::warn(
            &what,
            format!("state {state}"),
            format!("bring the link up: ip link set … up, rdma link show {device}/{number}"),
        );
    }
    if port.is_ethernet() && !port.gids.iter().any(|gid| port.fits(gid)) {
        return Finding::warn(
            &what,
            format!("{layer}, no GID of RoCE v2: {}", port.kinds()),
            "give the port's network device an IP address",
        );
    }
    Finding::ok(&what, format!("{state}, {layer}, {}", port.kinds()))
}

/// What the verbs rails need of libibverbs, rail by rail.
#[cfg(feature = "verbs")]
fn verbs_libraries(config: Option<&Config>) -> Vec<Finding> {
    let rails = config.into_iter().flat_map(|config| &config.rails);
    let verbs = rails.filter(|rail| rail.backend == BackendKind::Verbs);
    let finding = |rail: &RailConfig| {
        let what = format!("libibverbs for rail {}", rail.name);
        match crate::transport::verbs::try_load(&rail.verbs.clone().unwrap_or_default()) {
            Ok(()) => Finding::ok(&what, "it can be loaded"),
            Err(error) => Finding::fail(&what, error.to_string(), "without it the rail is left out"),
        }
    };
    verbs.map(finding).collect()
}

/// What the verbs rails need of the devices, rail by rail.
fn verbs_rails(kernel: &Kernel, config: Option<&Config>) -> Vec<Finding> {
    let rails = config.into_iter().flat_map(|config| &config.rails);
    let verbs = rails.filter(|rail| rail.backend == BackendKind::Verbs);
    let finding = |rail: &RailConfig| {
        let what = format!("device for rail {}", rail.name);
        match sysfs::choose(&kernel.root, &rail.verbs.clone().unwrap_or_default()) {
            Ok(chosen) => {
                let Port { device, number, .. } = &chosen.port;
                Finding::ok(&what, format!("port {number} of {device}, its address at {}", chosen.gid_index))
            }
            Err(error) => Finding::fail(&what, error.to_string(), "without it the rail is left out"),
        }
    };
    verbs.map(finding).collect()
}

/// What the nixl rails need, rail by rail; without any, what is there.
fn nixl_libraries(config: Option<&Config>) -> Vec<Finding> {
    let rails = config.into_iter().flat_map(|config| &config.rails);
    let needed = rails.filter(|rail| rail.backend == BackendKind::Nixl).map(|rail| {
        let configured = rail.nixl.as_ref().and_then(|nixl| nixl.library.as_deref());
        let what = format!("NIXL for rail {}", rail.name);
        let found = nixl::find(configured);
        // Where this build can: a file may be there and lack what it needs itself.
        #[cfg(feature = "nixl")]
        let found = found.and_then(|found| nixl::try_load(&found).map(|()| found));
        match found {
            Ok(found) => Finding::ok(&what, said(&found)),
            Err(error) => Finding::fail(&what, error.to_string(), "without it the rail is left out"),
        }
    });
    let needed: Vec<Finding> = needed.collect();
    if !needed.is_empty() {
        return needed;
    }
    vec![match nixl::find(None) {
        Ok(found) => Finding::ok("NIXL", said(&found)),
        Err(nixl::LibraryError::Missing { .. }) => Finding::ok("NIXL", "not installed; nixl rails need it"),
        Err(error) => Finding::ok("NIXL", format!("{error}; nixl rails need it")),
    }]
}

fn said(found: &nixl::Found) -> String {
    format!("{}, {}", found.version.as_deref().unwrap_or("of unknown version"), found.path.display())
}

/// What the ucx rails need, rail by rail; without any, what is there. The library is loaded: only it
/// knows its version.
#[cfg(feature = "ucx")]
fn ucx_libraries(config: Option<&Config>) -> Vec<Finding> {
    use crate::transport::ucx;

    let said = |found: &ucx::Found| format!("{}, {}", found.version, found.path.display());
    let rails = config.into_iter().flat_map(|config| &config.rails);
    let needed = rails.filter(|rail| rail.backend == BackendKind::Ucx).map(|rail| {
        let configured = rail.ucx.as_ref().and_then(|ucx| ucx.library.as_deref());
        let what = format!("UCX for rail {}", rail.name);
        match ucx::find(configured) {
            Ok(found) => Finding::ok(&what, said(&found)),
            Err(error) => {
                Finding::fail(&what, error.to_string(), "apt-get install libucx0; without it the rail is left out")
            }
        }
    });
    let needed: Vec<Finding> = needed.collect();
    if !needed.is_empty() {
        return needed;
    }
    vec![match ucx::find(None) {
        Ok(found) => Finding::ok("UCX", said(&found)),
        Err(ucx::LibraryError::Missing { .. }) => Finding::ok("UCX", "not installed; ucx rails need it"),
        Err(error) => Finding::ok("UCX", format!("{error}; ucx rails need it")),
    }]
}

/// In a build that cannot load it, whether it is there.
#[cfg(not(feature = "ucx"))]
fn ucx(kernel: &Kernel) -> Finding {
    /// Where libraries usually are.
    const LIBRARIES: [&str; 4] =
        ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/lib"];
    const WHAT: &str = "UCX";
    let mut places = LIBRARIES.iter().map(|folder| kernel.root.join(folder).join("libucp.so.0"));
    match places.find(|path| path.exists()) {
        Some(path) => Finding::ok(WHAT, path.display().to_string()),
        None => Finding::ok(WHAT, "not installed; NIXL's wheels bring their own"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Verdict;
    use super::*;

    /// A kernel that says what these files hold.
    fn kernel(files: &[(&str, &str)]) -> (tempfile::TempDir, Kernel) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let kernel = Kernel { root: dir.path().to_owned() };
        (dir, kernel)
    }

    const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";

    fn port(state: &str, layer: &str, gids: &[&str]) -> Finding {
        let mut files = vec![(format!("{PORT}/state"), state), (format!("{PORT}/link_layer"), layer)];
        files.extend(gids.iter().enumerate().map(|(index, kind)| (format!("{PORT}/gid_attrs/types/{index}"), *kind)));
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let (_dir, kernel) = kernel(&files);
        devices(&kernel).remove(0)
    }

    #[test]
    fn a_port_that_can_carry_is_well_and_any_other_says_what_it_lacks() {
        let well = port("4: ACTIVE\n", "Ethernet\n", &["IB/RoCE v1\n", "RoCE v2\n"]);
        let found = "4: ACTIVE, Ethernet, IB/RoCE v1 at 0, RoCE v2 at 1";
        assert_eq!(well, Finding::ok("RDMA mlx5_0 port 1", found));
        let down = port("1: DOWN", "Ethernet", &["RoCE v2"]);
        assert_eq!((down.verdict, down.found.as_str()), (Verdict::Warn, "state 1: DOWN"));
        let old = port("4: ACTIVE", "Ethernet", &["IB/RoCE v1"]);
        assert_eq!(old.verdict, Verdict::Warn);
        assert!(old.found.contains("no GID of RoCE v2: IB/RoCE v1 at 0"), "{}", old.found);
        assert_eq!(port("4: ACTIVE", "InfiniBand", &["IB/RoCE v1"]).verdict, Verdict::Ok);
        assert_eq!(port("4: ACTIVE", "Ethernet", &[]).verdict, Verdict::Warn);
    }

    fn config() -> Config {
        let rails = ["r0", "r1"].map(|name| format!("[[rails]]\nname = \"{name}\"\nbind = \"127.0.0.1:0\"\n"));
        let text = format!(
            "[node]\nname = \"p0\"\nroles = [\"prefill\"]\n[tls]\ndev = true\n[arena]\npath = \"x\"\nsize = \"64MiB\"\n{}",
            rails.concat()
        );
        Config::from_toml(&text, "seam.toml").unwrap()
    }

    #[cfg(feature = "verbs")]
    #[test]
    fn a_verbs_rail_whose_library_cannot_be_loaded_says_why() {
        let mut config = config();
        let library = Some("/nowhere/libibverbs.so.1".into());
        config.rails[1].backend = BackendKind::Verbs;
        config.rails[1].verbs = Some(crate::transport::verbs::VerbsConfig { library, ..Default::default() });
        let [found] = &verbs_libraries(Some(&config))[..] else { panic!("one rail") };
        assert_eq!((found.what.as_str(), found.verdict), ("libibverbs for rail r1", Verdict::Fail));
        assert!(found.found.contains("/nowhere/libibverbs.so.1") && found.found.contains("No such file"), "{found:?}");
    }

    #[cfg(feature = "nixl")]
    #[test]
    fn a_nixl_rail_whose_library_is_there_and_cannot_be_loaded_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libnixl_capi.so");
        fs::write(&library, "not one").unwrap();
        let mut config = config();
        config.rails[0].backend = BackendKind::Nixl;
        config.rails[0].nixl = Some(nixl::NixlConfig { library: Some(library), ..Default::default() });
        let [found] = &nixl_libraries(Some(&config))[..] else { panic!("one rail") };
        assert_eq!((found.what.as_str(), found.verdict), ("NIXL for rail r0", Verdict::Fail));
        assert!(found.found.contains("file too short"), "{found:?}");
    }

    #[test]
    fn every_rail_that_registers_the_arena_and_its_probes_counts_against_the_limit() {
        let mut config = config();
        let mib = |count: u64| count << 20;
        assert_eq!(memlock(Some(0), Some(&config)).verdict, Verdict::Ok);
        config.rails.iter_mut().for_each(|rail| rail.backend = BackendKind::Verbs);
        assert_eq!(memlock(None, Some(&config)).verdict, Verdict::Ok);
        assert_eq!(memlock(Some(mib(132)), Some(&config)).verdict, Verdict::Ok);
        let short = memlock(Some(mib(132) - 1), Some(&config));
        assert_eq!(short.verdict, Verdict::Warn);
        assert!(
            short.found.ends_with("2 rails register the arena and memory for probes, 138412032 in all"),
            "{short:?}"
        );
        assert_eq!(memlock(Some(0), None).verdict, Verdict::Ok);
    }

    #[test]
    fn a_host_without_devices_is_well() {
        let (_dir, kernel) = kernel(&[]);
        assert_eq!(devices(&kernel), [Finding::ok("RDMA devices", "none: rails over quic need none")]);
    }

    #[test]
    fn buffers_that_are_too_small_are_named_with_what_sets_them() {
        let (_dir, small) =
            kernel(&[("proc/sys/net/core/rmem_max", "212992\n"), ("proc/sys/net/core/wmem_max", "4194304")]);
        let finding = buffers(&small);
        assert_eq!(finding.verdict, Verdict::Warn);
        assert_eq!(finding.found, "net.core.rmem_max is 212992; rails ask for 4194304");
        assert!(finding.remedy.unwrap().contains("net.core.rmem_max=4194304"));
        let (_dir, enough) = kernel(&[("proc/sys/net/core/rmem_max", "4194304")]);
        assert_eq!(buffers(&enough).verdict, Verdict::Ok);
    }
}
