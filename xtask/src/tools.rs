//! Programs from crates.io that the checks start, built once into `target/tools` at a fixed version.
//!
//! Fixed, so that two machines judge a change alike; in the target folder, so that nothing of the machine changes.
//! Built without optimisation: that takes a quarter of the time, and they run for a second or two.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// A program in a crate.
pub(crate) struct Tool {
    package: &'static str,
    version: &'static str,
    program: &'static str,
}

/// Licences, banned and doubled crates, where crates come from.
pub(crate) const CARGO_DENY: Tool = Tool { package: "cargo-deny", version: "0.20.2", program: "cargo-deny" };

/// Spelling.
pub(crate) const TYPOS: Tool = Tool { package: "typos-cli", version: "1.42.3", program: "typos" };

impl Tool {
    /// Where the program is, after building it if this version is not there yet.
    pub(crate) fn ready(&self, workspace: &Workspace) -> anyhow::Result<PathBuf> {
        let file = workspace.tools().join("bin").join(self.program);
        if self.reports_version(workspace, &file) {
            return Ok(file);
        }
        let build = workspace.tools().join("build");
        ProgramRun::cargo(workspace)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .args(["install", "--quiet", "--debug", "--locked", "--force", self.package])
            .args(["--version", self.version, "--root"])
            .arg(workspace.tools())
            .arg("--target-dir")
            .arg(&build)
            .run()
            .with_context(|| format!("cannot install {} {}", self.package, self.version))?;
        // Hundreds of megabytes that nothing will look at again.
        fs::remove_dir_all(&build).ok();
        Ok(file)
    }

    fn reports_version(&self, workspace: &Workspace, file: &PathBuf) -> bool {
        file.exists()
            && ProgramRun::new(workspace, file)
                .arg("--version")
                .read()
                .is_ok_and(|text| self.is_version(&text))
    }

    fn is_version(&self, printed: &str) -> bool {
        printed.split_whitespace().nth(1) == Some(self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fixed_version_will_do() {
        assert!(TYPOS.is_version(&format!("typos-cli {}\n", TYPOS.version)));
        assert!(!TYPOS.is_version("typos-cli 0.0.1"));
        assert!(!TYPOS.is_version(""));
    }
}
