//! What an original says that a proof needs: where it listens, whom and what it names. Read independently of the importer, and loosely: a fact
//! too many is a request or a file too many.

use std::collections::BTreeSet;
use std::net::IpAddr;

pub(crate) mod nginx;
pub(crate) mod haproxy;
mod words;

/// Where requests can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProofEndpoint {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) has_tls: bool,
    /// Whether it passes bytes, not HTTP.
    pub(crate) is_tcp: bool,
    /// Whether a header of the PROXY protocol is expected.
    pub(crate) has_proxy_header: bool,
    pub(crate) line: u32,
}

/// Something that a request can have, and the line of the original that names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ingredient {
    pub(crate) kind: IngredientKind,
    /// Of a field, a cookie or an argument.
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) line: u32,
}

/// What an ingredient is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IngredientKind {
    Path,
    Host,
    Method,
    Field,
    Cookie,
    Argument,
    Source,
}

/// A file that has to be there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WantedFile {
    Certificate(String),
    Folder(String),
    Passwords(String),
    /// Only the folder that it is in.
    Around(String),
    Text(String),
}

/// All facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginalFacts {
    pub(crate) endpoints: Vec<ProofEndpoint>,
    pub(crate) ingredients: BTreeSet<Ingredient>,
    pub(crate) files: BTreeSet<WantedFile>,
    /// Servers of which any may be chosen, as `host:port`.
    pub(crate) groups: Vec<BTreeSet<String>>,
    pub(crate) ports: BTreeSet<u16>,
    /// Of servers on loopback.
    pub(crate) local_ports: BTreeSet<u16>,
    pub(crate) sockets: BTreeSet<String>,
    pub(crate) resolvers: BTreeSet<IpAddr>,
    pub(crate) accounts: BTreeSet<String>,
    /// Statements for the log of access; where it goes.
    pub(crate) logs: BTreeSet<String>,
    /// First and last lines of blocks and sections.
    pub(crate) blocks: Vec<(u32, u32)>,
    pub(crate) has_stream: bool,
    /// Whether responses may be stored.
    pub(crate) has_cache: bool,
    pub(crate) is_daemon: bool,
}

impl OriginalFacts {
    pub(crate) fn add(&mut self, kind: IngredientKind, name: &str, value: &str, line: u32) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.ingredients.insert(Ingredient { kind, name, value, line });
    }

    pub(crate) fn endpoint(&mut self, endpoint: ProofEndpoint) {
        let is_same =
            |known: &ProofEndpoint| known.port == endpoint.port && known.address == endpoint.address;
        match self.endpoints.iter_mut().find(|known| is_same(known)) {
            Some(known) => known.has_tls |= endpoint.has_tls,
            None => self.endpoints.push(endpoint),
        }
    }

    /// Whether one of the lines is this one, is in the innermost block around it, or in a block that has it within.
    pub(crate) fn is_near(&self, line: u32, lines: &[u32]) -> bool {
        let around = |line: u32| {
            let blocks = self.blocks.iter().filter(|(first, last)| (*first..=*last).contains(&line));
            blocks.min_by_key(|(first, last)| last - first).copied()
        };
        // What is said of a block as a whole is about what is around it: without a location, others get its requests.
        let outer = |line: u32| {
            let is_outer = |(first, last): &&(u32, u32)| *first < line && line <= *last;
            let blocks = self.blocks.iter().filter(is_outer);
            blocks.min_by_key(|(first, last)| last - first).copied()
        };
        let (first, last) = around(line).unwrap_or((line, line));
        lines.iter().any(|one| {
            let about = if around(*one).is_some_and(|(first, last)| first == *one && last > *one) {
                outer(*one)
            } else {
                around(*one)
            };
            (first..=last).contains(one) || about.is_some_and(|(first, last)| (first..=last).contains(&line))
        })
    }

    /// The names of all servers of a group are that of the first.
    pub(crate) fn group_of(&self, server: &str) -> String {
        let of_server = |group: &&BTreeSet<String>| group.len() > 1 && group.contains(server);
        // A server may be one of several groups, which are told apart no more then.
        let firsts = self.groups.iter().filter(of_server).filter_map(BTreeSet::first).map(|first| {
            let others = self.groups.iter().filter(|group| group.len() > 1 && group.contains(first));
            others.filter_map(BTreeSet::first).min().unwrap_or(first)
        });
        firsts.min().map_or_else(|| server.to_owned(), |first| format!("one of {first}…"))
    }
}

/// An address to listen at, as it can be connected to.
pub(crate) fn reachable(host: &str) -> IpAddr {
    let host = host.trim_matches(['[', ']']);
    match host.parse() {
        Ok(IpAddr::V4(v4)) if !v4.is_unspecified() => IpAddr::V4(v4),
        Ok(IpAddr::V6(v6)) if !v6.is_unspecified() => IpAddr::V6(v6),
        Ok(IpAddr::V6(_)) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        _ => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    }
}
