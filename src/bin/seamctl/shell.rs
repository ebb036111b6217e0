//! Commands that are printed to be pasted.

use std::path::{Path, PathBuf};

/// Paths named one by one at most; of more the folder that they share is named, if one has them all.
const NAMED: usize = 3;

/// A path as one word of a shell's command line.
pub(crate) fn word(path: &Path) -> String {
    let text = path.display().to_string();
    // Not an option, nor standard input.
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    let plain = |letter: char| letter.is_alphanumeric() || "_-./,:=@%+".contains(letter);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The journals that were given, which hold these segments, as words of a command line.
pub(crate) fn journals(given: &[PathBuf], segments: &[PathBuf]) -> String {
    let shared = if given.len() > NAMED { shared(segments) } else { None };
    match shared {
        Some(folder) => word(folder),
        None => given.iter().map(|path| word(path)).collect::<Vec<_>>().join(" "),
    }
}

/// The folder in which all of them lie, or all in folders in it.
fn shared(segments: &[PathBuf]) -> Option<&Path> {
    let folders: Vec<&Path> = segments.iter().filter_map(|segment| segment.parent()).collect();
    let above: Vec<&Path> = folders.iter().filter_map(|folder| folder.parent()).collect();
    let found = the_one(&folders).or_else(|| (above.len() == folders.len()).then(|| the_one(&above)).flatten())?;
    Some(if found.as_os_str().is_empty() { Path::new(".") } else { found })
}

/// What all of them are.
fn the_one<'a>(paths: &[&'a Path]) -> Option<&'a Path> {
    let first = *paths.first()?;
    paths.iter().all(|path| *path == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_and_no_option() {
        let words =
            ["journals/p0", "last night", "it's", "-", "$HOME;", "", "größe.svg"].map(|path| word(Path::new(path)));
        assert_eq!(words, ["journals/p0", "'last night'", r"'it'\''s'", "./-", "'$HOME;'", "''", "größe.svg"]);
    }

    #[test]
    fn few_journals_are_named_and_many_by_the_folder_that_they_share() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let files = paths(&["j/a/1", "j/b/2", "j/c/3", "j/d/4"]);
        assert_eq!(journals(&files[..3], &files[..3]), "j/a/1 j/b/2 j/c/3");
        assert_eq!(journals(&files, &files), "j");
        let beside = paths(&["1", "2", "3", "4 x"]);
        assert_eq!(journals(&beside, &beside), ".");
        let folders = paths(&["j/a", "j/b", "j/c", "j/d"]);
        assert_eq!(journals(&folders, &files), "j");
        let apart = paths(&["j/a/1", "k/b/2", "j/c/3", "j d/4"]);
        assert_eq!(journals(&apart, &apart), "j/a/1 k/b/2 j/c/3 'j d/4'");
    }
}
