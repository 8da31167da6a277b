//! `server` of an `upstream`: its address and options.

use super::super::scope::Scope;
use super::super::units;
use super::split_port;
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

/// A server of a block.
pub(super) struct UpstreamServer {
    address: String,
    weight: Option<i64>,
    max_requests: Option<i64>,
    backup: bool,
    down: bool,
    /// `max_fails=`, and `fail_timeout=`, where they are written.
    max_fails: Option<i64>,
    fail_timeout: Option<String>,
    slow_start: Option<String>,
}

pub(super) fn parse(scope: &Scope<'_>, child: &Statement) -> Option<UpstreamServer> {
    let mut words = scope.ledger.words(child);
    let text = words.text()?;
    let number = |text: &str| text.parse::<i64>().ok();
    let mut server = UpstreamServer {
        address: address(text),
        weight: words.option("weight=").and_then(number).filter(|weight| *weight != 1),
        max_requests: words.option("max_conns=").and_then(number).filter(|max| *max > 0),
        backup: words.flag("backup"),
        down: words.flag("down"),
        max_fails: words.option("max_fails=").and_then(number),
        fail_timeout: words.option("fail_timeout=").and_then(units::duration),
        slow_start: words.option("slow_start=").and_then(units::duration),
    };
    // Names are resolved again by their TTL in any case.
    words.flag("resolve");
    let mut differences = Vec::new();
    if words.flag("drain") {
        server.down = false;
        differences.push("the server takes new clients: set its `mode` to `draining`");
    }
    if words.option("route=").is_some() {
        differences.push("cookies of affinity name the server by its address, and not by `route=`");
    }
    if words.option("service=").is_some() {
        scope.ledger.unsupported(
            child,
            "follow the SRV records with `discovery = { srv = \"...\" }` of the upstream",
        );
        return None;
    }
    match server.weight {
        Some(weight) if weight > 256 => {
            server.weight = Some(256);
            differences.push("the weight is 256, the most that Weir has: divide the weights of all servers");
        }
        _ => {}
    }
    if server.max_requests.is_some() {
        differences.push(
            "requests beyond `max_conns` wait for the server, where nginx answers 502 once all are full",
        );
    }
    match differences.as_slice() {
        [] => scope.ledger.exact(child),
        some => some.iter().for_each(|difference| scope.ledger.approximated(child, difference)),
    }
    Some(server)
}

/// The address with its port, which is 80 unless it is written, whatever the servers speak.
fn address(text: &str) -> String {
    match split_port(text) {
        _ if text.starts_with("unix:") => text.to_owned(),
        (_, Some(_)) => text.to_owned(),
        (host, None) => format!("{host}:80"),
    }
}

impl UpstreamServer {
    /// As in `servers`. `all_kept`: no server of the upstream is ever ejected, or there is no other one.
    pub(super) fn value(&self, all_kept: bool) -> TomlValue {
        let mut entries = Vec::new();
        let mut set = |key: &str, value: TomlValue| entries.push((key.to_owned(), value));
        if let Some(weight) = self.weight {
            set("weight", weight.into());
        }
        if let Some(max) = self.max_requests {
            set("max_requests", max.into());
        }
        if self.backup {
            set("backup", true.into());
        }
        if self.down {
            set("mode", "maintenance".into());
        }
        if self.never_ejected() && !all_kept {
            set("ejection", false.into());
        }
        if entries.is_empty() {
            return self.address.as_str().into();
        }
        entries.insert(0, ("address".to_owned(), self.address.as_str().into()));
        TomlValue::Inline(entries)
    }

    pub(super) fn never_ejected(&self) -> bool {
        self.max_fails == Some(0)
            || self.fail_timeout.as_deref().is_some_and(|time| units::millis(time) == Some(0))
    }
}

/// What the servers say that is a matter of the upstream.
pub(super) fn shared(servers: &[UpstreamServer], table: &mut DraftTable) {
    if let Some(time) = servers.iter().find_map(|server| server.slow_start.as_ref()) {
        table.set_plain("slow_start", time.as_str());
    }
    // Of a single server, nginx never stops to expect anything; nor does Weir.
    if servers.len() < 2 {
        return;
    }
    if servers.iter().all(UpstreamServer::never_ejected) {
        table.set_plain("ejection", "off");
        return;
    }
    let telling = servers.iter().find(|server| {
        !server.never_ejected() && (server.max_fails.is_some() || server.fail_timeout.is_some())
    });
    if let Some(server) = telling {
        let ejection = table.table("ejection");
        ejection.set_plain("max_fails", server.max_fails.unwrap_or(1));
        if let Some(time) = server.fail_timeout.as_deref().filter(|time| *time != "10s") {
            ejection.set_plain("fail_timeout", time);
        }
    }
}
