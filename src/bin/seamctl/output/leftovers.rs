//! What would be left of a command that ends before its files are complete.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Files without a name and folders that were made for them: removed unless they are kept.
#[derive(Clone, Default)]
pub(super) struct Leftovers(Arc<Mutex<Paths>>);

#[derive(Default)]
pub(super) struct Paths {
    files: Vec<PathBuf>,
    /// The deepest first.
    folders: Vec<PathBuf>,
}

impl Paths {
    /// What there is has its names now, and stays.
    pub(super) fn keep(&mut self) {
        *self = Self::default();
    }

    fn remove(&mut self) {
        for file in self.files.drain(..) {
            // One that has gone already is as good.
            let _ = std::fs::remove_file(file);
        }
        for folder in self.folders.drain(..) {
            // One that is in use by now stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl Leftovers {
    /// A signal that comes meanwhile waits.
    pub(super) fn hold(&self) -> MutexGuard<'_, Paths> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the folder, and those above it, where there is none.
    pub(super) fn make_folder(&self, dir: &Path) -> Result<()> {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let mut left = self.hold();
        left.folders = dir.ancestors().take_while(missing).map(Path::to_owned).collect();
        std::fs::create_dir_all(dir)
    }

    /// Makes a file; no signal comes between making it and knowing it.
    pub(super) fn add<T>(&self, make: impl FnOnce() -> Result<T>, path: impl FnOnce(&T) -> &Path) -> Result<T> {
        let mut left = self.hold();
        let made = make()?;
        left.files.push(path(&made).to_owned());
        Ok(made)
    }

    /// From here on a signal that ends the program removes what there is first, and then ends it as if
    /// nobody had listened. A signal that the caller ignores, as `nohup` does, stays ignored.
    pub(super) fn watch_signals(&self) -> Result<()> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut signals =
            Signals::new([SIGHUP, SIGINT, SIGTERM].iter().filter(|signal| !is_ignored(&status, **signal)))?;
        let left = self.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // Held to the end, so that nothing new is made.
                let mut left = left.hold();
                left.remove();
                let _ = emulate_default_handler(signal);
                // Only where the default could not be had again.
                std::process::exit(128 + signal);
            }
        })?;
        Ok(())
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        // The thread that listens has one of its own.
        self.hold().remove();
    }
}

/// Whether the `status` of a process says that it ignores a signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_the_mask() {
        let status = "Name:\tseamctl\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!([SIGHUP, SIGINT, SIGTERM].map(|signal| is_ignored(status, signal)), [true, false, false]);
        assert!(!is_ignored("", SIGHUP));
    }

    #[test]
    fn what_is_not_kept_is_removed_and_folders_in_use_stay() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b");
        let left = Leftovers::default();
        left.make_folder(&deep).unwrap();
        let file = deep.join("f");
        left.add(|| std::fs::write(&file, "x").map(|()| file.clone()), |path| path).unwrap();
        std::fs::write(root.path().join("a/other"), "x").unwrap();
        drop(left);
        assert!(!deep.exists() && root.path().join("a/other").exists());

        let left = Leftovers::default();
        left.make_folder(&deep).unwrap();
        left.hold().keep();
        drop(left);
        assert!(deep.exists());
    }
}
