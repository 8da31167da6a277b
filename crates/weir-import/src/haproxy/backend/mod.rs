//! A `backend`, or the half of a `listen` that faces servers: an upstream.

mod balance;
mod checks;
mod options;

pub(super) use balance::size_of;

use options::ServerOptions;

use super::acl::{AclCondition, AclConditions, Surroundings};
use super::address::{AddressFamily, free_name, parse_address, path_in};
use super::output::{Keys, literal};
use super::process::GlobalFacts;
use super::proxy::{ProxySection, time_text};
use super::rules::ChangesBefore;
use crate::document::TomlValue;
use crate::report::StatementWords;
use crate::source::Statement;

/// What the frontends of a backend have to do with it.
#[derive(Default)]
pub(super) struct Clients {
    /// Their `timeout client`, in milliseconds; one without has none.
    pub(super) timeouts: Vec<Option<u64>>,
    /// Their ports, where all are known.
    pub(super) ports: Vec<Option<u16>>,
    /// Whether a log shows the names of servers.
    pub(super) names: bool,
}

/// A server as it is written in the list.
struct ServerEntry<'s> {
    statement: &'s Statement,
    address: String,
    name: &'s str,
    options: ServerOptions<'s>,
    is_template: bool,
}

/// A server that a rule chooses.
pub(super) struct ChosenServer<'s> {
    pub(super) condition: AclCondition,
    /// Its name; nothing if the rule cannot be said.
    pub(super) server: Option<&'s str>,
    pub(super) statement: &'s Statement,
}

/// Reads `use-server`.
pub(super) fn chosen<'s>(
    proxy: &ProxySection<'s>,
    conditions: &AclConditions<'s, '_>,
    before: &ChangesBefore,
) -> Vec<ChosenServer<'s>> {
    let ledger = proxy.ledger;
    let mut found = Vec::new();
    for statement in proxy.all(&["use-server"]) {
        let mut words = ledger.words(statement);
        let name = words.text().unwrap_or_default();
        let condition = conditions.behind(&mut words);
        let is_server = |line: &&Statement| line.words.get(1).is_some_and(|word| word.text == name);
        let reason = match proxy.all(&["server"]).iter().any(is_server) {
            false => Some("there is no such server: one that a text names is a route for each"),
            true => condition.unknown().or_else(|| before.forbid(&condition)),
        };
        if let Some(reason) = reason {
            ledger.unsupported(statement, reason);
            let condition = before.known_of(&condition);
            found.push(ChosenServer { condition, server: None, statement });
            continue;
        }
        condition.notes().iter().for_each(|note| ledger.approximated(statement, note));
        let note = match proxy.is_tcp() {
            true => {
                "the server is an upstream of its own as well, with probes and counts of its own; while it is down, such connections fail"
            }
            false => "the server is an upstream of its own as well, with probes and counts of its own",
        };
        ledger.approximated(statement, note);
        if proxy.one(&["cookie"]).is_some() || !proxy.all(&["stick"]).is_empty() {
            ledger.approximated(statement, "it counts for clients that have a server of theirs, too");
        }
        found.push(ChosenServer { condition, server: Some(name), statement });
    }
    found
}

/// An upstream of one server of a backend.
pub(super) fn upstream_of_one<'s>(
    proxy: &ProxySection<'s>,
    global: &GlobalFacts<'s>,
    clients: &Clients,
    name: &str,
) -> Option<Keys<'s>> {
    let mut servers = servers(proxy, global, clients);
    servers.retain(|server| server.name == name);
    let server = servers.first_mut()?;
    // In an upstream of its own, it is the only one.
    server.options.backup = false;
    server.options.weight = None;
    let mut keys = Keys::of(server.statement);
    list(proxy, &mut keys, &servers, clients.names);
    shared(proxy, global, &mut keys, &servers);
    timeouts(proxy, &mut keys, clients, servers.iter().any(|server| server.options.maxconn.is_some()));
    retries(proxy, &mut keys);
    Some(keys)
}

