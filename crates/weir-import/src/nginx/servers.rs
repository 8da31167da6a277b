//! `server`: where it listens, for which names, and which servers share an address.

use super::listen::NginxListen;
use super::quic::{self, QuicListen};
use super::regexes::{NginxPattern, PatternSubject};
use super::rewrite::NginxTest;
use super::scope::{NginxVariable, Scope};
use crate::document::DraftTable;
use crate::report::Ledger;
use crate::source::Statement;

/// A server.
pub(super) struct NginxServer<'s> {
    /// `None`: what stands around a fragment, as if in one server on port 80.
    pub(super) statement: Option<&'s Statement>,
    pub(super) block: &'s [Statement],
    pub(super) listens: Vec<NginxListen<'s>>,
    pub(super) quic: Vec<QuicListen<'s>>,
    pub(super) names: ServerNames<'s>,
}

/// The hosts that a server is for.
#[derive(Default)]
pub(super) struct ServerNames<'s> {
    /// `a.test`.
    pub(super) exact: Vec<String>,
    /// `*.a.test`.
    pub(super) wildcards: Vec<String>,
    /// `a.*`, without what follows `a.`; the longest one that fits counts, before any expression.
    pub(super) beginnings: Vec<String>,
    /// Regular expressions, in their order.
    pub(super) tests: Vec<NginxTest>,
    /// Expressions with groups.
    groups: Vec<NginxPattern>,
    pub(super) statement: Option<&'s Statement>,
}

/// Servers that share an address, and all addresses that the same ones share.
pub(super) struct ListenerGroup<'s> {
    pub(super) addresses: Vec<String>,
    pub(super) tls: bool,
    pub(super) http2: bool,
    pub(super) proxy_protocol: bool,
    /// The address of HTTP/3 beside.
    pub(super) http3: Option<&'s Statement>,
    /// Indexes of servers, in their order.
    pub(super) servers: Vec<usize>,
    pub(super) default: usize,
    pub(super) listen: NginxListen<'s>,
}

impl<'s> NginxServer<'s> {
    pub(super) fn read(ledger: &'s Ledger, statement: &'s Statement) -> Self {
        let block = statement.children();
        let written: Vec<&Statement> = block.iter().filter(|one| one.name() == "listen").collect();
        let of_tcp = written.iter().filter(|one| !quic::is_quic(one));
        let mut listens: Vec<NginxListen<'_>> =
            of_tcp.filter_map(|one| NginxListen::read(ledger, one)).collect();
        if written.is_empty() {
            listens.push(NginxListen::unwritten());
        }
        // Of old: all that the server listens on has TLS.
        if let Some(all) = block.iter().rfind(|one| one.name() == "ssl") {
            let is_on = ledger.words(all).text() == Some("on");
            listens.iter_mut().for_each(|one| one.tls |= is_on);
            ledger.exact(all);
        }
        let names = ServerNames::read(ledger, block);
        ledger.exact(statement);
        let quic = quic::listens(block);
        NginxServer { statement: Some(statement), block, listens, quic, names }
    }

    /// What is in no server, as if in one on port 80.
    pub(super) fn around(block: &'s [Statement]) -> Self {
        NginxServer {
            statement: None,
            block,
            listens: vec![NginxListen { address: ":80".to_owned(), ..NginxListen::unwritten() }],
            quic: Vec::new(),
            names: ServerNames::default(),
        }
    }

    /// Defines what groups of its names stand for.
    pub(super) fn define_groups(&self, scope: &mut Scope<'s>) {
        for pattern in &self.names.groups {
            let numbers = (1..=pattern.groups().min(9)).map(|group| group.to_string());
            for group in pattern.group_names().into_iter().chain(numbers) {
                let mut table = DraftTable::default();
                table.set_plain("source", "{host}");
                table.table("regex").set_plain(&pattern.text, format!("{{match.{group}}}"));
                let wish = if group.starts_with(|c: char| c.is_ascii_digit()) {
                    format!("host_{group}")
                } else {
                    group.clone()
                };
                let name = scope.make_map(&wish, table);
                scope.define(&group, NginxVariable::Text(format!("{{map.{name}}}")));
            }
        }
    }
}

impl<'s> ServerNames<'s> {
    fn read(ledger: &Ledger, block: &'s [Statement]) -> Self {
        let mut names = ServerNames::default();
        for statement in block.iter().filter(|one| one.name() == "server_name") {
            names.statement = Some(statement);
            for word in ledger.words(statement).rest() {
                match names.add(&word.text) {
                    Ok(()) => {}
                    Err(advice) => ledger.unsupported(statement, &advice),
                }
            }
            ledger.exact(statement);
        }
        if let (false, true, Some(statement)) =
            (names.groups.is_empty(), names.tests.len() > 1, names.statement)
        {
            let difference =
                "groups are those of their expression, be the host taken by another one before it";
            ledger.approximated(statement, difference);
        }
        names
    }

