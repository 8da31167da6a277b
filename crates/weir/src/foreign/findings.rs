//! What an import loses, as findings of a config: each at its line.

use weir_config::{DiagnosticKind, OriginalPlace, TranslationFinding};
use weir_import::report::ImportFinding;
use weir_import::{ImportError, ImportOutcome, ImportReport, Position};

use super::LossArguments;

/// Parts of names of statements whose values are secrets.
const TELLING: [&str; 6] = ["secret", "pass", "auth", "token", "user", "key"];

const HELP: &str = "`--accept-loss=approximated` accepts such lines; `weir import` lists all";
const HELP_UNSUPPORTED: &str = "`--accept-loss` goes on without it; `weir import` lists all";

/// What is lost, as errors and warnings.
pub(crate) fn findings(report: &ImportReport, arguments: LossArguments) -> Vec<TranslationFinding> {
    let is_loss = |finding: &&ImportFinding| {
        matches!(finding.outcome, ImportOutcome::Approximated | ImportOutcome::Unsupported)
    };
    report.findings().iter().filter(is_loss).map(|finding| as_finding(finding, arguments)).collect()
}

fn as_finding(finding: &ImportFinding, arguments: LossArguments) -> TranslationFinding {
    let is_refused = arguments.refuses(finding.outcome);
    let kind = if is_refused { DiagnosticKind::NotSupported } else { DiagnosticKind::Suspicious };
    let (outcome, help) = match finding.outcome {
        ImportOutcome::Unsupported => ("is not supported", HELP_UNSUPPORTED),
        _ => ("is only approximated", HELP),
    };
    let notes = finding.notes.join("; ");
    TranslationFinding {
        at: Some(place(&finding.at)),
        kind,
        message: format!("`{}` {outcome}: {notes}", shown(&finding.statement)),
        help: is_refused.then(|| help.to_owned()),
    }
}

/// The beginning of a statement, which has no secret: findings go to logs.
fn shown(statement: &str) -> String {
    let mut words = statement.split(' ');
    let first = words.next().unwrap_or_default();
    let lower = first.to_ascii_lowercase();
    let names_a_server = lower.ends_with("_pass");
    match words.next() {
        Some(second) if names_a_server || !TELLING.iter().any(|part| lower.contains(part)) => {
            format!("{first} {second}{}", if words.next().is_some() { " ..." } else { "" })
        }
        Some(_) => format!("{first} ..."),
        None => first.to_owned(),
    }
}

/// Why there is no config at all.
pub(crate) fn errors_of(error: &ImportError) -> Vec<TranslationFinding> {
    vec![TranslationFinding {
        at: error.at.as_ref().map(place),
        kind: if error.at.is_some() { DiagnosticKind::Syntax } else { DiagnosticKind::Unreadable },
        message: error.message.clone(),
        help: None,
    }]
}

/// The same place in the words of the config.
pub(crate) fn place(position: &Position) -> OriginalPlace {
    OriginalPlace {
        file: position.file.to_string(),
        line: position.line as usize,
        column: position.column as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_what_is_shown_of_a_statement() {
        for (statement, expected) in [
            ("proxy_pass http://app", "proxy_pass http://app"),
            ("http-request set-var(txn.a) src", "http-request set-var(txn.a) ..."),
            ("user bob insecure-password hunter2", "user ..."),
            ("secure_link_secret hunter2", "secure_link_secret ..."),
            ("daemon", "daemon"),
        ] {
            assert_eq!(shown(statement), expected);
        }
    }
}