/// The upstream of a backend; nothing if it has no servers.
pub(super) fn upstream<'s>(
    proxy: &ProxySection<'s>,
    global: &GlobalFacts<'s>,
    clients: &Clients,
    around: &Surroundings<'_>,
) -> Option<Keys<'s>> {
    let servers = servers(proxy, global, clients);
    if servers.is_empty() {
        // Without clients, it is the place of a table.
        return without_servers(proxy).filter(|_| !clients.timeouts.is_empty());
    }
    let mut keys = Keys::of(proxy.header);
    list(proxy, &mut keys, &servers, clients.names);
    let active = servers.iter().filter(|server| !server.options.backup).count();
    let active = if servers.iter().any(|server| server.is_template) { 2 } else { active };
    balance::balance(proxy, &mut keys, active, around);
    backups(proxy, &servers);
    shared(proxy, global, &mut keys, &servers);
    balance::cookie(proxy, &mut keys, servers.iter().all(|server| server.options.cookie));
    balance::stick(proxy, &mut keys, around);
    let limited = servers.iter().any(|server| server.options.maxconn.is_some());
    timeouts(proxy, &mut keys, clients, limited);
    retries(proxy, &mut keys);
    Some(keys)
}

/// A backend of TCP without servers closes its connections: so does an upstream whose only server takes none. For requests of HTTP, there is an
/// answer instead.
fn without_servers<'s>(proxy: &ProxySection<'s>) -> Option<Keys<'s>> {
    let is_empty = proxy.all(&["server", "server-template", "dispatch"]).is_empty();
    if !proxy.is_tcp() || !is_empty || proxy.is_frontend() {
        return None;
    }
    let mut keys = Keys::of(proxy.header);
    let nothing = [("address", "127.0.0.1:9".into()), ("mode", "maintenance".into())];
    keys.set("servers", TomlValue::Array(vec![TomlValue::inline(nothing)]), proxy.header);
    Some(keys)
}

fn servers<'s>(
    proxy: &ProxySection<'s>,
    global: &GlobalFacts<'s>,
    clients: &Clients,
) -> Vec<ServerEntry<'s>> {
    let mut base = ServerOptions { verify_none: global.verify_none, ..ServerOptions::default() };
    let mut servers = Vec::new();
    for statement in proxy.all(&["default-server", "server", "server-template", "dispatch"]) {
        let mut words = proxy.ledger.words(statement);
        proxy.ledger.exact(statement);
        if statement.name() == "default-server" {
            base.read(proxy.ledger, statement, &mut words);
            continue;
        }
        let (mut name, is_template) = ("dispatch", statement.name() == "server-template");
        if statement.name() != "dispatch" {
            name = words.text().unwrap_or_default();
        }
        if is_template {
            words.next();
            proxy
                .ledger
                .approximated(statement, "every address of the name is a server, however many there are");
        }
        let written = words.text().unwrap_or_default();
        let mut options = base.clone();
        options.read(proxy.ledger, statement, &mut words);
        if parse_address(written).host.is_empty() {
            proxy.ledger.approximated(
                statement,
                "the address is that of this machine, not the one that the client has connected to",
            );
        }
        match address(written, clients) {
            Ok(address) => {
                match servers.iter_mut().find(|known: &&mut ServerEntry<'s>| {
                    known.address == address && known.options.backup == options.backup
                }) {
                    Some(known) => {
                        proxy.ledger.approximated(statement, "the server is one with the one of this address before it, with the weight of both");
                        known.options.weight = Some(
                            known.options.weight.unwrap_or(1).saturating_add(options.weight.unwrap_or(1)),
                        );
                    }
                    None => servers.push(ServerEntry { statement, address, name, options, is_template }),
                }
            }
            Err(advice) => proxy.ledger.unsupported(statement, advice),
        }
    }
    servers
}

