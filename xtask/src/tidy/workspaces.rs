//! The manifest and the lock file of the lab say what those of the balancer say, as far as both say anything about the same.
//!
//! A workspace cannot inherit from another one, so the lab repeats package data, lints, versions and profiles. What drifted apart would be compiled
//! twice, measured with another compiler setting or checked by other lints.

use toml::{Table, Value};

use super::finding::Finding;
use super::rule::HouseRule;
use super::tree::SourceTree;

const MANIFEST: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";
const LAB_MANIFEST: &str = "lab/Cargo.toml";
const LAB_LOCK: &str = "lab/Cargo.lock";

/// The start of the names of crates of ours, each of which one workspace alone may have settings for.
const OURS: &str = "weir";

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    compare(tree).unwrap_or_else(|finding| vec![finding])
}

fn compare(tree: &SourceTree) -> Result<Vec<Finding>, Finding> {
    let (manifest, lab_manifest) = (read(tree, MANIFEST)?, read(tree, LAB_MANIFEST)?);
    let (lock, lab_lock) = (read(tree, LOCK)?, read(tree, LAB_LOCK)?);
    let lab_packages: Vec<(&str, &str)> = packages(&lab_lock).collect();
    let mut findings = declarations(&manifest, &lab_manifest);
    findings.extend(profiles(&manifest, &lab_manifest, &lab_packages));
    findings.extend(versions(&lock, &lab_packages));
    Ok(findings)
}

fn read(tree: &SourceTree, path: &str) -> Result<Table, Finding> {
    let file = tree.files().iter().find(|file| file.path == path);
    file.and_then(|file| file.text.parse().ok())
        .ok_or_else(|| Finding::new(HouseRule::Dependency, path, 0, "", "it is no TOML, or not there"))
}

/// Package data, lints, and dependencies by name.
fn declarations(manifest: &Table, lab_manifest: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in [["workspace", "package"], ["workspace", "lints"]] {
        if value(manifest, &path) != value(lab_manifest, &path) {
            findings.push(differs(LAB_MANIFEST, &path.join("."), "Cargo.toml has something else"));
        }
    }
    let foreign =
        table(lab_manifest, &["workspace", "dependencies"]).filter(|(name, _)| !name.starts_with(OURS));
    for (name, dependency) in foreign {
        let other = value(manifest, &["workspace", "dependencies", name]);
        if other.is_some_and(|other| other != dependency) {
            findings.push(differs(LAB_MANIFEST, name, "Cargo.toml has another version or other features"));
        }
    }
    findings
}

/// What is locked: one of the versions that the balancer has.
fn versions(lock: &Table, lab_packages: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, version) in lab_packages {
        let others: Vec<&str> =
            packages(lock).filter(|(other, _)| other == name).map(|(_, version)| version).collect();
        if !others.is_empty() && !others.contains(version) {
            let message = format!("it is locked at {version}, and in Cargo.lock at {}", others.join(", "));
            findings.push(differs(LAB_LOCK, name, &message));
        }
    }
    findings
}

/// Profiles: the same settings, and for each crate that the lab compiles the same exception.
fn profiles(manifest: &Table, lab_manifest: &Table, lab_packages: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (profile, settings) in table(manifest, &["profile"]) {
        let (mut settings, mut lab_settings) =
            (settings.clone(), value(lab_manifest, &["profile", profile]).cloned());
        let exceptions = take_exceptions(Some(&mut settings));
        let lab_exceptions = take_exceptions(lab_settings.as_mut());
        if Some(settings) != lab_settings {
            findings.push(differs(LAB_MANIFEST, profile, "the profile has other settings in Cargo.toml"));
        }
        for (name, _) in lab_packages {
            let is_own = !exceptions.contains_key(*name) && name.starts_with(OURS);
            if !is_own && exceptions.get(*name) != lab_exceptions.get(*name) {
                let message = format!("Cargo.toml has another exception of the profile {profile}");
                findings.push(differs(LAB_MANIFEST, name, &message));
            }
        }
    }
    findings
}

/// The settings for single packages, which the profile then lacks.
fn take_exceptions(profile: Option<&mut Value>) -> Table {
    let taken = profile.and_then(Value::as_table_mut).and_then(|profile| profile.remove("package"));
    taken.and_then(|taken| taken.as_table().cloned()).unwrap_or_default()
}

