//! An upstream: its servers, its balancing policy, and consistent time limits.

use std::sync::Arc;

use rustls_pki_types::ServerName;
use weir_traffic::balance::{HashKey, LoadFactor, Policy};
use weir_traffic::{Mode, ServerTier};

use super::{affinity, discovery, dynamic, ejection, health, server_protocol, source_address, upstream_tls};
use crate::check::admission::limit;
use crate::check::files::Files;
use crate::check::names::check_name;
use crate::check::names::warn_unreachable;
use crate::check::templates::{self, TemplatePlace};
use crate::config::{
    ConnectionsMax, Interner, OnFull, PoolSettings, RetrySettings, Server, ServerProtocol, ServerSource,
    Upstream, UpstreamFault, UpstreamParts, UpstreamSettings, UpstreamTls, server_faults, weight_fault,
};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::{BalanceText, HashKeyText, ServerMode, ServerText, UpstreamText};
use crate::value::print_duration;

pub(crate) fn check(
    name: &Spanned<Box<str>>,
    text: &SpannedTable<UpstreamText>,
    files: &Files<'_>,
    interner: &mut Interner<UpstreamSettings>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Upstream {
    let discovery = discovery::check_source(name, text, files, diagnostics);
    let servers = servers(name, &text.value, diagnostics);
    warn_without_effect(text, &servers, diagnostics);
    warn_time_limits(text, diagnostics);
    server_protocol::check(text, diagnostics);
    source_address::check(text, &servers, diagnostics);
    check_grpc_statuses(&text.value.retry, diagnostics);
    health::report_servers(&text.value, diagnostics);
    ejection::report_unused(text, &servers, diagnostics);
    let health = text.value.health.as_ref().map(|health| health::check(&text.value, health, diagnostics));
    let ejection = ejection::check(&text.value, diagnostics);
    let tls = upstream_tls::check(&text.value, &servers, files, diagnostics);
    let affinity = text.value.affinity.as_ref();
    let affinity = affinity.map(|text| affinity::check(&name.value, text, diagnostics));
    let UpstreamText { http2, timeouts, limits, lenient, pool, queue, retry, .. } = text.value.clone();
    let settings = UpstreamSettings {
        dynamic: dynamic::check(text, diagnostics),
        balance: balance(text, diagnostics),
        hash_template: match &text.value.hash_key {
            Some(HashKeyText::Template(template)) => Some(template.clone()),
            Some(HashKeyText::Part(_)) | None => None,
        },
        max_requests: text.value.max_requests,
        when_full: text.value.when_full,
        slow_start: text.value.slow_start,
        protocol: text.value.protocol,
        http2: http2.value,
        timeouts: timeouts.value,
        limits,
        lenient: lenient.value,
        pool: pool_of(text.value.protocol, &pool),
        proxy_protocol: text.value.proxy_protocol,
        source_address: text.value.source_address,
        limited_by: limit::names(&text.value.limited_by),
        queue: queue.value,
        retry: retry.value,
        affinity,
        health,
        on_down: text.value.on_down,
        ejection,
        panic_threshold: text.value.panic_threshold,
    };
    let tls = tls.map(|tls| Box::new(name_discovered(tls, discovery.as_ref(), text, diagnostics)));
    Upstream::assume(UpstreamParts {
        name: name.value.clone(),
        servers,
        discovery: discovery.map(Arc::new),
        tls,
        settings: interner.intern(settings),
    })
}

/// The name in the certificates of servers that are found by DNS: the one that was asked for, as for a server that the text names so.
fn name_discovered(
    mut tls: UpstreamTls,
    source: Option<&ServerSource>,
    text: &SpannedTable<UpstreamText>,
    diagnostics: &mut Vec<Diagnostic>,
) -> UpstreamTls {
    match source {
        Some(_) if tls.server_name.is_some() => {}
        Some(ServerSource::Dns { host, .. }) => tls.server_name = ServerName::try_from(host.to_string()).ok(),
        Some(ServerSource::Srv(_)) if tls.authorities.is_some() => {
            let message =
                "the certificates of the servers have to be for their addresses: SRV records lead to these";
            let help = "set `server_name` in `tls` to the name that the certificates are for";
            let at = text.key_at("tls");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, message).help(help));
        }
        Some(
            ServerSource::Srv(_)
            | ServerSource::File(_)
            | ServerSource::Consul(_)
            | ServerSource::Etcd(_)
            | ServerSource::Cds(_)
            | ServerSource::Eds(_),
        )
        | None => {}
    }
    tls
}

