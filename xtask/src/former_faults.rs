//! `cargo xtask matrix --former-faults`: a program that has faults of former times again, and the matrix that has to find each.
//!
//! Patches in `crates/weir-matrix/faults` restore them in a copy of the sources, each behind a switch in the environment, so that one build has all
//! of them. It shares what is built of other crates with the checkout. Nothing of it is ever in the program that is tested or shipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// The folder with the patches.
const PATCHES: &str = "crates/weir-matrix/faults";
/// The program that they make.
const PROGRAM: &str = "weir-with-former-faults";
/// A fault that hangs takes as long as a step may take.
const SEARCH_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Builds the program with the faults, and runs `matrix` on it.
pub(crate) fn run(workspace: &Workspace, matrix: &Path) -> anyhow::Result<()> {
    let program = build(workspace)?;
    ProgramRun::new(workspace, matrix)
        .arg("--program")
        .arg(program)
        .arg("--former-faults")
        .arg(workspace.root().join(PATCHES))
        .limit(SEARCH_LIMIT)
        .run()
}

fn build(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = workspace.target().join("former-faults");
    let (patched, tree) = (folder.join("patched"), folder.join("tree"));
    copy_sources(workspace, &patched)?;
    apply_patches(workspace, &folder, &patched)?;
    // Files that are as they were keep their times, and what was built of them is as good as it was.
    update(&patched, &tree)?;
    fs::remove_dir_all(&patched).with_context(|| format!("cannot remove {}", patched.display()))?;
    // An example is among the targets so that dependencies have the features that they have for tests, as the checkout has built them.
    ProgramRun::in_folder(&tree, ProgramRun::cargo_program())
        .env("CARGO_TARGET_DIR", workspace.target())
        .args(["build", "--workspace", "--all-features", "--bin", PROGRAM, "--example", "pick_server"])
        .run()?;
    Ok(workspace.target().join("debug").join(PROGRAM))
}

/// Copies what the checkout has, committed or not.
fn copy_sources(workspace: &Workspace, to: &Path) -> anyhow::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    let listed =
        ProgramRun::new(workspace, "git").args(["ls-files", "-co", "--exclude-standard", "-z"]).read()?;
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let from = workspace.root().join(name);
        // Cargo reads its settings from the folders above, too: twice they would be other settings. A file that was removed is still listed.
        if name.starts_with(".cargo/") || !from.is_file() {
            continue;
        }
        copy(&from, &to.join(name))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let folder = to.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::copy(from, to).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(())
}

fn apply_patches(workspace: &Workspace, above: &Path, tree: &Path) -> anyhow::Result<()> {
    let folder = workspace.root().join(PATCHES);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut patches: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()
        .context("cannot list patches")?;
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    for patch in &patches {
        // Without the repository around it, in which paths would be those of its root.
        let applied = ProgramRun::in_folder(tree, "git")
            .env("GIT_CEILING_DIRECTORIES", above)
            .args(["apply", "--whitespace=nowarn"])
            .arg(patch)
            .run();
        if let Err(error) = applied {
            bail!(
                "{error:#}\n{PATCHES}/{} no longer applies: the code around the fault that it restores has changed. Restore the fault in the code as it is \
                 now, behind the same switch, and write the patch anew (CONTRIBUTING.md, \"Former faults\")",
                patch.file_name().unwrap_or_default().display()
            );
        }
    }
    Ok(())
}

/// Makes `to` have the files of `from`, and writes only those that differ.
fn update(from: &Path, to: &Path) -> anyhow::Result<()> {
    let (wanted, present) = (files_of(from)?, files_of(to)?);
    for name in present.difference(&wanted) {
        fs::remove_file(to.join(name)).with_context(|| format!("cannot remove {}", name.display()))?;
    }
    for name in &wanted {
        let (source, copied) = (from.join(name), to.join(name));
        let is_same = present.contains(name) && fs::read(&source)? == fs::read(&copied)?;
        if !is_same {
            copy(&source, &copied)?;
        }
    }
    Ok(())
}

/// The files below a folder, by their paths in it.
fn files_of(folder: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let (mut files, mut folders) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(inner) = folders.pop() {
        if !inner.exists() {
            continue;
        }
        for entry in fs::read_dir(&inner).with_context(|| format!("cannot read {}", inner.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(folder).expect("it is inside").to_owned());
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_differ_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        let write = |folder: &Path, name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, text) in [("same", "1"), ("in/other", "2"), ("in/new", "3")] {
            write(&from, name, text);
        }
        for (name, text) in [("same", "1"), ("in/other", "1"), ("gone", "4")] {
            write(&to, name, text);
        }
        let time = std::time::SystemTime::UNIX_EPOCH;
        for name in ["same", "in/other"] {
            fs::File::open(to.join(name)).unwrap().set_modified(time).unwrap();
        }
        update(&from, &to).unwrap();
        assert_eq!(files_of(&to).unwrap(), files_of(&from).unwrap());
        assert_eq!(fs::read_to_string(to.join("in/other")).unwrap(), "2");
        let modified = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        assert!(modified("same") == time && modified("in/other") != time);
    }
}
