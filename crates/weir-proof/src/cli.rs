//! The command line. The program starts itself once more, in namespaces of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use crate::arguments::{ProofArguments, ProofFormat};
use crate::{namespaces, program, run};

/// What a proof comes to: 0 where nothing was found that is not meant.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let arguments = ProofArguments::parse();
    if let Some(outside) = &arguments.inside {
        namespaces::require_apart(outside)?;
        let sockets = namespaces::follow_starter();
        let is_same = run::prove(&arguments, &sockets)?;
        return Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    namespaces::run_apart(&words(&arguments)?)
}

/// The arguments once more, with paths that do not depend on the folder.
fn words(arguments: &ProofArguments) -> anyhow::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = vec![absolute(&arguments.file)?.into()];
    let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
    option("--weir", weir(arguments)?.into());
    option("--requests", arguments.requests.to_string().into());
    option("--seed", arguments.seed.to_string().into());
    match arguments.from {
        Some(ProofFormat::Nginx) => option("--from", "nginx".into()),
        Some(ProofFormat::Haproxy) => option("--from", "haproxy".into()),
        None => {}
    }
    if let Some(program) = &arguments.program {
        let program = absolute(program).context("the original's program")?;
        option("--program", program.into());
    }
    if let Some(config) = &arguments.config {
        option("--config", absolute(config)?.into());
    }
    if arguments.json {
        words.push("--json".into());
    }
    Ok(words)
}

/// The program of Weir: the one that is named, else that beside this program, else that on the PATH.
fn weir(arguments: &ProofArguments) -> anyhow::Result<PathBuf> {
    if let Some(weir) = &arguments.weir {
        return absolute(weir);
    }
    let beside = std::env::current_exe()?.with_file_name("weir");
    if beside.is_file() { Ok(beside) } else { absolute(&program::find("weir")?) }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{}", path.display()))
}
