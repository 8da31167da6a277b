//! Health checks: `option httpchk` and its like, and the options of servers about them.

use super::options::ServerOptions;
use crate::document::TomlValue;
use crate::haproxy::acl::regex_trouble;
use crate::haproxy::output::{Keys, literal};
use crate::haproxy::proxy::{ProxySection, time_text};
use crate::source::Statement;

/// Why a sequence of requests is none.
const SEQUENCE: &str = "a probe is one request and one answer: have the application check the rest behind one path, or make an upstream for each";

/// The interval of checks without `inter`.
const INTERVAL: u64 = 2000;

/// `health` of an upstream whose servers have these options.
pub(super) fn health<'s>(
    proxy: &ProxySection<'s>,
    options: &ServerOptions<'s>,
    jitter: Option<i64>,
    from: &'s Statement,
) -> Keys<'s> {
    let mut keys = Keys::default();
    let has_dialogue = dialogue(proxy, &mut keys);
    if let Some(port) = options.port {
        keys.set("health.port", port, from);
    }
    let interval = options.inter.unwrap_or(INTERVAL);
    if interval != INTERVAL {
        keys.set("health.interval", time_text(interval.clamp(10, 3_600_000)), from);
    }
    if let Some(fast) = options.fastinter {
        keys.set("health.fast_interval", time_text(fast.clamp(10, 3_600_000)), from);
    }
    timeout(proxy, &mut keys, interval, has_dialogue, from);
    if let Some(rise) = options.rise.filter(|rise| *rise != 2) {
        keys.set("health.rise", rise, from);
    }
    if let Some(fall) = options.fall.filter(|fall| *fall != 3) {
        keys.set("health.fall", fall, from);
    }
    if let Some(jitter) = jitter {
        keys.set("health.jitter", format!("{}%", jitter.clamp(0, 50)), None);
    }
    match options.check_ssl {
        Some(true) if !options.ssl => keys.set("health.tls", true, from),
        Some(false) if options.ssl => keys.set("health.tls", false, from),
        _ => {}
    }
    if let Some(name) = options.check_sni
        && keys.get("health.host").is_none()
    {
        keys.set("health.host", literal(name), from);
    }
    if !keys.has("health") {
        keys.set("health", TomlValue::Inline(Vec::new()), from);
    }
    keys
}

/// HAProxy gives a check its interval, `timeout connect` for the connection and `timeout check` for what follows.
fn timeout<'s>(
    proxy: &ProxySection<'s>,
    keys: &mut Keys<'s>,
    interval: u64,
    has_dialogue: bool,
    from: &'s Statement,
) {
    let check = proxy.timeout("check");
    let connect = proxy.timeout("connect").map(|(time, _)| time);
    let (time, from) = match check {
        Some((time, statement)) if has_dialogue => {
            proxy.ledger.exact(statement);
            (time, statement)
        }
        Some((_, statement)) => {
            proxy.ledger.meaningless(
                statement,
                "a probe that only connects has `timeout connect`, at most its interval",
            );
            (connect.unwrap_or(interval).min(interval), from)
        }
        None => (interval, from),
    };
    let default = (interval / 2).min(5000);
    if time != default {
        keys.set("health.timeout", time_text(time.clamp(1, 600_000)), from);
    }
}

/// What a probe says and expects; whether it is more than a connection.
fn dialogue<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>) -> bool {
    let kinds = [
        "httpchk",
        "tcp-check",
        "mysql-check",
        "pgsql-check",
        "redis-check",
        "smtpchk",
        "ldap-check",
        "ssl-hello-chk",
        "external-check",
        "spop-check",
    ];
    let found = kinds.iter().filter_map(|kind| Some((*kind, proxy.option(kind)?)));
    // The last one of the section counts: `option`s of checks replace each other.
    let found: Vec<(&str, &Statement)> = found.collect();
    let Some((kind, statement)) = found.iter().copied().max_by_key(|(_, statement)| statement.id) else {
        return false;
    };
    for (_, other) in found.iter().filter(|(_, other)| other.id != statement.id) {
        proxy.ledger.meaningless(other, "a later kind of check replaces it");
    }
    let mut words = proxy.ledger.words(statement);
    words.next();
    match kind {
        "httpchk" => http(proxy, keys, statement),
        "tcp-check" => return tcp(proxy, keys, statement),
        "redis-check" => keys.set("health.preset", "redis", statement),
        "mysql-check" | "pgsql-check" => {
            keys.set("health.preset", if kind == "mysql-check" { "mysql" } else { "postgresql" }, statement);
            match words.value_of("user") {
                Some(user) => keys.set("health.user", literal(user), statement),
                None if kind == "mysql-check" => {
                    keys.remove("health");
                    keys.set("health.kind", "tcp", statement);
                    proxy.ledger.approximated(statement, "without a user, a probe only connects");
                }
                None => {}
            }
            words.flag("post-41");
        }
        "smtpchk" => {
            keys.set("health.preset", "smtp", statement);
            if !words.rest().is_empty() {
                proxy.ledger.approximated(statement, "a probe says `EHLO localhost`");
            }
        }
        "ssl-hello-chk" => {
            keys.set("health.kind", "tls", statement);
            keys.set("health.tls", true, statement);
            proxy.ledger.approximated(statement, "a probe completes a handshake of TLS 1.2 or 1.3, where HAProxy sends a hello of SSL 3.0");
        }
        "external-check" => proxy.ledger.unsupported(statement, "Weir starts no programs: have the script answer on a port of its own (`health.port`) or as an agent (`health.agent`)"),
        _ => proxy.ledger.unsupported(statement, "Weir has no such probe: `health.send` and `health.expect` say what a probe sends and expects"),
    }
    proxy.ledger.exact(statement);
    true
}

