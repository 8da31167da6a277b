//! `bind quic4@...`: HTTP/3 beside TLS on the same port.

use super::{BindGroup, BindOptions, listen};
use crate::document::TomlValue;
use crate::haproxy::address::parse_address;
use crate::haproxy::frontend::tls::TlsBind;
use crate::haproxy::output::Keys;
use crate::haproxy::process::GlobalFacts;
use crate::haproxy::proxy::ProxySection;
use crate::report::StatementWords;
use crate::source::{SourceFiles, Statement};

/// Whether an address is one of HTTP/3.
pub(super) fn is_quic(written: &str) -> bool {
    written.starts_with("quic4@") || written.starts_with("quic6@")
}

/// Switches HTTP/3 on for the group that has the addresses of a line with the same options.
pub(super) fn add<'s>(
    proxy: &ProxySection<'s>,
    groups: &mut [BindGroup<'s>],
    (statement, written, words): (&'s Statement, &str, &mut StatementWords<'s>),
    global: &GlobalFacts<'s>,
    files: &dyn SourceFiles,
) {
    let ledger = proxy.ledger;
    ledger.exact(statement);
    let mut bind = BindOptions { keys: Keys::default(), tls: TlsBind::default(), v4v6: false, v6only: false };
    bind.read(proxy, statement, words);
    if global.has_no_quic {
        return ledger.meaningless(statement, "`no-quic` of `global`: nothing listens there");
    }
    bind.tls.alpn = None;
    bind.write_tls(proxy, statement, global, files);
    let over_tcp = written.replace("quic4@", "ipv4@").replace("quic6@", "ipv6@");
    let found: Option<Vec<_>> = over_tcp.split(',').map(|text| listen(&parse_address(text), &bind)).collect();
    let addresses: Vec<(String, Option<u16>)> = found.map(|lists| lists.concat()).unwrap_or_default();
    let beside = groups.iter_mut().find(|group| {
        group.facts.tls && !addresses.is_empty() && addresses.iter().all(|one| has(group, one))
    });
    let Some(group) = beside.filter(|_| !proxy.is_tcp()) else {
        let is_alone = groups.is_empty();
        let advice =
            "HTTP/3 has the ports of TLS: add a `bind` with `ssl` for the same address to this section";
        return match is_alone {
            true => ledger.unsupported(statement, advice),
            false => ledger.approximated(statement, "HTTP/3 has the ports of TLS, and this section has none on this one: clients use HTTP/2 and HTTP/1.1"),
        };
    };
    let mut own = group.keys.clone();
    own.remove("http2");
    own.remove("http3");
    // What is about TCP alone.
    ["defer_accept", "fast_open"].into_iter().for_each(|key| own.remove(key));
    if !own.equals(&bind.keys) {
        let difference = "its options are others than those of TLS on this port, so that HTTP/3 is not switched on: clients use HTTP/2 and HTTP/1.1";
        return ledger.approximated(statement, difference);
    }
    if own.get("tls.versions") == Some(&TomlValue::from(vec!["1.2"])) {
        return ledger.approximated(statement, "HTTP/3 needs TLS 1.3: clients use HTTP/2 and HTTP/1.1");
    }
    group.keys.set("http3", TomlValue::Inline(Vec::new()), statement);
}

/// Whether a group listens on an address, by all addresses of a port or by the same one.
fn has(group: &BindGroup<'_>, (address, _): &(String, Option<u16>)) -> bool {
    let all = address.strip_prefix("[::]").unwrap_or(address);
    group.addresses.iter().any(|(known, _)| known == address || known == all)
}
