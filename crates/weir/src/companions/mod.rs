//! Programs that belong to Weir without being part of it: the lab, and the proof of an import. They are beside `weir`, or on the PATH.

pub(crate) mod lab;

use std::path::{Path, PathBuf};

/// Where the program is.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(beside.into_iter().chain(std::env::split_paths(&path)), name)
}

/// The program in the first of these folders that has it.
fn find_in(mut folders: impl Iterator<Item = PathBuf>, name: &str) -> Option<PathBuf> {
    let program = |folder: PathBuf| Some(folder.join(name)).filter(|path| Path::is_file(path));
    folders.find_map(program)
}

#[cfg(test)]
mod tests {
    use super::find_in;

    #[test]
    fn the_program_beside_weir_comes_before_the_one_on_the_path() {
        let (beside, path) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = || [&beside, &path].map(|folder| folder.path().to_owned()).into_iter();
        assert_eq!(find_in(folders(), "weir-lab"), None);
        std::fs::write(path.path().join("weir-lab"), "").unwrap();
        assert_eq!(find_in(folders(), "weir-lab"), Some(path.path().join("weir-lab")));
        std::fs::write(beside.path().join("weir-lab"), "").unwrap();
        assert_eq!(find_in(folders(), "weir-lab"), Some(beside.path().join("weir-lab")));
    }
}