/// `option httpchk`, with what `http-check` says.
fn http<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, statement: &'s Statement) {
    let texts: Vec<&str> =
        statement.words[2.min(statement.words.len())..].iter().map(|word| word.text.as_str()).collect();
    proxy.ledger.words(statement).rest();
    let (method, uri) = match texts.as_slice() {
        [] => ("OPTIONS", "/"),
        [uri] => ("OPTIONS", *uri),
        [method, uri, ..] => (*method, *uri),
    };
    let version = texts.get(2..).unwrap_or_default().join(" ");
    if !uri.starts_with('/') {
        return proxy.ledger.unsupported(statement, "the target of a probe is a path");
    }
    keys.set("health.path", literal(uri), statement);
    if method != "GET" {
        keys.set("health.method", method, statement);
    }
    for line in version.split("\r\n").skip(1).filter(|line| !line.is_empty()) {
        match line.split_once(':') {
            Some((name, value)) => header(keys, name.trim(), value.trim(), statement),
            None => proxy.ledger.unsupported(statement, "a header of the request cannot be read"),
        }
    }
    let lines = proxy.innermost(&["http-check"]);
    let is_step = |line: &&&Statement, step: &str| line.words.get(1).is_some_and(|word| word.text == step);
    for step in ["connect", "send"] {
        let several: Vec<&&Statement> = lines.iter().filter(|line| is_step(line, step)).collect();
        if several.len() > 1 {
            for line in several {
                proxy.ledger.unsupported(line, SEQUENCE);
            }
        }
    }
    for line in lines {
        http_check(proxy, keys, line);
    }
}

fn header<'s>(keys: &mut Keys<'s>, name: &str, value: &str, statement: &'s Statement) {
    match name.to_ascii_lowercase().as_str() {
        "host" => keys.set("health.host", literal(value), statement),
        "connection" => {}
        lower => keys.set_path(&["health", "headers", lower], literal(value), statement),
    }
}

fn http_check<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, line: &'s Statement) {
    let mut words = proxy.ledger.words(line);
    match words.text() {
        Some("send") => {
            while let Some(name) = words.text() {
                match (name, words.text()) {
                    ("meth", Some(method)) => {
                        keys.remove_path("health.method");
                        if method != "GET" {
                            keys.set("health.method", method, line);
                        }
                    }
                    ("uri", Some(uri)) => keys.set("health.path", literal(uri), line),
                    ("ver", Some(_)) => {}
                    ("hdr", Some(name)) => header(keys, name, words.text().unwrap_or_default(), line),
                    (other, _) => proxy.ledger.unsupported(line, &format!("probes have no `{other}`")),
                }
            }
            proxy.ledger.exact(line);
        }
        Some("expect") => http_expect(proxy, keys, line),
        Some("connect") => {
            if let Some(port) = words.value_of("port").and_then(|port| port.parse::<i64>().ok()) {
                keys.set("health.port", port, line);
            }
            if words.flag("ssl") {
                keys.set("health.tls", true, line);
            }
            if let Some(name) = words.value_of("sni") {
                keys.set("health.host", literal(name), line);
            }
            if words.value_of("alpn").is_some() {
                proxy.ledger.approximated(line, "probes of another port speak what TLS agrees on");
            }
            words.flag("default");
            proxy.ledger.exact(line);
        }
        Some("send-state") => {
            words.rest();
            proxy.ledger.approximated(line, "probes have no `X-Haproxy-Server-State`");
        }
        Some("comment") => proxy.ledger.meaningless(line, "a comment"),
        Some("disable-on-404") => proxy.ledger.approximated(
            line,
            "a server that answers 404 is down: who belongs to it goes to another one, too",
        ),
        _ => proxy.ledger.unsupported(line, "probes are one request and one answer: see `health`"),
    }
}

