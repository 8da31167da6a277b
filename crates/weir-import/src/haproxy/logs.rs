//! `log`, `option httplog`, `log-format`: the access log.

use super::acl::Surroundings;
use super::address::{AddressFamily, parse_address};
use super::format::{FormatUse, is_usual, template, usual_line};
use super::output::{Keys, literal};
use super::process::GlobalFacts;
use super::proxy::ProxySection;
use crate::report::Ledger;
use crate::source::Statement;

/// The access log of a frontend, as keys of `access_log`; nothing if it has none.
pub(super) fn access_log<'s>(
    proxy: &ProxySection<'s>,
    global: &GlobalFacts<'s>,
    usage: FormatUse,
    around: &Surroundings<'_>,
) -> Option<Keys<'s>> {
    let lines = log_lines(proxy, global);
    let output = output(proxy.ledger, &lines)?;
    let tcp = proxy.is_tcp();
    let mut keys = Keys::default();
    let (format, statement) = format(proxy, usage, around);
    keys.set("access_log.format", format, statement);
    if let (Some(output), statement) = output {
        keys.set("access_log.output", output, statement);
    }
    if let Some(option) = proxy.option("dontlognull") {
        proxy.ledger.words(option).rest();
        match tcp {
            false => proxy.ledger.by_default(option, "a connection without a request has no line"),
            true => proxy.ledger.approximated(option, "connections without data have a line, too"),
        }
    }
    Some(keys)
}

/// What a section captures of requests: the samples in the order of their slots.
pub(super) fn captures(proxy: &ProxySection<'_>) -> Vec<String> {
    let mut slots = Vec::new();
    for line in proxy.all(&["capture", "http-request", "tcp-request"]) {
        let texts: Vec<&str> = line.words.iter().map(|word| word.text.as_str()).collect();
        match texts.as_slice() {
            ["capture", "request", "header", name, ..] => slots.push(format!("req.hdr({name})")),
            ["http-request", "capture", sample, "len", ..]
            | ["tcp-request", "content", "capture", sample, "len", ..] => slots.push((*sample).to_owned()),
            _ => {}
        }
    }
    slots
}

/// The lines that count, those of `global` where `log global` asks for them.
fn log_lines<'s>(proxy: &ProxySection<'s>, global: &GlobalFacts<'s>) -> Vec<&'s Statement> {
    if let Some(no) = proxy.one(&["no", "log"]) {
        proxy.ledger.words(no).rest();
        proxy.ledger.exact(no);
        return Vec::new();
    }
    let mut lines = Vec::new();
    for line in proxy.innermost(&["log"]) {
        let is_global = line.words.get(1).is_some_and(|word| word.text == "global");
        if is_global {
            proxy.ledger.words(line).rest();
            match global.logs.is_empty() {
                true => proxy.ledger.meaningless(line, "`global` has no log"),
                false => proxy.ledger.exact(line),
            }
            lines.extend(&global.logs);
        } else {
            lines.push(line);
        }
    }
    lines
}

type LogLineOutput<'s> = (Option<String>, &'s Statement);

/// The destination of the first line that takes all requests.
fn output<'s>(ledger: &Ledger, lines: &[&'s Statement]) -> Option<LogLineOutput<'s>> {
    let mut found = None;
    for line in lines {
        let mut words = ledger.words(line);
        let target = words.text().unwrap_or_default();
        let mut values: Vec<&str> = Vec::new();
        while let Some(word) = words.text() {
            match word {
                "len" | "format" | "sample" | "profile" => {
                    let value = words.text().unwrap_or_default();
                    if word == "sample"
                        || (word == "format"
                            && !matches!(value, "raw" | "rfc5424" | "local" | "rfc3164" | "short" | "timed"))
                    {
                        ledger.unsupported(line, "`access_log.sample` keeps a share of the lines");
                    }
                }
                other => values.push(other),
            }
        }
        // Requests are written at the level `info`.
        let is_quiet = values.get(1).is_some_and(|level| !matches!(*level, "info" | "debug"));
        if is_quiet {
            ledger.approximated(
                line,
                "it has no lines of requests; what Weir says itself is on its standard error",
            );
            continue;
        }
        if found.is_some() {
            ledger.approximated(line, "there is one access log, the first");
            continue;
        }
        let text = destination(target);
        match &text {
            Some(_) => ledger.exact(line),
            None => ledger.unsupported(line, "write the destination in `access_log.output`"),
        }
        if text.as_ref().is_some_and(|text| text.starts_with("syslog")) {
            ledger.approximated(
                line,
                "messages to syslog have the form of RFC 5424, and a facility of Weir's own",
            );
        }
        if let Some(text) = text {
            found = Some((Some(text).filter(|text| text != "stdout"), *line));
        }
    }
    found
}

