//! `weir report`: packs what a bug report needs into one archive: from the running Weir, from its config and from the machine.
//!
//! Each part is one file, and the first file says what each is and which are missing and why. Must not put a secret into the archive: the config
//! is packed as Weir prints it without its secrets, and never as text of its file.

mod archive;
mod machine;
mod running;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use weir_config::DiagnosticKind;

use self::archive::Archive;
use crate::error::CommandError;
use crate::foreign::load_running;
use crate::help_text::with_exit_codes;
use crate::running::admin_client::AdminArguments;
use crate::{clock, features, output};

const EXAMPLES: &str = "\
Examples:
  weir report --config /etc/weir/weir.toml
  weir report --admin unix:/run/weir/weir.sock --seconds 30
  weir report --config weir.toml --output /tmp/report.tar.gz";

const EXIT_CODES: &str = "\
Exit codes:
  0  the archive is written; its file `report.txt` lists parts that are missing
  1  the archive cannot be written
  2  the command line cannot be used";

/// What the archive begins with.
const PREFACE: &str = "\
A report of Weir, made by `weir report`.

It has no secrets of the config, no credentials, no bodies and no query strings. It does have names and addresses of servers, and of
the last requests: addresses of clients, hosts and paths. Look at it before you publish it.

";

/// Pack what a bug report needs into one archive (tar.gz).
///
/// Contains the version, the machine and its limits, the config without secrets and its diagnostics, metrics, the whole state, the last failures and
/// exchanges, the open connections, panics with their backtraces, the last lines of the log of Weir, and short profiles where it has the feature
/// `profiler`. If Weir does not run, the archive has the rest. Secrets, bodies and query strings are never in it; addresses of clients, hosts
/// and paths of the last requests are.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct ReportArguments {
    /// The file to write; it must not exist. By default `weir-report-TIME.tar.gz` in the current folder.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How long CPU time is profiled, in seconds; 0: not at all.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=60))]
    seconds: u64,
    #[command(flatten)]
    admin: AdminArguments,
}

/// Collects the parts of a report.
struct Parts {
    archive: Archive,
    /// A line for each part.
    contents: String,
}

impl Parts {
    /// Adds a part, or the reason why it is missing.
    fn add(&mut self, name: &str, what: &str, part: Result<Vec<u8>, String>) {
        match part {
            Ok(bytes) => {
                self.contents.push_str(&format!("{name}: {what}\n"));
                self.archive.add(name, &bytes);
            }
            Err(why) => self.contents.push_str(&format!("{name}: missing: {why}\n")),
        }
    }
}

pub(crate) fn run(arguments: &ReportArguments) -> Result<ExitCode, CommandError> {
    let seconds = clock::unix_seconds();
    let mut parts = Parts { archive: Archive::new(seconds), contents: PREFACE.to_owned() };
    let version = format!("weir {}\n", features::long_version());
    parts.add("version.txt", "this program; state.json has the version that runs", Ok(version.into()));
    let process = running::collect(&mut parts, &arguments.admin, arguments.seconds);
    machine::collect(&mut parts, process);
    if let Some(file) = arguments.admin.config_file() {
        add_config(&mut parts, file);
    } else {
        parts.add("check.txt", "", Err("give --config FILE".to_owned()));
    }
    let Parts { archive, contents } = parts;
    let packed = archive.finish(&contents)?;
    let default = || PathBuf::from(format!("weir-report-{seconds}.tar.gz"));
    let file = arguments.output.clone().unwrap_or_else(default);
    write_new(&file, &packed)
        .with_context(|| format!("cannot write {} (--output FILE names another one)", file.display()))?;
    output::print(contents.split_once("\n\n").map_or("", |(_, rest)| rest))?;
    output::note(&format!("written to {}", file.display()));
    Ok(ExitCode::SUCCESS)
}

/// What `weir check` says about the file, and the config in it. Not the lines themselves, and no message with a value in it: that may be a
/// secret.
fn add_config(parts: &mut Parts, file: &Path) {
    let checked = features::check(load_running(file));
    let mut report = String::new();
    for diagnostic in checked.diagnostics.iter() {
        let severity = if diagnostic.kind.is_warning() { "warning" } else { "error" };
        let (at, kind) = (checked.diagnostics.location(diagnostic), diagnostic.kind.name());
        report.push_str(&format!("{at}: {severity}: {kind}"));
        if names_keys_only(diagnostic.kind) {
            report.push_str(&format!(": {}", diagnostic.message));
        }
        report.push('\n');
    }
    if let Some(config) = &checked.config {
        for advice in weir_config::advice(config) {
            report.push_str(&format!("advice: {}\n", advice.message));
        }
        report.push_str("ok\n");
    }
    parts.add("check.txt", "what `weir check` says about the file, without its text", Ok(report.into()));
    let shown = match checked.config {
        Some(config) => Ok(config.dump.to_string().into_bytes()),
        None => Err("the file has errors: see check.txt".to_owned()),
    };
    parts.add("config-of-file.toml", "the config in the file, without secrets", shown);
}

/// Whether messages of this kind name keys and no values, which could be secrets.
fn names_keys_only(kind: DiagnosticKind) -> bool {
    use DiagnosticKind as Kind;
    matches!(
        kind,
        Kind::UnknownKey
            | Kind::MisplacedKey
            | Kind::NotSupported
            | Kind::MissingKey
            | Kind::Unused
            | Kind::Conflict
    )
}

/// Writes a file that only its owner can read, and replaces none.
fn write_new(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(bytes)
}