/// The address of a server; without a port, it has that of its clients.
fn address(written: &str, clients: &Clients) -> Result<String, &'static str> {
    let address = parse_address(written);
    match address.family {
        AddressFamily::Unix => return Ok(format!("unix:{}", address.host)),
        AddressFamily::Other => return Err("Weir reaches servers by TCP and Unix sockets"),
        _ => {}
    }
    if address.host.is_empty() && address.port_number().is_some() {
        return Ok(format!("127.0.0.1:{}", address.port.unwrap_or_default()));
    }
    if address.host.is_empty() || address.host == "0.0.0.0" || address.host == "::" {
        return Err("write the address of the server: Weir does not connect to where the client wanted to");
    }
    // `+1000` counts from the port of the client's connection.
    let mut offset = 0;
    if let Some(port) = &address.port {
        let is_offset = port.starts_with(['+', '-']) && !port.contains("${");
        if !is_offset {
            return Ok(format!("{}:{port}", address.host_text()));
        }
        offset = port.parse::<i32>().map_err(|_| "write the port of the server")?;
    }
    let port = match clients.ports.as_slice() {
        [Some(first), rest @ ..] if rest.iter().all(|port| port == &Some(*first)) => {
            i32::from(*first) + offset
        }
        _ => {
            return Err(
                "write the port of the server, with a `listen` for each port: it counts from that of the client's connection, which is not one port",
            );
        }
    };
    match u16::try_from(port).ok().filter(|port| *port > 0) {
        Some(port) => Ok(format!("{}:{port}", address.host_text())),
        None => Err("write the port of the server"),
    }
}

fn list<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, servers: &[ServerEntry<'s>], names: bool) {
    if let Some(template) = servers.iter().find(|server| server.is_template) {
        keys.set("discovery.dns", template.address.clone(), template.statement);
        if let Some(max) = template.options.maxconn {
            keys.set("max_requests", max, template.statement);
        }
        for other in servers.iter().filter(|server| !std::ptr::eq(*server, template)) {
            proxy
                .ledger
                .unsupported(other.statement, "an upstream has servers of one source: make two upstreams");
        }
        return;
    }
    let first = &servers[0].options;
    let same_max = servers.iter().all(|server| server.options.maxconn == first.maxconn);
    if let (Some(max), true) = (first.maxconn, same_max) {
        keys.set("max_requests", max.min(10_000_000), servers[0].statement);
    }
    let same_port = servers.iter().all(|server| server.options.port == first.port || !server.options.check);
    let any_check = servers.iter().any(|server| server.options.check);
    let (mut list, mut taken) = (Vec::new(), Vec::new());
    for server in servers {
        let options = &server.options;
        let mut entry: Vec<(String, TomlValue)> = Vec::new();
        let mut add = |key: &str, value: TomlValue| entry.push((key.to_owned(), value));
        if names {
            let name = free_name(server.name, &taken);
            add("name", name.as_str().into());
            taken.push(name);
        }
        if let Some(weight) = options.weight.filter(|weight| *weight != 1) {
            add("weight", weight.clamp(0, 256).into());
        }
        if let (Some(max), false) = (options.maxconn, same_max) {
            add("max_requests", max.min(10_000_000).into());
        }
        if options.backup {
            add("backup", true.into());
        }
        if options.disabled {
            add("mode", "maintenance".into());
        }
        if any_check && !options.check {
            add("health", false.into());
        }
        if let (Some(port), false) = (options.port, same_port) {
            add("health_port", port.into());
        }
        let value = if entry.is_empty() {
            TomlValue::Text(server.address.clone())
        } else {
            entry.insert(0, ("address".to_owned(), server.address.clone().into()));
            TomlValue::Inline(entry)
        };
        list.push(value);
    }
    keys.set("servers", TomlValue::Array(list), servers[0].statement);
    let all_equal = servers.iter().all(|server| server.options.maxqueue == first.maxqueue);
    if let Some(most) = servers.iter().filter_map(|server| server.options.maxqueue).max() {
        let sum = most.saturating_mul(i64::try_from(servers.len()).unwrap_or(1));
        keys.set("queue.length_max", sum.min(10_000_000), servers[0].statement);
        let note = if all_equal {
            "the queue is one for all servers"
        } else {
            "the queue is one for all servers, with the longest"
        };
        servers.iter().for_each(|server| proxy.ledger.approximated(server.statement, note));
    }
}

