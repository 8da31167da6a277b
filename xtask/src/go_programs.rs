//! Pebble, the test authority of Let's Encrypt, and its name server: programs in Go, built once into `target/tools` at a fixed version.
//!
//! Debian does not have them. Without Go they are not there, and the tests of ACME report that they were left out.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use crate::process::ProgramRun;
use crate::wheel::put_link;
use crate::workspace::Workspace;

const MODULE: &str = "github.com/letsencrypt/pebble/v2";
const VERSION: &str = "v2.10.3";
const PROGRAMS: [&str; 2] = ["pebble", "pebble-challtestsrv"];

/// A few modules, on a slow line and one core.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// Installs them, or says why they are not there.
pub(crate) fn install(workspace: &Workspace) {
    for program in PROGRAMS {
        match ready(workspace, program) {
            Ok(file) => println!("{}", file.display()),
            Err(error) => println!("{program} is not there, and the tests of ACME are left out: {error:#}"),
        }
    }
}

/// The version is in the name of the folder: the programs do not tell it.
fn ready(workspace: &Workspace, program: &str) -> anyhow::Result<PathBuf> {
    let folder = workspace.tools().join(format!("pebble-{VERSION}"));
    let (file, link) = (folder.join(program), workspace.tools().join("bin").join(program));
    if !file.exists() {
        ProgramRun::new(workspace, "go")
            .env("GOBIN", &folder)
            .env("GOFLAGS", "-trimpath")
            .env("CGO_ENABLED", "0")
            .args(["install", &format!("{MODULE}/cmd/{program}@{VERSION}")])
            .limit(LIMIT)
            .run()
            .context("Go builds it: apt-get install golang")?;
    }
    if link.read_link().ok().as_ref() != Some(&file) {
        put_link(&file, &link).with_context(|| format!("cannot link {}", link.display()))?;
    }
    Ok(link)
}
