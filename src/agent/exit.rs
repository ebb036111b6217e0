//! How the agent's process ends.

/// Ends the process with this status. With NIXL or UCX in it that is without what their libraries want to do at the
/// end: Debian's driver for libibverbs brings the process down when the libibverbs of NIXL's wheel lets go of it, and
/// the status would be that of the crash.
///
/// What must not be lost has to be on the disk: nothing is dropped.
pub fn exit(status: i32) -> ! {
    #[cfg(any(feature = "nixl", feature = "ucx"))]
    // SAFETY: `_exit` only ends the process. Standard error holds nothing back.
    unsafe {
        libc::_exit(status)
    }
    #[cfg(not(any(feature = "nixl", feature = "ucx")))]
    std::process::exit(status)
}
