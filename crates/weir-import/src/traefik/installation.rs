//! The static config beside entry points and resolvers: providers, logs, what Traefik itself offers.

use super::tree::{self, child, ignore, is_true, key, refuse, value, value_of, values};
use crate::document::{Draft, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// Files that hold dynamic configs, as a static config names them.
#[derive(Clone, Copy)]
pub(super) struct DynamicFiles<'s> {
    pub(super) statement: &'s Statement,
    pub(super) path: &'s str,
    /// Whether it is a folder.
    pub(super) is_folder: bool,
}

/// The files of `providers.file`.
pub(super) fn named_files<'s>(roots: &'s [Statement], ledger: &Ledger) -> Vec<DynamicFiles<'s>> {
    let providers = roots.iter().filter(|root| key(root) == "providers");
    let files = providers.filter_map(|providers| child(providers, "file"));
    let parts = files.flat_map(|file| file.children().iter());
    parts
        .filter_map(|part| match key(part).as_str() {
            name @ ("filename" | "directory") => {
                let path = value(ledger, part);
                Some(DynamicFiles { statement: part, path, is_folder: name == "directory" })
            }
            _ => None,
        })
        .collect()
}

/// Reads one key of the top level of a static config; whether it is one.
pub(super) fn read(statement: &Statement, draft: &mut Draft, ledger: &Ledger) -> bool {
    match key(statement).as_str() {
        "providers" => providers(statement, draft, ledger),
        "log" => log(statement, draft, ledger),
        "accesslog" => access_log(statement, draft, ledger),
        "global" => ignore(ledger, statement, "Weir asks for no newer version, and sends no statistics"),
        "api" => api(statement, draft, ledger),
        "ping" => ping(statement, ledger),
        "metrics" => refuse(ledger, statement, "`[admin]` has `/metrics` for Prometheus"),
        "tracing" => refuse(ledger, statement, "see `[traces]`: OpenTelemetry"),
        "experimental" => {
            for part in statement.children() {
                match key(part).as_str() {
                    // An entry point says whether it has it.
                    "http3" if is_true(ledger, part) => ledger.exact(part),
                    _ => refuse(ledger, part, "Weir has no plugins"),
                }
            }
            ledger.exact(statement);
        }
        "hostresolver" => refuse(ledger, statement, "hosts are compared as clients send them"),
        "spiffe" => refuse(ledger, statement, "see `tls` of the upstream"),
        "pilot" | "hub" => ignore(ledger, statement, "a service for users of Traefik"),
        "core" => {
            for part in statement.children() {
                value(ledger, part);
                ledger.exact(part);
            }
            ledger.exact(statement);
        }
        _ => return false,
    }
    true
}

fn providers(statement: &Statement, draft: &mut Draft, ledger: &Ledger) {
    for part in statement.children() {
        match key(part).as_str() {
            "file" => {
                let watch = child(part, "watch");
                let is_watched = watch.is_none_or(|watch| is_true(ledger, watch));
                for own in part.children() {
                    match key(own).as_str() {
                        // Settled where the files are read.
                        "filename" | "directory" => {}
                        "watch" => ledger.exact(own),
                        "debugloggeneratedtemplate" => ignore(ledger, own, "it is for looking for mistakes"),
                        _ => {}
                    }
                }
                if is_watched {
                    draft.table(&["process"]).set_beside("reload", "on-change", watch.unwrap_or(part));
                }
                ledger.exact(part);
            }
            "providersthrottleduration" => {
                value(ledger, part);
                ledger.by_default(part, "a change is read when it has settled");
            }
            "docker" | "swarm" | "kubernetescrd" | "kubernetesingress" | "kubernetesgateway" | "nomad"
            | "ecs" => {
                refuse(
                    ledger,
                    part,
                    "routes of labels and of clusters are not in these files: see `discovery` of the upstream, and weir-ingress for Kubernetes",
                );
            }
            _ => refuse(ledger, part, "see `routes_from`, and `discovery` of the upstream"),
        }
    }
    ledger.exact(statement);
}

/// The dashboard is at a port of its own, or where routers have `api@internal`, which are reported there.
fn api(statement: &Statement, draft: &mut Draft, ledger: &Ledger) {
    for part in statement.children() {
        match (key(part).as_str(), is_true(ledger, part)) {
            ("insecure", true) => {
                draft.table(&["admin"]).set("address", "127.0.0.1:8080", part);
                ledger.approximated(
                    part,
                    "the status page is Weir's own, and for this machine alone: see `[admin]`",
                );
            }
            ("insecure" | "dashboard" | "debug" | "disabledashboardad", _) => ledger.exact(part),
            _ => refuse(ledger, part, "see `[admin]`"),
        }
    }
    values(ledger, statement);
    ledger.exact(statement);
}