fn http_expect<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, line: &'s Statement) {
    let mut words = proxy.ledger.words(line);
    words.next();
    let is_not = words.flag("!");
    let kind = words.text().unwrap_or_default();
    let value = words.text().unwrap_or_default();
    match kind {
        "status" => {
            let statuses: Vec<TomlValue> =
                value.split([',', ' ']).filter(|part| !part.is_empty()).map(status).collect();
            let statuses = match statuses.as_slice() {
                [one] => one.clone(),
                _ => TomlValue::Array(statuses),
            };
            set_status(proxy, keys, line, Some(statuses), is_not);
        }
        "rstatus" => set_status(proxy, keys, line, status_of_regex(value), is_not),
        _ if is_not => {
            proxy.ledger.unsupported(line, "say what a healthy server answers, not what it does not: `health.status`, `health.body_contains`");
        }
        "string" | "rstring"
            if keys.get("health.body_contains").or(keys.get("health.body_regex")).is_some() =>
        {
            proxy
                .ledger
                .unsupported(line, "a probe looks for one text: `health.body_regex` may have several");
        }
        "string" => keys.set("health.body_contains", literal(value), line),
        "rstring" => match regex_trouble(value) {
            None => keys.set("health.body_regex", literal(value), line),
            Some(reason) => proxy.ledger.unsupported(line, reason),
        },
        _ => {
            proxy.ledger.unsupported(line, "probes look at status and body: `health.status`, `health.body_contains`, `health.body_regex`");
        }
    }
    proxy.ledger.exact(line);
}

/// The statuses of a healthy server, or those that it does not have.
fn set_status<'s>(
    proxy: &ProxySection<'s>,
    keys: &mut Keys<'s>,
    line: &'s Statement,
    statuses: Option<TomlValue>,
    is_not: bool,
) {
    let statuses = if is_not { statuses.as_ref().and_then(all_others) } else { statuses };
    match statuses {
        Some(_) if keys.get("health.status").is_some() => {
            proxy.ledger.unsupported(line, "the statuses of a healthy server are one list: `health.status`");
        }
        Some(statuses) => keys.set("health.status", statuses, line),
        None => proxy.ledger.unsupported(line, "write the statuses in `health.status`"),
    }
}

/// All final statuses but these.
fn all_others(statuses: &TomlValue) -> Option<TomlValue> {
    let bounds = |value: &TomlValue| -> Option<(i64, i64)> {
        match value {
            TomlValue::Integer(status) => Some((*status, *status)),
            TomlValue::Text(text) => {
                let (low, high) = text.split_once('-')?;
                Some((low.parse().ok()?, high.parse().ok()?))
            }
            _ => None,
        }
    };
    let mut left_out: Vec<(i64, i64)> = match statuses {
        TomlValue::Array(list) => list.iter().map(bounds).collect::<Option<_>>()?,
        one => vec![bounds(one)?],
    };
    left_out.sort_unstable();
    let (mut next, mut ranges) = (200, Vec::new());
    for (low, high) in left_out {
        if low > next {
            ranges.push(TomlValue::from(format!("{next}-{}", (low - 1).min(599))));
        }
        next = next.max(high + 1);
    }
    if next <= 599 {
        ranges.push(format!("{next}-599").into());
    }
    match ranges.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        _ => Some(TomlValue::Array(ranges)),
    }
}

/// `200`, `200-299`.
fn status(text: &str) -> TomlValue {
    text.parse::<i64>().map_or_else(|_| text.into(), TomlValue::from)
}

