//! Configs of other products, run as they are: `nginx.conf`, `haproxy.cfg`, `Caddyfile` and `traefik.yml` wherever a command takes a config.
//!
//! What an import loses is an error, unless `--accept-loss` says that it may be lost; then it is a warning. Must not change what an import says:
//! the commands that read a file here and `weir import` come to the same.

mod files;
mod findings;

use std::path::Path;

use clap::{Args, ValueEnum};
use weir_config::{CheckedConfig, ConfigTranslation, ConfigTranslator, OriginalPlace, is_toml};
use weir_import::{ImportOutcome, Imported, SourceFiles as _, SourceFormat, detect};

pub(crate) use files::{ReadFiles, named_files};
pub(crate) use findings::{errors_of, findings};

/// How an argument for losses reads.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct LossArguments {
    /// Of a config of nginx, HAProxy, Caddy or Traefik: accept that lines of it are lost, which are warnings then: only lines that Weir can say nearly
    /// (`=approximated`), or also those that it cannot say (`=unsupported`, the same as without a value).
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "unsupported"
    )]
    pub(crate) accept_loss: Option<AcceptedLoss>,
}

/// What may be lost of a config of another product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcceptedLoss {
    /// Lines whose meaning in Weir is nearly the same.
    Approximated,
    /// Also lines that Weir does not do.
    Unsupported,
}

/// Reads configs of other products.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForeignConfigs {
    accepted: Option<AcceptedLoss>,
}

impl LossArguments {
    /// What reads configs of other products with these losses.
    pub(crate) const fn translator(self) -> ForeignConfigs {
        ForeignConfigs { accepted: self.accept_loss }
    }

    /// Whether a line with this outcome is lost and may not be.
    pub(crate) fn refuses(self, outcome: ImportOutcome) -> bool {
        match outcome {
            ImportOutcome::Unsupported => self.accept_loss != Some(AcceptedLoss::Unsupported),
            ImportOutcome::Approximated => self.accept_loss.is_none(),
            ImportOutcome::Exact | ImportOutcome::Default | ImportOutcome::Meaningless => false,
        }
    }

    /// Reads a config, of Weir or of another product.
    pub(crate) fn load(self, path: &Path) -> CheckedConfig {
        CheckedConfig::load_translated(path, &self.translator())
    }
}

/// Reads a config for what it says of a Weir that runs on it, whatever is lost of it.
pub(crate) fn load_running(path: &Path) -> CheckedConfig {
    let arguments = LossArguments { accept_loss: Some(AcceptedLoss::Unsupported) };
    arguments.load(path)
}

impl ConfigTranslator for ForeignConfigs {
    fn translate(&self, path: &Path) -> Option<ConfigTranslation> {
        let format = foreign_format(path)?;
        let arguments = LossArguments { accept_loss: self.accepted };
        let files = ReadFiles::default();
        let names = named_files(format, &[path.to_owned()]);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (text, origins, findings) = match weir_import::import(format, &names, &files) {
            Ok(imported) => {
                let findings = findings(&imported.report, arguments);
                let origins = origins(&imported);
                (Some(imported.toml), origins, findings)
            }
            Err(error) => (None, Vec::new(), errors_of(&error)),
        };
        Some(ConfigTranslation { text, origins, files: files.into_texts(), findings })
    }
}

/// For each line of the result the place that it comes from.
pub(crate) fn origins(imported: &Imported) -> Vec<Option<OriginalPlace>> {
    let lines = 1..=imported.toml.lines().count();
    lines.map(|line| imported.origin(line).map(findings::place)).collect()
}

/// The product whose config a file is, if it is none of Weir: what is TOML or meant to be is one of Weir, and so is what could only be read once.
fn foreign_format(path: &Path) -> Option<SourceFormat> {
    let name = path.display().to_string();
    let metadata = std::fs::metadata(path).ok()?;
    if metadata.is_dir() {
        return has_configs_of_haproxy(path).then_some(SourceFormat::Haproxy);
    }
    if !metadata.is_file() || path.extension().is_some_and(|extension| extension == "toml") {
        return None;
    }
    let text = ReadFiles::default().read(&name).ok()?;
    let has_header = text.lines().any(|line| line.starts_with('['));
    if has_header || is_toml(&text) {
        return None;
    }
    detect(&name, &text)
}

/// A folder is a config only of HAProxy, if it has files for it.
fn has_configs_of_haproxy(path: &Path) -> bool {
    named_files(SourceFormat::Haproxy, &[path.to_owned()]).iter().all(|name| !Path::new(name).is_dir())
}
