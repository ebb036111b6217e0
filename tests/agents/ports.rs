//! Ports for processes that take theirs a little later. Below those that the kernel gives away by itself, so that
//! nobody else is given one in between.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// The kernel's begin at 32,768, unless an operator has moved them, and those of the testbed at 27,980.
const FIRST: u16 = 10_000;
const COUNT: u16 = 16_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// An address of this host that is free for TCP and UDP.
pub(crate) fn free() -> SocketAddr {
    // Test programs that run at the same time begin at different ones.
    let begin = std::process::id().wrapping_mul(509) % u32::from(COUNT);
    loop {
        let at = (begin + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + u16::try_from(at).unwrap()));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}
