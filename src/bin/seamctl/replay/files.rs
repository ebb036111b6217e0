//! What `--out` writes: under other names until all of it is complete.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use seam::replay::{ChoicesCsv, Placed, Sink, Summary};
use tempfile::NamedTempFile;

use crate::exit::Failure;

/// The files of one replay.
pub(super) struct Files {
    dir: PathBuf,
    choices: ChoicesCsv<NamedTempFile>,
    made: Made,
}

/// The folders that were made for the files, the deepest first: removed again unless the files get
/// their names.
struct Made(Vec<PathBuf>);

impl Made {
    /// Makes the folder, and those above it, where there is none.
    fn folder(dir: &Path) -> std::io::Result<Self> {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = Self(dir.ancestors().take_while(missing).map(Path::to_owned).collect());
        std::fs::create_dir_all(dir)?;
        Ok(made)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for folder in &self.0 {
            // One that is in use by now stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl Files {
    /// Makes the folder where there is none, and begins with the choices.
    pub(super) fn begin(dir: &Path) -> Result<Self, Failure> {
        let made = Made::folder(dir).map_err(|error| cannot(dir, error))?;
        Ok(Self { dir: dir.to_owned(), choices: ChoicesCsv::new(unnamed(dir)?), made })
    }

    /// Writes the rest and gives all files their names.
    pub(super) fn finish(self, summary: &Summary) -> Result<Vec<PathBuf>, Failure> {
        let Self { dir, choices, mut made } = self;
        let at = |name: &str| dir.join(name);
        let choices = choices.finish().map_err(|error| cannot(&at("choices.csv"), error))?;
        let mut json = unnamed(&dir)?;
        let text = serde_json::to_string_pretty(summary).map_err(Failure::failed)?;
        writeln!(json, "{text}").map_err(|error| cannot(&at("replay.json"), error))?;
        let mut table = unnamed(&dir)?;
        summary.write_csv(&mut table).map_err(|error| cannot(&at("replay.csv"), error))?;
        let mut written = Vec::new();
        for (file, name) in [(json, "replay.json"), (table, "replay.csv"), (choices, "choices.csv")] {
            let path = at(name);
            file.persist(&path).map_err(|error| cannot(&path, error.error))?;
            written.push(path);
        }
        made.0.clear();
        Ok(written)
    }
}

impl Sink for Files {
    fn placed(&mut self, placed: &Placed<'_>) -> std::io::Result<()> {
        self.choices.placed(placed)
    }
}

/// A file that is removed unless it gets a name.
fn unnamed(dir: &Path) -> Result<NamedTempFile, Failure> {
    // As any file that a program makes: what others may do with it is the umask's matter.
    let made = tempfile::Builder::new().prefix(".replay-").permissions(Permissions::from_mode(0o666)).tempfile_in(dir);
    made.map_err(|error| cannot(dir, error))
}

fn cannot(path: &Path, error: std::io::Error) -> Failure {
    Failure::failed(anyhow::anyhow!("{}: {error}", path.display()))
}
