//! HTTP/3: `listen ... quic` beside TLS on the same port, as a table of the listener.

use super::listen;
use super::scope::Scope;
use super::servers::{ListenerGroup, NginxServer};
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

/// An address of HTTP/3, and whether it is the default one of its port.
#[derive(Clone, Debug)]
pub(super) struct QuicListen<'s> {
    address: String,
    is_default: bool,
    statement: &'s Statement,
}

/// What becomes of HTTP/3 where no TLS is beside it.
pub(super) const WITHOUT_HTTP3: &str = "HTTP/3 has the ports of TLS, and the same server has none on this one: clients are not told of it (`Alt-Svc`), and use HTTP/2 and HTTP/1.1";

const ALONE: &str = "HTTP/3 is beside TLS on the same port: add `listen ... ssl` to this server";

const NEEDS_TLS: &str =
    "HTTP/3 needs TLS 1.3, which is not on this port here: clients use HTTP/2 and HTTP/1.1";

const FOR_ALL: &str = "HTTP/3 is there for all servers of the port, with the same default server as TLS has";

/// Whether an address is one of HTTP/3.
pub(super) fn is_quic(statement: &Statement) -> bool {
    statement.name() == "listen" && statement.words.iter().skip(2).any(|word| word.text == "quic")
}

/// The addresses of HTTP/3 in a server.
pub(super) fn listens<'s>(block: &'s [Statement]) -> Vec<QuicListen<'s>> {
    let quic = |statement: &'s Statement| {
        let has = |flag: &str| statement.words.iter().any(|word| word.text == flag);
        let address = listen::address(&statement.words[1].text, has("ipv6only=off")).ok()?;
        Some(QuicListen { address, is_default: has("default_server"), statement })
    };
    block.iter().filter(|one| is_quic(one)).filter_map(quic).collect()
}

/// Whether a server speaks HTTP/3 on an address where it has TLS, too.
pub(super) fn is_beside_tls(block: &[Statement]) -> bool {
    let all =
        block.iter().any(|one| one.name() == "ssl" && one.words.get(1).is_some_and(|word| word.text == "on"));
    let tls = |one: &Statement| {
        let has = |flag: &str| one.words.iter().any(|word| word.text == flag);
        (one.name() == "listen" && !is_quic(one) && one.words.len() > 1 && (all || has("ssl")))
            .then(|| listen::address(&one.words[1].text, has("ipv6only=off")).ok())
            .flatten()
    };
    let has_tls: Vec<String> = block.iter().filter_map(tls).collect();
    listens(block).iter().any(|one| has_tls.contains(&one.address))
}

/// Whether a file has an address of HTTP/3 anywhere.
pub(super) fn is_spoken(statements: &[Statement]) -> bool {
    statements.iter().any(|one| is_quic(one) || one.name() == "server" && is_spoken(one.children()))
}

/// Switches HTTP/3 on for addresses that have TLS in the same servers, and accounts for `listen ... quic` and `http3`. Each group has one
/// address.
pub(super) fn settle<'s>(scope: &Scope<'s>, servers: &[NginxServer<'s>], groups: &mut [ListenerGroup<'s>]) {
    let speaks: Vec<bool> = servers.iter().map(|server| speaks(scope, server)).collect();
    for (index, server) in servers.iter().enumerate() {
        for one in block_listens(server) {
            scope.words(one).rest();
            if !speaks[index] {
                scope.ledger.meaningless(one, "`http3 off` leaves no protocol that is spoken there");
            }
        }
        for quic in server.quic.iter().filter(|_| speaks[index]) {
            let partner = groups.iter().find(|group| group.tls && group.addresses[0] == quic.address);
            match partner {
                Some(group) if group.servers.contains(&index) => scope.ledger.exact(quic.statement),
                _ if server.listens.is_empty() => {
                    scope.ledger.unsupported(quic.statement, ALONE);
                    server.statement.into_iter().for_each(|one| scope.ledger.unsupported(one, ALONE));
                }
                _ => scope.ledger.approximated(quic.statement, WITHOUT_HTTP3),
            }
        }
        let known: Vec<_> = server.quic.iter().map(|quic| quic.statement.id).collect();
        for one in block_listens(server).filter(|one| speaks[index] && !known.contains(&one.id)) {
            scope.ledger.unsupported(one, "write the address itself: listeners have addresses, not names");
        }
    }
    for group in groups.iter_mut().filter(|group| group.tls) {
        let of_group = |index: &usize| {
            let own = servers[*index].quic.iter().find(|quic| quic.address == group.addresses[0])?;
            Some((*index, own))
        };
        let with: Vec<(usize, &QuicListen<'s>)> =
            group.servers.iter().filter(|index| speaks[**index]).filter_map(of_group).collect();
        let Some(first) = with.first() else { continue };
        let default = with.iter().find(|(_, quic)| quic.is_default).unwrap_or(first).0;
        if with.len() != group.servers.len() || default != group.default {
            with.iter().for_each(|(_, quic)| scope.ledger.approximated(quic.statement, FOR_ALL));
        }
        group.http3 = Some(first.1.statement);
    }
}

fn block_listens<'s>(server: &NginxServer<'s>) -> impl Iterator<Item = &'s Statement> {
    server.block.iter().filter(|one| is_quic(one))
}

/// Whether a server speaks HTTP/3, which it does unless `http3` is off.
fn speaks<'s>(scope: &Scope<'s>, server: &NginxServer<'s>) -> bool {
    let Some(statement) = scope.within(server.block).one("http3") else { return true };
    if server.quic.is_empty() {
        return true;
    }
    scope.ledger.exact(statement);
    scope.words(statement).text() != Some("off")
}

/// Writes the table. nginx tells clients of HTTP/3 by `add_header` alone.
pub(super) fn write<'s>(scope: &Scope<'s>, group: &ListenerGroup<'s>, table: &mut DraftTable) {
    let Some(statement) = group.http3 else { return };
    let old = TomlValue::from(vec!["1.2"]);
    if !table.get_table("tls").is_some_and(|tls| tls.get("versions") != Some(&old)) {
        return scope.ledger.approximated(statement, NEEDS_TLS);
    }
    let mut keys = vec![("alt_svc_max_age".to_owned(), TomlValue::from("0s"))];
    if let Some((most, text)) = scope.text("http3_max_concurrent_streams") {
        match text.parse::<i64>() {
            Ok(128) => scope.ledger.by_default(most, "a client may have 128 requests open at once"),
            Ok(number @ 1..=10_000) => {
                keys.insert(0, ("streams_max".to_owned(), number.into()));
                scope.ledger.exact(most);
            }
            _ => scope.ledger.unsupported(most, "`http3.streams_max` is a number up to 10000"),
        }
    }
    table.set_beside("http3", TomlValue::Inline(keys), statement);
}

/// Leaves `alt_svc_max_age` out where the listener has such a field of its own, which takes the place of Weir's.
pub(super) fn without_second_field(listener: &mut DraftTable) {
    let Some(TomlValue::Inline(mut keys)) = listener.get("http3").cloned() else { return };
    let names = |rule: &DraftTable| {
        let given = ["add", "set"].into_iter().filter_map(|key| rule.get_table(key));
        given.flat_map(DraftTable::keys).any(|name| name.eq_ignore_ascii_case("alt-svc"))
    };
    let has_field = listener.get_table("response_headers").is_some_and(names)
        || listener.tables("response_headers").iter().any(names);
    if has_field {
        keys.retain(|(key, _)| key != "alt_svc_max_age");
        listener.replace_value("http3", TomlValue::Inline(keys));
    }
}
