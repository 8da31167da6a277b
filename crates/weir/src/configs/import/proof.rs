//! `weir import --prove`: hands the file to `weir-proof`, a program of its own, which runs the original program and Weir and compares them.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use clap::Args;

use super::{ImportArguments, ImportedProduct};
use crate::companions;
use crate::error::CommandError;

/// The program that proves.
const PROGRAM: &str = "weir-proof";

#[derive(Debug, Args)]
pub(super) struct ProofOptions {
    /// Prove the import in place of printing it: start nginx or HAProxy on the file and Weir on the result, send both the same requests before
    /// the same servers, and report what differs. They run in a network and a copy of the file system of their own, which needs root; nothing
    /// that runs on the machine is touched.
    #[arg(long, conflicts_with_all = ["output", "report", "accept_loss", "shadow"])]
    pub(super) prove: bool,
    /// With `--prove`: the program of nginx or HAProxy. Without it, the one of the system.
    #[arg(long, value_name = "PATH", requires = "prove")]
    program: Option<PathBuf>,
    /// With `--prove`: a `weir.toml` in place of the result, such as one that was changed by hand.
    #[arg(long, value_name = "FILE", requires = "prove")]
    config: Option<PathBuf>,
    /// With `--prove`: how many requests are sent; 500 without it.
    #[arg(long, value_name = "COUNT", requires = "prove")]
    requests: Option<u32>,
    /// With `--prove`: which mixtures of requests are made; 1 without it.
    #[arg(long, value_name = "NUMBER", requires = "prove")]
    seed: Option<u64>,
}

/// Becomes `weir-proof`; comes back only when it cannot be started.
pub(super) fn run(arguments: &ImportArguments) -> Result<ExitCode, CommandError> {
    let [file] = &*arguments.files else {
        return Err(CommandError::Usage {
            what: "a proof is of one file, with what it includes".to_owned(),
            help: Some("put the parts of a config of HAProxy into one file".to_owned()),
        });
    };
    let from = match arguments.from {
        Some(ImportedProduct::Nginx) => Some("nginx"),
        Some(ImportedProduct::Haproxy) => Some("haproxy"),
        Some(ImportedProduct::Caddy | ImportedProduct::Traefik) => {
            return Err(CommandError::Usage {
                what: "proofs are of configs of nginx and HAProxy".to_owned(),
                help: Some("compare with copies of requests: `--shadow`".to_owned()),
            });
        }
        None => None,
    };
    let Some(program) = companions::find(PROGRAM) else {
        return Err(CommandError::Usage {
            what: format!("there is no {PROGRAM}, neither beside weir nor on the PATH"),
            help: Some(format!(
                "it is in the package weir-lab and in the tarball; from Weir's sources: cargo build --profile dist -p {PROGRAM}"
            )),
        });
    };
    let own = std::env::current_exe().context("the program of Weir is not known")?;
    let mut command = Command::new(&program);
    command.arg(file).arg("--weir").arg(own);
    let options = &arguments.proof;
    let words = [
        ("--from", from.map(Into::into)),
        ("--program", options.program.clone().map(Into::into)),
        ("--config", options.config.clone().map(Into::into)),
        ("--requests", options.requests.map(|count| count.to_string().into())),
        ("--seed", options.seed.map(|seed| seed.to_string().into())),
    ];
    for (name, value) in
        words.into_iter().filter_map(|(name, value): (_, Option<std::ffi::OsString>)| Some((name, value?)))
    {
        command.arg(name).arg(value);
    }
    if arguments.json {
        command.arg("--json");
    }
    let error = command.exec();
    Err(CommandError::Usage { what: format!("cannot run {}: {error}", program.display()), help: None })
}
