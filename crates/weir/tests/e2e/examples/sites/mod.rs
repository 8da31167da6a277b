//! Sites of known projects: `examples/sites`. Each has the config of the program that the project uses, Weir's, and requests, which
//! both programs get before the same servers and files; what differs is in one table.

mod client;
mod compare;
mod page;
mod program;
mod script;
mod servers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use client::Target;
use compare::{Outcome, differences, may};
use program::Site;
use script::Step;

use crate::harness::eventually;
use crate::harness::watchdog::work;

/// The folder of a site.
fn site(name: &str) -> PathBuf {
    super::folder().join("sites").join(name)
}

/// Sends the requests of a site to both programs, and panics with all that differs.
fn compare_site(name: &str) {
    let mut site = Site::start(&site(name));
    let script = site.script.clone();
    let mut etags = [String::new(), String::new()];
    let (mut faults, mut requests) = (Vec::new(), 0);
    for step in &script.steps {
        let listener = step.listener.as_deref().unwrap_or(&script.listeners[0].1);
        match &*step.method {
            "STOP" | "START" => site.servers.set_down(&step.target, step.method == "STOP"),
            "STATUS" => {
                let node = step.listener.as_deref().expect("the node behind @");
                site.servers.set_status(node, &step.target, step.status);
            }
            "WAIT" => work(Duration::from_secs(step.target.parse().expect("a number of seconds"))),
            "AWAIT" => {
                wait_for(site.address(0, listener), step);
                wait_for(site.address(1, listener), step);
            }
            _ => {}
        }
        if step.requests() == 0 {
            continue;
        }
        requests += step.requests();
        let outcomes = [0, 1].map(|program| {
            let address = site.address(program, listener);
            let authority = site.authority_of(listener);
            let scheme = if authority.is_some() { "https" } else { "http" };
            let base = format!("{scheme}://{}", step.host(&script.host));
            let mut outcome = Outcome { port: format!(":{}", address.port()), base, ..Outcome::default() };
            let target = Target { address, authority, host: &script.host, etag: &etags[program] };
            outcome.answers = target.ask(step);
            outcome.seen = site.servers.take();
            if let Some(etag) = outcome.answers.iter().find_map(|answer| answer.field("etag")) {
                etag.clone_into(&mut etags[program]);
            }
            outcome
        });
        let found = differences(&outcomes[0], &outcomes[1]);
        let is_marked = |aspect: &str| step.marks.iter().any(|mark| may(aspect, mark));
        let unmeant = found.iter().filter(|(aspect, _)| !is_marked(aspect));
        let stale = step.marks.iter().filter(|mark| !found.iter().any(|(aspect, _)| may(aspect, mark)));
        let mut lines: Vec<String> =
            unmeant.map(|(aspect, values)| format!("  {aspect}: {values}")).collect();
        lines.extend(stale.map(|mark| format!("  {mark}: no difference any more")));
        if !lines.is_empty() {
            let what = format!("line {}: {} {}", step.line, step.method, step.target);
            faults.push(format!("{what}\n{}", lines.join("\n")));
        }
    }
    assert!(requests >= 40, "{name} has {requests} requests");
    assert!(faults.is_empty(), "{name}: theirs / ours\n{}", faults.join("\n"));
}

/// Waits until connections come to the servers that `step` names, and to no other.
fn wait_for(address: SocketAddr, step: &Step) {
    let named = step.target.split(',').map(|name| if name == "none" { "" } else { name });
    let wanted: Vec<&str> = named.collect();
    let target = Target { address, authority: None, host: "", etag: "" };
    let asking = Step {
        method: "TCP".to_owned(),
        target: "await".to_owned(),
        times: 3 * wanted.len(),
        ..step.clone()
    };
    eventually(&format!("connections come to {wanted:?}"), || {
        let answers = target.ask(&asking);
        let mut names: Vec<&str> = answers.iter().map(|answer| &*answer.body).collect();
        names.dedup();
        names == wanted
    });
}

#[test]
fn sentry() {
    compare_site("sentry");
}

#[test]
fn mastodon() {
    compare_site("mastodon");
}

#[test]
fn nextcloud() {
    compare_site("nextcloud");
}

#[test]
fn lemmy() {
    compare_site("lemmy");
}

#[test]
fn owasp() {
    compare_site("owasp");
}

#[test]
fn patroni() {
    compare_site("patroni");
}

#[test]
fn vernemq() {
    compare_site("vernemq");
}

#[test]
fn okd() {
    compare_site("okd");
}

#[test]
fn thingsboard() {
    compare_site("thingsboard");
}

#[test]
fn searxng() {
    compare_site("searxng");
}

#[test]
fn gitlab() {
    compare_site("gitlab");
}

#[test]
fn discourse() {
    compare_site("discourse");
}

#[test]
fn frappe() {
    compare_site("frappe");
}
