//! What libraries that are loaded at run time (NIXL, UCX) would do to the process as a whole.

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
