//! What libraries that are loaded at run time (NIXL, UCX) do to the process as a whole, and what is done about it.

/// Keeps SIGHUP for the configuration: UCX takes it for itself when it is loaded, and then answers it with its own
/// debug lines. 0 leaves signals alone; what the environment says goes before.
///
/// Must be called while the process has one thread.
pub(crate) fn keep_hangup() {
    const SIGNAL: &str = "UCX_DEBUG_SIGNO";
    if std::env::var_os(SIGNAL).is_none() {
        // SAFETY: no other thread runs yet that could read the environment meanwhile.
        unsafe { std::env::set_var(SIGNAL, "0") };
    }
}

/// Ends the process with this status, and without what libraries want to do at its end: Debian's driver for
/// libibverbs brings the process down when the libibverbs of NIXL's wheel lets go of it.
pub(crate) fn end(status: u8) -> ! {
    // Everything of the agent has ended, and standard error holds nothing back.
    // SAFETY: `_exit` only ends the process.
    unsafe { libc::_exit(status.into()) }
}
