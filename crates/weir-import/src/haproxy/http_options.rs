//! What frontends and backends both may say: headers about the client, compression, error pages.

use super::acl::{AclCondition, AclSubject, Atom, AtomTest};
use super::errors;
use super::output::Keys;
use super::proxy::ProxySection;
use super::rules::{HeaderChange, HeaderOperation};
use crate::document::TomlValue;
use crate::source::{SourceFiles, Statement};

/// The `option forwardfor` of each section that faces clients.
pub(super) type ForwardedBy<'s> = [Option<&'s Statement>];

/// Keys of a listener, or of the routes to a backend: the latter knows what the sections that face clients do.
pub(super) fn options<'s>(
    proxy: &ProxySection<'s>,
    keys: &mut Keys<'s>,
    changes: &mut Vec<HeaderChange<'s>>,
    files: &dyn SourceFiles,
    by_clients: Option<&ForwardedBy<'s>>,
) {
    if proxy.is_tcp() {
        return;
    }
    forwarded(proxy, keys, changes, by_clients);
    compression(proxy, keys);
    errors::error_pages(proxy, keys, files);
    if let Some(statement) = proxy.option("http-buffer-request") {
        proxy.ledger.words(statement).rest();
        proxy.ledger.approximated(
            statement,
            "the whole body is taken in before a server is chosen, not its beginning",
        );
        keys.set("buffer_requests", TomlValue::Inline(Vec::new()), statement);
    }
}

/// `option forwardfor`.
fn forwarded<'s>(
    proxy: &ProxySection<'s>,
    keys: &mut Keys<'s>,
    changes: &mut Vec<HeaderChange<'s>>,
    by_clients: Option<&ForwardedBy<'s>>,
) {
    let ledger = proxy.ledger;
    if let Some(statement) = proxy.option("forwarded") {
        ledger.words(statement).rest();
        ledger.approximated(statement, "`Forwarded` says for whom, by which protocol and for which host");
        if proxy.is_frontend() {
            keys.set("forwarded.rfc7239", true, statement);
        } else {
            ledger.unsupported(statement, "`forwarded.rfc7239` of the listener is for all of its requests");
        }
    }
    let Some(statement) = proxy.option("forwardfor") else {
        if proxy.is_frontend() {
            ledger.approximated(proxy.header, "servers get `X-Forwarded-For` and its like as with `option forwardfor`; what proxies in front send in them is dropped, unless `trusted_proxies` names them");
        }
        return;
    };
    let mut words = ledger.words(statement);
    words.next();
    let (mut header, mut except, mut if_none) = ("x-forwarded-for".to_owned(), None, false);
    while let Some(word) = words.text() {
        match word {
            "except" => except = words.text(),
            "header" => header = words.text().unwrap_or_default().to_ascii_lowercase(),
            "if-none" => if_none = true,
            other => ledger.unsupported(statement, &format!("`{other}`")),
        }
    }
    if header != "x-forwarded-for" {
        return own_header(proxy, statement, (header, except, if_none), changes, by_clients);
    }
    if let Some(network) = except {
        match proxy.is_frontend() {
            true => {
                keys.push("trusted_proxies", TomlValue::Array(vec![network.into()]), statement);
                ledger.approximated(statement, "those peers are trusted to name the client in `X-Forwarded-For`, and are added to it");
            }
            false => ledger.approximated(statement, "requests from there have the header, too: `trusted_proxies` of the listener trusts such peers"),
        }
    }
    if if_none {
        let note = "what a client sends in it is replaced, unless `trusted_proxies` names the client";
        ledger.approximated(statement, note);
    }
    ledger.by_default(statement, "servers get `X-Forwarded-For`, and the scheme, host and port in headers beside it; what clients send in them is dropped, unless `trusted_proxies` names them");
}