/// Connections to servers of FastCGI are not kept unless the config says so: each would hold a process of the server.
fn pool_of(protocol: ServerProtocol, pool: &SpannedTable<PoolSettings>) -> PoolSettings {
    let idle_max = match pool.value.idle_max {
        ConnectionsMax::Auto if protocol == ServerProtocol::Fastcgi => ConnectionsMax::Exactly(0),
        idle_max => idle_max,
    };
    PoolSettings { idle_max, ..pool.value.clone() }
}

fn servers(name: &Spanned<Box<str>>, text: &UpstreamText, diagnostics: &mut Vec<Diagnostic>) -> Vec<Server> {
    let entries = text.servers.as_ref().map_or(&[][..], |servers| &servers.0);
    let mut servers: Vec<Server> = Vec::new();
    let mut places = Vec::new();
    for entry in entries {
        let Some(mut server) = server(&entry.value, diagnostics) else { continue };
        server.max_requests = match &entry.value {
            ServerText::Table(table) if table.value.max_requests.is_some() => {
                table.value.max_requests.flatten()
            }
            _ => text.max_requests,
        };
        server.source_address = source_address::of_server(&entry.value, text);
        servers.push(server);
        places.push(entry.span);
    }
    for ([first, second], fault) in server_faults(&servers) {
        let diagnostic = Diagnostic::new(DiagnosticKind::Duplicate, places[second], fault.to_string());
        diagnostics.push(match fault {
            UpstreamFault::ServerTwice(_) => diagnostic
                .label(places[first], "the first time here")
                .help("give it a `weight` for a larger share of the requests"),
            _ => diagnostic.label(places[first], "the first is here"),
        });
    }
    if let Some(fault) = weight_fault(&name.value, &servers) {
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, places[0], fault.to_string()));
    } else if !servers.is_empty() && servers.iter().all(|server| server.mode != Mode::Serving) {
        let message = format!("no server of `{}` is serving: none would get a new request", name.value);
        let help = "requests are answered 503 until the mode of a server is changed";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, places[0], message).help(help));
    } else if !servers.is_empty()
        && text.discovery.is_none()
        && servers.iter().all(|server| server.tier != ServerTier::Primary)
    {
        let message = format!("every server of `{}` is a backup", name.value);
        let help = "a backup gets requests only when no other server can take them; without others, `backup` has no effect";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, places[0], message).help(help));
    }
    servers
}

fn server(text: &ServerText, diagnostics: &mut Vec<Diagnostic>) -> Option<Server> {
    match text {
        ServerText::Address(address) => Some(Server::new(address.clone())),
        ServerText::Table(table) => {
            let table = &table.value;
            let mut server = Server::new(table.address.as_ref()?.value.clone());
            if let Some(name) = &table.name {
                check_name(name, "server", diagnostics);
                server.name = name.value.clone();
            }
            server.weight = table.weight;
            server.tier = if table.backup { ServerTier::Backup } else { ServerTier::Primary };
            server.mode = match table.mode {
                ServerMode::Serving => Mode::Serving,
                ServerMode::Draining => Mode::Draining,
                ServerMode::Maintenance => Mode::Maintenance,
            };
            server.health = table.health;
            server.ejection = table.ejection;
            server.health_port = table.health_port;
            server.agent_port = table.agent_port;
            Some(server)
        }
    }
}