/// Without `option allbackups`, only the first backup that is up gets requests.
fn backups(proxy: &ProxySection<'_>, servers: &[ServerEntry<'_>]) {
    let option = proxy.option("allbackups");
    if let Some(statement) = option {
        proxy.ledger.words(statement).rest();
        proxy.ledger.by_default(statement, "all backups get requests when no other server can");
    }
    let backups: Vec<&ServerEntry<'_>> = servers.iter().filter(|server| server.options.backup).collect();
    if backups.len() > 1 && option.is_none() {
        for server in backups {
            proxy.ledger.approximated(
                server.statement,
                "requests are divided among all backups that are up, not sent to the first of them",
            );
        }
    }
}

/// Settings that all servers of an upstream have in common in Weir.
fn shared<'s>(
    proxy: &ProxySection<'s>,
    global: &GlobalFacts<'s>,
    keys: &mut Keys<'s>,
    servers: &[ServerEntry<'s>],
) {
    let of = |server: &ServerEntry<'s>| {
        let mut keys = Keys::default();
        server_keys(proxy, global, &mut keys, server);
        keys
    };
    let first = of(&servers[0]);
    let checked = servers.iter().find(|server| server.options.check);
    let several_ports = servers.iter().any(|server| {
        server.options.check && checked.is_some_and(|first| first.options.port != server.options.port)
    });
    let health = |server: &ServerEntry<'s>| {
        let mut options = server.options.clone();
        // A port of its own stands beside the server.
        if several_ports {
            options.port = None;
        }
        checks::health(proxy, &options, global.jitter, server.statement)
    };
    let first_health = checked.map(health);
    for server in servers {
        if server.options.is_like(&servers[0].options) {
            continue;
        }
        let same_health =
            !server.options.check || first_health.as_ref().is_some_and(|first| health(server).equals(first));
        if !of(server).equals(&first) || !same_health {
            proxy.ledger.unsupported(server.statement, "TLS, checks, PROXY headers and the like are the same for all servers of an upstream in Weir: make two upstreams");
        }
        if server.options.check
            && server.options.downinter.is_some_and(|time| Some(time) != server.options.inter)
        {
            proxy
                .ledger
                .approximated(server.statement, "a server that is down is probed as often as one that is up");
        }
    }
    keys.extend(&first);
    if let Some(health) = &first_health {
        keys.extend(health);
    }
    agent(keys, servers, checked.is_some(), proxy);
}

fn agent<'s>(keys: &mut Keys<'s>, servers: &[ServerEntry<'s>], is_checked: bool, proxy: &ProxySection<'s>) {
    let Some(server) = servers.iter().find(|server| server.options.agent_check) else { return };
    let options = &server.options;
    if keys.get("health").is_some() {
        keys.remove("health");
    }
    if let Some(port) = options.agent_port {
        keys.set("health.agent.port", port, server.statement);
    }
    if let Some(address) = options.agent_addr {
        keys.set("health.agent.address", literal(address), server.statement);
    }
    if let Some(text) = options.agent_send {
        keys.set("health.agent.send", literal(text), server.statement);
    }
    if let Some(time) = options.agent_inter {
        keys.set("health.agent.interval", time_text(time.clamp(10, 3_600_000)), server.statement);
    }
    if !is_checked {
        proxy.ledger.approximated(
            server.statement,
            "the server is probed for accepting connections, beside its agent",
        );
    }
    for other in servers {
        let o = &other.options;
        if (o.agent_check, o.agent_port, o.agent_addr)
            != (options.agent_check, options.agent_port, options.agent_addr)
        {
            proxy.ledger.unsupported(
                other.statement,
                "all servers have an agent of one kind: `agent_port` of a server is its own",
            );
        }
    }
}