/// `/ping` of an entry point is a route; at the port of the dashboard there is none.
fn ping(statement: &Statement, ledger: &Ledger) {
    match ping_point(statement, ledger) {
        Some(_) => {
            statement
                .children()
                .iter()
                .filter(|part| key(part) == "entrypoint")
                .for_each(|part| ledger.exact(part));
            ledger.exact(statement);
        }
        None => {
            refuse(ledger, statement, "`[admin]` answers `/health` and `/ready`, at an address of its own");
        }
    }
}

/// The entry point with `/ping`.
pub(super) fn ping_point<'s>(statement: &'s Statement, ledger: &Ledger) -> Option<&'s str> {
    let has_others = statement.children().iter().any(|part| key(part) != "entrypoint");
    value_of(ledger, statement, "entrypoint").filter(|name| *name != "traefik" && !has_others)
}

fn log(statement: &Statement, draft: &mut Draft, ledger: &Ledger) {
    for part in statement.children() {
        let text = value(ledger, part);
        match key(part).as_str() {
            "level" => {
                let level = match text.to_ascii_lowercase().as_str() {
                    "panic" | "fatal" | "error" => "error",
                    "warn" | "warning" => "warn",
                    "info" => "info",
                    "debug" => "debug",
                    "trace" => "trace",
                    _ => {
                        ledger.unsupported(part, "see `log.level`");
                        continue;
                    }
                };
                if level != "info" {
                    draft.table(&["log"]).set("level", level, part);
                }
                ledger.exact(part);
            }
            "format" => {
                if text == "json" {
                    draft.table(&["log"]).set("format", "json", part);
                }
                ledger.exact(part);
            }
            "filepath" => ledger.approximated(part, "Weir's own log goes to standard error"),
            "nocolor" => ledger.by_default(part, "the log has no colours"),
            "maxsize" | "maxbackups" | "maxage" | "compress" => {
                ledger.meaningless(part, "what reads standard error rotates its files");
            }
            _ => {}
        }
    }
    ledger.exact(statement);
}

fn access_log(statement: &Statement, draft: &mut Draft, ledger: &Ledger) {
    let file = value_of(ledger, statement, "filepath");
    let format = value_of(ledger, statement, "format").unwrap_or("common");
    let table = draft.table(&["access_log"]);
    table.originate(statement);
    let own = if format == "json" { "json" } else { "combined" };
    table.set_beside("format", own, statement);
    if let Some(file) = file {
        table.set_beside("output", format!("file:{}", tree::literal(file)), statement);
    }
    for part in statement.children() {
        match key(part).as_str() {
            "filepath" | "format" => ledger.exact(part),
            "bufferingsize" => {
                value(ledger, part);
                ledger.meaningless(part, "a thread of its own writes the lines");
            }
            "filters" => {
                for filter in part.children() {
                    filters(filter, draft, ledger);
                }
                ledger.exact(part);
            }
            "addinternals" => {
                value(ledger, part);
                ledger.meaningless(part, "Weir's own pages are no part of the log");
            }
            "fields" => refuse(ledger, part, "see `access_log.format`"),
            _ => {}
        }
    }
    values(ledger, statement);
    ledger.approximated(statement, "lines have the names and the form of Weir: see `access_log.format`");
}

fn filters(statement: &Statement, draft: &mut Draft, ledger: &Ledger) {
    let conditions: Option<Vec<String>> = match key(statement).as_str() {
        "statuscodes" => values(ledger, statement)
            .into_iter()
            .map(|range| {
                let (from, to) = range.split_once('-').unwrap_or((range, range));
                let (from, to) = (from.trim().parse::<u16>().ok()?, to.trim().parse::<u16>().ok()?);
                Some(if from == to {
                    format!("status == {from}")
                } else {
                    format!("status >= {from} && status <= {to}")
                })
            })
            .collect(),
        "retryattempts" => is_true(ledger, statement).then(|| vec!["retries > 0".to_owned()]),
        "minduration" => tree::milliseconds(value(ledger, statement))
            .map(|time| vec![format!("duration >= {}", time * 1000)]),
        _ => None,
    };
    let Some(conditions) = conditions.filter(|conditions| !conditions.is_empty()) else {
        return refuse(ledger, statement, "see `access_log.when`");
    };
    let table = draft.table(&["access_log"]);
    // One filter that lets a line through is enough.
    let is_alone = conditions.len() == 1 && !table.has("when");
    let in_braces =
        |one: &String| if one.contains("&&") && !is_alone { format!("({one})") } else { one.clone() };
    let own = conditions.iter().map(in_braces).collect::<Vec<_>>().join(" || ");
    let joined = match table.get("when") {
        Some(TomlValue::Text(known)) => format!("{known} || {own}"),
        _ => own,
    };
    table.set("when", joined, statement);
    ledger.exact(statement);
}
