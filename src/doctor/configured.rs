//! What a configuration asks of the host: folders, memory, addresses, certificates.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::Finding;
use crate::agent::api::Access;
use crate::config::{ApiConfig, Config, Credentials};
use crate::net::{NodeIdentity, TlsError};

/// Certificates that are over within this time are said beforehand.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![folder("data_dir", "node.data_dir", &config.node.data_dir)];
    if let Some(journal) = &config.journal {
        findings.push(folder("journal", "journal.dir", &journal.dir));
    }
    if let Some(records) = &config.records {
        findings.push(folder("records", "records.dir", &records.dir));
    }
    if let Some(arena) = &config.arena {
        findings.push(memory(&arena.path, arena.size));
    }
    findings.push(certificate(config));
    findings.extend(access(&config.api));
    findings.push(port("mesh port", "mesh.bind", config.mesh.bind, udp));
    findings.push(port("api port", "api.bind", config.api.bind, tcp));
    for rail in &config.rails {
        findings.push(port(&format!("rail {} port", rail.name), &format!("rails.{}.bind", rail.name), rail.bind, udp));
    }
    findings
}

/// A folder that an agent makes and writes to.
fn folder(what: &str, key: &str, path: &Path) -> Finding {
    // It is made with its parents; the first that is there must be one that can be written to.
    let there = path.ancestors().find(|ancestor| ancestor.exists() && !ancestor.as_os_str().is_empty());
    let there = there.unwrap_or(Path::new("."));
    if !there.is_dir() {
        return Finding::fail(what, format!("{} is no folder", there.display()), format!("choose another {key}"));
    }
    match tempfile_in(there) {
        Ok(()) if there == path => Finding::ok(what, format!("{} can be written to", path.display())),
        Ok(()) => Finding::ok(what, format!("{} will be made in {}", path.display(), there.display())),
        Err(error) => Finding::fail(
            what,
            format!("{}: {error}", there.display()),
            format!("let the agent's user write to it, or choose another {key}"),
        ),
    }
}

fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    tempfile::tempfile_in(folder).map(drop)
}

fn memory(path: &Path, size: u64) -> Finding {
    const WHAT: &str = "arena";
    // One without bytes is what a reservation leaves that failed, and is taken again.
    if let Ok(found) = fs::metadata(path)
        && found.len() > 0
    {
        return match found.len() == size {
            true => Finding::ok(WHAT, format!("{} is there, {size} bytes", path.display())),
            false => Finding::fail(
                WHAT,
                format!("{} has {} bytes, configured are {size}", path.display(), found.len()),
                "remove the file, or set arena.size to its size",
            ),
        };
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match rustix::fs::statvfs(folder) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            match free >= size {
                true => Finding::ok(WHAT, format!("{free} bytes free in {}, {size} needed", folder.display())),
                false => Finding::fail(
                    WHAT,
                    format!("{free} bytes free in {}, {size} needed", folder.display()),
                    "make arena.size smaller, or that file system larger",
                ),
            }
        }
        Err(error) => {
            Finding::fail(WHAT, format!("{}: {error}", folder.display()), "choose another arena.path".to_owned())
        }
    }
}

fn certificate(config: &Config) -> Finding {
    const WHAT: &str = "certificate";
    let (ca, cert, key) = match config.credentials() {
        Credentials::Dev { dir } => {
            return Finding::warn(
                WHAT,
                format!("a throw-away CA in {}", dir.display()),
                "seamctl certs init and issue, then tls.ca, tls.cert and tls.key: fit for more than one machine",
            );
        }
        Credentials::Files { ca, cert, key } => (ca, cert, key),
    };
    let identity = NodeIdentity::load(&config.node.cluster, &config.node.name, &ca, &cert, &key);
    match identity {
        Ok(identity) => match identity.over_within(SOON) {
            None => Finding::ok(WHAT, format!("{}, valid for more than a week", cert.display())),
            Some(detail) => Finding::warn(
                WHAT,
                format!("{}: in a week it is {detail}", cert.display()),
                "seamctl certs issue, put the new files in place and send the agent SIGHUP",
            ),
        },
        Err(error @ TlsError::OutOfDate { .. }) => {
            Finding::fail(WHAT, error.to_string(), "set the clock right, or issue a new one: seamctl certs issue")
        }
        Err(error) => Finding::fail(
            WHAT,
            error.to_string(),
            "make tls.ca, tls.cert and tls.key readable for the agent's user, or issue them anew: seamctl certs issue",
        ),
    }
}

