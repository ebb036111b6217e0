//! What the end of an earlier life left behind, looked at once before a new one writes.

use std::fs::{File, OpenOptions};
use std::io::BufReader;
use std::path::Path;

use crate::journal::{Damage, JournalError, Reader, list};
use crate::model::NodeName;

/// Reads the newest segment of this node and cuts off an end that is no whole entry. What else is
/// wrong with it is said in the log and left as it is.
pub(super) fn repair(dir: &Path, node: &NodeName) {
    let newest = match list(dir) {
        Ok(segments) => segments.into_iter().rfind(|segment| segment.node == *node),
        Err(error) => return tracing::warn!(path = %dir.display(), %error, "the journal's folder cannot be read"),
    };
    if let Some(segment) = newest {
        mend(&segment.path);
    }
}

fn mend(path: &Path) {
    let shown = path.display();
    match damage(path) {
        Ok(None) => {}
        Ok(Some(Damage::Torn { at, bytes })) => match cut(path, at) {
            Ok(()) => tracing::warn!(
                path = %shown, bytes,
                "the newest segment ended in the middle of an entry: its last {bytes} bytes are cut off"
            ),
            Err(error) => tracing::error!(path = %shown, bytes, %error, "the segment's torn end cannot be cut off"),
        },
        // Not one entry is whole.
        Err(JournalError::Header(Damage::Torn { bytes, .. })) => match std::fs::remove_file(path) {
            Ok(()) => tracing::warn!(
                path = %shown, bytes, "the newest segment ended before its first entry: it is deleted"
            ),
            Err(error) => tracing::error!(path = %shown, %error, "the torn segment cannot be deleted"),
        },
        Ok(Some(damage)) => {
            tracing::error!(path = %shown, %damage, "the newest segment is damaged; it is left as it is")
        }
        Err(error) => tracing::error!(path = %shown, %error, "the newest segment cannot be read; it is left as it is"),
    }
}

/// What is wrong after the last sound entry.
fn damage(path: &Path) -> Result<Option<Damage>, JournalError> {
    let mut reader = Reader::open(BufReader::new(File::open(path)?))?;
    loop {
        match reader.pass_entry() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(damage) => return Ok(Some(damage)),
        }
    }
}

fn cut(path: &Path, at: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(at)?;
    file.sync_all()
}