fn destination(target: &str) -> Option<String> {
    match target {
        "stdout" | "fd@1" => return Some("stdout".to_owned()),
        "stderr" | "fd@2" => return Some("stderr".to_owned()),
        _ => {}
    }
    let target = target.strip_prefix("udp@").or(target.strip_prefix("udp4@")).unwrap_or(target);
    let address = parse_address(target);
    match address.family {
        AddressFamily::Unix => Some(format!("syslog:{}", literal(&address.host))),
        AddressFamily::Other => None,
        _ => {
            let host = if address.host == "localhost" { "127.0.0.1".to_owned() } else { address.host_text() };
            let is_address = address.host == "localhost"
                || address.host.parse::<std::net::IpAddr>().is_ok()
                || address.host.contains("${");
            let port = address.port.unwrap_or_else(|| "514".to_owned());
            is_address.then(|| format!("syslog+udp://{host}:{port}"))
        }
    }
}

fn format<'s>(
    proxy: &ProxySection<'s>,
    usage: FormatUse,
    around: &Surroundings<'_>,
) -> (String, &'s Statement) {
    let (ledger, tcp) = (proxy.ledger, proxy.is_tcp());
    let candidates = [
        ("log-format", proxy.one(&["log-format"])),
        ("httplog", proxy.option("httplog")),
        ("tcplog", proxy.option("tcplog")),
        ("httpslog", proxy.option("httpslog")),
    ];
    let found = candidates
        .into_iter()
        .filter_map(|(kind, statement)| Some((kind, statement?)))
        .max_by_key(|(_, statement)| statement.id);
    let Some((kind, statement)) = found else {
        let mode = if tcp { "TCP" } else { "HTTP" };
        let line = format!("Connect from %ci:%cp to %fi:%fp (%f/{mode})");
        let text = template(&line, usage, around).map_or_else(|_| "httplog".to_owned(), |made| made.text);
        return (text, proxy.header);
    };
    for (_, other) in candidates {
        if let Some(other) = other.filter(|other| other.id != statement.id) {
            ledger.words(other).rest();
            ledger.meaningless(other, "a later line about the log replaces it");
        }
    }
    let mut words = ledger.words(statement);
    if kind == "log-format" {
        let text = words.text().unwrap_or_default();
        return match template(text, usage, around) {
            Ok(template) => {
                ledger.exact(statement);
                template.notes.iter().for_each(|note| ledger.approximated(statement, note));
                (template.text, statement)
            }
            Err(reason) => {
                ledger.unsupported(statement, &format!("{reason}: see the placeholders of the access log"));
                ("httplog".to_owned(), statement)
            }
        };
    }
    words.rest();
    ledger.exact(statement);
    match kind {
        "httplog" if tcp => ledger.by_default(statement, "in TCP mode, HAProxy falls back to `tcplog`"),
        "tcplog" if !tcp => ledger.approximated(statement, "requests have lines as of `option httplog`"),
        "httpslog" => ledger
            .approximated(statement, "lines end as those of `option httplog`, without the fields about TLS"),
        _ => {}
    }
    if statement.words.iter().any(|word| word.text == "clf") {
        ledger.approximated(statement, "lines have the combined form");
        return ("combined".to_owned(), statement);
    }
    match is_usual(usage, around) {
        true => ("httplog".to_owned(), statement),
        false => (usual_line(usage, around), statement),
    }
}