fn balance(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) -> Policy {
    let balance = text.value.balance;
    let unused: &[&str] = match balance {
        BalanceText::ConsistentHash => &[],
        BalanceText::MapBasedHash => &["hash_load_factor"],
        _ => &["hash_key", "hash_load_factor"],
    };
    for key in unused {
        if let Some(at) = text.changed(key) {
            let message = format!("`{key}` has no effect with `balance = \"{}\"`", balance.name());
            let help = "write `balance = \"consistent-hash\"`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
        }
    }
    match balance {
        BalanceText::LeastRequests => Policy::LeastRequests,
        BalanceText::RoundRobin => Policy::RoundRobin,
        BalanceText::PeakEwma => Policy::PeakEwma,
        BalanceText::PowerOfTwo => Policy::PowerOfTwo,
        BalanceText::Random => Policy::Random,
        BalanceText::ConsistentHash | BalanceText::MapBasedHash => by_hash(text, diagnostics),
    }
}

fn load_factor(text: &UpstreamText) -> LoadFactor {
    match text.hash_load_factor {
        None => LoadFactor::default(),
        Some(None) => LoadFactor::UNBOUNDED,
        Some(Some(percent)) => LoadFactor::from_percent(percent.percent()).unwrap_or_default(),
    }
}

/// A policy with a key.
fn by_hash(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) -> Policy {
    let policy = |key: HashKey| match (text.value.balance, key) {
        (BalanceText::MapBasedHash, HashKey::ClientAddress(prefixes)) => {
            Policy::MapBasedHash { key: HashKey::ClientNetwork(prefixes) }
        }
        (BalanceText::MapBasedHash, key) => Policy::MapBasedHash { key },
        (_, key) => Policy::ConsistentHash { key, load_factor: load_factor(&text.value) },
    };
    match &text.value.hash_key {
        Some(HashKeyText::Part(key)) => policy(key.clone()),
        Some(HashKeyText::Template(template)) => {
            let at = text.key_at("hash_key");
            templates::check_shared(template, at, &TemplatePlace::SHARED, diagnostics);
            policy(HashKey::Made)
        }
        None => {
            if text.is_missing("hash_key") {
                let message = format!("`balance = \"{}\"` needs a `hash_key`", text.value.balance.name());
                let help = "write for example `hash_key = \"client-address\"` or `\"cookie:session\"`";
                diagnostics.push(
                    Diagnostic::new(DiagnosticKind::MissingKey, text.key_at("balance"), message).help(help),
                );
            }
            Policy::default()
        }
    }
}

fn check_grpc_statuses(retry: &SpannedTable<RetrySettings>, diagnostics: &mut Vec<Diagnostic>) {
    if let Some(fault) = retry.value.fault() {
        let help = "name statuses of failures, such as `\"unavailable\"`";
        let at = retry.key_at("on_grpc_status");
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, fault.to_string()).help(help));
    }
}