fn server_keys<'s>(
    proxy: &ProxySection<'s>,
    global: &GlobalFacts<'s>,
    keys: &mut Keys<'s>,
    server: &ServerEntry<'s>,
) {
    let (options, from) = (&server.options, server.statement);
    if options.ssl {
        tls(proxy, global, keys, server);
    }
    let protocol = match (options.ssl, options.alpn, options.proto) {
        (true, Some(alpn), _) if alpn.contains("h2") && alpn.contains("http/1.1") => Some("auto"),
        (true, Some("h2"), _) | (true, _, Some("h2")) => Some("h2"),
        (false, _, Some("h2")) => Some("h2c"),
        (_, None | Some("http/1.1" | "http/1.0"), None | Some("h1" | "none")) => None,
        _ => {
            proxy.ledger.unsupported(from, "the protocol of servers is `protocol` of the upstream");
            None
        }
    };
    if let Some(protocol) = protocol {
        keys.set("protocol", protocol, from);
    }
    if let Some(version) = options.send_proxy {
        keys.set("proxy_protocol", version, from);
    }
    if let Some(time) = options.slowstart.filter(|time| *time > 0) {
        keys.set("slow_start", time_text(time), from);
    }
    if options.close_on_down {
        keys.set("on_down", "close", from);
    }
    if let Some(reuse) = options.max_reuse.filter(|reuse| *reuse >= 0) {
        keys.set("pool.requests_max", reuse + 1, from);
    }
    let source = proxy.one(&["source"]);
    match (&options.source, source) {
        (Some(source), _) if source != "0.0.0.0" => keys.set("source_address", source.clone(), from),
        (None, Some(line)) => {
            let mut words = proxy.ledger.words(line);
            let address = words.text().unwrap_or_default().split(':').next().unwrap_or_default().to_owned();
            let client = words.value_of("usesrc").is_some_and(|of| matches!(of, "client" | "clientip"));
            proxy.ledger.exact(line);
            if client {
                keys.set("source_address", "{client_address}", line);
            } else if address != "0.0.0.0" {
                keys.set("source_address", address, line);
            }
        }
        _ => {}
    }
    if options.observe {
        proxy.ledger.approximated(
            from,
            "`ejection` judges servers by connections that fail and by statuses 502 to 504",
        );
    }
}

fn tls<'s>(
    proxy: &ProxySection<'s>,
    global: &GlobalFacts<'s>,
    keys: &mut Keys<'s>,
    server: &ServerEntry<'s>,
) {
    let (options, from) = (&server.options, server.statement);
    let verify = !options.verify_none;
    if !verify {
        keys.set("tls.verify", false, from);
    }
    if let Some(file) = options.ca_file.filter(|_| verify)
        && file != "@system-ca"
    {
        keys.set("tls.ca", literal(&path_in(global.ca_base, file)), from);
    }
    if let Some(file) = options.crl_file.filter(|_| verify) {
        keys.set("tls.crl", literal(&path_in(global.ca_base, file)), from);
    }
    if let Some(file) = options.crt {
        let path = literal(&path_in(global.crt_base, file));
        keys.set("tls.certificate", path.clone(), from);
        keys.set("tls.key", path, from);
    }
    if let Some(versions) = options.tls_versions {
        keys.set("tls.versions", versions.to_vec(), from);
    }
    if options.no_ssl_reuse {
        keys.set("tls.session_reuse", false, from);
    }
    let sni =
        options.sni.map(|sni| sni.strip_prefix("str(").and_then(|rest| rest.strip_suffix(')')).ok_or(sni));
    match (sni, options.verifyhost) {
        (Some(Ok(name)), None) => keys.set("tls.server_name", literal(name), from),
        (Some(Ok(name)), Some(host)) => {
            keys.set("tls.server_name", literal(name), from);
            if host != name {
                keys.set("tls.subject_alt_names", literal(host), from);
            }
        }
        (None, Some(host)) => keys.set("tls.server_name", literal(host), from),
        (Some(Err(_)), _) => proxy.ledger.unsupported(from, "the name in the handshake is one for all requests: `tls.server_name`"),
        (None, None) if verify => proxy.ledger.approximated(from, "the certificate has to be valid for the name of the server, too: `tls.server_name` names another"),
        (None, None) => {}
    }
    if !keys.has("tls") {
        keys.set("tls", TomlValue::Inline(Vec::new()), from);
    }
}

