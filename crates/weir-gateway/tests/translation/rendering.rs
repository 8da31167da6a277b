//! A translation as text.

use std::fmt::Write as _;

use weir_config::{
    ClientVerification, Config, ForwardHost, HeaderChanges, Listener, Route, RouteAction, RouteSettings,
    SplitAction, SplitTarget, Upstream, UpstreamIndex, UpstreamSettings,
};
use weir_gateway::api::{Condition, GatewayStatusListener};
use weir_gateway::{ObjectStatus, StatusUpdate, Translation, UpstreamServers};

pub(crate) fn render(translation: &Translation) -> String {
    let mut text = String::new();
    assert_eq!(translation.faults, []);
    if let Some(config) = &translation.config {
        config.listeners.iter().for_each(|listener| render_listener(&mut text, config, listener));
        let mut upstreams: Vec<&Upstream> = config.upstreams.iter().map(|upstream| &**upstream).collect();
        upstreams.sort_by_key(|upstream| upstream.name.clone());
        upstreams.into_iter().for_each(|upstream| render_upstream(&mut text, upstream));
    }
    translation.servers.iter().for_each(|set| render_servers(&mut text, set));
    translation.statuses.iter().for_each(|update| render_status(&mut text, update));
    for report in &translation.ingress_reports {
        writeln!(text, "problems of {}", report.key).unwrap();
        for problem in &report.problems {
            let kind = if problem.refuses { "not served" } else { "not applied" };
            writeln!(text, "  {kind}: {}", problem.sentence()).unwrap();
        }
    }
    text
}

fn render_listener(text: &mut String, config: &Config, listener: &Listener) {
    // A table that can be built: no two routes are tied.
    let _table = listener.route_table().unwrap();
    let addresses: Vec<String> = listener.addresses.iter().map(ToString::to_string).collect();
    write!(text, "listener {} at {}", listener.name, addresses.join(", ")).unwrap();
    if !listener.protocol.routes_requests() {
        write!(text, ", {}", listener.protocol.name()).unwrap();
    }
    if let Some(tls) = &listener.tls {
        let names: Vec<String> = tls.certificates().map(|one| one.certificate.names.join("+")).collect();
        write!(text, ", tls of {}", names.join(", ")).unwrap();
        match tls.client_certificates.as_ref().map(|clients| clients.verify) {
            Some(ClientVerification::Required) => text.push_str(", clients have certificates"),
            Some(other) => write!(text, ", certificates of clients: {}", other.name()).unwrap(),
            None => {}
        }
    }
    text.push('\n');
    if !listener.isolated_names.is_empty() {
        let names: Vec<String> = listener.isolated_names.iter().map(ToString::to_string).collect();
        writeln!(text, "  isolated: {}", names.join(", ")).unwrap();
    }
    for route in &listener.routes {
        writeln!(text, "  {}: {}", route.name, route.matches).unwrap();
        writeln!(text, "    {}", action(config, route)).unwrap();
        settings(text, config, &route.settings);
    }
}

fn name(config: &Config, index: UpstreamIndex) -> &str {
    &config.upstream(index).name
}

fn action(config: &Config, route: &Route) -> String {
    match &route.action {
        RouteAction::Upstream(index) => format!("to {}", name(config, *index)),
        RouteAction::Split(parts) => {
            let part = |one: &SplitTarget| {
                let apart = one.settings.as_ref().map_or_else(String::new, |own| {
                    let mut text = String::new();
                    settings(&mut text, config, own);
                    format!(" with\n{}", text.trim_end().replace("    ", "      "))
                });
                match one.to {
                    SplitAction::Upstream(upstream) => {
                        format!("{} {}{apart}", one.weight, name(config, upstream))
                    }
                    SplitAction::Respond(status) => format!("{} respond {status}", one.weight),
                }
            };
            format!("split {}", parts.iter().map(part).collect::<Vec<_>>().join(", "))
        }
        RouteAction::Redirect(redirect) => {
            let shown = redirect.path(b"/one/two");
            let to = format!("redirect {} {}", redirect.status, redirect.to);
            match &redirect.rewrite {
                Some(_) => format!("{to}, path /one/two is {}", String::from_utf8_lossy(&shown)),
                None => to,
            }
        }
        RouteAction::Respond(fixed) => format!("respond {}", fixed.status),
        RouteAction::Files(_) | RouteAction::Then(_) => {
            unreachable!("the API has no files, and no routes by name")
        }
    }
}

fn settings(text: &mut String, config: &Config, settings: &RouteSettings) {
    for (side, changes) in [("request", &settings.request_headers), ("response", &settings.response_headers)]
    {
        if !changes.is_empty() {
            writeln!(text, "    {side} headers: {}", header_changes(changes)).unwrap();
        }
    }
    if let Some(rewrite) = &settings.rewrite {
        let mut path = Vec::new();
        rewrite.apply(b"/one/two", Some(b"q"), &mut path);
        writeln!(text, "    rewrites /one/two?q to {}", String::from_utf8_lossy(&path)).unwrap();
    }
    if let ForwardHost::Literal(host) = &settings.forward_host {
        writeln!(text, "    host {host}").unwrap();
    }
    for list in &settings.lists {
        let (action, name) = (list.action, &list.name);
        writeln!(text, "    list {name} {action:?}").unwrap();
    }
    for used in &settings.limited_by {
        writeln!(text, "    limit {} {}", used.limit.name, used.limit.rule()).unwrap();
    }
    if let Some(access) = &settings.access {
        if let Some(basic) = &access.basic {
            writeln!(text, "    basic {:?} with {} users", basic.realm, basic.users.len()).unwrap();
        }
        if let Some(forward) = &access.forward {
            writeln!(text, "    asks {} for {}", name(config, forward.upstream), forward.path).unwrap();
        }
    }
    if let Some(size) = settings.body_size {
        writeln!(text, "    bodies of {size} at most").unwrap();
    }
    for mirror in &settings.mirrors {
        writeln!(text, "    mirrors {} to {}", mirror.share, name(config, mirror.upstream)).unwrap();
    }
    if let Some(cors) = &settings.cors {
        writeln!(text, "    cors {cors:?}").unwrap();
    }
    if let Some(limit) = settings.timeouts.exchange {
        writeln!(text, "    exchange within {limit:?}").unwrap();
    }
    if let Some(limit) = settings.timeouts.response {
        writeln!(text, "    each response within {limit:?}").unwrap();
    }
    if let Some(retry) = &settings.retry {
        let (attempts, on_status, backoff) = (retry.attempts_max, &retry.on_status, retry.backoff);
        writeln!(text, "    {attempts} attempts, on {on_status:?}, {backoff:?} between them").unwrap();
    }
    if settings.tls_passthrough {
        text.push_str("    tls passes through\n");
    }
}

