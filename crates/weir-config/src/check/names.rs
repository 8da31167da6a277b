//! Names, and pairs of keys of which one makes the other useless.

use std::time::Duration;

use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{ConfigSection, Spanned, SpannedTable};
use crate::value::{is_name, print_duration};

/// A name appears in log lines, labels and URLs unchanged.
pub(in crate::check) fn check_name(name: &Spanned<Box<str>>, owner: &str, diagnostics: &mut Vec<Diagnostic>) {
    if !is_name(&name.value) {
        let message = format!("`{}` is not a name for a {owner}", name.value);
        let help = "names are 1 to 64 letters, digits, `-`, `_` and `.`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message).help(help));
    }
}

/// Warns when one time limit, which the text changes, can never be reached because of another.
pub(in crate::check) fn warn_unreachable<T: ConfigSection + Default, U>(
    (table, key, limit): (&SpannedTable<T>, &str, Duration),
    (other_table, other_key, other): (&SpannedTable<U>, &str, Duration),
    diagnostics: &mut Vec<Diagnostic>,
) {
    if let (Some(at), Some(other_at)) = (table.changed(key), other_table.written(other_key))
        && limit > other
    {
        let message = format!("`{key}` ({}) is never reached", print_duration(limit));
        let related = format!("`{other_key}` ({}) ends it first", print_duration(other));
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, message).label(other_at, related));
    }
}
