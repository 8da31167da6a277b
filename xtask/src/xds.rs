//! `cargo xtask xds`: the control plane of `lab/xds`, and the tests that need it.
//!
//! Its server and its cache are those of go-control-plane, whose messages take 90 seconds of a processor to build: too long for a step of `ci`.
//! It is built once into `target/tools` for each state of its sources; tests that do not find it say so.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use crate::built_programs;
use crate::process::ProgramRun;
use crate::wheel::put_link;
use crate::workspace::Workspace;

const MODULE: &str = "lab/xds";
const PROGRAM: &str = "xds-control-plane";

/// 90 seconds of a processor, which may be busy.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// The tests that are left out without it.
const TESTS: &str = "upstream::control_plane";

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    println!("{}", ready(workspace)?.display());
    // With a program of the workspace, the dependencies are the same as those of all other tests.
    ProgramRun::cargo(workspace)
        .finds_tools(workspace)
        .args(["test", "--workspace", "--all-features", "--bin", "xtask", "--test", "e2e"])
        .args(["--", TESTS])
        .run()
}

fn ready(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = built_programs::folder(workspace, "xds", MODULE)?;
    let (file, link) = (folder.join(PROGRAM), workspace.tools().join("bin").join(PROGRAM));
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
            .arg(".")
            .env("CGO_ENABLED", "0")
            .limit(LIMIT)
            .run()
            .context("the control plane was not built; this needs Go (apt-get install golang)")?;
    }
    if link.read_link().ok().as_ref() != Some(&file) {
        put_link(&file, &link).with_context(|| format!("cannot link {}", link.display()))?;
    }
    Ok(link)
}
