//! `weir import`: a config of nginx, HAProxy, Caddy or Traefik as a `weir.toml`, with a report of every line.
//!
//! The result is checked as any config is, and what is wrong with it is shown at the place in the original. Nothing is started here; a proof is
//! made by another program.

mod proof;
mod shadow;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::Value;
use weir_config::{CheckedConfig, ConfigTranslation, ConfigTranslator, Diagnostics};
use weir_import::shadow::ShadowReport;
use weir_import::{ImportOutcome, Imported, SourceFiles as _, SourceFormat, detect};

use crate::diagnostics;
use crate::error::{CommandError, UNUSABLE};
use crate::features;
use crate::foreign::{LossArguments, ReadFiles, errors_of, named_files, origins};
use crate::help_text::with_exit_codes;
use crate::output;
use shadow::ShadowArguments;

const EXAMPLES: &str = "\
Examples:
  weir import /etc/nginx/nginx.conf > weir.toml
  weir import haproxy.cfg --output weir.toml --report report.txt
  weir import /etc/haproxy/haproxy.cfg /etc/haproxy/conf.d
  weir import traefik.yml dynamic.yml --output weir.toml
  weir import Caddyfile --json | jq .counts
  weir import /etc/nginx/nginx.conf --shadow http://127.0.0.1:8080 > shadow.toml
  weir import --prove /etc/nginx/nginx.conf";

const EXIT_CODES: &str = "\
Exit codes:
  0  nothing is lost: each line is exact, equal by default, or without meaning here; or `--accept-loss` accepts what is lost
  1  a file cannot be written
  2  a file cannot be read or is no config of that product, or the result has errors; it is printed if there is one
  3  there are lines that are only approximated, and none that is not supported, or listeners that `--shadow` leaves out; the result is printed
  4  there are lines that are not supported; the result is printed without them

Exit codes with `--prove`:
  0  nothing differs that is not meant
  1  something differs that is not meant
  2  no proof could be made: a program, a right or a file is missing, or one of the programs refuses its config";

/// Exit code for lines that are only approximated.
const APPROXIMATED: u8 = 3;
/// Exit code for lines that are not supported.
const UNSUPPORTED: u8 = 4;

/// Turn a config of nginx, HAProxy, Caddy or Traefik into a `weir.toml`, and report what becomes of each line.
///
/// The result is printed on standard output, the report on standard error: how many lines are exact, and each that is equal by default,
/// approximated (with what would tell the difference), not supported (with what to do) or without meaning (with the reason). The files are
/// read with all that they include. Errors of the result, such as a certificate that is not there, are shown at the line of the original.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct ImportArguments {
    /// The config. For HAProxy several, in their order; a folder stands for the files in it that end with `.cfg`. For Traefik several, too: the
    /// static one and those with routers; without these, those that the static one names.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The product. Without it, told by the name of the first file, else by its text.
    #[arg(long, value_enum, value_name = "PRODUCT")]
    from: Option<ImportedProduct>,
    /// Where to write the result, in place of standard output. Relative paths in it count from there.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where to write the report, in place of standard error.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The report as one JSON object, on standard output unless `--report` says where; there it has the result as `config`, unless `--output` is
    /// given.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shadow: ShadowArguments,
    #[command(flatten)]
    loss: LossArguments,
    #[command(flatten)]
    proof: proof::ProofOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImportedProduct {
    /// `nginx.conf`, a file that it includes, or what `nginx -T` prints.
    Nginx,
    /// `haproxy.cfg`.
    Haproxy,
    /// `Caddyfile`.
    Caddy,
    /// Traefik's dynamic config in YAML, and its static one.
    Traefik,
}

/// What is printed of an import.
struct PrintedImport {
    imported: Imported,
    /// What becomes of its listeners beside the old balancer.
    shadow: Option<ShadowReport>,
    /// What is wrong with the result.
    diagnostics: Diagnostics,
    is_sound: bool,
}

pub(crate) fn run(arguments: &ImportArguments) -> Result<ExitCode, CommandError> {
    if arguments.proof.prove {
        return proof::run(arguments);
    }
    let format = format_of(arguments)?;
    let files = ReadFiles::default();
    let names = named_files(format, &arguments.files);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let place = arguments.output.as_deref().unwrap_or(&arguments.files[0]);
    let imported = match weir_import::import(format, &names, &files) {
        Ok(imported) => imported,
        Err(error) => {
            let findings = errors_of(&error);
            let failed =
                ConfigTranslation { files: files.into_texts(), findings, ..ConfigTranslation::default() };
            return Err(CommandError::Config(check(place, failed).diagnostics));
        }
    };
    let (imported, shadow) = arguments.shadow.apply(imported)?;
    let translation = ConfigTranslation {
        text: Some(imported.toml.clone()),
        origins: origins(&imported),
        files: files.into_texts(),
        findings: Vec::new(),
    };
    let checked = check(place, translation);
    let is_sound = checked.config.is_some();
    let printed = PrintedImport { imported, shadow, diagnostics: checked.diagnostics, is_sound };
    print(arguments, &printed)?;
    Ok(exit_code(arguments.loss, &printed))
}

