//! Helm: a program in Go, built once into `target/tools` for each state of `lab/helm`, which fixes its version and all that it is built of.
//!
//! Debian does not have it. The program tells its version by what is given to the linker: its module does not know it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use crate::built_programs;
use crate::process::ProgramRun;
use crate::workspace::Workspace;

const MODULE: &str = "lab/helm";
const PROGRAM: &str = "helm.sh/helm/v3/cmd/helm";
/// The version in `lab/helm/go.mod`.
const VERSION: &str = "v3.22.0";
/// Four minutes of a processor, which may be busy, and a hundred modules on a slow line.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// The program, after building it if it is not that of the sources.
pub(crate) fn ready(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = built_programs::folder(workspace, "helm", MODULE)?;
    let file = folder.join("helm");
    if file.exists() {
        return Ok(file);
    }
    fs::create_dir_all(&folder)?;
    let version = format!("-s -w -X helm.sh/helm/v3/internal/version.version={VERSION}");
    ProgramRun::new(workspace, "nice")
        .args(["-n", "10", "go", "-C", MODULE, "build", "-mod=readonly", "-trimpath", "-ldflags", &version])
        .arg("-o")
        .arg(&file)
        .arg(PROGRAM)
        .env("CGO_ENABLED", "0")
        .limit(LIMIT)
        .run()
        .context("Helm was not built; this needs Go (apt-get install golang), and continues where it was")?;
    Ok(file)
}
