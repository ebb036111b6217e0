//! Opening libraries at run time.

use std::error::Error as _;
use std::path::Path;

use libloading::Library;

/// Opens a library.
///
/// # Errors
/// The loader's own words, which name the file.
pub(super) fn open(path: &Path) -> Result<Library, String> {
    // SAFETY: the library's initialisers run. It is the one that the operator named, or the one installed
    // on this host, and is trusted like any other part of the program.
    let opened = unsafe { Library::new(path) };
    // The error itself says only which call has failed; what the loader said is its source.
    opened.map_err(|error| error.source().map_or_else(|| error.to_string(), ToString::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said_in_the_loaders_words() {
        let words = open(Path::new("libseam-nowhere.so.0")).unwrap_err();
        assert!(words.starts_with("libseam-nowhere.so.0: ") && words.contains("No such file"), "{words}");
    }
}
