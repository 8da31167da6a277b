//! `access_log`, `log_format` and `error_log`.

use super::scope::Scope;
use super::variables::{self, TemplateUse};
use crate::document::{Draft, DraftTable};
use crate::source::Statement;

/// The access log of a place: that of all if it is said in `http`, else one of the route.
pub(super) fn of_place(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable) {
    let mut statements = scope.all("access_log");
    // Turned off once, it is so whatever else the level says.
    statements.sort_by_key(|one| one.words.get(1).is_none_or(|word| word.text != "off"));
    let Some((first, others)) = statements.split_first() else { return };
    let is_off = first.words.get(1).is_some_and(|word| word.text == "off");
    for other in others {
        scope.words(other).rest();
        if is_off {
            scope.ledger.meaningless(other, "`access_log off` beside it counts");
        } else {
            scope.ledger.approximated(other, "a place has one access log, the first one here");
        }
    }
    let for_all = scope.outermost().iter().any(|statement| statement.id == first.id);
    let mut words = scope.words(first);
    let output = words.text().unwrap_or_default();
    if output == "off" {
        if for_all {
            return scope.ledger.by_default(first, "there is no access log unless it is asked for");
        }
        route.set("access_log", false, first);
        return scope.ledger.exact(first);
    }
    let Some(table) = log(scope, first, output) else { return };
    if for_all {
        *draft.table(&["access_log"]) = table;
    } else {
        *route.table("access_log") = table;
    }
}

/// An access log as a table.
pub(super) fn log(scope: &Scope<'_>, statement: &Statement, output: &str) -> Option<DraftTable> {
    let mut words = scope.ledger.words(statement);
    words.text();
    let when = words.option("if=");
    // Lines are written by a thread of its own, in blocks.
    words.option("buffer=");
    words.option("flush=");
    let gzip = words.flag("gzip") || words.option("gzip=").is_some();
    let name = words.text().unwrap_or("combined");
    let mut table = DraftTable::of(statement);
    let mut differences = Vec::new();
    if gzip {
        differences.push("lines are written as they are; have the rotation compress them".to_owned());
    }
    let format = if name == "combined" { "combined".to_owned() } else { format(scope, statement, name)? };
    table.set("format", format, statement);
    match self::output(output, &mut differences) {
        Some(output) => table.set_plain("output", output),
        None => {
            scope.ledger.unsupported(
                statement,
                "a log is one file, `syslog:` or a standard stream; its name has no placeholders",
            );
            return None;
        }
    }
    if let Some(when) = when {
        match condition(scope, when) {
            Ok(condition) => table.set_plain("when", condition),
            Err(advice) => {
                scope.ledger.unsupported(statement, &advice);
                return None;
            }
        }
    }
    match differences.as_slice() {
        [] => scope.ledger.exact(statement),
        some => some.iter().for_each(|difference| scope.ledger.approximated(statement, difference)),
    }
    Some(table)
}

/// Where lines go.
fn output(text: &str, differences: &mut Vec<String>) -> Option<String> {
    if text.contains('$') {
        return None;
    }
    match text {
        "/dev/stdout" => return Some("stdout".to_owned()),
        "/dev/stderr" | "stderr" => return Some("stderr".to_owned()),
        _ => {}
    }
    let Some(options) = text.strip_prefix("syslog:") else {
        return Some(format!("file:{text}"));
    };
    let server = options.split(',').find_map(|option| option.strip_prefix("server="))?;
    if options.contains(',') {
        differences.push("lines have the facility, severity and name that Weir gives them".to_owned());
    }
    match server.strip_prefix("unix:") {
        Some(path) => Some(format!("syslog:{path}")),
        None if server.contains(':') => Some(format!("syslog+udp://{server}")),
        None => Some(format!("syslog+udp://{server}:514")),
    }
}

