//! The files that `--out` names: whole or not there, whatever ends the command.

mod leftovers;

use std::fs::{Metadata, Permissions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::exit::Failure;
use leftovers::Leftovers;

/// Files below the path that `--out` names. They have other names until all of them are complete.
pub(crate) struct Output {
    out: PathBuf,
    /// Where they get their names.
    dir: PathBuf,
    targets: Vec<PathBuf>,
    left: Leftovers,
}

impl Output {
    /// Files of these names in the folder `out`, which is made where there is none. None of them may be
    /// one of the `inputs`; `-` is standard input.
    pub(crate) fn in_folder(out: &Path, names: &[&str], inputs: &[PathBuf]) -> Result<Self, Failure> {
        let targets = names.iter().map(|name| out.join(name)).collect();
        Self::new(out, out, targets, inputs)
    }

    /// The one file `out`, whose folder must be there.
    pub(crate) fn file(out: &Path, inputs: &[PathBuf]) -> Result<Self, Failure> {
        let dir = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let found = dir.metadata().map_err(|error| cannot(out, dir, &error))?;
        if !found.is_dir() {
            return Err(cannot(out, dir, &ErrorKind::NotADirectory.into()));
        }
        Self::new(out, dir, vec![out.to_owned()], inputs)
    }

    fn new(out: &Path, dir: &Path, targets: Vec<PathBuf>, inputs: &[PathBuf]) -> Result<Self, Failure> {
        let no_input = |target: &PathBuf| over_no_input(out, target, inputs);
        targets.iter().try_for_each(no_input)?;
        let output = Self { out: out.to_owned(), dir: dir.to_owned(), targets, left: Leftovers::default() };
        output.left.watch_signals().map_err(|error| Failure::failed(anyhow::anyhow!("signals: {error}")))?;
        output.left.make_folder(dir).map_err(|error| cannot(out, dir, &error))?;
        output.targets.iter().try_for_each(|target| output.free(target))?;
        Ok(output)
    }

    /// A file that is removed unless it gets a name.
    pub(crate) fn begin(&self) -> Result<NamedTempFile, Failure> {
        // As any file that a program makes: what others may do with it is the umask's matter.
        let mut builder = tempfile::Builder::new();
        builder.prefix(".seamctl-").permissions(Permissions::from_mode(0o666));
        let made = self.left.add(|| builder.tempfile_in(&self.dir), NamedTempFile::path);
        made.map_err(|error| cannot(&self.out, &self.dir, &error))
    }

    /// What could not be written of the file of this name.
    pub(crate) fn cannot(&self, name: &str, error: &Error) -> Failure {
        cannot(&self.out, &self.dir.join(name), error)
    }

    /// Gives the files, in the order of the names, their names. Whether
    /// all of them can have theirs is known before the first gets it.
    pub(crate) fn finish(self, files: Vec<NamedTempFile>) -> Result<Vec<PathBuf>, Failure> {
        let mut left = self.left.hold();
        self.targets.iter().try_for_each(|target| self.free(target))?;
        for (file, target) in files.into_iter().zip(&self.targets) {
            file.persist(target).map_err(|error| cannot(&self.out, target, &error.error))?;
        }
        left.keep();
        drop(left);
        Ok(self.targets.clone())
    }

    /// Whether a file can have this name.
    fn free(&self, target: &Path) -> Result<(), Failure> {
        match target.symlink_metadata() {
            Ok(found) if found.is_dir() => Err(cannot(&self.out, target, &ErrorKind::IsADirectory.into())),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(cannot(&self.out, target, &error)),
        }
    }
}

/// The same file is the same by its device and number there, whatever links lead to it.
fn over_no_input(out: &Path, target: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let identity = |found: &Metadata| (found.dev(), found.ino());
    let Ok(found) = target.metadata() else { return Ok(()) };
    let clash = inputs.iter().find(|input| {
        let read = if input.as_os_str() == "-" { Path::new("/dev/stdin") } else { input.as_path() };
        read.metadata().is_ok_and(|read| read.is_file() && identity(&read) == identity(&found))
    });
    let Some(input) = clash else { return Ok(()) };
    let input = if input.as_os_str() == "-" { "standard input".to_owned() } else { input.display().to_string() };
    Err(Failure::usage(anyhow::anyhow!(
        "--out {}: {} is the same file as the input {input}, allowed a place where no input would be overwritten",
        out.display(),
        target.display()
    )))
}

/// A place that is no good is bad usage; one that fails on the way is a failed operation.
pub(crate) fn cannot(out: &Path, path: &Path, error: &Error) -> Failure {
    let at = if path == out { String::new() } else { format!("{}: ", path.display()) };
    let words = anyhow::anyhow!("--out {}: {at}cannot be written: {error}", out.display());
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::AlreadyExists
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput => Failure::usage(words),
        _ => Failure::failed(words),
    }
}
