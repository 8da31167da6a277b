//! Ejection of servers: one set of rules, settings that belong to it, and times that leave each other room.

use crate::config::{Ejection, Server};
use crate::key::Located;
use crate::mistake::{Finding, MistakeKind};
use crate::text::{EjectionText, UpstreamText};
use crate::value::print_duration;

/// Keys that have no place beside `max_fails`.
const NOT_OF_MAX_FAILS: [&str; 9] = [
    "consecutive_failures",
    "error_rate",
    "latency_factor",
    "latency_difference_min",
    "interval",
    "requests_min",
    "time",
    "time_max",
    "servers_max",
];

pub(super) fn check(text: &UpstreamText, findings: &mut Vec<Finding>) -> Option<Ejection> {
    let ejection = text.ejection.as_ref()?;
    match ejection.value.max_fails {
        Some(_) => {
            for key in NOT_OF_MAX_FAILS {
                if let Some(at) = ejection.changed(key) {
                    let what =
                        format!("`{key}` does nothing with `max_fails`, which is all that nginx goes by");
                    let finding = Finding::new(MistakeKind::Conflict, at, what);
                    findings.push(finding.related(ejection.key_at("max_fails"), "`max_fails` is here"));
                }
            }
        }
        None => check_own_rules(ejection, findings),
    }
    Some(ejection.value.ejection(&text.retry.value.on_status))
}

fn check_own_rules(text: &Located<EjectionText>, findings: &mut Vec<Finding>) {
    let value = &text.value;
    if let (Some(at), true) = (text.changed("fail_timeout"), text.is_missing("max_fails")) {
        let what = "`fail_timeout` does nothing without `max_fails`";
        let hint = "write `max_fails = 1`, which is what nginx takes when nothing is said";
        findings.push(Finding::new(MistakeKind::Conflict, at, what).hint(hint));
    }
    let compares = value.error_rate.is_some() || value.latency_factor.is_some();
    let mut unused = |key: &str, why: &str| {
        if let Some(at) = text.changed(key) {
            findings.push(Finding::new(MistakeKind::Unused, at, format!("`{key}` does nothing {why}")));
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
        let what =
            "nothing ejects a server: `consecutive_failures`, `error_rate` and `latency_factor` are off";
        findings.push(Finding::new(MistakeKind::Unused, text.at, what).hint("write `ejection = \"off\"`"));
    }
    let at = text.written("time_max").or_else(|| text.written("time"));
    if let Some(at) = at.filter(|_| value.time > value.time_max) {
        let (time, time_max) = (print_duration(value.time), print_duration(value.time_max));
        let what = format!("`time` ({time}) is longer than `time_max` ({time_max})");
        findings.push(
            Finding::new(MistakeKind::Conflict, at, what).hint("`time` is the length of the first ejection"),
        );
    }
}

/// Reports what is said of ejection that has no effect in this upstream.
pub(super) fn report_unused(text: &Located<UpstreamText>, servers: &[Server], findings: &mut Vec<Finding>) {
    let value = &text.value;
    let is_alone = servers.len() == 1;
    if let (Some(at), Some(_), true) = (text.changed("ejection"), &value.ejection, is_alone) {
        let what = "`ejection` does nothing: the only server of an upstream is never ejected";
        findings.push(Finding::new(MistakeKind::Unused, at, what));
    }
    let entries = value.servers.as_ref().map_or(&[][..], |servers| &servers.0);
    for table in entries.iter().filter_map(|entry| entry.value.table()) {
        if let (Some(at), None) = (table.changed("ejection"), &value.ejection) {
            let what = "`ejection` does nothing: no server of the upstream is ejected";
            findings.push(Finding::new(MistakeKind::Unused, at, what));
        }
    }
    let nobody_judges = value.health.is_none() && (value.ejection.is_none() || is_alone);
    for (key, why) in
        [("slow_start", "no server ever comes back"), ("panic_threshold", "every server is always usable")]
    {
        if let Some(at) = text.changed(key).filter(|_| nobody_judges && !servers.is_empty()) {
            let what = match is_alone {
                true => format!("`{key}` does nothing without `health`: {why}"),
                false => format!("`{key}` does nothing without `health` or `ejection`: {why}"),
            };
            findings.push(Finding::new(MistakeKind::Unused, at, what));
        }
    }
}