/// Warns of settings that nothing can make use of.
fn warn_without_effect(
    text: &SpannedTable<UpstreamText>,
    servers: &[Server],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let value = &text.value;
    let is_unlimited = servers.iter().all(|server| server.max_requests.is_none());
    let never_waits = !servers.is_empty() && is_unlimited && !has_agents(value);
    // With HTTP/1, requests may have to wait for a descriptor.
    let needs_descriptors = !matches!(value.protocol, ServerProtocol::H2 | ServerProtocol::H2c);
    let limit = value.timeouts.changed("queue").filter(|_| !needs_descriptors);
    for at in [text.changed("queue"), limit].into_iter().flatten().filter(|_| never_waits) {
        let message = "`queue` has no effect: no server has `max_requests`, so no request waits in the queue";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
    warn_never_overflows(text, servers, diagnostics);
    if let Some(at) = text.changed("on_down").filter(|_| value.health.is_none()) {
        let message = "`on_down` has no effect without `health`: no server is ever down";
        let help = "write for example `health = {}`, or one with a `preset`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
    }
    let hashes = matches!(value.balance, BalanceText::ConsistentHash | BalanceText::MapBasedHash);
    let belongs = hashes || value.affinity.is_some();
    if let Some(at) = value.queue.changed("affinity_wait").filter(|_| !belongs) {
        let message = "`affinity_wait` has no effect: no request has affinity to a server";
        let help = "set `affinity` or `balance = \"consistent-hash\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
    }
    if value.queue.value.delay_target.is_none()
        && let Some(at) = value.queue.changed("delay_interval")
    {
        let message = "`delay_interval` has no effect without `delay_target`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
    if !value.pool.value.keeps_any() {
        let of_idle =
            ["age_max", "requests_max"].into_iter().filter_map(|key| Some((value.pool.changed(key)?, key)));
        let of_timeouts = value.timeouts.changed("idle").map(|at| (at, "idle"));
        for (at, key) in of_idle.chain(of_timeouts) {
            let message = format!("`{key}` has no effect: with `idle_max = 0` no connection is kept");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
    }
    if value.retry.value.attempts_max == 1 {
        let keys = [
            "elapsed_max",
            "methods",
            "body_size",
            "on_connection_error",
            "on_timeout",
            "on_status",
            "on_grpc_status",
            "same_server",
            "backoff",
            "budget",
            "budget_per_second",
        ];
        for key in keys {
            if let Some(at) = value.retry.changed(key) {
                let message = format!("`{key}` has no effect: with `attempts_max = 1` there are no retries");
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
            }
        }
    }
}

/// Whether agents are asked, which may say a limit for their servers.
fn has_agents(text: &UpstreamText) -> bool {
    text.health.as_ref().is_some_and(|health| health.value.agent.is_some())
}

/// Warns of backups that are meant to help out when the others are full, where that cannot happen.
fn warn_never_overflows(
    text: &SpannedTable<UpstreamText>,
    servers: &[Server],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let value = &text.value;
    let Some(at) = text.changed("when_full").filter(|_| value.when_full == OnFull::Backup) else { return };
    let has_source = value.discovery.is_some();
    let mut primaries = servers.iter().filter(|server| server.tier == ServerTier::Primary);
    let is_limited = has_agents(value)
        || has_source && value.max_requests.is_some()
        || primaries.any(|server| server.max_requests.is_some());
    let has_backup = has_source || servers.iter().any(|server| server.tier == ServerTier::Backup);
    let (why, help) = match (has_backup, is_limited) {
        (false, _) => ("no server is a backup", "set `backup = true` for the servers that help out"),
        (true, false) => ("no other server has `max_requests`, so none is ever full", "set `max_requests`"),
        (true, true) => return,
    };
    let message = format!("`when_full` has no effect: {why}");
    diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
}

fn warn_time_limits(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) {
    let UpstreamText { timeouts, pool, retry, .. } = &text.value;
    if let Some(age_max) = pool.value.age_max {
        warn_unreachable((timeouts, "idle", timeouts.value.idle), (pool, "age_max", age_max), diagnostics);
    }
    if retry.value.attempts_max == 1 {
        return;
    }
    let elapsed_max = retry.value.elapsed_max;
    let response = timeouts.value.response.filter(|_| retry.value.on_timeout);
    // Setting `elapsed_max` alone is meant for fast failures: no retry after a late response is intended then.
    let of_connect = retry.changed("elapsed_max").or_else(|| timeouts.changed("connect"));
    let of_response = retry.written("on_timeout").or_else(|| timeouts.changed("response"));
    let connect = Some(timeouts.value.connect);
    for (key, limit, at) in [("connect", connect, of_connect), ("response", response, of_response)] {
        let (Some(limit), Some(at)) = (limit.filter(|limit| *limit >= elapsed_max), at) else { continue };
        let limit = print_duration(limit);
        let message = format!("an attempt that runs into `{key}` ({limit}) leaves no time for a retry");
        let help = format!("`elapsed_max` of `retry` is {}", print_duration(elapsed_max));
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, message).help(help));
    }
}
