//! `weir ingress check`: what becomes of the annotations of ingress-nginx, in manifests that are in no cluster yet.
//!
//! The command line is the same in every build. The translation needs the feature `kubernetes`; without it the command names the feature.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::error::CommandError;
use crate::help_text::with_exit_codes;

const EXAMPLES: &str = "\
Examples:
  weir ingress check ingress.yaml
  kubectl get ingress -A -o yaml | weir ingress check -
  weir ingress check --json manifests/*.yaml";

const EXIT_CODES: &str = "\
Exit codes:
  0  all Ingresses would be served, possibly with warnings
  2  an Ingress, or a path of it, would not be served as it is, or a file cannot be read";

/// Move Ingresses from ingress-nginx.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct IngressArguments {
    #[command(subcommand)]
    command: IngressCommand,
}

#[derive(Debug, clap::Subcommand)]
enum IngressCommand {
    Check(IngressCheckArguments),
}

/// Report for each annotation of ingress-nginx its equivalent in Weir, or what Weir lacks.
///
/// Reads manifests in YAML, and judges the Ingresses of each class in all of them together: whose each host and path is, and where URLs lead.
/// Of other kinds, ReferenceGrants count. Nothing is started, and no cluster is asked.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct IngressCheckArguments {
    /// The manifests; `-` for standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) fn run(arguments: &IngressArguments) -> Result<ExitCode, CommandError> {
    let IngressCommand::Check(IngressCheckArguments { files: _, json: _ }) = &arguments.command;
    Err(CommandError::without_feature("`weir ingress`", crate::features::KUBERNETES))
}

#[cfg(feature = "kubernetes")]
pub(crate) use checking::run;

#[cfg(feature = "kubernetes")]
mod checking {
    use std::io::Read as _;
    use std::path::Path;

    use anyhow::Context as _;
    use serde_json::{Value, json};
    use weir_gateway::{AnnotationLevel, ManifestFindings, check_manifests};

    use super::{CommandError, ExitCode, IngressArguments, IngressCommand};
    use crate::error::UNUSABLE;
    use crate::output::{self, counted};

    pub(crate) fn run(arguments: &IngressArguments) -> Result<ExitCode, CommandError> {
        let IngressCommand::Check(arguments) = &arguments.command;
        let (mut names, mut texts) = (Vec::new(), Vec::new());
        for file in &arguments.files {
            let text = read(file).map_err(|error| CommandError::Failed { error, help: None })?;
            names.push(file.display().to_string());
            texts.push(text);
        }
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        let files: Vec<_> = names.into_iter().zip(check_manifests(&all)).collect();
        let text = if arguments.json { json_of(&files) } else { text_of(&files) };
        output::print(&text)?;
        let is_bad = |found: &ManifestFindings| {
            !found.errors.is_empty() || found.findings.iter().any(|one| one.level == AnnotationLevel::Error)
        };
        let any_bad = files.iter().any(|(_, found)| is_bad(found));
        Ok(if any_bad { ExitCode::from(UNUSABLE) } else { ExitCode::SUCCESS })
    }

    fn read(file: &Path) -> anyhow::Result<String> {
        if file == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
            return Ok(text);
        }
        std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
    }

    fn text_of(files: &[(String, ManifestFindings)]) -> String {
        let mut text = String::new();
        let (mut ingresses, mut counts) = (0, [0_usize; 3]);
        for (file, found) in files {
            ingresses += found.ingresses;
            for error in &found.errors {
                counts[2] += 1;
                text.push_str(&format!("{file}:{}:1: error: {}\n", error.line, error.message));
            }
            for one in &found.findings {
                counts[one.level as usize] += 1;
                let subject =
                    if one.annotation.is_empty() { String::new() } else { format!("{}: ", one.annotation) };
                let handling =
                    one.handling.map_or_else(String::new, |handling| format!("{}: ", handling.name()));
                text.push_str(&format!(
                    "{file}:{}:{}: {}: {subject}{handling}{} (Ingress {})\n",
                    one.line,
                    one.column,
                    one.level.name(),
                    one.message,
                    one.ingress
                ));
            }
        }
        let ingresses = match ingresses {
            1 => "1 Ingress".to_owned(),
            count => format!("{count} Ingresses"),
        };
        let [notes, warnings, errors] = counts;
        let counts = [counted(errors, "error"), counted(warnings, "warning"), counted(notes, "note")];
        text.push_str(&format!("{ingresses}: {}\n", counts.join(", ")));
        text
    }

    fn json_of(files: &[(String, ManifestFindings)]) -> String {
        let mut all: Vec<Value> = Vec::new();
        for (file, found) in files {
            all.extend(found.errors.iter().map(|error| {
                json!({ "file": file, "line": error.line, "column": 1, "level": "error", "message": error.message })
            }));
            all.extend(found.findings.iter().map(|one| {
                json!({
                    "file": file,
                    "line": one.line,
                    "column": one.column,
                    "level": one.level.name(),
                    "ingress": one.ingress,
                    "annotation": (!one.annotation.is_empty()).then_some(&*one.annotation),
                    "handling": one.handling.map(|handling| handling.name()),
                    "message": one.message,
                })
            }));
        }
        format!("{:#}\n", Value::Array(all))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const TEXT: &str = "kind: Ingress\nmetadata:\n  name: a\n  annotations:\n    nginx.ingress.kubernetes.io/ssl-redirect: \"false\"\n";

        #[test]
        fn reports_name_file_line_and_column() {
            let bad = format!("{TEXT}    nginx.ingress.kubernetes.io/server-snippet: x\n");
            let text = text_of(&[("a.yaml".to_owned(), check_manifests(&[&bad]).remove(0))]);
            let lines: Vec<&str> = text.lines().collect();
            let [note, error, sum] = lines[..] else { panic!("{text}") };
            assert!(
                note.starts_with("a.yaml:5:5: note: nginx.ingress.kubernetes.io/ssl-redirect: translated: "),
                "{note}"
            );
            assert!(
                error.starts_with("a.yaml:6:5: error: nginx.ingress.kubernetes.io/server-snippet: refused: "),
                "{error}"
            );
            assert_eq!(sum, "1 Ingress: 1 error, 0 warnings, 1 note");
            let json = json_of(&[("a.yaml".to_owned(), check_manifests(&[TEXT]).remove(0))]);
            let json: Value = serde_json::from_str(&json).expect("it is JSON");
            assert_eq!((&json[0]["level"], &json[0]["line"]), (&json!("note"), &json!(5)));
        }
    }
}
