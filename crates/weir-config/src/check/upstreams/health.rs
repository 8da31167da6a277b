//! Health checks: one kind of probe, settings that belong to it, and consistent times.

use std::time::Duration;

use rustls_pki_types::ServerName;

use super::dialogue;
use crate::check::routing::headers;
use crate::config::{AgentCheck, BodyRule, GrpcProbe, HealthCheck, HealthProbe, HttpProbe, UpstreamFault};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{AgentText, HealthText, ProbeKind, ServerText, UpstreamText};
use crate::value::{ServerAddress, print_duration};

/// The longest default time limit of a probe: a slower answer counts as a failure.
const TIMEOUT_DEFAULT_MAX: Duration = Duration::from_secs(5);

/// The shortest interval.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Keys that only a request has.
const OF_HTTP: [&str; 9] = [
    "path",
    "method",
    "host",
    "headers",
    "status",
    "body_contains",
    "body_regex",
    "body_size",
    "connection_age",
];

pub(in crate::check) fn check(
    upstream: &UpstreamText,
    text: &SpannedTable<HealthText>,
    diagnostics: &mut Vec<Diagnostic>,
) -> HealthCheck {
    let value = &text.value;
    let traffic_has_tls = upstream.tls.is_some();
    let wants_tls = value.tls.unwrap_or(traffic_has_tls);
    let kind = value.kind.unwrap_or(match (text.is_missing("path"), wants_tls) {
        (false, _) => ProbeKind::Http,
        (true, true) => ProbeKind::Tls,
        (true, false) => ProbeKind::Tcp,
    });
    let probe = match kind {
        ProbeKind::Tcp | ProbeKind::Tls => {
            let own_name = kind == ProbeKind::Tls && !traffic_has_tls;
            report_of_http(text, kind, own_name, diagnostics);
            if kind == ProbeKind::Tcp { HealthProbe::Tcp } else { HealthProbe::Tls }
        }
        ProbeKind::Http => HealthProbe::Http(Box::new(http(text, diagnostics))),
        ProbeKind::Grpc => HealthProbe::Grpc(Box::new(grpc(text, diagnostics))),
    };
    if value.service.is_some() && kind != ProbeKind::Grpc {
        let message = "`service` has no effect: only a probe of the kind `grpc` asks about a service";
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, text.key_at("service"), message);
        diagnostics.push(diagnostic.help("write `kind = \"grpc\"`"));
    }
    report_tls(text, kind, diagnostics);
    let dialogue = dialogue::check(text, kind, diagnostics);
    let tls = kind == ProbeKind::Tls || (matches!(kind, ProbeKind::Http | ProbeKind::Grpc) && wants_tls);
    let timeout = value.timeout.unwrap_or((value.interval / 2).min(TIMEOUT_DEFAULT_MAX));
    let fast_interval = value.fast_interval.unwrap_or((value.interval / 4).max(INTERVAL_MIN));
    check_times(text, timeout, diagnostics);
    let health = HealthCheck {
        probe,
        dialogue,
        tls,
        server_name: value
            .host
            .as_ref()
            .filter(|_| tls && !traffic_has_tls)
            .and_then(|host| name_of(&host.0)),
        interval: value.interval,
        jitter: value.jitter,
        fast_interval,
        timeout,
        rise: value.rise,
        fall: value.fall,
        connection_age: value.connection_age,
        port: value.port,
        agent: value.agent.as_ref().map(|agent| self::agent(upstream, agent, value.interval, diagnostics)),
    };
    for fault in health.faults(upstream.protocol) {
        let (kind, at, help) = match fault {
            UpstreamFault::ProbeIntervals { .. } => {
                let help = "it is meant for detecting changes sooner";
                (DiagnosticKind::Conflict, text.key_at("fast_interval"), help)
            }
            UpstreamFault::TunnelAsProbe => {
                (DiagnosticKind::BadValue, value.method.span, "write `GET` or `HEAD`")
            }
            _ => {
                let help = "set `protocol` of the upstream to `\"h2\"` or, without TLS, `\"h2c\"`";
                (DiagnosticKind::Conflict, text.key_at("kind"), help)
            }
        };
        diagnostics.push(Diagnostic::new(kind, at, fault.to_string()).help(help));
    }
    health
}

