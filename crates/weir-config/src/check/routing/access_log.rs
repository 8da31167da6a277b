//! The access log: a file that can be opened at start.

use std::path::Path;

use rustix::fs::{Access, access};

use crate::check::files::Files;
use crate::check::templates;
use crate::config::{AccessLog, AccessLogOutput, RouteAccessLog};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::RouteAccessLogText;
use crate::value::Fraction;

/// The access log of a listener, or of all: without a format, it has no lines.
pub(in crate::check) fn of_listener(
    text: &SpannedTable<AccessLog>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if text.is_sound && text.is_missing("format") && !text.is_missing("output") {
        let message = "`output` has no effect without `format`: the access log is off";
        let diagnostic = Diagnostic::new(DiagnosticKind::Unused, text.key_at("output"), message);
        diagnostics.push(diagnostic.help("write `format = \"combined\"` beside it"));
    }
    check(text, files, diagnostics);
}

/// Warns of a share that changes nothing, or leaves nothing.
fn check_share(text: &SpannedTable<AccessLog>, diagnostics: &mut Vec<Diagnostic>) {
    let share = text.value.share();
    if let Some(at) = text.changed("sample_errors").filter(|_| share == Fraction::WHOLE.of_million()) {
        let message = "`sample_errors` has no effect: every exchange has its line";
        let help = "write `sample`, such as `sample = \"1%\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
    }
}

fn check(text: &SpannedTable<AccessLog>, files: &Files<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(format) = &text.value.format else { return };
    check_share(text, diagnostics);
    let literals = format.to_string().replace('{', "");
    let help = "placeholders of the access log are written like `{client_address}`, see the reference";
    templates::warn(&literals, text.key_at("format"), help, diagnostics);
    let AccessLogOutput::File(path) = &text.value.output else { return };
    if !files.may_read {
        return;
    }
    files.note(folder_of(path));
    if let Some(problem) = warning(path) {
        let message = format!("`{}`: {}", path.display(), problem.message);
        let help = problem.help;
        diagnostics.push(Diagnostic::new(problem.kind, text.key_at("output"), message).help(help));
    }
}

/// A log of a route writes lines: none at all would be `access_log = false`, which shows failures.
pub(in crate::check) fn of_route(
    text: &RouteAccessLogText,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> RouteAccessLog {
    if let RouteAccessLogText::Own(log) = text {
        check(log, files, diagnostics);
        if log.value.format.is_none() && log.is_sound {
            let message = "the access log of a route needs a `format`: this one would have no lines";
            let diagnostic = Diagnostic::new(DiagnosticKind::MissingKey, log.key_at("format"), message);
            let help = "write `format = \"combined\"`, or `access_log = false` for lines of failures only";
            diagnostics.push(diagnostic.help(help));
        }
    }
    text.to_access_log()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

struct LogFileProblem {
    kind: DiagnosticKind,
    message: &'static str,
    help: &'static str,
}

/// Why the file cannot be appended to. Permissions are checked for the user of this process, which may be another one than at start.
fn warning(path: &Path) -> Option<LogFileProblem> {
    let folder = folder_of(path);
    let unusable = |message, help| Some(LogFileProblem { kind: DiagnosticKind::BadValue, message, help });
    let asked = if path.exists() { path } else { folder };
    if !folder.is_dir() {
        return unusable(
            "the folder does not exist",
            "create it, or change the path: Weir creates only the file",
        );
    }
    if path.is_dir() {
        return unusable("this is a folder", "name a file in it");
    }
    match access(asked, Access::WRITE_OK) {
        Ok(()) => None,
        Err(_) => Some(LogFileProblem {
            kind: DiagnosticKind::Suspicious,
            message: "this user has no write permission",
            help: "give write permission to the user that Weir runs as, which may be another one than the current user",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_opened_is_reported_before_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |path: &Path| warning(path).map(|problem| problem.kind);
        assert_eq!(kind(&folder.path().join("access.log")), None);
        assert_eq!(kind(Path::new("access.log")), None);
        assert_eq!(kind(folder.path()), Some(DiagnosticKind::BadValue));
        assert_eq!(kind(&folder.path().join("missing/access.log")), Some(DiagnosticKind::BadValue));
        assert_eq!(kind(Path::new("/dev/null")), None);
        // A file system that no user may write to, not even root.
        assert_eq!(kind(Path::new("/proc/version")), (!is_root()).then_some(DiagnosticKind::Suspicious));
    }

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }
}
