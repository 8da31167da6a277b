//! `log` of a site: where lines go, which requests have one, and what is left out of them.

use super::options::refuse_whole;
use super::words::arguments;
use crate::document::TomlValue;
use crate::report::Ledger;
use crate::source::Statement;

/// What a line has where some of it is filtered, in the order of Caddy's.
const FIELDS: [(&str, &str); 8] = [
    ("ts", "time"),
    ("request>client_ip", "client_address"),
    ("request>method", "method"),
    ("request>host", "host"),
    ("request>uri", "target"),
    ("status", "status"),
    ("size", "body_bytes_out"),
    ("duration", "duration.seconds"),
];

/// A log in the making.
struct LogDraft {
    output: Option<String>,
    format: String,
    /// Only these requests.
    when: Option<&'static str>,
}

/// Reads `log`: the table `access_log`, unless no line is written.
pub(super) fn read(statement: &Statement, ledger: &Ledger) -> Option<TomlValue> {
    arguments(ledger, statement);
    let mut log = LogDraft { output: Some("stderr".to_owned()), format: "json".to_owned(), when: None };
    for child in statement.children() {
        match (child.name(), arguments(ledger, child).as_slice()) {
            ("output", ["stdout"]) => log.output = Some("stdout".to_owned()),
            ("output", ["stderr"]) => log.output = Some("stderr".to_owned()),
            ("output", ["discard"]) => log.output = None,
            ("output", ["file", file, ..]) if file.starts_with('/') => {
                log.output = Some(format!("file:{file}"));
                for roll in child.children() {
                    arguments(ledger, roll);
                    ledger.approximated(roll, "Weir does not rotate files: logrotate does, with SIGUSR1");
                }
            }
            ("format", ["console" | "transform", ..]) => "combined".clone_into(&mut log.format),
            ("format", ["json"]) => {}
            ("format", ["filter"]) => {
                if !filter(child, &mut log, ledger) {
                    refuse_whole(child, "name what lines have: see `access_log.format`", ledger);
                    continue;
                }
            }
            ("level", ["INFO" | "info" | "DEBUG" | "debug"]) => {}
            // Requests that have failed are errors, all others information.
            ("level", ["WARN" | "warn" | "ERROR" | "error"]) => log.when = Some("status >= 500"),
            _ => {
                refuse_whole(child, "see `access_log`", ledger);
                continue;
            }
        }
        ledger.exact(child);
    }
    ledger.approximated(statement, "lines have the names and the form of Weir: see `access_log.format`");
    log.into_value()
}

impl LogDraft {
    fn into_value(self) -> Option<TomlValue> {
        let output = self.output?;
        let mut table = vec![("format".to_owned(), self.format.into()), ("output".to_owned(), output.into())];
        table.extend(self.when.map(|when| ("when".to_owned(), when.into())));
        Some(TomlValue::Inline(table))
    }
}

/// `format filter`: a list of what is left, so that nothing that is filtered is in a line.
fn filter(statement: &Statement, log: &mut LogDraft, ledger: &Ledger) -> bool {
    let mut fields: Vec<(&str, Option<String>)> =
        FIELDS.iter().map(|(name, placeholder)| (*name, Some((*placeholder).to_owned()))).collect();
    let mut filters: Vec<&Statement> = Vec::new();
    for child in statement.children() {
        match child.name() {
            "wrap" => ledger.exact(child),
            "fields" => filters.extend(child.children()),
            _ => filters.push(child),
        }
        arguments(ledger, child);
        ledger.exact(child);
    }
    for filter in filters {
        let words = arguments(ledger, filter);
        let name = match filter.name() {
            "request>remote_ip" => "request>client_ip",
            name => name,
        };
        if !known_filter(name, &words, filter, &mut fields, ledger) {
            return false;
        }
        ledger.exact(filter);
    }
    let left: Vec<String> =
        fields.into_iter().filter_map(|(_, field)| Some(format!("{{{}}}", field?))).collect();
    log.format = format!("json {}", left.join(" "));
    true
}

fn known_filter(
    name: &str,
    words: &[&str],
    filter: &Statement,
    fields: &mut [(&str, Option<String>)],
    ledger: &Ledger,
) -> bool {
    // What no line has anyway needs no filter.
    let Some((_, field)) = fields.iter_mut().find(|(known, _)| *known == name) else { return true };
    let Some(known) = field.clone() else { return true };
    match words {
        ["delete" | "replace" | "hash", ..] => *field = None,
        ["ip_mask", bits, ..] if name == "request>client_ip" => {
            let own: Option<u8> = bits.parse().ok().filter(|bits| *bits <= 32);
            let Some(own) = own else { return false };
            *field = match words.get(2).and_then(|bits| bits.parse::<u8>().ok()) {
                Some(of_six) => Some(format!("{known}|network:{own},{of_six}")),
                None => Some(format!("{known}|network:{own}")),
            };
        }
        ["query"] if name == "request>uri" => {
            let mut names = Vec::new();
            for child in filter.children() {
                match (child.name(), arguments(ledger, child).as_slice()) {
                    ("delete" | "hash", [parameter]) | ("replace", [parameter, _]) => {
                        names.push((*parameter).to_owned());
                    }
                    _ => return false,
                }
                ledger.exact(child);
            }
            *field = Some(format!("{known}|without:{}", names.join(",")));
        }
        _ => return false,
    }
    true
}