fn format_of(arguments: &ImportArguments) -> Result<SourceFormat, CommandError> {
    let first = &arguments.files[0];
    let format = match arguments.from {
        Some(ImportedProduct::Nginx) => SourceFormat::Nginx,
        Some(ImportedProduct::Haproxy) => SourceFormat::Haproxy,
        Some(ImportedProduct::Caddy) => SourceFormat::Caddy,
        Some(ImportedProduct::Traefik) => SourceFormat::Traefik,
        None if first.is_dir() => SourceFormat::Haproxy,
        None => {
            let name = first.display().to_string();
            // A file that cannot be read is told as such by the import.
            let text = ReadFiles::default().read(&name).unwrap_or_default();
            detect(&name, &text).ok_or_else(|| CommandError::Usage {
                what: format!("{name}: neither its name nor its text says of which product it is a config"),
                help: Some(
                    "say it with `--from nginx`, `--from haproxy`, `--from caddy` or `--from traefik`"
                        .to_owned(),
                ),
            })?
        }
    };
    let has_several = matches!(format, SourceFormat::Haproxy | SourceFormat::Traefik);
    if !has_several && arguments.files.len() > 1 {
        return Err(CommandError::Usage {
            what: format!("{} has one config file, which includes the others", format.product()),
            help: Some("name that one; import several configs one by one".to_owned()),
        });
    }
    Ok(format)
}

/// A translation that is there already.
#[derive(Debug)]
struct ReadyTranslation(ConfigTranslation);

impl ConfigTranslator for ReadyTranslation {
    fn translate(&self, _: &Path) -> Option<ConfigTranslation> {
        Some(self.0.clone())
    }
}

/// Checks the result as if it were at `place`.
fn check(place: &Path, translation: ConfigTranslation) -> CheckedConfig {
    features::check(CheckedConfig::load_translated(place, &ReadyTranslation(translation)))
}

fn print(arguments: &ImportArguments, printed: &PrintedImport) -> Result<(), CommandError> {
    let toml = &printed.imported.toml;
    let report = if arguments.json { json(arguments, printed) } else { text(printed) };
    if let Some(file) = &arguments.output {
        write(file, toml)?;
    }
    match &arguments.report {
        Some(file) => write(file, &report)?,
        None if arguments.json => output::print(&report)?,
        None => output::note(report.trim_end()),
    }
    let is_in_report = arguments.json && arguments.report.is_none();
    if arguments.output.is_none() && !is_in_report {
        output::print(toml)?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), CommandError> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

fn text(printed: &PrintedImport) -> String {
    let mut text = printed.imported.report.to_string();
    if let Some(report) = &printed.shadow {
        text.push_str(&shadow::text(report));
    }
    if !printed.diagnostics.is_empty() {
        text.push_str("\nthe result, as `weir check` reads it:\n");
        text.push_str(&diagnostics::render(&printed.diagnostics, weir_config::Colour::Never));
        text.push('\n');
    }
    text
}

fn json(arguments: &ImportArguments, printed: &PrintedImport) -> String {
    let mut report = printed.imported.report.to_json();
    if let Some(shadowed) = &printed.shadow {
        report["shadow"] = shadow::json(shadowed);
    }
    report["diagnostics"] = serde_json::from_str(&printed.diagnostics.to_json()).unwrap_or(Value::Null);
    if arguments.output.is_none() && arguments.report.is_none() {
        report["config"] = printed.imported.toml.as_str().into();
    }
    format!("{report:#}\n")
}

fn exit_code(loss: LossArguments, printed: &PrintedImport) -> ExitCode {
    let counts = |outcome| loss.refuses(outcome) && printed.imported.report.count(outcome) > 0;
    let leaves_out = printed.shadow.as_ref().is_some_and(|report| !report.left_out.is_empty());
    let is_less = loss.refuses(ImportOutcome::Approximated) && leaves_out;
    if !printed.is_sound {
        ExitCode::from(UNUSABLE)
    } else if counts(ImportOutcome::Unsupported) {
        ExitCode::from(UNSUPPORTED)
    } else if is_less || counts(ImportOutcome::Approximated) {
        ExitCode::from(APPROXIMATED)
    } else {
        ExitCode::SUCCESS
    }
}
