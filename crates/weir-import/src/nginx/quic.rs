//! What a file says of HTTP/3: `listen ... quic`, and whether TLS is beside it.

use super::listen;
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

/// An address of HTTP/3, and whether it is the default one of its port.
#[derive(Clone, Debug)]
pub(super) struct QuicListen<'s> {
    pub(super) address: String,
    pub(super) is_default: bool,
    pub(super) statement: &'s Statement,
}

/// What becomes of HTTP/3 where no TLS is beside it.
pub(super) const WITHOUT_HTTP3: &str = "HTTP/3 has the ports of TLS, and the same server has none on this one: clients are not told of it (`Alt-Svc`), and use HTTP/2 and HTTP/1.1";

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