fn timeouts<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, clients: &Clients, limited: bool) {
    let ledger = proxy.ledger;
    let mut set = |key: &str, time: u64, default: u64, statement: &'s Statement| {
        if time != default {
            keys.set(&format!("timeouts.{key}"), time_text(time.max(1)), statement);
        }
    };
    let connect = proxy.timeout("connect");
    if let Some((time, statement)) = connect {
        ledger.exact(statement);
        set("connect", time, 5000, statement);
    }
    let queue = proxy.timeout("queue");
    match (queue, connect) {
        (Some((time, statement)), _) if limited => {
            ledger.exact(statement);
            set("queue", time, 10_000, statement);
        }
        (Some((_, statement)), _) => {
            ledger.meaningless(statement, "no server has a `maxconn`, so no request waits for one");
        }
        (None, Some((time, statement))) if limited => set("queue", time, 10_000, statement),
        _ => {}
    }
    let server = proxy.timeout("server");
    if let Some((time, statement)) = server {
        ledger.exact(statement);
        if !proxy.is_tcp() {
            set("send", time, 30_000, statement);
            set("response", time, 60_000, statement);
            set("relay", time, 60_000, statement);
        }
    } else {
        ledger.approximated(
            proxy.header,
            "without `timeout server`, HAProxy waits for ever: Weir has `timeouts` of its own",
        );
    }
    let tunnel = proxy.timeout("tunnel");
    let shortest = clients.timeouts.iter().copied().flatten().chain(server.map(|(time, _)| time)).min();
    match (tunnel, shortest, server) {
        (Some((time, statement)), _, _) => {
            ledger.exact(statement);
            set("tunnel", time, 3_600_000, statement);
        }
        (None, Some(time), server) => {
            set("tunnel", time, 3_600_000, server.map_or(proxy.header, |(_, statement)| statement));
        }
        _ => {}
    }
    if let Some((_, statement)) = proxy.timeout("server-fin") {
        ledger.approximated(statement, "a connection whose other half is closed has the time of a tunnel");
    }
}

fn retries<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>) {
    let ledger = proxy.ledger;
    if let Some((text, statement)) = proxy.value("retries") {
        match text.parse::<i64>() {
            Ok(0) => {
                keys.set("retry.attempts_max", 1, statement);
                ledger.exact(statement);
            }
            Ok(3) => {
                ledger
                    .by_default(statement, "a server that cannot be reached is passed over for another one");
            }
            Ok(number) => {
                keys.set("retry.attempts_max", (number + 1).clamp(1, 100), statement);
                ledger.approximated(statement, "an attempt that fails goes to another server at once");
            }
            Err(_) => ledger.unsupported(statement, "this is no number"),
        }
    }
    if let Some(statement) = proxy.option("redispatch") {
        ledger.words(statement).rest();
        ledger.by_default(statement, "a request whose server cannot be reached goes to another one");
    }
    if let Some(statement) = proxy.one(&["retry-on"]) {
        let mut words = ledger.words(statement);
        retry_on(proxy, keys, statement, &mut words);
    }
}

fn retry_on<'s>(
    proxy: &ProxySection<'s>,
    keys: &mut Keys<'s>,
    statement: &'s Statement,
    words: &mut StatementWords<'s>,
) {
    let ledger = proxy.ledger;
    ledger.exact(statement);
    let mut statuses: Vec<i64> = Vec::new();
    for word in words.rest() {
        match word.text.as_str() {
            "none" => keys.set("retry.attempts_max", 1, statement),
            "conn-failure" | "empty-response" | "junk-response" | "0rtt-rejected" => {}
            "response-timeout" => keys.set("retry.on_timeout", true, statement),
            "all-retryable-errors" => {
                keys.set("retry.on_timeout", true, statement);
                statuses.extend([500, 502, 503, 504]);
            }
            other => match other.parse::<i64>() {
                Ok(status @ 400..=599) => statuses.push(status),
                _ => ledger.unsupported(statement, &format!("`{other}`")),
            },
        }
    }
    if !statuses.is_empty() {
        keys.set("retry.on_status", statuses, statement);
    }
    ledger.approximated(statement, "only requests with idempotent methods are repeated: `retry.methods`");
}
