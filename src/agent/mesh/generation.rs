//! The number of this life, larger than that of every earlier one.

use std::io::Write;
use std::path::Path;

use super::MeshStartError;
use super::seeds::Seen;
use crate::mesh::MAX_AHEAD_MS;
use crate::model::Generation;

const FILE: &str = "generation";

/// `max(persisted + 1, now, highest seen + 1)`, written down before it is used. Now is the later of
/// this node's clock and those of the others. What others say counts only as far as they would
/// believe it themselves: a single one that lies must not push this life out of reach.
pub(super) fn next(data_dir: &Path, now_ms: u64, seen: Seen) -> Result<Generation, MeshStartError> {
    let above = |number: Option<Generation>| number.map_or(0, |number| number.saturating_add(1));
    let told = seen.wall_ms.max(above(seen.life)).min(now_ms.saturating_add(MAX_AHEAD_MS));
    let generation = now_ms.max(above(read(data_dir)?)).max(told);
    write(data_dir, generation)?;
    Ok(generation)
}

/// Writes the number down, whole or not at all.
pub(super) fn write(data_dir: &Path, generation: Generation) -> Result<(), MeshStartError> {
    let error = |error: std::io::Error| MeshStartError::DataDir { dir: data_dir.to_owned(), detail: error.to_string() };
    std::fs::create_dir_all(data_dir).map_err(error)?;
    let mut file = tempfile::NamedTempFile::new_in(data_dir).map_err(error)?;
    writeln!(file, "{generation}").map_err(error)?;
    file.as_file().sync_all().map_err(error)?;
    file.persist(data_dir.join(FILE)).map_err(|persist| error(persist.error))?;
    Ok(())
}

fn read(data_dir: &Path) -> Result<Option<Generation>, MeshStartError> {
    let path = data_dir.join(FILE);
    let error = |detail: String| MeshStartError::DataDir { dir: data_dir.to_owned(), detail };
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let number = text.trim().parse();
            number.map(Some).map_err(|_| error(format!("{} holds no number", path.display())))
        }
        Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(other) => Err(error(other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_later_than_the_clock_the_last_one_and_what_others_saw() {
        let dir = tempfile::tempdir().unwrap();
        let next = |now_ms, life, wall_ms| next(dir.path(), now_ms, Seen { life, wall_ms }).unwrap();
        assert_eq!(next(100, None, 0), 100);
        assert_eq!(next(50, None, 0), 101);
        assert_eq!(next(50, Some(700), 0), 701);
        assert_eq!(next(900, Some(7), 800), 900);
        assert_eq!(next(910, Some(7), 2_000), 2_000);
    }

    #[test]
    fn what_others_say_counts_as_far_as_it_can_be_true() {
        for lie in [Seen { life: Some(u64::MAX), wall_ms: 0 }, Seen { life: None, wall_ms: u64::MAX }] {
            let dir = tempfile::tempdir().unwrap();
            assert_eq!(next(dir.path(), 100, lie).unwrap(), 100 + MAX_AHEAD_MS);
        }
    }

    #[test]
    fn a_file_that_holds_no_number_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "x").unwrap();
        assert!(next(dir.path(), 1, Seen::default()).unwrap_err().to_string().contains("generation holds no number"));
    }
}
