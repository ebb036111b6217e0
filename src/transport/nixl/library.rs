//! Where the library is, and of which version.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "nixl")]
use super::api::Api;

/// The file.
const NAME: &str = "libnixl_capi.so";
/// The folders of the wheels, beside the packages that they belong to.
const WHEELS: [(&str, &str); 2] = [(".nixl_cu12.mesonpy.libs", "nixl_cu12"), (".nixl_cu13.mesonpy.libs", "nixl_cu13")];
/// Where an installation puts it, below its prefix.
const BELOW: [&str; 3] = ["lib/x86_64-linux-gnu", "lib64", "lib"];
/// The oldest version whose functions are known to take these arguments.
pub(super) const OLDEST: (u32, u32) = (1, 0);

/// A library that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// Its version, where its package says.
    pub version: Option<String>,
}

/// Why there is no library to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// It is in none of the places.
    #[error(
        "no {NAME} in {looked_in}; install NIXL (pip install nixl-cu12, on Debian into a virtual environment), and say where it is: rails.nixl.library, $NIXL_PREFIX"
    )]
    Missing {
        /// The places, joined.
        looked_in: String,
    },
    /// It is too old.
    #[error("{}: NIXL {version}, at least {}.{} is needed", path.display(), OLDEST.0, OLDEST.1)]
    TooOld {
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

/// Looks for the library: where `configured` says, and only there; else in `$NIXL_PREFIX`, the usual
/// prefixes, and the wheels of every Python that is installed.
///
/// # Errors
/// It is nowhere, or too old.
pub fn find(configured: Option<&Path>) -> Result<Found, LibraryError> {
    find_in(&match configured {
        Some(path) if path.extension().is_some_and(|extension| extension == "so") => vec![path.to_owned()],
        Some(folder) => vec![folder.join(NAME)],
        None => usual(),
    })
}

/// Loads the library that was found, and finds all of its functions, as a rail does. It stays loaded.
///
/// # Errors
/// The loader's words, or the name of what is missing.
#[cfg(feature = "nixl")]
pub fn try_load(found: &Found) -> Result<(), LibraryError> {
    load(found).map(std::mem::forget)
}

#[cfg(feature = "nixl")]
pub(super) fn load(found: &Found) -> Result<Api, LibraryError> {
    Api::load(&found.path).map_err(|detail| LibraryError::Unusable { path: found.path.clone(), detail })
}

fn find_in(places: &[PathBuf]) -> Result<Found, LibraryError> {
    let Some(path) = places.iter().find(|path| path.is_file()) else {
        let mut folders: Vec<String> =
            places.iter().filter_map(|path| path.parent()).map(|folder| folder.display().to_string()).collect();
        folders.dedup();
        return Err(LibraryError::Missing { looked_in: folders.join(", ") });
    };
    let version = version(path);
    if let Some(version) = &version
        && parsed(version).is_some_and(|parsed| parsed < OLDEST)
    {
        return Err(LibraryError::TooOld { path: path.clone(), version: version.clone() });
    }
    Ok(Found { path: path.clone(), version })
}

fn usual() -> Vec<PathBuf> {
    let prefixes = env::var_os("NIXL_PREFIX").map(PathBuf::from).into_iter();
    let prefixes = prefixes.chain(["/usr/local/nixl", "/opt/nvidia/nvda_nixl"].map(PathBuf::from));
    let installed = prefixes.flat_map(|prefix| BELOW.map(|below| prefix.join(below).join(NAME)));
    let packages = packages();
    let wheels = WHEELS.iter().flat_map(|(folder, _)| packages.iter().map(move |root| root.join(folder).join(NAME)));
    installed.chain(wheels).collect()
}

/// Folders with Python packages: the active environment's, the user's, the system's.
fn packages() -> Vec<PathBuf> {
    let roots = env::var_os("VIRTUAL_ENV").map(|root| PathBuf::from(root).join("lib")).into_iter();
    let roots = roots.chain(env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/lib")));
    let roots = roots.chain(["/usr/local/lib", "/usr/lib"].map(PathBuf::from));
    let mut found = Vec::new();
    for root in roots {
        let versions = fs::read_dir(&root).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_python = |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python3"))
        };
        let mut versions: Vec<PathBuf> = versions.filter(is_python).collect();
        versions.sort();
        found.extend(
            versions.iter().rev().flat_map(|path| ["site-packages", "dist-packages"].map(|sub| path.join(sub))),
        );
    }
    found
}

/// The version of the wheel that a library belongs to: its folder of metadata has it in its name.
fn version(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let name = folder.file_name()?.to_str()?;
    let (_, package) = WHEELS.iter().find(|(wheel, _)| *wheel == name)?;
    let entries = fs::read_dir(folder.parent()?).ok()?.flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.find_map(|name| {
        let version = name.strip_prefix(package)?.strip_prefix('-')?.strip_suffix(".dist-info")?;
        Some(version.to_owned())
    })
}

fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wheel(version: &str) -> (tempfile::TempDir, PathBuf) {
        let site = tempfile::tempdir().unwrap();
        let folder = site.path().join(".nixl_cu12.mesonpy.libs");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir(site.path().join(format!("nixl_cu12-{version}.dist-info"))).unwrap();
        let library = folder.join(NAME);
        fs::write(&library, "not one").unwrap();
        (site, library)
    }

    #[test]
    fn a_wheel_says_its_version_and_an_old_one_is_refused() {
        let (_site, library) = wheel("1.5.1");
        let found = find(Some(&library)).unwrap();
        assert_eq!(found, Found { path: library.clone(), version: Some("1.5.1".to_owned()) });
        assert_eq!(find(library.parent()).unwrap(), found);
        let (_site, library) = wheel("0.10.1");
        let error = find(Some(&library)).unwrap_err();
        assert!(error.to_string().ends_with("NIXL 0.10.1, at least 1.0 is needed"), "{error}");
    }

    #[test]
    fn where_it_is_not_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let error = find(Some(dir.path())).unwrap_err().to_string();
        let looked = format!("no {NAME} in {};", dir.path().display());
        assert!(error.contains(&looked) && error.contains("pip install nixl-cu12"), "{error}");
    }

    #[cfg(feature = "nixl")]
    #[test]
    fn what_is_no_library_is_no_panic() {
        let (_site, library) = wheel("1.5.1");
        let found = find(Some(&library)).unwrap();
        let error = try_load(&found).unwrap_err().to_string();
        assert!(error.contains(NAME) && error.contains("file too short"), "{error}");
    }
}
