//! Programs in Go that are built once into `target/tools`, one folder for each state of their sources.
//!
//! Several checkouts can share `target/tools`, each with sources of its own: a folder is removed when no checkout has used it for a while, not
//! when another state of the sources is built. The time of a folder is that of its last use.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use crate::clock;
use crate::workspace::Workspace;

/// How long a folder that is not used stays: longer than a branch is left alone.
const UNUSED_TIME_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The folder of the programs of a Go module, from now on in use; it may not exist yet. The folders with this prefix that have not been used for
/// a week are removed.
pub(crate) fn folder(workspace: &Workspace, prefix: &str, module: &str) -> anyhow::Result<PathBuf> {
    let tools = workspace.tools();
    let name = format!("{prefix}-{}", hash_of(&workspace.root().join(module))?);
    use_folder(&tools, prefix, &name, clock::now())?;
    Ok(tools.join(name))
}

fn use_folder(tools: &Path, prefix: &str, name: &str, now: SystemTime) -> anyhow::Result<()> {
    let folder = tools.join(name);
    if folder.exists() {
        let opened = File::open(&folder).and_then(|opened| opened.set_modified(now));
        opened.with_context(|| format!("cannot mark {} as used", folder.display()))?;
    }
    if !tools.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(tools)?.flatten() {
        let of_prefix = entry.file_name().to_string_lossy().strip_prefix(prefix).map(str::to_owned);
        if !of_prefix.is_some_and(|rest| rest.starts_with('-')) {
            continue;
        }
        // Another checkout may have removed it at the same time.
        let Ok(used) = entry.metadata().and_then(|metadata| metadata.modified()) else { continue };
        if now.duration_since(used).is_ok_and(|unused| unused > UNUSED_TIME_MAX) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
    Ok(())
}

/// Changes with every Go file and with the versions of the modules.
fn hash_of(sources: &Path) -> anyhow::Result<String> {
    let mut files = BTreeMap::new();
    gather(sources, sources, &mut files)?;
    if files.is_empty() {
        bail!("{} has no Go files", sources.display());
    }
    let mut hash = Sha256::new();
    for (name, text) in &files {
        hash.update(format!("{name} {}\n", text.len()));
        hash.update(text);
    }
    Ok(hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect())
}

fn gather(root: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.strip_prefix(root).expect("it is inside").to_string_lossy().into_owned();
        if path.is_dir() {
            gather(root, &path, files)?;
        } else if name.ends_with(".go") || name == "go.mod" || name == "go.sum" {
            files.insert(name, fs::read(&path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_of_the_sources() {
        let folder = tempfile::tempdir().unwrap();
        assert!(hash_of(folder.path()).is_err());
        fs::create_dir(folder.path().join("node")).unwrap();
        fs::write(folder.path().join("go.sum"), "a v1").unwrap();
        fs::write(folder.path().join("node/a.go"), "package node").unwrap();
        let first = hash_of(folder.path()).unwrap();
        fs::write(folder.path().join("README.md"), "words").unwrap();
        assert_eq!(hash_of(folder.path()).unwrap(), first);
        fs::write(folder.path().join("node/a.go"), "package other").unwrap();
        let second = hash_of(folder.path()).unwrap();
        fs::write(folder.path().join("go.sum"), "a v2").unwrap();
        let third = hash_of(folder.path()).unwrap();
        assert!(first != second && second != third && first != third);
    }

    #[test]
    fn programs_of_other_checkouts_stay_while_they_are_used() {
        let tools = tempfile::tempdir().unwrap();
        let day = Duration::from_secs(24 * 60 * 60);
        let start = SystemTime::UNIX_EPOCH + 1000 * day;
        let folders = ["helm-own", "helm-other", "helmet-1", "xds-1", "helm-unused"];
        for name in folders {
            fs::create_dir(tools.path().join(name)).unwrap();
            fs::write(tools.path().join(name).join("program"), "").unwrap();
            File::open(tools.path().join(name)).unwrap().set_modified(start).unwrap();
        }
        let left = || folders.map(|name| tools.path().join(name).exists());
        // One that is not built yet removes nothing that was used a moment ago.
        use_folder(tools.path(), "helm", "helm-new", start + day).unwrap();
        use_folder(tools.path(), "helm", "helm-own", start + 6 * day).unwrap();
        use_folder(tools.path(), "helm", "helm-other", start + 7 * day).unwrap();
        assert_eq!(left(), [true; 5]);
        use_folder(tools.path(), "helm", "helm-other", start + 8 * day).unwrap();
        assert_eq!(left(), [true, true, true, true, false]);
        use_folder(tools.path(), "helm", "helm-new", start + 14 * day).unwrap();
        assert_eq!(left(), [false, true, true, true, false]);
    }
}
