//! What the command line says.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use weir_import::SourceFormat;

/// Whether an imported config answers as the original does
#[derive(Clone, Debug, Parser)]
#[command(name = "weir-proof")]
pub(crate) struct ProofArguments {
    /// The original: nginx.conf or haproxy.cfg
    pub(crate) file: PathBuf,
    /// The kind of the original, where neither its name nor its text says it
    #[arg(long)]
    pub(crate) from: Option<ProofFormat>,
    /// The original's program; without it, nginx or haproxy as the system has it
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,
    /// The program of Weir; without it, the one beside this program or on the PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) weir: Option<PathBuf>,
    /// A weir.toml in place of the imported one
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How many requests
    #[arg(long, default_value_t = 500)]
    pub(crate) requests: usize,
    /// Which mixtures are made
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The namespaces of the machine
    #[arg(long, hide = true)]
    pub(crate) inside: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ProofFormat {
    Nginx,
    Haproxy,
}

impl ProofArguments {
    pub(crate) fn format(&self, text: &str) -> anyhow::Result<SourceFormat> {
        match self.from {
            Some(ProofFormat::Nginx) => Ok(SourceFormat::Nginx),
            Some(ProofFormat::Haproxy) => Ok(SourceFormat::Haproxy),
            None => weir_import::detect(&self.file.to_string_lossy(), text)
                .context("neither name nor text says whose config it is: give --from"),
        }
    }
}
