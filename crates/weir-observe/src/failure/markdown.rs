//! `docs/failures.md`, written from the table of reasons so that it cannot go stale.

use std::fmt::{self, Write};

use super::{Cause, Party, Reason, rules};
use crate::words::phase::Phase;

const HEAD: &str = "\
# Failures: reason codes, causes and advice

A failure of an exchange has a *phase*, a *party* (client, server or Weir itself) and a *cause*. Together they have a stable
**reason code**: the value of the `weir-reason` response field, of `{reason}` in the access log and of the label `reason` in the metrics.

The *status* is the one that the client receives. From phase relay on, the client has received the head of a response, so the
status cannot change. The client then receives all bytes that arrived, and the connection ends without the end of the response: no
last chunk, fewer bytes than announced, no `close_notify`. Where none of these can show the truncation, the connection is reset.
*Log only* means that no response can be sent. The access log then has the status that the client received before, or else the
one in brackets: 499 if the client closed the connection.

An outage of what Weir asks beside the path of requests fails no exchange and has no reason code: see [the last section](#outages-that-fail-no-exchange).

`NAME` is the name of a listener or an upstream. This page is generated from the table in `crates/weir-observe/src/failure/`.

";

const RULES_HEAD: &str = "\
## Violations of HTTP

Weir rejects ambiguous messages (request smuggling): a message that violates a rule is never forwarded. The reason code is the name
of the rule, and begins with `response-` for a response.

";

/// With the words of log and status page.
const OUTAGES: &str = "
## Outages that fail no exchange

Weir asks some programs beside the path of requests. While one does not answer, what it said last stays in use: requests are served as before, and changes wait. Weir asks again and again, the log has the outage once with its cause (`why`, `problem` or `error`), and its end.

| lost | log | status page | metric | advice |
|---|---|---|---|---|
| <a id=\"api-server-lost\"></a>the API server of Kubernetes (`weir serve --kubernetes`) | `the API server does not answer as it should: what is known stays in use`; at the end `the API server answers again` | `Lost for TIME: what it said last is in use.` | `weir_config_route_stores_stale`, `weir_config_route_stores_lost_timestamp_seconds` | Look at the cause: the address of the API server, its certificate, or permissions of the service account. Do not restart Weir meanwhile: a new process has no routes until the API server answers. |
| <a id=\"control-plane-lost\"></a>a control plane by xDS | `the source of servers has a problem; the last known servers stay in use`; at the end `the control plane answers again` | `It does not answer now: these are the last known ones.` | `weir_upstream_source_stale` is 1 | Look at `discovery.xds.url`, the certificates and the token. Set `discovery.state_file`, so that a restart needs no control plane. |
| <a id=\"source-lost\"></a>another source of servers: Consul, etcd, DNS, a file | `the source of servers has a problem; the last known servers stay in use` | `It does not answer now: these are the last known ones.` | `weir_upstream_source_stale` is 1 | The same, in the section of the source. |
| <a id=\"route-store-lost\"></a>a store of routes: etcd, Consul | `the store of routes has a problem; the routes in use stay` | `Lost for TIME: what it said last is in use.` | `weir_config_route_stores_stale`, `weir_config_route_stores_lost_timestamp_seconds` | Look at the section of the store. Set `state_file` of the source, so that a restart does not need it. |
| <a id=\"limit-store-lost\"></a>a store of shared limits | `limits are not shared any more: each node has them for itself until the store answers` | `of this node alone`, with the cause | `weir_limit_shared` is 0 | Look at the store: `change` in the line of the log has advice. |
";

/// The page that lists every reason code with its phases, its party, its status, its meaning and the advice.
pub fn failures_markdown() -> String {
    let mut page = String::with_capacity(64 * 1024);
    write_page(&mut page).expect("a string takes everything");
    page
}

/// The keys of the config that explanations name, sorted, so that a test of the config can check that each exists.
pub fn config_keys_named() -> Vec<&'static str> {
    let starts = ["process.", "log.", "access_log.", "dns.", "admin.", "listener.", "upstream."];
    let mut keys: Vec<&str> = Reason::all()
        .flat_map(|reason| [reason.happened(), reason.change()])
        .flat_map(|text| text.split('`').skip(1).step_by(2))
        .filter(|code| starts.iter().any(|start| code.starts_with(start)))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn write_page(page: &mut String) -> fmt::Result {
    page.push_str(HEAD);
    write_index(page)?;
    for phase in Phase::ALL {
        writeln!(page, "## Phase {}\n\n{}\n", phase.name(), phase_meaning(phase))?;
        for reason in own_reasons().filter(|reason| reason.phases()[0] == phase) {
            write_reason(page, reason)?;
        }
    }
    page.push_str(RULES_HEAD);
    writeln!(
        page,
        "### In a request\n\nThe party is the client. A rule about the frames of HTTP/2 has no status: its connection ends with GOAWAY, or its stream is reset.\n"
    )?;
    write_rules(page, Party::Client)?;
    writeln!(
        page,
        "\n### In a response\n\nThe party is the server. A violation in the body comes too late for a status: the response is truncated.\n"
    )?;
    write_rules(page, Party::Server)?;
    page.push_str(OUTAGES);
    Ok(())
}

/// The reasons other than violations of HTTP.
fn own_reasons() -> impl Iterator<Item = Reason> {
    Reason::all().filter(|reason| !matches!(reason.cause(), Cause::Rule(_)))
}

/// One line per status with the codes that lead to it.
fn write_index(page: &mut String) -> fmt::Result {
    let mut statuses: Vec<u16> = Reason::all().filter_map(Reason::status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    writeln!(page, "| status | reason codes |\n|---|---|")?;
    for status in statuses {
        write!(page, "| {status} |")?;
        for reason in own_reasons().filter(|reason| reason.status() == Some(status)) {
            write!(page, " [{0}](#{0})", reason.code())?;
        }
        let has_rule = |party: Party| rules_of(party).any(|reason| reason.status() == Some(status));
        if has_rule(Party::Client) {
            write!(page, " [a violation in the request](#in-a-request)")?;
        }
        if has_rule(Party::Server) {
            write!(page, " [a violation in the response](#in-a-response)")?;
        }
        writeln!(page, " |")?;
    }
    writeln!(page)
}

fn write_reason(page: &mut String, reason: Reason) -> fmt::Result {
    writeln!(page, "### {}\n", reason.code())?;
    match reason.status() {
        Some(status) => write!(page, "Status {status}")?,
        None => write!(page, "Log only ({})", reason.log_status())?,
    }
    write!(page, " | party {} | phase", reason.party().name())?;
    write_phases(page, reason)?;
    writeln!(page, "\n\n{}\n\n**Advice:** {}\n", reason.happened(), reason.change())
}

fn write_phases(page: &mut String, reason: Reason) -> fmt::Result {
    for (index, phase) in reason.phases().iter().enumerate() {
        write!(page, "{} {}", if index == 0 { "" } else { "," }, phase.name())?;
    }
    Ok(())
}

/// The rules that a message of this party can break.
fn rules_of(party: Party) -> impl Iterator<Item = Reason> {
    Reason::all().filter(move |reason| {
        matches!(reason.cause(), Cause::Rule(_)) && reason.party() == party && reason.is_possible()
    })
}

fn write_rules(page: &mut String, party: Party) -> fmt::Result {
    writeln!(page, "| code | status | phase | meaning | advice |\n|---|---|---|---|---|")?;
    for reason in rules_of(party) {
        let Cause::Rule(rule) = reason.cause() else { continue };
        let (code, change) = (reason.code(), reason.change());
        let meaning = reason.happened().trim_end_matches('.');
        write!(page, "| <a id=\"{code}\"></a>`{code}` |")?;
        match (reason.phases(), reason.status()) {
            ([Phase::Relay], Some(status)) => write!(page, " log only ({status}) |")?,
            (_, Some(status)) => write!(page, " {status} |")?,
            (_, None) => write!(page, " none |")?,
        }
        write_phases(page, reason)?;
        writeln!(page, " | {meaning} ({}). | {change} |", rules::origin(rule))?;
    }
    Ok(())
}

const fn phase_meaning(phase: Phase) -> &'static str {
    match phase {
        Phase::Accept => {
            "Weir accepts the client connection. There is no request yet, so no response can be sent."
        }
        Phase::Tls => "The TLS handshake with the client.",
        Phase::Request => "Weir reads the head of the request.",
        Phase::Route => "Weir chooses a route, and with it an upstream.",
        Phase::Queue => "The exchange waits for a server with a free slot.",
        Phase::Connect => "Weir takes a connection to the server from the pool, or opens one.",
        Phase::Send => "Weir sends the request to the server.",
        Phase::Response => "Weir waits for the head of the response.",
        Phase::Relay => {
            "Weir relays the body of the response, or a tunnel. The client has received the head."
        }
        Phase::Finish => "Weir sends the last bytes to the client.",
    }
}
