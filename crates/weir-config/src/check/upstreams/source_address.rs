//! Where connections to servers come from: addresses of one family, and protocols by which a connection has one client.

use crate::config::{Server, UpstreamFault, client_source_fault};
use crate::diagnostic::{Diagnostic, DiagnosticKind, SourceSpan};
use crate::key::SpannedTable;
use crate::text::{ServerTable, ServerText, UpstreamText};
use crate::value::{ServerAddress, SourceAddress};

/// The source of connections to one server.
pub(super) fn of_server(server: &ServerText, upstream: &UpstreamText) -> Option<SourceAddress> {
    match own(server) {
        Some(table) => table.value.source_address.flatten(),
        None => upstream.source_address,
    }
}

/// The table of a server that says it itself.
fn own(server: &ServerText) -> Option<&SpannedTable<ServerTable>> {
    server.table().filter(|table| table.value.source_address.is_some())
}

pub(super) fn check(
    text: &SpannedTable<UpstreamText>,
    servers: &[Server],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let value = &text.value;
    let entries = value.servers.as_ref().map_or(&[][..], |servers| &servers.0);
    for entry in entries {
        let own = own(&entry.value);
        let at = own.map_or_else(|| text.key_at("source_address"), |own| own.key_at("source_address"));
        let (address, address_at) = match &entry.value {
            ServerText::Address(address) => (address, entry.span),
            ServerText::Table(table) => match &table.value.address {
                Some(address) => (&address.value, address.span),
                None => continue,
            },
        };
        match (of_server(&entry.value, value), address) {
            (Some(SourceAddress::Fixed(source)), ServerAddress::Ip(server))
                if source.is_ipv4() != server.is_ipv4() =>
            {
                let fault = UpstreamFault::SourceFamily(server.to_string());
                let help = format!(
                    "give this server a `source_address` of IPv{}, or `\"off\"`",
                    if server.is_ipv4() { 4 } else { 6 }
                );
                let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, fault.to_string());
                diagnostics.push(diagnostic.label(address_at, "the server is here").help(help));
            }
            (Some(_), ServerAddress::Unix(_)) if own.is_some() => {
                let message = "`source_address` has no effect: the server has a Unix socket";
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
            }
            _ => {}
        }
    }
    warn_without_effect(text, servers, diagnostics);
    let as_client = Some(SourceAddress::Client);
    let of_source = value.discovery.as_ref().and(value.source_address) == as_client;
    let is_wanted = of_source || servers.iter().any(|server| server.source_address == as_client);
    if let Some(fault) = client_source_fault(value.protocol, is_wanted) {
        let help =
            "remove one of the two: `forwarded` of the listener states the client address in each request";
        let at = text.key_at("protocol");
        let conflict = Diagnostic::new(DiagnosticKind::Conflict, at, fault.to_string()).help(help);
        diagnostics.push(conflict.label(wanted_at(text), "`source_address` is here"));
    }
}

/// Where the addresses of clients are asked for.
fn wanted_at(text: &SpannedTable<UpstreamText>) -> SourceSpan {
    if text.value.source_address == Some(SourceAddress::Client) {
        return text.key_at("source_address");
    }
    let entries = text.value.servers.as_ref().map_or(&[][..], |servers| &servers.0);
    let is_wanted =
        |table: &&SpannedTable<ServerTable>| table.value.source_address == Some(Some(SourceAddress::Client));
    let own = entries.iter().filter_map(|entry| own(&entry.value)).find(is_wanted);
    own.map_or_else(|| text.key_at("servers"), |table| table.key_at("source_address"))
}

fn warn_without_effect(
    text: &SpannedTable<UpstreamText>,
    servers: &[Server],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let is_unix = |server: &Server| matches!(server.address, ServerAddress::Unix(_));
    let Some(at) = text.changed("source_address").filter(|_| text.value.discovery.is_none()) else { return };
    if !servers.is_empty() && servers.iter().all(is_unix) {
        let message = "`source_address` has no effect: every server has a Unix socket";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
}
