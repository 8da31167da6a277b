//! The sentences of an explanation that text and JSON share: the conditions of a route, why it does not match, and the
//! balancing policy.

use weir_config::{
    AccelField, CookieMode, FastcgiSettings, FilesFallback, ForwardHost, HeaderChanges, HeaderRule,
    HealthCheck, HealthProbe, Route, RouteTarget, ServerProtocol, StaticFiles, Upstream, UpstreamTls,
    print_duration,
};
use weir_traffic::balance::{HashKey, Policy};
use weir_traffic::route::{RouteMatch, RouteOutcome, RouteRequest, query_value, query_values};

use super::conditions;
use super::explanation::{Cookie, Key, RequestExplanation, RequestedServer, UpstreamDestination};
use super::request::{ExplainedRequest, lossy};

/// Why a route takes the request, or does not.
pub(super) fn outcome(outcome: &RouteOutcome, route: &Route, request: &ExplainedRequest) -> String {
    let matches = &*route.matches;
    match outcome {
        RouteOutcome::Chosen => format!("takes the request: {matches}"),
        RouteOutcome::LessSpecific => format!("matches too, but is less specific: {matches}"),
        RouteOutcome::Later => format!("matches too, but is written later: {matches}"),
        RouteOutcome::Host => format!("is for another host: {}", list(&matches.hosts)),
        RouteOutcome::Path => format!("is for another path: {}", matches.path),
        RouteOutcome::Method => format!("is for another method: {}", methods(matches)),
        RouteOutcome::Header(name) => {
            let rule = matches.headers.iter().find(|rule| rule.name() == name);
            wanted("header", name, rule.map(|rule| rule.value().to_string()), request.header_lines(name))
        }
        RouteOutcome::Query(name) => {
            let rule = matches.query.iter().find(|rule| rule.name() == name);
            let found = query_values(request.query(), name.as_bytes());
            wanted("query parameter", name, rule.map(|rule| rule.value().to_string()), found)
        }
        RouteOutcome::Condition => {
            request.look_at(route);
            let condition = route.condition.as_ref();
            condition.map_or_else(String::new, |condition| conditions::sentence(condition, request))
        }
        RouteOutcome::Source => {
            format!("is for clients from {}, not {}", list(&matches.sources), request.source())
        }
    }
}

/// What follows when there is no file, without an upstream.
pub(super) fn fallback(files: &StaticFiles) -> String {
    match &files.fallback {
        None => "404; 405 for other methods than GET and HEAD".to_owned(),
        Some(FilesFallback::Status(status)) => format!("{status}; 405 for other methods than GET and HEAD"),
        Some(FilesFallback::Target(RouteTarget::Path(path))) => format!("goes on with the path {path}"),
        Some(FilesFallback::Target(RouteTarget::Route(name))) => format!("goes on as the route {name}"),
    }
}

fn wanted<'a>(what: &str, name: &str, rule: Option<String>, found: impl Iterator<Item = &'a [u8]>) -> String {
    let found: Vec<String> = found.map(|value| format!("{:?}", lossy(value))).collect();
    let found = if found.is_empty() { "has none".to_owned() } else { format!("has {}", found.join(" and ")) };
    format!("requires {what} {name} {}, and the request {found}", rule.unwrap_or_default())
}

fn methods(matches: &RouteMatch) -> String {
    matches.methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(" or ")
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(" or ")
}

/// The description of a policy, after its name.
pub(super) fn policy(policy: &Policy) -> String {
    match policy {
        Policy::LeastRequests => {
            "the server with the fewest requests in flight for its weight; equals take turns".into()
        }
        Policy::RoundRobin => "each server in turn, by weight".into(),
        Policy::PeakEwma => {
            "the server with the least latency times requests in flight for its weight; equals take turns"
                .into()
        }
        Policy::PowerOfTwo => "the less loaded of two servers drawn by weight".into(),
        Policy::Random => "a server drawn by weight".into(),
        Policy::ConsistentHash { load_factor, .. } => match load_factor.percent() {
            Some(percent) => format!(
                "the server that the key belongs to, or its next one when that has more than {percent} % of the average load"
            ),
            None => "the server that the key belongs to, however busy it is".into(),
        },
        Policy::MapBasedHash { .. } => "the server at the place that the hash of the key comes to".into(),
    }
}

/// Which part of the request is the key.
pub(super) fn key_name(key: &Key<'_>) -> String {
    match key.key {
        HashKey::ClientAddress(_) | HashKey::ClientNetwork(_) => "client address".to_owned(),
        HashKey::Header(name) => format!("header {name}"),
        HashKey::Cookie(name) => format!("cookie {name}"),
        HashKey::Query(name) => format!("query parameter {name}"),
        HashKey::Path => "path".to_owned(),
        HashKey::Made => key.template.map_or_else(String::new, ToString::to_string),
    }
}