/// How agents are asked.
fn agent(
    upstream: &UpstreamText,
    text: &SpannedTable<AgentText>,
    interval: Duration,
    diagnostics: &mut Vec<Diagnostic>,
) -> AgentCheck {
    let value = &text.value;
    let entries = upstream.servers.as_ref().map_or(&[][..], |servers| &servers.0);
    let mut asked = usize::from(upstream.discovery.is_some() && value.port.is_some());
    for entry in entries {
        let table = entry.value.table();
        let port = table.and_then(|table| table.value.agent_port);
        let address = match &entry.value {
            ServerText::Address(address) => Some(address),
            ServerText::Table(table) => table.value.address.as_ref().map(|address| &address.value),
        };
        match port.unwrap_or(value.port) {
            Some(_) if value.address.is_none() && address.is_some_and(is_unix) => {
                let message = "the agent of a server with a Unix socket needs an `address`";
                let help = "set `address` in `health.agent`, or `agent_port = \"off\"` for this server";
                diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, entry.span, message).help(help));
            }
            Some(_) => asked += 1,
            None if port.is_none() => {
                let message = "the agent of this server has no port";
                let help =
                    "set `port` in `health.agent`, or `agent_port` for this server, which may be `\"off\"`";
                let diagnostic = Diagnostic::new(DiagnosticKind::MissingKey, entry.span, message);
                diagnostics.push(diagnostic.label(text.span, "agents are asked here").help(help));
                asked += 1;
            }
            None => {}
        }
    }
    if asked == 0 {
        let message = "`agent` has no effect: no server has an agent with a port";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, text.span, message));
    }
    let interval = value.interval.unwrap_or(interval);
    AgentCheck {
        port: value.port,
        address: value.address.map(|address| address.0),
        send: value.send.as_ref().map_or_else(Box::default, |send| send.bytes.clone()),
        interval,
        timeout: value.timeout.unwrap_or((interval / 2).min(TIMEOUT_DEFAULT_MAX)),
    }
}

/// Reports keys that a probe without a request cannot have.
fn report_of_http(
    text: &SpannedTable<HealthText>,
    kind: ProbeKind,
    names_server: bool,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let (kind, does) = match kind {
        ProbeKind::Tls => ("tls", "shakes hands"),
        ProbeKind::Tcp | ProbeKind::Http | ProbeKind::Grpc => ("tcp", "opens a connection"),
    };
    let does = if dialogue::is_written(text) { "has its own dialogue" } else { does };
    for key in OF_HTTP.into_iter().filter(|key| *key != "host" || !names_server) {
        if let Some(at) = text.changed(key) {
            let message = format!("`{key}` has no effect: a probe of the kind `{kind}` only {does}");
            let help = match text.value.kind {
                Some(_) => "write `kind = \"http\"`",
                None => "write a `path`, or `kind = \"http\"`",
            };
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
        }
    }
}

/// Reports a word on TLS that the kind of the probe contradicts.
fn report_tls(text: &SpannedTable<HealthText>, kind: ProbeKind, diagnostics: &mut Vec<Diagnostic>) {
    let Some(at) = text.written("tls") else { return };
    let message = match (kind, text.value.tls) {
        (ProbeKind::Tcp, Some(true)) => "a probe of the kind `tcp` has no TLS",
        (ProbeKind::Tls, Some(false)) => "a probe of the kind `tls` always has it",
        _ => return,
    };
    diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
}

/// What a probe of the gRPC health protocol asks for.
fn grpc(text: &SpannedTable<HealthText>, diagnostics: &mut Vec<Diagnostic>) -> GrpcProbe {
    for key in OF_HTTP.into_iter().filter(|key| !["host", "headers", "connection_age"].contains(key)) {
        if let Some(at) = text.changed(key) {
            let message =
                format!("`{key}` has no effect: a probe of the kind `grpc` makes a call of its own");
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message);
            diagnostics.push(diagnostic.help("write `kind = \"http\"`, or name a `service`"));
        }
    }
    let value = &text.value;
    GrpcProbe {
        service: value.service.clone().unwrap_or_default(),
        host: value.host.as_ref().map(|host| host.0.clone()),
        headers: headers::check_probe(&value.headers, diagnostics),
    }
}

/// The host of a `Host` as a certificate has it.
fn name_of(host: &str) -> Option<ServerName<'static>> {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
    ServerName::try_from(name.trim_matches(['[', ']']).to_owned()).ok()
}

