//! `docs/failures.md`, written from the table of reasons so that it cannot go stale.

use std::fmt::{self, Write};

use super::{Cause, Party, Reason, rules};
use crate::phase::Phase;

const HEAD: &str = "\
# Failures: every reason code, and what to change

When an exchange ends badly, Weir knows three things: the *phase* it stood in, the *party* that ended it (client, server
or Weir itself) and the *cause*. Together they have a stable **reason code**. It is in the `weir-reason` field of the answer,
in the access log (`{reason}`), in the metrics (`reason=\"...\"`) and below.

The *status* is what the client receives. From phase relay on the client has the head of a response already, so there is no
status any more. The client gets what was received, then the connection ends without the end of the response (no last chunk,
fewer bytes than announced, no `close_notify`), or is reset where nothing else can show that something is missing. *Log only* means that
there is nobody to answer; the access log then shows the status that the client had received before, else the one in
brackets, which is 499 when the client went away.

`NAME` stands for the name of your listener or upstream. This page is generated from the table in `crates/weir-observe/src/failure/`.

";

const RULES_HEAD: &str = "\
## Broken rules of HTTP

Weir checks every message and passes none on that breaks a rule: what one server reads as one request another may read
as two. The code is the name of the rule; of a response it begins with `response-`.

";

/// The page that lists every reason code with its phases, its party, its status, what it means and what to change.
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
    writeln!(page, "### In a request\n\nThe party is the client.\n")?;
    write_rules(page, Party::Client)?;
    writeln!(
        page,
        "\n### In a response\n\nThe party is the server. In the body the rule is broken too late for a status: the client is cut off.\n"
    )?;
    write_rules(page, Party::Server)
}

/// The reasons that are not broken rules.
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
            write!(page, " [a rule broken by the request](#in-a-request)")?;
        }
        if has_rule(Party::Server) {
            write!(page, " [a rule broken by the response](#in-a-response)")?;
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
    writeln!(page, "\n\n{}\n\n**What to change:** {}\n", reason.happened(), reason.change())
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
    writeln!(page, "| code | status | phase | meaning | what to change |\n|---|---|---|---|---|")?;
    for reason in rules_of(party) {
        let (Cause::Rule(rule), Some(status)) = (reason.cause(), reason.status()) else { continue };
        let (code, change) = (reason.code(), reason.change());
        let meaning = reason.happened().trim_end_matches('.');
        write!(page, "| <a id=\"{code}\"></a>`{code}` |")?;
        match reason.phases() {
            [Phase::Relay] => write!(page, " log only ({status}) |")?,
            _ => write!(page, " {status} |")?,
        }
        write_phases(page, reason)?;
        writeln!(page, " | {meaning} ({}). | {change} |", rules::origin(rule))?;
    }
    Ok(())
}

const fn phase_meaning(phase: Phase) -> &'static str {
    match phase {
        Phase::Accept => {
            "The connection of the client is taken from the listener. There is no request yet, so nobody to answer."
        }
        Phase::Tls => "The TLS handshake with the client.",
        Phase::Request => "The head of the request is read.",
        Phase::Route => "A route, and with it an upstream, is chosen.",
        Phase::Queue => "The exchange waits for a server with a free slot.",
        Phase::Connect => "A connection to the server is taken from the idle ones or opened.",
        Phase::Send => "The request is sent to the server.",
        Phase::Response => "Weir waits for the head of the response.",
        Phase::Relay => "The body of the response, or a tunnel, is relayed. The client has the head already.",
        Phase::Finish => "The last bytes leave for the client.",
    }
}
