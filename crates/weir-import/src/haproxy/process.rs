//! `global`: the process, and what holds for all sections.

use super::address::{AddressFamily, parse_address};
use super::certificates::CertificateStores;
use super::output::literal;
use super::proxy::{duration, time_text};
use crate::document::{Draft, TomlValue};
use crate::report::{Ledger, StatementWords};
use crate::source::Statement;

/// What `global` says for all sections.
#[derive(Default)]
pub(super) struct GlobalFacts<'s> {
    pub(super) ca_base: Option<&'s str>,
    pub(super) crt_base: Option<&'s str>,
    /// `ssl-server-verify none`.
    pub(super) verify_none: bool,
    /// `spread-checks`.
    pub(super) jitter: Option<i64>,
    pub(super) maxconn: Option<i64>,
    pub(super) logs: Vec<&'s Statement>,
    /// `ssl-default-bind-options` and its like.
    pub(super) bind_defaults: Vec<&'s Statement>,
    /// Whether a rule calls a script.
    pub(super) calls_scripts: bool,
    /// `no-quic`.
    pub(super) has_no_quic: bool,
    /// Certificates of `crt-store` sections.
    pub(super) stores: CertificateStores,
}

/// Lines without a meaning here, with the reason.
const MEANINGLESS: [(&str, &str); 44] = [
    ("limited-quic", "HTTP/3 of Weir needs nothing of OpenSSL"),
    ("debug", "Weir's own log has a level: `log.level`"),
    ("daemon", "a service manager starts Weir, which stays in the foreground"),
    ("master-worker", "a service manager starts Weir, and a reload keeps the process"),
    ("nbproc", "Weir is one process with a worker for each CPU"),
    ("quiet", "Weir's own log has a level: `log.level`"),
    ("zero-warning", "`weir check` warns"),
    ("node", "there is no name of the node in what clients or servers get"),
    ("description", "it is shown nowhere"),
    ("ulimit-n", "Weir raises the limit on open files itself"),
    ("fd-hard-limit", "Weir takes what the limit on open files allows"),
    ("maxpipes", "Weir does not splice by pipes of its own"),
    ("maxsock", "Weir takes what the limit on open files allows"),
    ("nosplice", "it is about the kernel's interface, not about connections"),
    ("noepoll", "it is about the kernel's interface, not about connections"),
    ("nopoll", "it is about the kernel's interface, not about connections"),
    ("nokqueue", "it is about the kernel's interface, not about connections"),
    ("noreuseport", "it is about the kernel's interface, not about connections"),
    ("nogetaddrinfo", "names are resolved by Weir itself"),
    ("busy-polling", "it is about the kernel's interface, not about connections"),
    ("thread-groups", "workers need no groups"),
    ("numa-cpu-mapping", "workers are where the kernel puts them"),
    ("cpu-policy", "workers are where the kernel puts them"),
    ("expose-experimental-directives", "nothing of Weir is behind it"),
    ("profiling.tasks", "the admin listener profiles"),
    ("localpeer", "there are no peers"),
    ("default-path", "paths are relative to the file of the config"),
    ("issuers-chain-path", "a certificate has its intermediates in its file"),
    ("ssl-load-extra-files", "Weir looks for keys and OCSP responses beside certificates"),
    ("ssl-load-extra-del-ext", "Weir looks for keys and OCSP responses beside certificates"),
    ("ssl-mode-async", "it is about OpenSSL"),
    ("ssl-engine", "it is about OpenSSL"),
    ("ssl-propquery", "it is about OpenSSL"),
    ("ssl-provider", "it is about OpenSSL"),
    ("ssl-dh-param-file", "Weir has no suites with finite-field Diffie-Hellman"),
    ("insecure-fork-wanted", "Weir starts no programs for requests"),
    ("insecure-setuid-wanted", "Weir starts no programs for requests"),
    ("strict-limits", "a limit that is not reached is a warning of the log at start"),
    ("anonkey", "it is about dumps of the config"),
    ("grace", "HAProxy itself takes no notice of it"),
    ("external-check", "it permits checks of that kind, which say themselves what became of them"),
    ("set-dumpable", "core dumps are a matter of the service manager"),
    ("maxzlibmem", "the memory of compression is bounded by `process.compressions_max`"),
    ("server-state-base", "there is one file of state: `discovery.state_file`"),
];

