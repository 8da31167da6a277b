//! `x_accel` and `x_sendfile`: keys that mean nothing beside each other, and the route whose files servers may name.

use crate::config::{AccelField, Route, RouteAction};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{ListenerText, RouteText};

/// What a field needs beside it, and why.
const NEEDS: [(AccelField, &str, &str, &str); 2] = [
    (AccelField::Expires, "expires", "cache", "`X-Accel-Expires` says how long the route keeps a response"),
    (
        AccelField::Buffering,
        "buffering",
        "buffer_responses",
        "`X-Accel-Buffering: no` turns it off, and without it nothing is buffered",
    ),
];

/// Reports what has no effect on a route.
pub(in crate::check) fn report(text: &SpannedTable<RouteText>, diagnostics: &mut Vec<Diagnostic>) {
    let fields = &text.value.x_accel;
    let passes = fields.contains(&AccelField::Pass);
    if passes && (fields.len() > 1 || text.value.x_sendfile.is_some()) {
        let message =
            "`\"pass\"` stands alone: the fields are for the proxy in front, which acts on all of them";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, text.key_at("x_accel"), message));
    }
    for (field, name, key, why) in NEEDS {
        if fields.contains(&field) && text.written(key).is_none() {
            let message = format!("`\"{name}\"` has no effect without `{key}`: {why}");
            let at = text.key_at("x_accel");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, message));
        }
    }
}

/// Reports routes that `x_sendfile` names and that have no files.
pub(in crate::check) fn check_targets(
    text: &SpannedTable<ListenerText>,
    routes: &[Route],
    diagnostics: &mut Vec<Diagnostic>,
) {
    for (route, written) in routes.iter().zip(&text.value.route) {
        let (Some(name), Some(at)) = (&route.x_sendfile, &written.value.x_sendfile) else { continue };
        let Some(target) = routes.iter().find(|one| one.name == *name) else { continue };
        if !matches!(target.action, RouteAction::Files(_)) {
            let message =
                format!("the route `{name}` has no `files`: nothing says below which folder a file may lie");
            let help = "write `files.root` there, or send the path of the route in `X-Accel-Redirect`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at.span, message).help(help));
        }
    }
}