/// `option forwardfor header X-Real-IP`.
fn own_header<'s>(
    proxy: &ProxySection<'s>,
    statement: &'s Statement,
    (header, except, if_none): (String, Option<&str>, bool),
    changes: &mut Vec<HeaderChange<'s>>,
    by_clients: Option<&ForwardedBy<'s>>,
) {
    let ledger = proxy.ledger;
    ledger.exact(statement);
    let not = |subject: AclSubject, test: AtomTest| AclCondition::Atom(Atom::new(subject, test)).negated();
    let mut condition = AclCondition::Constant(true);
    if let Some(network) = except {
        condition = condition.and(not(AclSubject::Source, AtomTest::Networks(vec![network.to_owned()])));
    }
    if if_none {
        let subject = AclSubject::Text(format!("header[\"{header}\"]"));
        condition = condition.and(not(subject, AtomTest::Found));
    }
    let mut operation = HeaderOperation::Add;
    if let Some(others) = by_clients {
        let is_same = |other: &Option<&Statement>| other.is_some_and(|other| other.id == statement.id);
        // HAProxy adds the header once.
        if others.iter().all(is_same) {
            return;
        }
        if others.iter().any(Option::is_some) {
            let difference = "servers get this header and that of the section that faces the client, and what a client sends in it is replaced";
            ledger.approximated(statement, difference);
            operation = HeaderOperation::Set;
        }
    }
    let value = "{client_address}".to_owned();
    let change = HeaderChange { condition, operation, name: header, value, from_server: false, statement };
    changes.push(change);
}

fn compression<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>) {
    let ledger = proxy.ledger;
    for line in proxy.all(&["filter"]) {
        if line.words.get(1).is_some_and(|word| word.text == "compression") {
            ledger.words(line).rest();
            ledger.by_default(line, "where `compression` stands is fixed");
        }
    }
    let algorithms = proxy.one(&["compression", "algo"]).or_else(|| proxy.one(&["compression", "algo-res"]));
    let Some(line) = algorithms else { return };
    let mut words = ledger.words(line);
    words.next();
    let names: Vec<&str> = words.rest().iter().map(|word| word.text.as_str()).collect();
    if !names.contains(&"gzip") {
        return ledger
            .approximated(line, "Weir compresses by gzip, Brotli and Zstandard only: nothing is compressed");
    }
    match names.iter().any(|name| *name != "gzip") {
        true => ledger.approximated(line, "of these, Weir has gzip"),
        false => ledger.exact(line),
    }
    keys.set("compression.algorithms", vec!["gzip"], line);
    let types = proxy.one(&["compression", "type"]).or_else(|| proxy.one(&["compression", "type-res"]));
    match types {
        Some(line) => {
            let mut words = ledger.words(line);
            words.next();
            let types: Vec<String> = words.rest().iter().map(|word| media_type(&word.text)).collect();
            keys.set("compression.types", types, line);
            ledger.exact(line);
        }
        None => keys.set("compression.types", vec!["*"], line),
    }
    for name in ["offload", "minsize-res", "minsize-req", "direction"] {
        if let Some(line) = proxy.one(&["compression", name]) {
            ledger.words(line).rest();
            match name {
                "offload" => ledger.approximated(
                    line,
                    "servers get `Accept-Encoding` of the client; what they have compressed passes as it is",
                ),
                "minsize-res" => {
                    let size = line.words.get(2).and_then(|word| word.text.parse::<u64>().ok()).unwrap_or(0);
                    keys.set("compression.min_length", format!("{size}B"), line);
                    ledger.exact(line);
                }
                _ => ledger.unsupported(line, "bodies of requests are not compressed"),
            }
        }
    }
}

/// HAProxy compares the beginning: `text/` is each of them.
fn media_type(text: &str) -> String {
    if text.ends_with('/') { format!("{text}*") } else { text.to_owned() }
}

/// The statement's words, all taken.
pub(super) fn take_all(proxy: &ProxySection<'_>, statement: &Statement) {
    proxy.ledger.words(statement).rest();
}
