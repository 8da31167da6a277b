//! HTTP/3 as a table of the listener: `listen ... quic` beside TLS on the same port.

use super::quic::{QuicListen, WITHOUT_HTTP3, is_quic};
use super::scope::Scope;
use super::servers::{ListenerGroup, NginxServer};
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

const ALONE: &str = "HTTP/3 is beside TLS on the same port: add `listen ... ssl` to this server";

const NEEDS_TLS: &str =
    "HTTP/3 needs TLS 1.3, which is not on this port here: clients use HTTP/2 and HTTP/1.1";

const FOR_ALL: &str = "HTTP/3 is there for all servers of the port, with the same default server as TLS has";

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
