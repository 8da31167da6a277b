//! The test programs of a change: built as `cargo test` builds them, run one after the other.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cargo_metadata::{Artifact, Message};

use super::areas::Needed;
use crate::process::ProgramRun;
use crate::test;
use crate::workspace::Workspace;

/// The test program with the end-to-end tests.
const E2E: &str = "e2e";

struct TestProgram {
    path: PathBuf,
    /// The package's folder, in which `cargo test` runs it.
    folder: PathBuf,
    package: String,
    target: String,
}

/// Builds all, and runs those that the change needs.
///
/// # Errors
/// Something does not compile, or tests fail.
pub(super) fn run(workspace: &Workspace, needed: &Needed) -> anyhow::Result<()> {
    let names = needed.test_names();
    let mut failed = Vec::new();
    for program in build(workspace)? {
        let filters = match program.target == E2E {
            true if names.is_empty() => continue,
            true => names.as_slice(),
            false if needed.crates.contains(&program.package) => &[],
            false => continue,
        };
        let run = ProgramRun::new(workspace, &program.path)
            .folder(&program.folder)
            .finds_tools(workspace)
            .env(test::TEST_THREADS, test::threads())
            .args(["--quiet"])
            .args(filters);
        if let Err(error) = run.run() {
            println!("{error:#}");
            failed.push(format!("{} {}", program.package, program.target));
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("tests of {} failed", failed.join(", ")),
    }
}

/// The whole workspace: with fewer packages, dependencies would have other features, and be compiled anew.
fn build(workspace: &Workspace) -> anyhow::Result<Vec<TestProgram>> {
    let messages = ProgramRun::cargo(workspace)
        .args(["test", "--workspace", "--all-features", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .read()?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(messages.as_bytes()) {
        if let Message::CompilerArtifact(artifact) = message.context("cargo says what it has built")?
            && artifact.profile.test
            && let Some(program) = program(artifact)
        {
            programs.push(program);
        }
    }
    Ok(programs)
}

fn program(artifact: Artifact) -> Option<TestProgram> {
    let folder = artifact.manifest_path.parent()?;
    Some(TestProgram {
        path: artifact.executable?.into_std_path_buf(),
        package: folder.file_name()?.to_owned(),
        folder: folder.to_owned().into_std_path_buf(),
        target: artifact.target.name,
    })
}