fn differs(path: &str, item: &str, message: &str) -> Finding {
    Finding::new(HouseRule::Dependency, path, 0, item, format!("{item}: {message}"))
}

fn value<'a>(document: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(document.get(*first)?, |value, key| value.get(key))
}

fn table<'a>(document: &'a Table, path: &[&str]) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let table = value(document, path).and_then(Value::as_table);
    table.into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// Name and version of each package of a lock file.
fn packages(lock: &Table) -> impl Iterator<Item = (&str, &str)> {
    let all = lock.get("package").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|package| Some((package.get("name")?.as_str()?, package.get("version")?.as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUR_MANIFEST: &str = "
[workspace.package]
version = '1.0.0'
[workspace.lints.rust]
unsafe_code = 'deny'
[workspace.dependencies]
weir-http = { path = 'crates/weir-http' }
serde = '1'
slab = '0.4'
[profile.dev]
opt-level = 1
[profile.dev.package]
weir-http.opt-level = 0
slab.opt-level = 0
tokio.opt-level = 0
";
    const LAB_TEXT: &str = "
[workspace.package]
version = '1.0.0'
[workspace.lints.rust]
unsafe_code = 'deny'
[workspace.dependencies]
weir-http = { path = '../crates/weir-http' }
plotters = '0.3'
slab = '0.4'
[profile.dev]
opt-level = 1
[profile.dev.package]
weir-http.opt-level = 0
weir-lab.opt-level = 0
slab.opt-level = 0
";
    const OUR_LOCK: &str = "
[[package]]
name = 'slab'
version = '0.4.1'
[[package]]
name = 'weir-http'
version = '1.0.0'
[[package]]
name = 'syn'
version = '2.0.0'
[[package]]
name = 'syn'
version = '3.0.0'
";
    const LAB_LOCK_TEXT: &str = "
[[package]]
name = 'plotters'
version = '0.3.0'
[[package]]
name = 'slab'
version = '0.4.1'
[[package]]
name = 'syn'
version = '3.0.0'
[[package]]
name = 'weir-http'
version = '1.0.0'
[[package]]
name = 'weir-lab'
version = '1.0.0'
";

    fn found(lab_manifest: &str, lab_lock: &str) -> Vec<String> {
        let files =
            [(MANIFEST, OUR_MANIFEST), (LOCK, OUR_LOCK), (LAB_MANIFEST, lab_manifest), (LAB_LOCK, lab_lock)];
        check(&SourceTree::of(&files)).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn what_one_workspace_alone_has_is_its_own() {
        assert_eq!(found(LAB_TEXT, LAB_LOCK_TEXT), [""; 0]);
    }

    #[test]
    fn what_both_have_is_the_same() {
        for (from, to, item) in [
            ("'1.0.0'", "'1.0.1'", "workspace.package"),
            ("'deny'", "'warn'", "workspace.lints"),
            ("slab = '0.4'", "slab = '0.3'", "slab"),
            ("opt-level = 1", "opt-level = 2", "dev"),
            ("slab.opt-level = 0", "slab.opt-level = 3", "slab"),
            ("slab.opt-level = 0\n", "", "slab"),
            ("weir-http.opt-level = 0\n", "", "weir-http"),
            ("slab.opt-level = 0\n", "slab.opt-level = 0\nplotters.opt-level = 0\n", "plotters"),
        ] {
            assert!(LAB_TEXT.contains(from), "{from}");
            assert_eq!(found(&LAB_TEXT.replace(from, to), LAB_LOCK_TEXT), [item], "{from}: {to}");
        }
        assert_eq!(found(LAB_TEXT, &LAB_LOCK_TEXT.replace("'0.4.1'", "'0.4.2'")), ["slab"]);
        assert_eq!(found(LAB_TEXT, &LAB_LOCK_TEXT.replace("'3.0.0'", "'4.0.0'")), ["syn"]);
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_reported() {
        assert_eq!(found("no TOML", LAB_LOCK_TEXT).len(), 1);
        assert_eq!(check(&SourceTree::of(&[(MANIFEST, OUR_MANIFEST)])).len(), 1);
    }
}