/// The value of the key, where it can be shown in a word.
pub(super) fn key_value(key: &Key<'_>, request: &ExplainedRequest) -> Option<String> {
    match key.key {
        HashKey::ClientAddress(_) | HashKey::ClientNetwork(_) => Some(request.source().to_string()),
        HashKey::Header(name) => request.header(name).map(lossy),
        HashKey::Query(name) => query_value(request.query(), name.as_bytes()).map(lossy),
        HashKey::Path => Some(lossy(request.path())),
        HashKey::Made => key.made.as_deref().map(lossy),
        HashKey::Cookie(_) => None,
    }
}

/// Which server the cookie of the request stands for, and what follows.
pub(super) fn cookie(cookie: &Cookie<'_>, server: Option<&str>) -> String {
    let name = &cookie.affinity.cookie;
    match (server, &cookie.affinity.mode) {
        (Some(server), _) => {
            format!("{name} belongs to {server}, which gets the request as long as it takes any")
        }
        (None, CookieMode::Insert { .. }) => {
            format!(
                "{name}: the request has none that Weir gave out; the server chosen below becomes its own"
            )
        }
        (None, CookieMode::Prefix { .. }) => {
            format!("{name}: the request has none that Weir marked; the server that sets it becomes its own")
        }
        (None, CookieMode::Key { .. }) if cookie.key.is_none() => {
            format!("{name}: the request has no such key, so it belongs to no server")
        }
        (None, CookieMode::Key { learn_from, .. }) if learn_from.is_empty() => {
            format!(
                "{name}: the first server that gets a request with this key has it; that is learned while Weir runs, so it is not known here"
            )
        }
        (None, CookieMode::Key { .. }) => {
            format!(
                "{name}: which server has said this key is learned while Weir runs, so it is not known here"
            )
        }
        (None, CookieMode::Learn { .. }) => {
            format!("{name}: which server gave it out is learned while Weir runs, so it is not known here")
        }
    }
}

/// How servers are verified.
pub(super) fn tls(tls: &UpstreamTls) -> String {
    let shown = if tls.certificate.is_some() { "; they are shown a certificate" } else { "" };
    match &tls.authorities {
        None => format!("servers are not verified: any certificate is accepted{shown}"),
        Some(authorities) => match &authorities.file {
            None => format!("servers need a certificate from an authority that this system trusts{shown}"),
            Some(file) => {
                format!("servers need a certificate from an authority in {}{shown}", file.display())
            }
        },
    }
}

/// Which fields of servers for the proxy count; `None`: none of them.
pub(super) fn accel(route: &Route) -> Option<String> {
    let names = route.x_accel.iter().map(|field| match field {
        AccelField::Redirect => "X-Accel-Redirect".to_owned(),
        AccelField::Expires => "X-Accel-Expires".to_owned(),
        AccelField::Buffering => "X-Accel-Buffering".to_owned(),
        AccelField::LimitRate => "X-Accel-Limit-Rate".to_owned(),
        AccelField::Pass => "nothing, and all pass to the client: X-Accel-*, X-Sendfile".to_owned(),
    });
    let file = route.x_sendfile.as_ref().map(|name| format!("X-Sendfile (a file of the route {name})"));
    let names: Vec<String> = names.chain(file).collect();
    (!names.is_empty()).then(|| format!("{} of servers", names.join(", ")))
}

/// What the servers are spoken to in; `None` for HTTP/1.1, one request at a time on a connection.
pub(super) fn protocol(upstream: &Upstream) -> Option<String> {
    let what = match upstream.protocol {
        ServerProtocol::Http1 => return None,
        ServerProtocol::H2 => "HTTP/2",
        ServerProtocol::H2c => "HTTP/2 without TLS",
        ServerProtocol::Auto => "HTTP/2, or HTTP/1.1 with servers that prefer it",
        ServerProtocol::Fastcgi => {
            let kept = if upstream.pool.keeps_any() { "kept open" } else { "opened for each request" };
            return Some(format!("FastCGI; a connection is {kept}"));
        }
    };
    let streams_max = upstream.http2.streams_max;
    Some(format!(
        "{what}; up to {streams_max} requests at once on a connection, or fewer if the server says so"
    ))
}

