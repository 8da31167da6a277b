//! Directives beside `http`: the process, its workers, its user; and those of `events`.

use super::scope::Scope;
use super::{logs, units};
use crate::document::Draft;
use crate::source::Statement;

/// Directives beside `http`.
pub(in crate::nginx) fn translate(scope: &Scope<'_>, draft: &mut Draft) {
    for statement in scope.outermost() {
        one(scope, draft, statement);
        if statement.name() == "events" {
            scope.ledger.meaningless(statement, "what is in it is accounted for by itself");
            statement.children().iter().for_each(|child| event(scope, child));
        }
    }
}

/// What `http` says for the process as a whole: resolvers, open files, the log.
pub(in crate::nginx) fn of_http(scope: &Scope<'_>, draft: &mut Draft) {
    for statement in scope.outermost() {
        match statement.name() {
            "open_file_cache" => open_files(scope, draft, statement),
            "error_log" => logs::error_log(scope, draft, statement, false),
            _ => {}
        }
    }
}

fn one(scope: &Scope<'_>, draft: &mut Draft, statement: &Statement) {
    let ledger = scope.ledger;
    let mut words = ledger.words(statement);
    match statement.name() {
        "user" => {
            let process = draft.table(&["process"]);
            if let Some(user) = words.text() {
                process.set("user", user, statement);
            }
            if let Some(group) = words.text() {
                process.set("group", group, statement);
            }
            ledger.exact(statement);
        }
        "worker_processes" => match words.text().unwrap_or_default() {
            "auto" => ledger.by_default(statement, "there is one worker for each CPU"),
            text => {
                if let Ok(number @ 1..=1024) = text.parse::<i64>() {
                    draft.table(&["process"]).set("workers", number, statement);
                    ledger.exact(statement);
                }
            }
        },
        "worker_cpu_affinity" => {
            words.rest();
            draft.table(&["process"]).set("pin_workers", true, statement);
            ledger.approximated(statement, "each worker is pinned to one CPU, in their order");
        }
        "pid" => {
            let file = words.text().unwrap_or_default();
            if file == "/dev/null" || file == "off" {
                ledger.by_default(statement, "there is no such file unless it is asked for");
            } else {
                draft.table(&["process"]).set("pid_file", file, statement);
                ledger.exact(statement);
            }
        }
        "error_log" => logs::error_log(scope, draft, statement, true),
        "worker_shutdown_timeout" => {
            if let Some(time) = words.text().and_then(units::duration) {
                let process = draft.table(&["process"]);
                process.set("stop_grace", time.as_str(), statement);
                process.set("reload_grace", time, statement);
                ledger.exact(statement);
            }
        }
        "load_module" => module(scope, statement),
        "env" => {
            words.rest();
            ledger.meaningless(
                statement,
                "variables of the environment are those of the process, and `${NAME}` in the config",
            );
        }
        _ => {}
    }
}

/// `load_module modules/NAME.so`.
fn module(scope: &Scope<'_>, statement: &Statement) {
    let text = scope.ledger.words(statement).text().unwrap_or_default();
    let file = text.rsplit('/').next().unwrap_or(text);
    let known = [
        "stream",
        "geoip",
        "brotli",
        "headers_more",
        "http_image",
        "mail",
        "xslt",
        "ngx_http_dav",
        "echo",
        "upstream_fair",
        "zstd",
        "perl",
        "js",
        "lua",
        "ndk",
        "otel",
        "modsecurity",
        "vts",
        "cache_purge",
        "auth_pam",
        "subs_filter",
        "fancyindex",
        "uploadprogress",
        "nchan",
        "rtmp",
        "dav_ext",
    ];
    if known.iter().any(|name| file.contains(name)) {
        scope.ledger.meaningless(
            statement,
            "Weir has no modules; what the directives of this one become is said at each",
        );
    } else {
        scope.ledger.meaningless(
            statement,
            "Weir has no modules; directives that it does not know are not supported",
        );
    }
}

fn event(scope: &Scope<'_>, statement: &Statement) {
    let ledger = scope.ledger;
    let mut words = ledger.words(statement);
    match statement.name() {
        "worker_connections" => {
            words.text();
            ledger.by_default(
                statement,
                "as many connections as the limit on open files allows (`process.connections_max`)",
            );
        }
        "multi_accept"
        | "accept_mutex"
        | "accept_mutex_delay"
        | "use"
        | "debug_connection"
        | "worker_aio_requests"
        | "epoll_events"
        | "devpoll_changes"
        | "kqueue_changes"
        | "kqueue_events" => {
            ledger.meaningless(
                statement,
                "each worker accepts connections by epoll or io_uring of its own, on sockets of its own",
            );
        }
        _ => {}
    }
}

/// `open_file_cache max=N inactive=T`.
fn open_files(scope: &Scope<'_>, draft: &mut Draft, statement: &Statement) {
    let mut words = scope.ledger.words(statement);
    if words.flag("off") {
        return scope
            .ledger
            .by_default(statement, "files are kept open for a second between two looks at them");
    }
    let most = words.option("max=").and_then(|text| text.parse::<i64>().ok());
    let inactive = words.option("inactive=").and_then(units::duration);
    let process = draft.table(&["process"]);
    if let Some(most) = most {
        process.set("open_file_cache_max", most.clamp(0, 1_000_000), statement);
    }
    if let Some(time) = inactive.filter(|time| time != "60s") {
        process.set("open_file_cache_inactive", time, statement);
    }
    scope.ledger.exact(statement);
}

/// `resolver ADDRESS... [valid=T] [ipv6=off]`, wherever it stands.
pub(super) fn resolver(scope: &Scope<'_>, draft: &mut Draft, statement: &Statement) {
    let mut words = scope.ledger.words(statement);
    let valid = words.option("valid=").and_then(units::duration);
    let mut differences = Vec::new();
    if words.option("ipv6=").is_some_and(|text| text == "off") {
        differences.push("names are resolved to addresses of IPv6, too");
    }
    words.option("ipv4=");
    words.option("status_zone=");
    let mut list: Vec<String> = Vec::new();
    for word in words.rest() {
        let (host, port) = super::upstreams::split_port(&word.text);
        let is_address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        if !is_address {
            return scope.ledger.unsupported(statement, "name resolvers by their addresses");
        }
        list.push(format!("{host}:{}", port.unwrap_or(53)));
    }
    let dns = draft.table(&["dns"]);
    if dns.has("resolvers") && dns.get("resolvers") != Some(&list.clone().into()) {
        differences.push("Weir has one list of resolvers, the first one here");
    } else {
        dns.set("resolvers", list, statement);
        if let Some(time) = valid.filter(|time| time != "5m") {
            dns.set("ttl_max", time, statement);
        }
    }
    match differences.as_slice() {
        [] => scope.ledger.exact(statement),
        some => some.iter().for_each(|difference| scope.ledger.approximated(statement, difference)),
    }
}
