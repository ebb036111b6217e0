//! Where the library is, and of which version.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::api::Api;

/// The file.
const NAME: &str = "libucp.so.0";
/// Names the file, or its folder, where the configuration does not.
const VARIABLE: &str = "SEAM_UCX_LIBRARY";
/// The oldest version whose structures and functions are known.
const OLDEST: (u32, u32) = (1, 13);

/// A library that is there. It has been loaded, and stays so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file; its mere name where the loader knows the place.
    pub path: PathBuf,
    /// What it says of itself.
    pub version: String,
}

/// Why there is no library to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// It is not there.
    #[error(
        "no {NAME} in {looked_in}; install UCX (Debian: libucx0), or say where it is: rails.ucx.library, ${VARIABLE}"
    )]
    Missing {
        /// Where it was looked for.
        looked_in: String,
    },
    /// It is too old, or of a generation that is not known.
    #[error("{}: UCX {version}, at least {}.{} and below 2 is needed", path.display(), OLDEST.0, OLDEST.1)]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// It cannot be loaded.
    #[error("{}: {detail}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The loader's words.
        detail: String,
    },
}

/// Looks for the library: where `configured` says, and only there; else where `$SEAM_UCX_LIBRARY`
/// says, and only there; else where the loader looks.
///
/// # Errors
/// It is not there, cannot be loaded, or is of a version that does not fit.
pub fn find(configured: Option<&Path>) -> Result<Found, LibraryError> {
    open(configured).map(|(_, found)| found)
}

pub(super) fn open(configured: Option<&Path>) -> Result<(Api, Found), LibraryError> {
    let named = configured.map(Path::to_owned).or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
    let path = match &named {
        Some(named) => file(named)?,
        None => PathBuf::from(NAME),
    };
    let api = load(&path)?;
    let (major, minor, release) = api.version();
    let version = format!("{major}.{minor}.{release}");
    if !fits(major, minor) {
        return Err(LibraryError::Unfit { path, version });
    }
    Ok((api, Found { path, version }))
}

fn load(path: &Path) -> Result<Api, LibraryError> {
    Api::load(path).map_err(|detail| {
        // The loader names the file that it did not find: this one, or another that this one needs. What was
        // named is known to be there.
        let is_missing = detail.contains("No such file") && detail.starts_with(&*path.to_string_lossy());
        match is_missing {
            true => LibraryError::Missing { looked_in: "the folders of the loader".to_owned() },
            false => LibraryError::Unusable { path: path.to_owned(), detail },
        }
    })
}

fn fits(major: u32, minor: u32) -> bool {
    major == OLDEST.0 && minor >= OLDEST.1
}

/// The file itself, or the one in that folder. Wheels put a part of its hash into its name.
fn file(named: &Path) -> Result<PathBuf, LibraryError> {
    if named.is_file() {
        return Ok(named.to_owned());
    }
    let is_one = |name: &str| name.starts_with("libucp") && name.contains(".so");
    let entries = fs::read_dir(named).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| is_one(name));
    // Its proper name before any other.
    names.sort_by_key(|name| (name != NAME, name.clone()));
    let is_file = named.file_name().and_then(|name| name.to_str()).is_some_and(is_one);
    let folder = named.parent().filter(|_| is_file).unwrap_or(named);
    let missing = || LibraryError::Missing { looked_in: folder.display().to_string() };
    names.first().map(|name| named.join(name)).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_itself_and_a_folder_has_one_by_its_proper_name_or_a_wheels() {
        let dir = tempfile::tempdir().unwrap();
        let error = file(dir.path()).unwrap_err().to_string();
        let looked = format!("no libucp.so.0 in {};", dir.path().display());
        assert!(error.starts_with(&looked) && error.contains("libucx0"), "{error}");
        let wheel = dir.path().join("libucp-b39b3ed9.so.0.0.0");
        fs::write(dir.path().join("libucs.so.0"), "").unwrap();
        fs::write(&wheel, "").unwrap();
        assert_eq!(file(dir.path()), Ok(wheel.clone()));
        assert_eq!(file(&wheel), Ok(wheel));
        fs::write(dir.path().join(NAME), "").unwrap();
        assert_eq!(file(dir.path()), Ok(dir.path().join(NAME)));
        for (named, folder) in [("/nowhere/libucp.so.0", "/nowhere"), ("/nowhere/ucx-1.13", "/nowhere/ucx-1.13")] {
            let error = file(Path::new(named)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("no libucp.so.0 in {folder};")), "{error}");
        }
    }

    #[test]
    fn what_is_no_library_is_no_panic() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        fs::write(&path, "not one").unwrap();
        assert!(matches!(find(Some(&path)), Err(LibraryError::Unusable { .. })));
    }

    #[test]
    fn a_name_that_the_loader_does_not_find_is_missing_and_what_to_do_is_said() {
        let error = load(Path::new("libucp-nowhere.so.0")).err().unwrap();
        assert_eq!(error, LibraryError::Missing { looked_in: "the folders of the loader".to_owned() });
        assert!(error.to_string().contains("install UCX (Debian: libucx0)"), "{error}");
    }

    #[test]
    fn versions_that_are_too_old_or_of_another_generation_do_not_fit() {
        assert_eq!(
            [(1, 12), (1, 13), (1, 23), (2, 0), (0, 99)].map(|(major, minor)| fits(major, minor)),
            [false, true, true, false, false]
        );
    }
}