const UNSUPPORTED: [(&str, &str); 12] = [
    (
        "lua-load",
        "Weir runs no scripts: routes, `vars`, maps, lists and `forward_auth` do most of what they are for",
    ),
    (
        "lua-load-per-thread",
        "Weir runs no scripts: routes, `vars`, maps, lists and `forward_auth` do most of what they are for",
    ),
    ("lua-prepend-path", "Weir runs no scripts"),
    (
        "h1-case-adjust",
        "names of headers are in lower case on the way out (RFC 9110 section 5.1: case does not matter)",
    ),
    (
        "h1-case-adjust-file",
        "names of headers are in lower case on the way out (RFC 9110 section 5.1: case does not matter)",
    ),
    ("51degrees-data-file", "Weir has no detection of devices"),
    ("deviceatlas-json-file", "Weir has no detection of devices"),
    ("wurfl-data-file", "Weir has no detection of devices"),
    ("setcap", "grant the capability by the service manager"),
    (
        "maxconnrate",
        "`connections_per_client_rate` of a listener bounds clients; there is no rate for the process",
    ),
    (
        "maxsessrate",
        "`connections_per_client_rate` of a listener bounds clients; there is no rate for the process",
    ),
    ("maxcomprate", "`process.compression_time` bounds what compression takes"),
];

/// Translates `global`.
pub(super) fn global<'s>(
    ledger: &'s Ledger,
    section: &'s Statement,
    facts: &mut GlobalFacts<'s>,
    draft: &mut Draft,
) {
    ledger.exact(section);
    ledger.words(section).rest();
    for line in section.children() {
        let mut words = ledger.words(line);
        if facts.note(ledger, line, &mut words) {
            continue;
        }
        if process_key(ledger, line, &mut words, facts, draft) {
            continue;
        }
        let name = if line.name() == "no" {
            line.words.get(1).map_or("", |word| word.text.as_str())
        } else {
            line.name()
        };
        if let Some((_, why)) = MEANINGLESS.iter().find(|(known, _)| *known == name) {
            ledger.meaningless(line, why);
        } else if name.starts_with("tune.") {
            tuning(ledger, line);
        } else if name.starts_with("lua-") && !facts.calls_scripts {
            words.rest();
            let why = "no rule calls what the script registers; tasks that it starts by itself are not run";
            ledger.approximated(line, why);
        } else if let Some((_, advice)) = UNSUPPORTED.iter().find(|(known, _)| *known == name) {
            ledger.unsupported(line, advice);
        } else if matches!(name, "setenv" | "presetenv" | "unsetenv" | "resetenv") {
            ledger.meaningless(line, "the lines behind it have been read with it");
        } else if name.starts_with("httpclient.") || name == "chroot" {
            match name {
                "chroot" => {
                    words.rest();
                    ledger.approximated(line, "`process.sandbox` confines Weir to its files; `process.chroot` does so too, but files of a reload are then looked up inside the folder");
                }
                _ => ledger.meaningless(line, "there is no client of HTTP for scripts"),
            }
        }
    }
}

/// Whether a rule, or a sample in it, is one of a script.
pub(super) fn calls_scripts(sections: &[Statement]) -> bool {
    let calls = |line: &Statement| line.words.iter().any(|word| word.text.contains("lua."));
    sections.iter().filter(|section| section.name() != "global").flat_map(Statement::children).any(calls)
}

/// Whether a table in which something counts is shared by these peers.
pub(super) fn peers_are_used(ledger: &Ledger, peers: &Statement, sections: &[Statement]) -> bool {
    let name = peers.words.get(1).map_or("", |word| word.text.as_str());
    let shares = |line: &Statement| {
        let of_peers = line.words.windows(2).any(|pair| pair[0].text == "peers" && pair[1].text == name);
        let asks_table = line.words.iter().any(|word| word.text.starts_with(&format!("{name}/")));
        of_peers && !ledger.is_meaningless(line) || asks_table
    };
    sections.iter().flat_map(Statement::children).any(shares)
}

impl<'s> GlobalFacts<'s> {
    /// Takes what acts elsewhere; whether it did.
    fn note(&mut self, ledger: &Ledger, line: &'s Statement, words: &mut StatementWords<'s>) -> bool {
        match line.name() {
            "ca-base" => self.ca_base = words.text(),
            "crt-base" => self.crt_base = words.text(),
            "no-quic" => self.has_no_quic = true,
            "ssl-server-verify" => self.verify_none = words.text() == Some("none"),
            "spread-checks" => {
                self.jitter =
                    words.text().and_then(|text| text.parse().ok()).filter(|percent| *percent != 10);
            }
            // These are settled where they are made use of.
            "log" => {
                self.logs.push(line);
                return true;
            }
            "ssl-default-bind-options"
            | "ssl-default-bind-ciphers"
            | "ssl-default-bind-ciphersuites"
            | "ssl-default-bind-curves" => {
                self.bind_defaults.push(line);
                return true;
            }
            _ => return false,
        }
        ledger.exact(line);
        true
    }
}