/// The files that clients of the API are let in by, where there are any.
fn access(config: &ApiConfig) -> Option<Finding> {
    const WHAT: &str = "api access";
    if config.token_file.is_none() && config.tls.is_none() {
        return None;
    }
    Some(match Access::load(config) {
        Ok(_) => Finding::ok(WHAT, "the files that the configuration names can be used"),
        Err(error) => Finding::fail(WHAT, error.to_string(), "put it there, readable by the agent's user"),
    })
}

fn udp(address: SocketAddr) -> std::io::Result<()> {
    UdpSocket::bind(address).map(drop)
}

fn tcp(address: SocketAddr) -> std::io::Result<()> {
    TcpListener::bind(address).map(drop)
}

fn port(what: &str, key: &str, address: SocketAddr, bind: fn(SocketAddr) -> std::io::Result<()>) -> Finding {
    match bind(address) {
        Ok(()) if address.port() == 0 => Finding::ok(what, format!("{address}: any free one")),
        Ok(()) => Finding::ok(what, format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Finding::warn(
            what,
            format!("{address} is in use"),
            format!("well if this node's agent runs now; else choose another {key}"),
        ),
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Finding::fail(
            what,
            format!("{address} is no address of this host"),
            format!("set {key} to an address that ip addr shows"),
        ),
        Err(error) => Finding::fail(what, format!("{address}: {error}"), format!("choose another {key}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn folders_that_can_be_made_are_well_and_files_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let made = folder("data_dir", "node.data_dir", &dir.path().join("a/b"));
        assert_eq!(made.verdict, Verdict::Ok);
        assert!(made.found.ends_with(&format!("will be made in {}", dir.path().display())), "{}", made.found);
        assert_eq!(folder("data_dir", "node.data_dir", dir.path()).verdict, Verdict::Ok);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let finding = folder("journal", "journal.dir", &file.join("x"));
        assert_eq!((finding.verdict, finding.remedy.as_deref()), (Verdict::Fail, Some("choose another journal.dir")));
    }

    #[test]
    fn an_arena_that_does_not_fit_or_has_another_size_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("arena");
        assert_eq!(memory(&path, 65_536).verdict, Verdict::Ok);
        assert_eq!(memory(&path, u64::MAX).verdict, Verdict::Fail);
        fs::write(&path, []).unwrap();
        assert_eq!(memory(&path, u64::MAX).verdict, Verdict::Fail);
        assert_eq!(memory(&path, 65_536).verdict, Verdict::Ok);
        fs::write(&path, [0; 10]).unwrap();
        assert_eq!(memory(&path, 65_536).verdict, Verdict::Fail);
        assert_eq!(memory(&path, 10).verdict, Verdict::Ok);
        assert_eq!(memory(Path::new("/nowhere/arena"), 10).verdict, Verdict::Fail);
    }

    #[test]
    fn a_token_that_is_not_there_or_too_short_fails_and_no_token_is_not_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let with = ApiConfig { token_file: Some(path.clone()), ..ApiConfig::default() };
        let missing = access(&with).unwrap();
        assert_eq!(missing.verdict, Verdict::Fail);
        assert!(missing.found.starts_with("api.token_file: ") && missing.found.contains("No such file"), "{missing:?}");
        fs::write(&path, "short").unwrap();
        assert_eq!(access(&with).unwrap().verdict, Verdict::Fail);
        fs::write(&path, "0123456789abcdef").unwrap();
        assert_eq!(access(&with).unwrap().verdict, Verdict::Ok);
        assert!(access(&ApiConfig::default()).is_none());
    }

    #[test]
    fn addresses_are_free_taken_or_not_of_this_host() {
        let any = "127.0.0.1:0".parse().unwrap();
        assert_eq!(port("mesh port", "mesh.bind", any, udp).verdict, Verdict::Ok);
        let taken = UdpSocket::bind(any).unwrap();
        assert_eq!(port("mesh port", "mesh.bind", taken.local_addr().unwrap(), udp).verdict, Verdict::Warn);
        let listening = TcpListener::bind(any).unwrap();
        assert_eq!(port("api port", "api.bind", listening.local_addr().unwrap(), tcp).verdict, Verdict::Warn);
        // Kept for documents: no host has it.
        let foreign = port("mesh port", "mesh.bind", "192.0.2.1:7981".parse().unwrap(), udp);
        assert_eq!(foreign.verdict, Verdict::Fail);
        assert!(foreign.remedy.unwrap().starts_with("set mesh.bind to"));
    }
}
