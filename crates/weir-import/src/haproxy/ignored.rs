//! Lines that change nothing here, and lines that Weir has nothing for: what is left once everything else is translated.

use std::collections::HashSet;

use super::proxy::begins;
use crate::report::Ledger;
use crate::source::{Statement, StatementId};

/// What a line is settled as.
#[derive(Clone, Copy)]
enum LeftOverVerdict {
    Default(&'static str),
    Meaningless(&'static str),
    Approximated(&'static str),
    Unsupported(&'static str),
}

use LeftOverVerdict::{Approximated, Default, Meaningless, Unsupported};

const CONNECTIONS: &str =
    "connections are kept and closed as `pool` and `timeouts` say: no answer depends on it";
const NO_CHECKS: &str = "no server that it would act on has `check`";
const COUNTERS: &str = "it is about statistics of HAProxy";
const KERNEL: &str = "it is about the kernel's interface: no answer depends on it";

/// `option`s.
const OPTIONS: [(&str, LeftOverVerdict); 60] = [
    ("http-server-close", Meaningless(CONNECTIONS)),
    ("httpclose", Meaningless(CONNECTIONS)),
    ("forceclose", Meaningless(CONNECTIONS)),
    ("http-keep-alive", Meaningless(CONNECTIONS)),
    ("http-tunnel", Meaningless(CONNECTIONS)),
    ("http-pretend-keepalive", Meaningless(CONNECTIONS)),
    ("http-no-delay", Default("small writes are sent at once: `tcp_nodelay`")),
    ("prefer-last-server", Approximated("which server a request gets is a matter of `balance` alone")),
    ("idle-close-on-response", Default("a connection that is closed by a reload ends with a response")),
    ("abortonclose", Default("a request whose client is gone is given up: `abort_on_close`")),
    ("redispatch", Default("a request whose server cannot be reached goes to another one")),
    ("dontlognull", Meaningless("there is no log")),
    ("dontlog-normal", Unsupported("`access_log.when` says which requests have a line")),
    ("logasap", Approximated("a line is written when the exchange is over")),
    ("log-separate-errors", Approximated("lines of the access log have one level")),
    ("log-health-checks", Default("Weir's own log has each change of state, with the reason")),
    ("httplog", Meaningless("there is no log")),
    ("tcplog", Meaningless("there is no log")),
    ("httpslog", Meaningless("there is no log")),
    ("clitcpka", Default("the kernel probes connections that are silent: `tcp_keepalive`")),
    (
        "srvtcpka",
        Approximated(
            "connections to servers have the time limits of `timeouts`; silent ones are not probed by the kernel",
        ),
    ),
    (
        "tcpka",
        Approximated(
            "the kernel probes connections of clients: `tcp_keepalive`; those to servers have the time limits of `timeouts`",
        ),
    ),
    ("clitcpka-cnt", Meaningless(KERNEL)),
    ("splice-auto", Meaningless(KERNEL)),
    ("splice-request", Meaningless(KERNEL)),
    ("splice-response", Meaningless(KERNEL)),
    ("tcp-smart-accept", Meaningless(KERNEL)),
    ("tcp-smart-connect", Meaningless(KERNEL)),
    ("nolinger", Meaningless(KERNEL)),
    ("contstats", Meaningless(COUNTERS)),
    ("socket-stats", Meaningless(COUNTERS)),
    ("independent-streams", Approximated("a tunnel ends when both directions are silent")),
    ("http-use-htx", Meaningless("HAProxy itself takes no notice of it")),
    ("disable-h2-upgrade", Default("HTTP/2 without TLS is off: `http2.prior_knowledge`")),
    (
        "http-ignore-probes",
        Meaningless("a connection without a request has neither an answer nor a line in the log"),
    ),
    ("http-use-proxy-header", Meaningless(CONNECTIONS)),
    (
        "accept-invalid-http-response",
        Approximated("`lenient` of an upstream permits each such rule by its name"),
    ),
    (
        "accept-unsafe-violations-in-http-response",
        Approximated("`lenient` of an upstream permits each such rule by its name"),
    ),
    (
        "http-restrict-req-hdr-names",
        Approximated("headers with `_` in their names are dropped: `lenient.underscore_names`"),
    ),
    (
        "h1-case-adjust-bogus-client",
        Unsupported(
            "names of headers are in lower case on the way out (RFC 9110 section 5.1: case does not matter)",
        ),
    ),
    (
        "h1-case-adjust-bogus-server",
        Unsupported(
            "names of headers are in lower case on the way out (RFC 9110 section 5.1: case does not matter)",
        ),
    ),
    ("persist", Approximated("a server that is down gets no requests, those of its own clients included")),
    ("originalto", Unsupported("set the header by `request_headers`: `{local_address}`")),
    ("transparent", Unsupported("Weir does not connect to where the client wanted to")),
    (
        "http_proxy",
        Unsupported("Weir is no forward proxy: `allow_connect` of a route, `dynamic` of an upstream"),
    ),
    (
        "checkcache",
        Unsupported("responses with `Set-Cookie` are not stored by Weir's cache; others it does not refuse"),
    ),
    ("httpchk", Meaningless(NO_CHECKS)),
    ("tcp-check", Meaningless(NO_CHECKS)),
    ("ssl-hello-chk", Meaningless(NO_CHECKS)),
    ("mysql-check", Meaningless(NO_CHECKS)),
    ("pgsql-check", Meaningless(NO_CHECKS)),
    ("redis-check", Meaningless(NO_CHECKS)),
    ("smtpchk", Meaningless(NO_CHECKS)),
    ("ldap-check", Meaningless(NO_CHECKS)),
    ("external-check", Meaningless(NO_CHECKS)),
    ("spop-check", Meaningless(NO_CHECKS)),
    ("forwardfor", Meaningless("with `mode tcp` there are no requests")),
    ("http-buffer-request", Meaningless("with `mode tcp` there are no requests")),
    ("allbackups", Meaningless("no server is a backup")),
    ("start-on-reload", Meaningless("it is about `program`")),
];

/// Other lines of `defaults`, `frontend`, `backend` and `listen`.
const LINES: [(&[&str], LeftOverVerdict); 41] = [
    (&["contimeout"], Meaningless("no section with servers has it")),
    (&["srvtimeout"], Meaningless("no section with servers has it")),
    (&["clitimeout"], Meaningless("HAProxy takes no notice of it here: it is about clients")),
    (&["timeout", "client"], Meaningless("HAProxy takes no notice of it here: it is about clients")),
    (&["timeout", "http-request"], Meaningless("no section with clients of HTTP has it")),
    (&["timeout", "http-keep-alive"], Meaningless("no section with clients of HTTP has it")),
    (&["timeout", "client-fin"], Meaningless("no section with clients has it")),
    (&["timeout", "client-hs"], Meaningless("no section with clients has it")),
    (&["timeout", "server"], Meaningless("no section with servers has it")),
    (&["timeout", "connect"], Meaningless("no section with servers has it")),
    (&["timeout", "queue"], Meaningless("no section with servers has it")),
    (&["timeout", "tunnel"], Meaningless("no section with servers has it")),
    (&["timeout", "server-fin"], Meaningless("no section with servers has it")),
    (&["timeout", "check"], Meaningless(NO_CHECKS)),
    (&["timeout", "tarpit"], Meaningless("no rule makes clients wait")),
    (&["http-check"], Meaningless(NO_CHECKS)),
    (&["tcp-check"], Meaningless(NO_CHECKS)),
    (&["external-check"], Meaningless(NO_CHECKS)),
    (&["fullconn"], Meaningless("no server has a `minconn`: its `maxconn` is the same under any load")),
    (&["maxconn"], Meaningless("HAProxy takes no notice of it here: it is about clients")),
    (&["log"], Meaningless("requests are logged by the section that clients connect to")),
    (&["no", "log"], Meaningless("nothing is logged here")),
    (&["log-tag"], Approximated("messages to syslog are tagged `weir`")),
    (&["log-format"], Meaningless("there is no log")),
    (&["log-format-sd"], Unsupported("`access_log.format` has the whole line")),
    (&["error-log-format"], Approximated("what fails has a line of the same format")),
    (
        &["capture", "request"],
        Approximated(
            "the log has `{header.NAME}` where its format names it; the usual formats have no captures",
        ),
    ),
    (
        &["capture", "response"],
        Approximated(
            "the log has `{response.header.NAME}` where its format names it; the usual formats have no captures",
        ),
    ),
    (
        &["capture", "cookie"],
        Approximated(
            "the log has `{cookie.NAME}` where its format names it; the usual formats have no captures",
        ),
    ),
    (&["declare"], Meaningless("there are no slots of captures")),
    (&["description"], Meaningless("it is shown nowhere")),
    (&["id"], Meaningless("nothing asks for it")),
    (&["enabled"], Default("what is in the config is in use")),
    (&["bind-process"], Meaningless("Weir is one process")),
    (&["load-server-state-from-file"], Approximated("servers begin in the state that the config gives them")),
    (&["guid"], Meaningless("nothing asks for it")),
    (&["hash-type"], Meaningless("nothing is hashed by it")),
    (&["hash-balance-factor"], Meaningless("nothing is hashed by it")),
    (&["retry-on"], Meaningless("no section with servers has it")),
    (&["unique-id-format"], Meaningless("no section with clients has it")),
    (&["server-state-file-name"], Approximated("servers begin in the state that the config gives them")),
];

/// Settles what is left in a section of proxies.
pub(super) fn settle(ledger: &Ledger, section: &Statement, superseded: &HashSet<StatementId>) {
    for line in section.children() {
        if ledger.is_settled(line) {
            continue;
        }
        if superseded.contains(&line.id) {
            ledger.meaningless(line, "a later line, or one of the section itself, replaces it");
            continue;
        }
        let persists = ["cookie", "stick"];
        let has_affinity = section.children().iter().any(|line| persists.contains(&line.name()));
        match verdict(line, section.name() == "defaults") {
            Some(Unsupported(_) | Approximated(_))
                if !has_affinity
                    && (matches!(line.name(), "ignore-persist" | "force-persist")
                        || begins(line, &["option", "persist"])) =>
            {
                ledger.meaningless(line, "clients have no server that is theirs");
            }
            Some(Default(why)) => {
                ledger.words(line).rest();
                ledger.by_default(line, why);
            }
            Some(Meaningless(why)) => ledger.meaningless(line, why),
            Some(Approximated(note)) => {
                ledger.words(line).rest();
                ledger.approximated(line, note);
            }
            Some(Unsupported(advice)) => ledger.unsupported(line, advice),
            None => {}
        }
    }
}

fn verdict(line: &Statement, is_defaults: bool) -> Option<LeftOverVerdict> {
    let word = |index: usize| line.words.get(index).map_or("", |word| word.text.as_str());
    if line.name() == "no" && word(1) == "option" {
        let known = OPTIONS.iter().any(|(name, _)| *name == word(2)) || word(2) == "forwarded";
        return Some(if known {
            Meaningless("it is off where nothing switches it on")
        } else {
            Unsupported("the import does not know this option")
        });
    }
    if line.name() == "option" {
        return OPTIONS.iter().find(|(name, _)| *name == word(1)).map(|(_, verdict)| *verdict);
    }
    if let Some((_, verdict)) = LINES.iter().find(|(name, _)| begins(line, name)) {
        return Some(*verdict);
    }
    if let Some(advice) = old_or_foreign(line.name()) {
        return Some(advice);
    }
    let of_sections = [
        "mode",
        "balance",
        "cookie",
        "retries",
        "default-server",
        "errorfile",
        "errorloc",
        "errorloc302",
        "errorloc303",
        "compression",
        "default_backend",
        "monitor-uri",
        "unique-id-header",
        "dynamic-cookie-key",
        "backlog",
        "stats",
        "source",
        "http-request",
        "http-response",
    ];
    let of_servers = ["balance", "cookie", "retries", "default-server", "source", "dynamic-cookie-key"];
    if of_servers.contains(&line.name()) {
        return Some(Meaningless("there is no server that it would act on"));
    }
    (is_defaults && of_sections.contains(&line.name()))
        .then_some(Meaningless("no section behind it makes use of it"))
}

/// Keywords of versions before 2.1, and what Weir has nothing for.
fn old_or_foreign(name: &str) -> Option<LeftOverVerdict> {
    Some(match name {
        "reqallow" | "reqiallow" | "reqdeny" | "reqideny" | "reqpass" | "reqipass" | "reqtarpit"
        | "reqitarpit" | "rspdeny" | "rspideny" | "rsprep" | "rspirep" | "reqsetbe" | "reqisetbe" => {
            Unsupported(
                "HAProxy has not known it since version 2.1: write it as `http-request` or `http-response`, and import it again",
            )
        }
        "block" => Unsupported(
            "HAProxy has not known it since version 2.1: write `http-request deny`, and import it again",
        ),
        "appsession" => Unsupported(
            "HAProxy has not known it since version 1.6: `affinity` with `mode = \"learn\"` does that",
        ),
        "filter" => Unsupported(
            "of filters, Weir has compression, bandwidth (`bandwidth` of `[limit.NAME]`) and traces",
        ),
        "rate-limit" => Unsupported(
            "`connections_per_client_rate` of a listener bounds clients; `tls.handshake_rate` bounds handshakes",
        ),
        "use-server" => {
            Unsupported("make an upstream of that server, and a route to it before the one to all of them")
        }
        "ignore-persist" | "force-persist" => {
            Unsupported("`affinity` of an upstream is for all of its requests")
        }
        "email-alert" => Unsupported("alerts are made from the metrics: `/metrics` of the admin listener"),
        "use-fcgi-app" => Unsupported("an upstream has `protocol = \"fastcgi\"`, and its routes `fastcgi`"),
        "http-reuse" => Approximated("connections to servers are shared by the requests of all clients"),
        "max-keep-alive-queue" => {
            Approximated("connections to servers are shared by the requests of all clients")
        }
        "monitor-net" => {
            Unsupported("HAProxy has not known it since version 2.1: answer a path with `respond`")
        }
        "grace" => Meaningless("HAProxy itself takes no notice of it"),
        "persist" => Unsupported("Weir has no affinity for RDP"),
        "tcp-response" | "tcp-request" => {
            Unsupported("connections have `lists` and `limited_by` of the listener")
        }
        "quic-initial" => Unsupported(
            "first packets of HTTP/3 have no rules: `connections_per_client_rate` and lists bound clients",
        ),
        _ => return None,
    })
}

/// Sections that Weir has nothing for, with what to do instead.
pub(super) fn foreign_section(ledger: &Ledger, section: &Statement) {
    let advice = match section.name() {
        "peers" => {
            "nodes share limits by a Redis (`[store.NAME]`, `shared` of `[limit.NAME]`) and affinity by keys likewise (`affinity.shared`)"
        }
        "mailers" => "alerts are made from the metrics: `/metrics` of the admin listener",
        "program" => "have the service manager start the program",
        "ring" | "log-forward" | "log-profile" => {
            "lines of the access log go to a file, standard output or syslog: `access_log.output`"
        }
        "http-errors" => "`error_pages` of a listener or a route have the files of bodies",
        "fcgi-app" => "an upstream has `protocol = \"fastcgi\"`, and its routes `fastcgi`",
        "acme" => "`tls.acme` of a listener obtains certificates",
        _ => "Weir has no such section",
    };
    for line in section.children().iter().chain([section]) {
        ledger.unsupported(line, advice);
    }
}