fn process_key<'s>(
    ledger: &'s Ledger,
    line: &'s Statement,
    words: &mut StatementWords<'s>,
    facts: &mut GlobalFacts<'s>,
    draft: &mut Draft,
) -> bool {
    let process =
        |draft: &mut Draft, key: &str, value: TomlValue| draft.table(&["process"]).set(key, value, line);
    let number = |words: &mut StatementWords<'s>| {
        words.text().and_then(|text| text.parse::<i64>().ok()).filter(|number| *number > 0)
    };
    match line.name() {
        "maxconn" => match number(words) {
            Some(most) => {
                facts.maxconn = Some(most);
                process(draft, "connections_max", most.min(100_000_000).into());
            }
            None => return false,
        },
        "user" | "group" => process(draft, line.name(), literal(words.text().unwrap_or_default()).into()),
        "uid" => process(draft, "user", literal(words.text().unwrap_or_default()).into()),
        "gid" => process(draft, "group", literal(words.text().unwrap_or_default()).into()),
        "pidfile" => process(draft, "pid_file", literal(words.text().unwrap_or_default()).into()),
        "nbthread" => match number(words) {
            Some(threads) => process(draft, "workers", threads.min(1024).into()),
            None => return false,
        },
        "cpu-map" => {
            words.rest();
            process(draft, "pin_workers", true.into());
            ledger.approximated(line, "each worker is pinned to one CPU, the first to the first");
        }
        "hard-stop-after" => match words.text().and_then(duration) {
            Some(time) => process(draft, "stop_grace", time_text(time.min(86_400_000)).into()),
            None => return false,
        },
        "server-state-file" => {
            words.rest();
            ledger.approximated(line, "servers begin in the state that the config gives them; `discovery.state_file` keeps what sources say");
        }
        "stats" => {
            stats(ledger, line, words, draft);
            return true;
        }
        "log-send-hostname" => {
            words.rest();
            ledger.approximated(line, "messages to syslog have the host as RFC 5424 wants it");
        }
        "log-tag" => {
            words.rest();
            ledger.approximated(line, "messages to syslog are tagged `weir`");
        }
        "ssl-default-server-options"
        | "ssl-default-server-ciphers"
        | "ssl-default-server-ciphersuites"
        | "ssl-default-server-curves" => {
            words.rest();
            ledger.approximated(line, "Weir offers its own list of safe versions, suites and groups to servers: `tls` of an upstream");
        }
        _ => return false,
    }
    ledger.exact(line);
    true
}

fn stats<'s>(ledger: &'s Ledger, line: &'s Statement, words: &mut StatementWords<'s>, draft: &mut Draft) {
    match words.text() {
        Some("socket") => {}
        Some("timeout" | "maxconn") => {
            return ledger.meaningless(line, "the runtime socket has limits of its own");
        }
        _ => return ledger.unsupported(line, "the runtime socket is `admin.socket`"),
    }
    if draft.has(&["admin"]) && draft.table(&["admin"]).has("socket") {
        words.rest();
        return ledger.approximated(line, "there is one runtime socket, the first");
    }
    let address = parse_address(words.text().unwrap_or_default());
    let admin = draft.table(&["admin"]);
    ledger.exact(line);
    match address.family {
        AddressFamily::Unix => admin.set("socket", format!("unix:{}", literal(&address.host)), line),
        AddressFamily::Other => {
            return ledger.unsupported(line, "the runtime socket is a Unix socket, or TCP on the loopback");
        }
        _ => {
            let port = address.port.clone().unwrap_or_default();
            let is_loopback = address.host.starts_with("127.") || address.host == "::1";
            let host = if is_loopback { address.host_text() } else { "127.0.0.1".to_owned() };
            admin.set("socket", format!("{host}:{port}"), line);
            if !is_loopback {
                ledger.approximated(
                    line,
                    "over TCP, the runtime socket is on the loopback only: it asks for no credentials",
                );
            }
        }
    }
    let is_unix = address.family == AddressFamily::Unix;
    let mut level = "operator";
    while let Some(word) = words.text() {
        match word {
            "level" => level = words.text().unwrap_or_default(),
            "mode" => {
                let mode = words.text().unwrap_or_default();
                let mode = if mode.len() == 3 { format!("0{mode}") } else { mode.to_owned() };
                if mode != "0600" {
                    admin.set("socket_mode", mode, line);
                }
            }
            "user" | "group" | "uid" | "gid" => {
                words.next();
                ledger.approximated(line, "the file belongs to the user of Weir");
            }
            "expose-fd" => {
                words.next();
            }
            "name" | "process" | "thread" | "maxconn" | "backlog" | "nice" => {
                words.next();
            }
            "accept-proxy" | "ssl" => {
                ledger.unsupported(line, "the runtime socket speaks neither TLS nor PROXY");
            }
            other => ledger.unsupported(line, &format!("`{other}`")),
        }
    }
    let restricted = is_unix && admin.text("socket_mode").is_none_or(|mode| mode.ends_with("00"));
    match (level == "admin", restricted) {
        (true, false) => admin.set("socket_changes", true, line),
        (false, true) => admin.set("socket_changes", false, line),
        _ => {}
    }
}

