//! The command line. The program starts itself once more, in namespaces of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use clap::Parser as _;
use rustix::process::geteuid;

use crate::arguments::{ProofArguments, ProofFormat};
use crate::run;

/// Whether nothing was found that is not meant.
pub(crate) fn run() -> anyhow::Result<bool> {
    let arguments = ProofArguments::parse();
    if arguments.inside {
        return run::prove(&arguments);
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]);
    if !geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.arg(std::env::current_exe()?).arg("--inside").arg(absolute(&arguments.file)?);
    command.arg("--weir").arg(absolute(&arguments.weir)?);
    command.args(["--requests", &arguments.requests.to_string(), "--seed", &arguments.seed.to_string()]);
    match arguments.from {
        Some(ProofFormat::Nginx) => drop(command.args(["--from", "nginx"])),
        Some(ProofFormat::Haproxy) => drop(command.args(["--from", "haproxy"])),
        None => {}
    }
    if let Some(program) = &arguments.program {
        command.arg("--program").arg(absolute(program)?);
    }
    if let Some(config) = &arguments.config {
        command.arg("--config").arg(absolute(config)?);
    }
    if arguments.json {
        command.arg("--json");
    }
    let status = command.status().context("cannot start unshare, a program of util-linux")?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => anyhow::bail!("the proof could not be made"),
    }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{}", path.display()))
}
