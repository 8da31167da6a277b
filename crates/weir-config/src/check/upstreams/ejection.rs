//! Outlier ejection: one set of rules, settings that belong to it, and consistent times.

use crate::config::{OutlierEjection, Server};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{EjectionText, UpstreamText};

/// Keys that have no place beside `max_fails`.
const NOT_OF_MAX_FAILS: [&str; 9] = [
    "consecutive_failures",
    "error_rate",
    "latency_factor",
    "latency_difference_min",
    "interval",
    "requests_min",
    "base_time",
    "max_time",
    "servers_max",
];

pub(in crate::check) fn check(
    text: &UpstreamText,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<OutlierEjection> {
    let ejection = text.ejection.as_ref()?;
    match ejection.value.max_fails {
        Some(_) => {
            for key in NOT_OF_MAX_FAILS {
                if let Some(at) = ejection.changed(key) {
                    let message =
                        format!("`{key}` has no effect with `max_fails`, which replaces it as in nginx");
                    let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message);
                    diagnostics.push(diagnostic.label(ejection.key_at("max_fails"), "`max_fails` is here"));
                }
            }
        }
        None => check_own_rules(ejection, diagnostics),
    }
    let checked = ejection.value.ejection(&text.retry.value.on_status);
    let at = ejection.written("max_time").or_else(|| ejection.written("base_time"));
    if let Some((at, fault)) = at.zip(checked.fault()) {
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, fault.to_string());
        diagnostics.push(diagnostic.help("`base_time` is the duration of the first ejection"));
    }
    Some(checked)
}

fn check_own_rules(text: &SpannedTable<EjectionText>, diagnostics: &mut Vec<Diagnostic>) {
    let value = &text.value;
    if let (Some(at), true) = (text.changed("fail_timeout"), text.is_missing("max_fails")) {
        let message = "`fail_timeout` has no effect without `max_fails`";
        let help = "write `max_fails = 1`, the default of nginx";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    }
    let compares = value.error_rate.is_some() || value.latency_factor.is_some();
    let mut unused = |key: &str, why: &str| {
        if let Some(at) = text.changed(key) {
            diagnostics.push(Diagnostic::new(
                DiagnosticKind::Unused,
                at,
                format!("`{key}` has no effect {why}"),
            ));
        }
    };
    if value.latency_factor.is_none() {
        unused("latency_difference_min", "without `latency_factor`");
    }
    if !compares {
        unused("interval", "without `error_rate` or `latency_factor`: nothing is compared");
        unused("requests_min", "without `error_rate` or `latency_factor`: nothing is compared");
    }
    if !compares && value.consecutive_failures.is_none() && text.is_sound {
        let message =
            "nothing ejects a server: `consecutive_failures`, `error_rate` and `latency_factor` are off";
        diagnostics.push(
            Diagnostic::new(DiagnosticKind::Unused, text.span, message).help("write `ejection = \"off\"`"),
        );
    }
}

/// Reports ejection settings without an effect in this upstream.
pub(in crate::check) fn report_unused(
    text: &SpannedTable<UpstreamText>,
    servers: &[Server],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let value = &text.value;
    let is_alone = servers.len() == 1 && value.discovery.is_none();
    if let (Some(at), Some(_), true) = (text.changed("ejection"), &value.ejection, is_alone) {
        let message = "`ejection` has no effect: the only server of an upstream is never ejected";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
    let entries = value.servers.as_ref().map_or(&[][..], |servers| &servers.0);
    for table in entries.iter().filter_map(|entry| entry.value.table()) {
        if let (Some(at), None) = (table.changed("ejection"), &value.ejection) {
            let message = "`ejection` has no effect: no server of the upstream is ejected";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
    }
    let always_available = value.health.is_none() && (value.ejection.is_none() || is_alone);
    for (key, why) in
        [("slow_start", "no server ever comes back"), ("panic_threshold", "every server is always available")]
    {
        if let Some(at) = text.changed(key).filter(|_| always_available && !servers.is_empty()) {
            let message = match is_alone {
                true => format!("`{key}` has no effect without `health`: {why}"),
                false => format!("`{key}` has no effect without `health` or `ejection`: {why}"),
            };
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
    }
}
