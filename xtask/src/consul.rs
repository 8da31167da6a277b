//! `cargo xtask consul`: the real Consul, and the tests that need it.
//!
//! Consul is not in Debian any more, and takes minutes to build, so it is no step of `ci`. The Go module `lab/consul` fixes its version and all
//! that it is built of; the program is built once, into `target/tools`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use crate::process::ProgramRun;
use crate::wheel::put_link;
use crate::workspace::Workspace;

const MODULE: &str = "lab/consul";
const PROGRAM: &str = "github.com/hashicorp/consul";
const VERSION: &str = "1.13.9";

/// Six minutes of a processor and a hundred modules on a slow line; beside other work, with its low priority, 40 minutes were not enough.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// The tests that are left out everywhere else.
const TESTS: &str = "real_consul";

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    println!("{}", ready(workspace)?.display());
    // With a program of the workspace, the dependencies are the same as those of all other tests.
    ProgramRun::cargo(workspace)
        .finds_tools(workspace)
        .args(["test", "--workspace", "--all-features", "--bin", "xtask", "--test", "sources"])
        .args(["--", "--ignored", TESTS])
        .run()
}

fn ready(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = workspace.tools().join(format!("consul-{VERSION}"));
    let (file, link) = (folder.join("consul"), workspace.tools().join("bin").join("consul"));
    if !file.exists() {
        fs::create_dir_all(&folder)?;
        ProgramRun::new(workspace, "nice")
            .args([
                "-n",
                "10",
                "go",
                "-C",
                MODULE,
                "build",
                "-mod=readonly",
                "-trimpath",
                "-ldflags",
                "-s -w",
                "-o",
            ])
            .arg(&file)
            .arg(PROGRAM)
            .env("CGO_ENABLED", "0")
            .limit(LIMIT)
            .run()
            .context(
                "Consul was not built; this needs Go (apt-get install golang), and continues where it was",
            )?;
    }
    if link.read_link().ok().as_ref() != Some(&file) {
        put_link(&file, &link).with_context(|| format!("cannot link {}", link.display()))?;
    }
    Ok(link)
}