fn tuning(ledger: &Ledger, line: &Statement) {
    let why = match line.name() {
        "tune.ssl.default-dh-param" => "Weir has no suites with finite-field Diffie-Hellman",
        name if name.starts_with("tune.ssl.") => {
            "TLS is Weir's own; what can be set is in `tls` of a listener"
        }
        name if name.starts_with("tune.h2.") => {
            "HTTP/2 has limits of its own: `http2` of listeners and upstreams"
        }
        name if name.starts_with("tune.lua.") => "there are no scripts",
        _ => "it is about HAProxy's memory and loops: no request is answered otherwise",
    };
    let approximated = [
        "tune.bufsize",
        "tune.http.maxhdr",
        "tune.maxrewrite",
        "tune.http.cookielen",
        "tune.http.logurilen",
        "tune.h2.max-concurrent-streams",
        "tune.h2.fe.max-concurrent-streams",
    ];
    match approximated.contains(&line.name()) {
        true => {
            ledger.words(line).rest();
            ledger.approximated(
                line,
                "heads and streams have limits of Weir's own: `limits` and `http2` of a listener",
            );
        }
        false => ledger.meaningless(line, why),
    }
}

/// `resolvers`: the first section is `[dns]`.
pub(super) fn resolvers(ledger: &Ledger, section: &Statement, is_first: bool, draft: &mut Draft) {
    ledger.words(section).rest();
    ledger.exact(section);
    for line in section.children() {
        let mut words = ledger.words(line);
        if !is_first {
            ledger.unsupported(line, "there is one set of resolvers: `[dns]`");
            continue;
        }
        let first = words.text();
        match (line.name(), first) {
            ("nameserver", Some(_)) => {
                let address = parse_address(words.text().unwrap_or_default());
                let port = address.port.clone().unwrap_or_else(|| "53".to_owned());
                draft.table(&["dns"]).push("resolvers", format!("{}:{port}", address.host_text()), line);
                ledger.exact(line);
            }
            ("parse-resolv-conf", _) => {
                ledger.by_default(line, "without `dns.resolvers`, those of `/etc/resolv.conf` are asked");
            }
            ("hold", Some("valid")) => {
                if let Some(time) = words.text().and_then(duration).filter(|time| *time != 300_000) {
                    let dns = draft.table(&["dns"]);
                    dns.set("ttl_max", time_text(time.max(1000)), line);
                }
                ledger.approximated(line, "a name is resolved again after its TTL, at most after this time");
            }
            ("hold", Some(_)) => {
                words.next();
                ledger.approximated(
                    line,
                    "the last addresses of a name stay in use while no resolver knows better",
                );
            }
            ("timeout", Some("retry")) => {
                if let Some(time) = words.text().and_then(duration).filter(|time| *time != 2000) {
                    draft.table(&["dns"]).set("timeout", time_text(time.max(1)), line);
                }
                ledger.exact(line);
            }
            ("timeout", Some("resolve")) => {
                words.next();
                ledger.approximated(
                    line,
                    "a name is resolved again after its TTL: `dns.ttl_min`, `dns.ttl_max`",
                );
            }
            ("resolve_retries" | "accepted_payload_size", _) => {
                ledger.meaningless(line, "Weir asks its resolvers in turn, over TCP where an answer is long");
            }
            _ => ledger.unsupported(line, "`[dns]` has no such key"),
        }
    }
}