/// Which scripts servers of FastCGI run.
pub(super) fn scripts(fastcgi: &FastcgiSettings) -> String {
    let ends = fastcgi.split_path.join(", ");
    let place = match &fastcgi.root {
        Some(root) => format!("files that end with {ends} below {}", root.display()),
        None => "none".to_owned(),
    };
    let checked = match &fastcgi.checked_in {
        Some(folder) if fastcgi.root.as_ref() != Some(folder) => {
            format!("; looked up in {}", folder.display())
        }
        Some(_) => String::new(),
        None => "; not looked up first".to_owned(),
    };
    let otherwise = match fastcgi.script.as_deref() {
        None => String::new(),
        Some("") => "; the program gets the path of requests that name none".to_owned(),
        Some(script) => format!("; {script} for requests that name none"),
    };
    format!("{place}{checked}{otherwise}")
}

/// How servers are probed.
pub(super) fn health(check: Option<&HealthCheck>) -> String {
    let Some(check) = check else { return "no probes: every server counts as up".to_owned() };
    let over_tls = if check.tls { " over TLS" } else { "" };
    let what = match (&check.probe, &check.dialogue) {
        (HealthProbe::Http(probe), _) => format!("{} {}{over_tls}", probe.method, probe.path),
        (HealthProbe::Grpc(probe), _) if probe.service.is_empty() => {
            format!("the gRPC health of the server{over_tls}")
        }
        (HealthProbe::Grpc(probe), _) => format!("the gRPC health of `{}`{over_tls}", probe.service),
        (_, Some(dialogue)) => format!("{}{over_tls}", dialogue.name()),
        (HealthProbe::Tcp, None) => "a connection".to_owned(),
        (HealthProbe::Tls, None) => "a TLS handshake".to_owned(),
    };
    let (interval, rise, fall) = (print_duration(check.interval), check.rise, check.fall);
    let agent = check.agent.as_ref().map_or_else(String::new, |agent| {
        let every = print_duration(agent.interval);
        format!("; an agent is asked every {every}")
    });
    format!("{what} every {interval}; down after {fall} in a row that fail, up after {rise} that pass{agent}")
}

/// The changes to the headers of a request, in the order in which they are made.
pub(super) fn changes(changes: &HeaderChanges) -> Vec<String> {
    let removed = changes.remove.iter().map(|name| format!("without {name}"));
    let set = changes.set.iter().map(|(name, value)| format!("{name}: {value}"));
    let added = changes.add.iter().map(|(name, value)| format!("{name}: {value} in addition"));
    let of_rules = changes.rules.iter().flat_map(|rule| {
        let condition = rule.when.as_ref().map_or_else(String::new, |when| format!(", when {when}"));
        rule_changes(rule).into_iter().map(move |change| format!("{change}{condition}"))
    });
    removed.chain(set).chain(added).chain(of_rules).collect()
}

/// The changes of one rule.
pub(super) fn rule_changes(rule: &HeaderRule) -> Vec<String> {
    let removed = rule.remove.iter().map(|name| format!("without {name}"));
    let set = rule.set.iter().map(|(name, value)| format!("{name}: {value}"));
    let added = rule.add.iter().map(|(name, value)| format!("{name}: {value} in addition"));
    removed.chain(set).chain(added).collect()
}

/// Changes of headers that a part of a split makes in addition to those of its route.
pub(super) fn own_changes(
    explanation: &RequestExplanation<'_>,
    destination: &UpstreamDestination<'_>,
) -> Vec<String> {
    let (Some(route), Some(own)) = (explanation.route, destination.settings) else { return Vec::new() };
    let of_route = changes(&route.request_headers);
    let host = (own.forward_host != route.forward_host).then(|| forward_host(&own.forward_host)).flatten();
    let of_target = changes(&own.request_headers).into_iter().filter(|change| !of_route.contains(change));
    host.into_iter().chain(of_target).collect()
}

/// The `Host` that the server gets, when it is not the client's.
pub(super) fn forward_host(host: &ForwardHost) -> Option<String> {
    match host {
        ForwardHost::Keep => None,
        ForwardHost::Server => Some("host: the address of the server".to_owned()),
        ForwardHost::Literal(host) => Some(format!("host: {host}")),
    }
}

/// That no field of the client reaches the server, where it is so.
pub(super) fn without_headers(route: &Route) -> Option<String> {
    (!route.forward_headers).then(|| "none of those of the client".to_owned())
}

/// A share without needless digits: `5 %`, `33.3 %`.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{share:.1}");
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// The server that a request names.
pub(super) fn named_server(named: &RequestedServer) -> String {
    match &named.server {
        Some(server) => format!("{server}, which the request names: resolved when it is asked for"),
        None => format!("{:?} is no server that `allow` lists: 502 server-not-allowed", named.text),
    }
}
