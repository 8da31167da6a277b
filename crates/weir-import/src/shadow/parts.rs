//! What listeners say, with the blocks that they use, and which of them can be compared.

use super::addresses::TcpEndpoint;
use super::{OldBalancer, ShadowListen, ShadowOptions};
use crate::document::{Draft, DraftTable, TomlValue};

/// How deep blocks use blocks.
const BLOCKS_DEEP: usize = 3;

/// A listener as far as it matters here.
pub(super) struct ImportedListener {
    /// All of it, blocks included.
    pub(super) all: DraftTable,
    /// Its addresses but Unix sockets.
    pub(super) endpoints: Vec<TcpEndpoint>,
    addresses: Vec<String>,
    /// Its Unix sockets.
    pub(super) sockets: Vec<String>,
    pub(super) has_tls: bool,
}

impl ImportedListener {
    pub(super) fn of(all: &DraftTable) -> Self {
        let addresses = texts(all.get("address")).into_iter();
        let (sockets, addresses): (Vec<String>, Vec<String>) =
            addresses.partition(|address| TcpEndpoint::of_listener(address).is_none());
        Self {
            endpoints: addresses.iter().filter_map(|address| TcpEndpoint::of_listener(address)).collect(),
            addresses,
            sockets,
            has_tls: all.has("tls"),
            all: all.clone(),
        }
    }

    /// The old balancer for its requests, or why it is not compared.
    pub(super) fn old_balancer<'o>(
        &self,
        options: &'o ShadowOptions,
        servers: &[String],
    ) -> Result<&'o OldBalancer, String> {
        if self.all.text("protocol") == Some("tcp") {
            return Err("connections of TCP are not compared: let the old balancer keep the port".to_owned());
        }
        if self.endpoints.is_empty() {
            return Err("it is on a Unix socket, which stays with the old balancer".to_owned());
        }
        let server = servers.iter().find(|server| {
            let server = TcpEndpoint::of_server(server);
            server.is_some_and(|server| self.endpoints.iter().any(|own| server.reaches(own)))
        });
        if let Some(server) = server {
            return Err(format!(
                "the config itself has {server} as a server: it stays with the old balancer, whose part behind it is not compared"
            ));
        }
        if self.all.get_table("tls").is_some_and(|tls| tls.has("client_certificates")) {
            return Err(
                "clients show certificates, which the old balancer would not see behind Weir".to_owned()
            );
        }
        let scheme = if self.has_tls { "https" } else { "http" };
        let found = options.old.iter().find(|old| old.tls == self.has_tls);
        found.ok_or_else(|| {
            format!("no `--shadow {scheme}://...` says where the old balancer answers its requests")
        })
    }

    /// Where clients come in.
    pub(super) fn front_addresses(&self, listen: Option<&ShadowListen>, place: usize) -> Vec<String> {
        let Some(listen) = listen else { return self.addresses.clone() };
        let mut addresses: Vec<String> = Vec::new();
        for (text, own) in self.addresses.iter().zip(&self.endpoints) {
            let host = text.rsplit_once(':').map_or("", |(host, _)| host);
            let host = listen.host.as_deref().unwrap_or(host);
            let first = listen.port.map(|port| port.saturating_add(u16::try_from(place).unwrap_or(u16::MAX)));
            let address = format!("{host}:{}", first.unwrap_or(own.port));
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// The first host that a route names in full.
    pub(super) fn host(&self) -> Option<String> {
        let routes = self.all.tables("route").iter();
        routes.flat_map(|route| texts(route.get("host"))).find(|host| !host.starts_with('*'))
    }
}

/// A table with the blocks that it uses.
pub(super) fn with_blocks(draft: &Draft, table: &DraftTable) -> DraftTable {
    blocks_of(draft, table, BLOCKS_DEEP)
}

fn blocks_of(draft: &Draft, table: &DraftTable, depth: usize) -> DraftTable {
    let mut all = DraftTable::beside(table);
    if depth > 0 {
        for name in texts(table.get("use")) {
            if let Some(block) = draft.get(&["block", &name]) {
                all.merge(&blocks_of(draft, block, depth - 1));
            }
        }
    }
    all.merge(table);
    all
}

/// Whether a listener, a block or a route has a key that is not `false`.
pub(super) fn is_asked(draft: &Draft, key: &str) -> bool {
    let sections = ["listener", "block"].into_iter().filter_map(|section| draft.get(&[section]));
    let tables = sections.flat_map(DraftTable::children).map(|(_, table)| table);
    let has = |table: &DraftTable| table.has(key) && table.get(key) != Some(&TomlValue::Boolean(false));
    tables.into_iter().any(|table| has(table) || table.tables("route").iter().any(has))
}

/// The addresses of all servers.
pub(super) fn servers(draft: &Draft) -> Vec<String> {
    let sections = ["upstream", "block"].into_iter().filter_map(|section| draft.get(&[section]));
    let tables = sections.flat_map(DraftTable::children).map(|(_, table)| table);
    let values = tables.filter_map(|table| table.value("servers"));
    values.flat_map(|value| addresses_in(&value)).collect()
}

fn addresses_in(value: &TomlValue) -> Vec<String> {
    match value {
        TomlValue::Text(text) => vec![text.clone()],
        TomlValue::Array(list) => list.iter().flat_map(addresses_in).collect(),
        TomlValue::Inline(entries) => {
            let own = entries.iter().filter(|(key, _)| key == "address");
            own.flat_map(|(_, value)| addresses_in(value)).collect()
        }
        TomlValue::Integer(_) | TomlValue::Boolean(_) => Vec::new(),
    }
}

/// A text, or the texts of a list.
fn texts(value: Option<&TomlValue>) -> Vec<String> {
    match value {
        Some(TomlValue::Text(text)) => vec![text.clone()],
        Some(TomlValue::Array(list)) => list.iter().flat_map(|one| texts(Some(one))).collect(),
        _ => Vec::new(),
    }
}

/// A name as part of that of a file.
pub(super) fn file_name(name: &str) -> String {
    name.chars().map(|one| if one.is_ascii_alphanumeric() || one == '-' { one } else { '-' }).collect()
}