/// `if=$loggable`: neither empty nor `0`.
fn condition(scope: &Scope<'_>, text: &str) -> Result<String, String> {
    let template = variables::template(scope, text)
        .map_err(|unknown| format!("`${}`: {}", unknown.name, unknown.advice))?;
    let inner = template
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .filter(|inner| !inner.contains('{'));
    let Some(inner) = inner else {
        return Err("a condition asks for one value; say it with `access_log.when`".to_owned());
    };
    let name = ["response.header", "header", "cookie", "query"]
        .into_iter()
        .find_map(|family| Some(format!("{family}[\"{}\"]", inner.strip_prefix(&format!("{family}."))?)))
        .unwrap_or_else(|| inner.to_owned());
    Ok(format!("{name} != \"\" && {name} != \"0\""))
}

/// A `log_format` in Weir's placeholders.
fn format(scope: &Scope<'_>, used: &Statement, name: &str) -> Option<String> {
    let formats = scope.outermost().iter().filter(|statement| statement.name() == "log_format");
    let found = formats.into_iter().find(|format| format.words.get(1).is_some_and(|word| word.text == name));
    let Some(statement) = found else {
        // nginx knows no config without it: this is a part of one.
        scope.ledger.approximated(used, "its format is in another file: lines are `combined` here");
        return Some("combined".to_owned());
    };
    let mut words = scope.ledger.words(statement);
    words.text();
    let escape = words.option("escape=").unwrap_or("default");
    let text: String = words.rest().iter().map(|word| word.text.as_str()).collect();
    let template = match variables::shown(scope, &text, TemplateUse::Log) {
        Ok(template) => template,
        Err(unknown) => {
            scope.ledger.unsupported(statement, &format!("`${}`: {}", unknown.name, unknown.advice));
            scope.ledger.unsupported(used, "its format cannot be said");
            return None;
        }
    };
    if variables::literal(&template.text).is_some() {
        scope.ledger.unsupported(statement, "a format shows at least one value");
        scope.ledger.unsupported(used, "its format cannot be said");
        return None;
    }
    let mut differences = template.differences;
    match escape {
        "default" => {}
        "json" => differences.push(
            "values are escaped as in text: quotes as `\\x22`; a format `json {a} {b}` writes JSON"
                .to_owned(),
        ),
        _ => differences.push("values are escaped, so that none begins a line of its own".to_owned()),
    }
    if template.text.trim() != template.text || template.text.contains(['\n', '\r']) {
        differences.push("a line has no other line ends in it, and no space around it".to_owned());
    }
    match differences.as_slice() {
        [] => scope.ledger.exact(statement),
        some => some.iter().for_each(|difference| scope.ledger.approximated(statement, difference)),
    }
    let line = template.text.replace(['\n', '\r'], " ").trim().to_owned();
    // The usual one has a name.
    let combined = "{client_address} - {user} [{time.clf}] \"{request_line}\" {status} {body_bytes_out} \"{referer}\" \"{user_agent}\"";
    Some(if line == combined { "combined".to_owned() } else { line })
}

/// `error_log`: Weir has one log, on standard error.
pub(super) fn error_log(scope: &Scope<'_>, draft: &mut Draft, statement: &Statement, is_main: bool) {
    let mut words = scope.ledger.words(statement);
    let output = words.text().unwrap_or_default();
    let level = words.text().unwrap_or("error");
    let level = match level {
        "debug" => "debug",
        "info" | "notice" => "info",
        "warn" => "warn",
        _ => "error",
    };
    if is_main {
        // What starts and changes is worth a line whatever nginx was told.
        if level == "debug" {
            draft.table(&["log"]).set("level", level, statement);
        }
        match output {
            "stderr" | "/dev/stderr" | "/proc/self/fd/2" => scope.ledger.exact(statement),
            _ => scope.ledger.approximated(
                statement,
                "Weir's log is on standard error, where the service manager takes it, from level `info` on",
            ),
        }
    } else {
        scope.ledger.approximated(
            statement,
            "Weir has one log for all; the access log has the reason of each failure",
        );
    }
}