fn http(text: &SpannedTable<HealthText>, diagnostics: &mut Vec<Diagnostic>) -> HttpProbe {
    let value = &text.value;
    let body = body(text, diagnostics);
    let method = value.method.value.as_str();
    if let (Some(key), "HEAD") = (body_key(text), method) {
        let message = format!("`{key}` never matches: a response to `HEAD` has no body");
        diagnostics.push(
            Diagnostic::new(DiagnosticKind::Conflict, text.key_at(key), message)
                .help("write `method = \"GET\"`"),
        );
    }
    let reads_body = body_key(text).is_some() || value.connection_age.is_some();
    if let Some(at) = text.changed("body_size").filter(|_| !reads_body) {
        let message = "`body_size` has no effect: the body is not checked";
        let help = "write `body_contains` or `body_regex`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
    }
    HttpProbe {
        method: method.into(),
        path: value.path.as_ref().map_or_else(|| "/".into(), |path| path.0.clone().into()),
        host: value.host.as_ref().map(|host| host.0.clone()),
        headers: headers::check_probe(&value.headers, diagnostics),
        status: value.status.0.clone(),
        body,
        body_size: value.body_size,
    }
}

/// The key with the condition on the body.
fn body_key(text: &SpannedTable<HealthText>) -> Option<&'static str> {
    ["body_contains", "body_regex"].into_iter().find(|key| !text.is_missing(key))
}

fn body(text: &SpannedTable<HealthText>, diagnostics: &mut Vec<Diagnostic>) -> Option<BodyRule> {
    let value = &text.value;
    if let (Some(_), Some(at)) = (text.written("body_contains"), text.written("body_regex")) {
        let message = "a probe has one of `body_contains` and `body_regex`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
    }
    match (&value.body_contains, &value.body_regex) {
        (Some(needle), _) if needle.is_empty() => {
            let message = "`body_contains` is empty: every body contains that";
            diagnostics.push(Diagnostic::new(
                DiagnosticKind::BadValue,
                text.key_at("body_contains"),
                message,
            ));
            None
        }
        (Some(needle), _) => Some(BodyRule::Contains(needle.clone())),
        (None, Some(pattern)) => Some(BodyRule::Regex(pattern.0.clone())),
        (None, None) => None,
    }
}

fn is_unix(address: &ServerAddress) -> bool {
    matches!(address, ServerAddress::Unix(_))
}

fn check_times(text: &SpannedTable<HealthText>, timeout: Duration, diagnostics: &mut Vec<Diagnostic>) {
    let interval = text.value.interval;
    if let Some(at) = text.written("timeout").filter(|_| timeout > interval) {
        let (timeout, interval) = (print_duration(timeout), print_duration(interval));
        let message = format!("a probe that runs into `timeout` ({timeout}) delays the next one");
        let help = format!("`interval` is {interval}; a server that hangs is detected later than that");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, message).help(help));
    }
}

/// Reports health settings of servers without an effect in this upstream.
pub(in crate::check) fn report_servers(text: &UpstreamText, diagnostics: &mut Vec<Diagnostic>) {
    let entries = text.servers.as_ref().map_or(&[][..], |servers| &servers.0);
    let mut probed = 0;
    for entry in entries {
        let Some(table) = entry.value.table() else {
            probed += 1;
            continue;
        };
        let (health, port) = (table.changed("health"), table.changed("health_port"));
        match (&text.health, health.or(port)) {
            (None, Some(at)) => {
                let key = if health.is_some() { "health" } else { "health_port" };
                let message = format!("`{key}` has no effect: the upstream has no `health`");
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
            }
            (Some(_), _) if !table.value.health => {
                if let Some(at) = port {
                    let message =
                        "`health_port` has no effect: with `health = false` the server is not probed";
                    diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
                }
            }
            _ => probed += 1,
        }
        let has_agent = text.health.as_ref().is_some_and(|health| health.value.agent.is_some());
        if let Some(at) = table.changed("agent_port").filter(|_| !has_agent || !table.value.health) {
            let message = match has_agent {
                true => "`agent_port` has no effect: with `health = false` its agent is not asked",
                false => "`agent_port` has no effect: the upstream has no `health.agent`",
            };
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
        let is_unix = table.value.address.as_ref().is_some_and(|address| is_unix(&address.value));
        if let Some(at) = port.filter(|_| is_unix) {
            let message = "`health_port` has no effect: a Unix socket has no port";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
    }
    if let (Some(health), 0, false) = (&text.health, probed, entries.is_empty()) {
        let message = "`health` has no effect: no server of this upstream is probed";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, health.span, message));
    }
}