/// Statuses of regular expressions as people write them: `^2`, `(2|3)[0-9][0-9]`, `[23]..`, `200|401`.
fn status_of_regex(regex: &str) -> Option<TomlValue> {
    let text = regex.trim_start_matches('^').trim_end_matches('$');
    let listed: Option<Vec<i64>> = text
        .trim_matches(['(', ')'])
        .split('|')
        .map(|part| part.parse().ok().filter(|status| (100..600).contains(status)))
        .collect();
    if let Some(list) = listed {
        return Some(if let [one] = list.as_slice() { (*one).into() } else { list.into() });
    }
    let digits = ["[0-9][0-9]", r"\d\d", r"[0-9]{2}", r"\d{2}", "..", "[0-9]*", r"\d+", ".*", ""];
    let first = digits.iter().find_map(|end| {
        text.strip_suffix(end)
            .filter(|first| !first.is_empty() && (!end.is_empty() || regex.starts_with('^')))
    })?;
    let first: Vec<i64> = first
        .chars()
        .filter(|c| !"()[]|".contains(*c))
        .map(|c| c.to_digit(10).map(i64::from).filter(|d| (2..=5).contains(d)))
        .collect::<Option<_>>()?;
    let ranges: Vec<TomlValue> = first.iter().map(|digit| format!("{digit}00-{digit}99").into()).collect();
    match (first.as_slice(), ranges.as_slice()) {
        ([low, high], _) if high - low == 1 => Some(format!("{low}00-{high}99").into()),
        (_, [one]) => Some(one.clone()),
        (_, []) => None,
        _ => Some(TomlValue::Array(ranges)),
    }
}

/// `option tcp-check` with its sequence; whether it is more than a connection.
fn tcp<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, statement: &'s Statement) -> bool {
    proxy.ledger.exact(statement);
    let (mut sends, mut expects): (Vec<String>, Vec<(String, usize)>) = (Vec::new(), Vec::new());
    let lines = proxy.innermost(&["tcp-check"]);
    let (mut connects, mut last) = (0, statement);
    for line in &lines {
        let mut words = proxy.ledger.words(line);
        match words.text() {
            Some("connect") => {
                connects += 1;
                if let Some(port) = words.value_of("port").and_then(|port| port.parse::<i64>().ok()) {
                    keys.set("health.port", port, *line);
                }
                if words.flag("ssl") {
                    keys.set("health.tls", true, *line);
                }
                words.flag("default");
                proxy.ledger.exact(line);
            }
            Some(kind @ ("send" | "send-binary")) => {
                let text = words.text().unwrap_or_default();
                sends.push(if kind == "send" { text.to_owned() } else { format!("hex:{text}") });
                words.value_of("comment");
                proxy.ledger.exact(line);
                last = line;
            }
            Some("expect") => {
                words.value_of("comment");
                words.value_of("min-recv");
                match (words.text(), words.text()) {
                    (Some("string"), Some(text)) => expects.push((text.to_owned(), sends.len())),
                    (Some("binary"), Some(text)) => expects.push((format!("hex:{text}"), sends.len())),
                    _ => {
                        proxy.ledger.unsupported(line, "probes expect a text or bytes: `health.expect`");
                        continue;
                    }
                }
                proxy.ledger.exact(line);
                last = line;
            }
            Some("comment") => proxy.ledger.meaningless(line, "a comment"),
            _ => proxy.ledger.unsupported(
                line,
                "probes send, expect and send once more: `health.send`, `health.expect`, `health.quit`",
            ),
        }
    }
    if connects > 1 {
        proxy.ledger.unsupported(last, "a probe opens one connection");
    }
    sequence(proxy, keys, &sends, &expects, last);
    !sends.is_empty() || !expects.is_empty()
}

/// A probe sends, expects, and sends once more: of a longer sequence, what is asked last counts.
fn sequence<'s>(
    proxy: &ProxySection<'s>,
    keys: &mut Keys<'s>,
    sends: &[String],
    expects: &[(String, usize)],
    line: &'s Statement,
) {
    let is_quit = |text: &String| text.trim().eq_ignore_ascii_case("quit");
    let questions = sends.iter().position(is_quit).unwrap_or(sends.len());
    // What is expected behind `QUIT` is no answer about the server.
    let Some((expect, before)) = expects.iter().rev().find(|(_, before)| *before <= questions) else {
        return match sends {
            [] => {}
            _ => proxy.ledger.unsupported(line, "a probe that sends expects something, too: `health.expect`"),
        };
    };
    let text = sends[..*before].join("");
    let mixed = sends[..*before].len() > 1 && sends.iter().any(|text| text.starts_with("hex:"));
    if mixed {
        proxy.ledger.unsupported(line, "write what a probe sends in one text: `health.send`");
        return;
    }
    if !text.is_empty() {
        keys.set("health.send", literal(&text), line);
    }
    keys.set("health.expect", literal(expect), line);
    let behind = sends[*before..].join("");
    if !behind.is_empty() {
        keys.set("health.quit", literal(&behind), line);
    }
    if expects.len() > 1 {
        proxy
            .ledger
            .approximated(line, "what is asked is sent at once, and only the last answer is looked at");
    }
}