    fn add(&mut self, written: &str) -> Result<(), String> {
        if let Some(source) = written.strip_prefix('~') {
            let ignores_case = source.chars().any(|c| c.is_ascii_uppercase());
            let pattern = NginxPattern::new(source, ignores_case, PatternSubject::Text)?;
            self.tests.push(NginxTest::matches("host", &pattern));
            if pattern.groups() > 0 {
                self.groups.push(pattern);
            }
            return Ok(());
        }
        let name = written.to_ascii_lowercase();
        if name.is_empty() {
            self.tests.push(NginxTest::text("host == \"\""));
            return Ok(());
        }
        if name.contains('$') {
            return Err(format!("write the name that `{written}` stands for"));
        }
        if let Some(domain) = name.strip_prefix('.') {
            self.exact.push(domain.to_owned());
            self.wildcards.push(format!("*.{domain}"));
        } else if name.starts_with("*.") {
            self.wildcards.push(name);
        } else if let Some(begin) = name.strip_suffix(".*") {
            self.beginnings.push(format!("{begin}."));
        } else if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)) {
            // `_` is a name that no host has.
            // Hosts are compared without a dot at their end, so that this is none, either.
            if name.trim_matches(['_', '-']).is_empty() || name.ends_with('.') {
                return Ok(());
            }
            self.exact.push(name);
        } else {
            return Err(format!("`{written}` is no host"));
        }
        Ok(())
    }

    /// Whether it has any.
    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty() && !self.has_tests()
    }

    /// Whether conditions are needed to tell its hosts.
    pub(super) fn has_tests(&self) -> bool {
        !self.beginnings.is_empty() || !self.tests.is_empty()
    }

    /// Whether a host pattern of another server takes one of these hosts, so that they have to be named.
    pub(super) fn is_below(&self, wildcards: &[String]) -> bool {
        let below = |host: &String, wildcard: &String| host.ends_with(wildcard.trim_start_matches('*'));
        self.exact
            .iter()
            .chain(&self.wildcards)
            .any(|host| wildcards.iter().any(|one| one != host && below(host, one)))
    }
}

/// The addresses of all servers, each by itself.
pub(super) fn by_address<'s>(servers: &[NginxServer<'s>]) -> Vec<ListenerGroup<'s>> {
    let mut groups: Vec<ListenerGroup<'_>> = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        for listen in &server.listens {
            match groups.iter_mut().find(|group| group.addresses[0] == listen.address) {
                Some(group) => group.add(index, listen),
                None => groups.push(ListenerGroup {
                    addresses: vec![listen.address.clone()],
                    tls: listen.tls,
                    http2: listen.http2,
                    proxy_protocol: listen.proxy_protocol,
                    http3: None,
                    servers: vec![index],
                    default: index,
                    listen: listen.clone(),
                }),
            }
        }
    }
    groups
}

/// Those together that the same servers share.
pub(super) fn joined(groups: Vec<ListenerGroup<'_>>) -> Vec<ListenerGroup<'_>> {
    let mut joined: Vec<ListenerGroup<'_>> = Vec::new();
    for group in groups {
        match joined.iter_mut().find(|known| known.is_like(&group)) {
            Some(known) => known.addresses.extend(group.addresses),
            None => joined.push(group),
        }
    }
    for group in &mut joined {
        group.addresses = super::listen::joined(std::mem::take(&mut group.addresses));
    }
    joined
}

impl<'s> ListenerGroup<'s> {
    fn add(&mut self, server: usize, listen: &NginxListen<'s>) {
        self.tls |= listen.tls;
        self.http2 |= listen.http2;
        self.proxy_protocol |= listen.proxy_protocol;
        if !self.servers.contains(&server) {
            self.servers.push(server);
        }
        if listen.is_default {
            self.default = server;
        }
        for key in &listen.keys {
            if !self.listen.keys.contains(key) {
                self.listen.keys.push(key.clone());
            }
        }
    }

    fn is_like(&self, other: &ListenerGroup<'_>) -> bool {
        let flags = |group: &ListenerGroup<'_>| (group.tls, group.http2, group.proxy_protocol, group.default);
        flags(self) == flags(other)
            && self.http3.is_some() == other.http3.is_some()
            && self.servers == other.servers
            && self.listen.keys == other.listen.keys
    }

    /// The port, if all addresses have the same.
    pub(super) fn port(&self) -> Option<&str> {
        let port = |address: &'_ str| -> Option<usize> {
            (!address.starts_with("unix:")).then(|| address.rfind(':')).flatten()
        };
        let first = self.addresses.first()?;
        let text = &first[port(first)? + 1..];
        let same = |address: &String| port(address).is_some_and(|at| &address[at + 1..] == text);
        self.addresses.iter().all(same).then_some(text)
    }
}

impl<'s> ServerNames<'s> {
    /// The same with other names.
    pub(super) fn with(&self, exact: Vec<String>, wildcards: Vec<String>) -> ServerNames<'s> {
        ServerNames {
            exact,
            wildcards,
            beginnings: self.beginnings.clone(),
            tests: self.tests.clone(),
            groups: self.groups.clone(),
            statement: self.statement,
        }
    }
}