fn header_changes(changes: &HeaderChanges) -> String {
    let removed = changes.remove.iter().map(|name| format!("-{name}"));
    let set = changes.set.iter().map(|(name, value)| format!("{name}={value}"));
    let added = changes.add.iter().map(|(name, value)| format!("+{name}={value}"));
    removed.chain(set).chain(added).collect::<Vec<_>>().join(" ")
}

fn render_upstream(text: &mut String, upstream: &Upstream) {
    let default = UpstreamSettings::default();
    write!(text, "upstream {}", upstream.name).unwrap();
    if upstream.protocol != default.protocol {
        write!(text, ", {}", upstream.protocol.name()).unwrap();
    }
    if let Some(tls) = &upstream.tls {
        match &tls.server_name {
            Some(name) => write!(text, ", tls as {:?}", name.to_str()).unwrap(),
            None => text.push_str(", tls without verification"),
        }
        if !tls.subject_alt_names.is_empty() {
            let names: Vec<String> = tls.subject_alt_names.iter().map(ToString::to_string).collect();
            write!(text, " with one of {}", names.join(", ")).unwrap();
        }
        if let Some(own) = &tls.certificate {
            write!(text, ", shows {}", own.names.join("+")).unwrap();
        }
    }
    if let Some(affinity) = &upstream.affinity {
        write!(text, ", cookie {}", affinity.cookie).unwrap();
    }
    if upstream.balance != default.balance {
        write!(text, ", {}", upstream.balance.name()).unwrap();
    }
    text.push('\n');
}

fn render_servers(text: &mut String, set: &UpstreamServers) {
    writeln!(text, "servers of {}", set.upstream).unwrap();
    for one in &set.servers {
        write!(text, "  {} {:?}", one.server.name, one.server.mode).unwrap();
        if let Some(zone) = &one.zone {
            write!(text, ", zone {zone}").unwrap();
        }
        if !one.for_zones.is_empty() {
            write!(text, ", for {}", one.for_zones.join(" ")).unwrap();
        }
        text.push('\n');
    }
}

fn render_status(text: &mut String, update: &StatusUpdate) {
    writeln!(text, "status of {:?} {}", update.kind, update.key).unwrap();
    match &update.status {
        ObjectStatus::GatewayClass(status) => conditions(text, "  ", &status.conditions),
        ObjectStatus::Gateway(status) => {
            conditions(text, "  ", &status.conditions);
            if let Some(sets) = status.attached_listener_sets {
                writeln!(text, "  {sets} sets of listeners").unwrap();
            }
            listeners(text, &status.listeners);
        }
        ObjectStatus::ListenerSet(status) => {
            conditions(text, "  ", &status.conditions);
            listeners(text, &status.listeners);
        }
        ObjectStatus::Route(status) => {
            for parent in &status.parents {
                let section = parent.parent_ref.section_name.as_deref().unwrap_or("*");
                writeln!(text, "  parent {} {section} by {}", parent.parent_ref.name, parent.controller_name)
                    .unwrap();
                conditions(text, "    ", &parent.conditions);
            }
        }
        ObjectStatus::Ingress(status) => {
            for point in &status.load_balancer.ingress {
                let address = point.ip.as_deref().or(point.hostname.as_deref());
                writeln!(text, "  at {}", address.unwrap_or_default()).unwrap();
            }
        }
        ObjectStatus::Policy(status) => {
            for ancestor in &status.ancestors {
                writeln!(text, "  ancestor {} by {}", ancestor.ancestor_ref.name, ancestor.controller_name)
                    .unwrap();
                conditions(text, "    ", &ancestor.conditions);
            }
        }
    }
}

fn listeners(text: &mut String, listeners: &[GatewayStatusListener]) {
    for listener in listeners {
        let kinds: Vec<&str> = listener.supported_kinds.iter().map(|kind| &*kind.kind).collect();
        let (name, attached) = (&listener.name, listener.attached_routes);
        let kinds = if kinds.is_empty() { "no kind".to_owned() } else { kinds.join(", ") };
        writeln!(text, "  listener {name}: {attached} attached of {kinds}").unwrap();
        conditions(text, "    ", &listener.conditions);
    }
}

fn conditions(text: &mut String, indent: &str, conditions: &[Condition]) {
    for one in conditions {
        write!(text, "{indent}{} {} {}", one.r#type, one.status, one.reason).unwrap();
        if !one.message.is_empty() {
            write!(text, ": {}", one.message).unwrap();
        }
        text.push('\n');
    }
}
