//! What systemd is told, where it asked to be told: sd_notify(3) over `NOTIFY_SOCKET`.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The service manager of this process; nobody, where it has none.
#[derive(Clone)]
pub(crate) struct ServiceManager {
    socket: Option<OsString>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// As the environment says.
    pub(crate) fn from_env() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|&us| ours && us > 0).map(Duration::from_micros);
        Self { socket: std::env::var_os("NOTIFY_SOCKET"), watchdog }
    }

    /// The agent answers on its API.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// The agent reads its configuration anew; [`ready`](Self::ready) follows.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000);
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    /// The agent is on its way out.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The agent lives.
    pub(crate) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// How often it wants to hear that: twice in the time after which it restarts the agent.
    pub(crate) fn beat(&self) -> Option<Duration> {
        self.socket.as_ref().and(self.watchdog).map(|limit| limit / 2)
    }

    fn tell(&self, state: &str) {
        let Some(name) = &self.socket else { return };
        if let Err(error) = send(name.as_bytes(), state) {
            tracing::warn!(%error, "NOTIFY_SOCKET cannot be told {state}");
        }
    }
}

fn send(name: &[u8], state: &str) -> io::Result<()> {
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::from_bytes(name)))?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold up the agent.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}
