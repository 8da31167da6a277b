//! Passes that are recorded in the repository: of checks that take minutes and whose outcome depends on few files.
//!
//! A record is a hash of these files, in `xtask/recorded.toml`. A check whose files have the recorded hash has passed for them before, and `ci`
//! leaves it out; `ci --all` does not. The hash is of the files as they are, so a shallow clone, or none of Git at all, makes no difference, and a
//! record that is missing or cannot be read runs everything.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use ignore::WalkBuilder;
use sha2::{Digest as _, Sha256};

use crate::workspace::Workspace;

const RECORDS: &str = "xtask/recorded.toml";
const OPENING: &str = "# Checks that `cargo xtask ci` leaves out while the files that they depend on are these. Written by `cargo xtask ci STEP --record`.\n";

/// A check with a record.
pub(crate) struct RecordedCheck {
    pub(crate) name: &'static str,
    /// Files and folders, relative to the workspace, on which its outcome depends.
    pub(crate) inputs: &'static [&'static str],
}

/// Static program, packages, image, and their trial in a fresh system: what goes into them, how they are built, and what of the program only a
/// trial sees (units, users, upgrades).
pub(crate) const PACKAGES: RecordedCheck = RecordedCheck {
    name: "package",
    inputs: &[
        ".cargo",
        "Cargo.lock",
        "Cargo.toml",
        "crates/weir/Cargo.toml",
        "crates/weir-proof/Cargo.toml",
        "crates/weir/src/serve",
        "crates/weir-control/src/lifecycle/privileges",
        "crates/weir-control/src/lifecycle/upgrade",
        "crates/weir-control/src/serving",
        "lab/Cargo.lock",
        "lab/Cargo.toml",
        "lab/weir-lab/Cargo.toml",
        "packaging",
        "xtask/src/dist.rs",
        "xtask/src/package",
        "xtask/src/packages.rs",
    ],
};

/// The workspace of lab and simulator: its crates, what they use of the balancer, what its tests read, and how it is built. Weir as a target is
/// the step `bench`.
pub(crate) const LAB: RecordedCheck = RecordedCheck {
    name: "lab",
    inputs: &[
        ".cargo",
        "Cargo.toml",
        "clippy.toml",
        "crates/weir-http/Cargo.toml",
        "crates/weir-http/src",
        "crates/weir-observe/Cargo.toml",
        "crates/weir-observe/src",
        "crates/weir-traffic/Cargo.toml",
        "crates/weir-traffic/src",
        "docs/failures.md",
        "docs/simulator.md",
        "lab/.cargo",
        "lab/Cargo.lock",
        "lab/Cargo.toml",
        "lab/runs/2026-11-21-queue-single-slot",
        "lab/runs/2026-11-24-current-peers/l7-keepalive",
        "lab/scenarios",
        "lab/weir-lab",
        "lab/weir-sim",
        "lab/weir-stats",
        "xtask/src/lab.rs",
    ],
};

impl RecordedCheck {
    /// Whether it has passed for the files as they are.
    pub(crate) fn has_passed(&self, workspace: &Workspace) -> bool {
        has_passed(self, workspace.root())
    }

    /// Records that it has passed.
    ///
    /// # Errors
    /// The files cannot be read, or the record not be written.
    pub(crate) fn record(&self, workspace: &Workspace) -> anyhow::Result<()> {
        record(self, workspace.root())
    }
}

fn has_passed(check: &RecordedCheck, root: &Path) -> bool {
    let Ok(hash) = hash_of(check, root) else { return false };
    records(root).is_ok_and(|records| records.get(check.name) == Some(&hash))
}

fn record(check: &RecordedCheck, root: &Path) -> anyhow::Result<()> {
    let mut records = records(root).unwrap_or_default();
    records.insert(check.name.to_owned(), hash_of(check, root)?);
    let lines = toml::to_string(&records).context("hashes are strings")?;
    fs::write(root.join(RECORDS), format!("{OPENING}{lines}"))
        .with_context(|| format!("cannot write {RECORDS}"))
}

fn records(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    Ok(toml::from_str(&fs::read_to_string(root.join(RECORDS))?)?)
}

/// SHA-256 of names and contents. An input that is not there any more is an error, so that the list stays true.
fn hash_of(check: &RecordedCheck, root: &Path) -> anyhow::Result<String> {
    let mut files = BTreeMap::new();
    for input in check.inputs {
        ensure!(root.join(input).exists(), "there is no {input}: correct the list in xtask");
        gather(root, input, &mut files)?;
    }
    let mut hash = Sha256::new();
    for (name, content) in &files {
        hash.update(format!("{name} {}\n", content.len()));
        hash.update(content);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The files below `input`, without those that Git ignores, which another checkout does not have.
fn gather(root: &Path, input: &str, files: &mut BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
    // The walk begins at the root, where the list of ignored files is.
    let (from, within) = (root.to_owned(), root.join(input));
    let walk = WalkBuilder::new(&from)
        .hidden(false)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .filter_entry(move |entry| within.starts_with(entry.path()) || entry.path().starts_with(&within))
        .build();
    for entry in walk {
        let entry = entry?;
        if entry.file_type().is_some_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        let name = path.strip_prefix(root).context("it is inside")?.to_string_lossy().into_owned();
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        files.insert(name, content);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: RecordedCheck = RecordedCheck { name: "check", inputs: &["folder", "file"] };

    #[test]
    fn a_pass_holds_until_a_file_changes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("folder/inner")).unwrap();
        fs::create_dir_all(root.join("xtask")).unwrap();
        fs::write(root.join("folder/inner/a"), "a").unwrap();
        assert!(!has_passed(&CHECK, root), "an input is missing");
        fs::write(root.join("file"), "b").unwrap();
        assert!(!has_passed(&CHECK, root), "nothing is recorded");
        record(&CHECK, root).unwrap();
        assert!(has_passed(&CHECK, root));
        fs::write(root.join("other"), "c").unwrap();
        assert!(has_passed(&CHECK, root), "it depends on no such file");
        fs::write(root.join("folder/inner/a"), "A").unwrap();
        assert!(!has_passed(&CHECK, root));
        fs::write(root.join("folder/inner/a"), "a").unwrap();
        fs::write(root.join("folder/new"), "").unwrap();
        assert!(!has_passed(&CHECK, root), "a new file counts");
        fs::write(root.join(".gitignore"), "/folder/new\n").unwrap();
        assert!(has_passed(&CHECK, root), "other checkouts do not have it");
        fs::write(root.join(RECORDS), "no TOML").unwrap();
        assert!(!has_passed(&CHECK, root));
    }

    #[test]
    fn the_inputs_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for check in [&PACKAGES, &LAB] {
            hash_of(check, root).unwrap();
        }
    }
}
