//! `bind` lines: the addresses of a listener, and what they have in common.

mod quic;

use crate::document::TomlValue;
use crate::haproxy::acl::ListenerFacts;
use crate::haproxy::address::{AddressFamily, HaproxyAddress, parse_address, path_in};
use crate::haproxy::output::{Keys, literal};
use crate::haproxy::process::GlobalFacts;
use crate::haproxy::proxy::ProxySection;
use crate::report::StatementWords;
use crate::source::{SourceFiles, Statement};

use super::tls::{TlsBind, tls_default};

/// Addresses, each with its port.
type ListenedAddresses = Vec<(String, Option<u16>)>;

/// The most addresses of one line.
const PORTS_MAX: usize = 256;

/// Addresses that one listener of Weir has.
pub(in crate::haproxy) struct BindGroup<'s> {
    pub(super) keys: Keys<'s>,
    pub(super) facts: ListenerFacts,
    addresses: ListenedAddresses,
    first: &'s Statement,
}

/// The groups of a frontend, in the order of their first lines.
pub(in crate::haproxy) fn groups<'s>(
    proxy: &ProxySection<'s>,
    global: &GlobalFacts<'s>,
    files: &dyn SourceFiles,
) -> Vec<BindGroup<'s>> {
    let mut groups: Vec<BindGroup<'s>> = Vec::new();
    let mut over_udp = Vec::new();
    for statement in proxy.all(&["bind"]) {
        let mut words = proxy.ledger.words(statement);
        let written = words.text().unwrap_or_default();
        if quic::is_quic(written) {
            over_udp.push((statement, written, words));
            continue;
        }
        add(proxy, &mut groups, statement, written, &mut words, global, files);
    }
    // `listen web :80`, as versions of long ago had it.
    if let Some(word) = proxy.header.words.get(2).filter(|word| word.text != "from") {
        let mut words = proxy.ledger.words(proxy.header);
        words.rest();
        proxy.ledger.exact(proxy.header);
        let mut none = proxy.ledger.words(proxy.header);
        none.rest();
        add(proxy, &mut groups, proxy.header, &word.text, &mut none, global, files);
    }
    for (statement, written, mut words) in over_udp {
        quic::add(proxy, &mut groups, (statement, written, &mut words), global, files);
    }
    for group in &mut groups {
        let addresses: Vec<String> = listened(&group.addresses);
        match addresses.as_slice() {
            [one] => group.keys.set("address", one.clone(), group.first),
            _ => group.keys.set("address", addresses, group.first),
        }
        let ports: Vec<Option<u16>> = group.addresses.iter().map(|(_, port)| *port).collect();
        // Behind a PROXY header, the port is the one that it names.
        let is_named = group.keys.has("proxy_protocol");
        group.facts.port =
            ports[0].filter(|_| !is_named).filter(|_| ports.iter().all(|port| *port == ports[0]));
    }
    groups
}

/// `:80` is for IPv6, too, so that an address for that alone is not needed beside it.
fn listened(addresses: &[(String, Option<u16>)]) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for (address, _) in addresses {
        let covered =
            address.strip_prefix("[::]").is_some_and(|port| addresses.iter().any(|(other, _)| other == port));
        if !covered && !list.contains(address) {
            list.push(address.clone());
        }
    }
    list
}

fn add<'s>(
    proxy: &ProxySection<'s>,
    groups: &mut Vec<BindGroup<'s>>,
    statement: &'s Statement,
    written: &str,
    words: &mut StatementWords<'s>,
    global: &GlobalFacts<'s>,
    files: &dyn SourceFiles,
) {
    proxy.ledger.exact(statement);
    let mut bind = BindOptions { keys: Keys::default(), tls: TlsBind::default(), v4v6: false, v6only: false };
    bind.read(proxy, statement, words);
    let addresses: Option<Vec<ListenedAddresses>> =
        written.split(',').map(|text| listen(&parse_address(text), &bind)).collect();
    let Some(addresses) = addresses.map(|lists| lists.concat()).filter(|all| all.len() <= PORTS_MAX) else {
        proxy.ledger.unsupported(
            statement,
            "Weir listens on addresses and ports that are written out, 256 at most, and on Unix sockets",
        );
        return;
    };
    let has_tls = bind.tls.is_used();
    if has_tls {
        bind.write_tls(proxy, statement, global, files);
    } else if bind.tls.has_alpn() && !proxy.is_tcp() {
        // Without TLS there is nothing that it could be agreed by.
        bind.tls.alpn = None;
    }
    match groups.iter_mut().find(|group| group.keys.equals(&bind.keys)) {
        Some(group) => group.addresses.extend(addresses),
        None => {
            let facts = ListenerFacts { tls: has_tls, port: None, tcp: proxy.is_tcp() };
            groups.push(BindGroup { keys: bind.keys, facts, addresses, first: statement });
        }
    }
}

fn listen(address: &HaproxyAddress, bind: &BindOptions<'_>) -> Option<ListenedAddresses> {
    match address.family {
        AddressFamily::Unix => return Some(vec![(format!("unix:{}", literal(&address.host)), None)]),
        AddressFamily::Other => return None,
        AddressFamily::Any | AddressFamily::Ipv4 | AddressFamily::Ipv6 => {}
    }
    let port = address.port.as_ref()?;
    let range = port.split_once('-').filter(|_| !port.contains("${"));
    if let Some((first, last)) = range {
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        let each =
            |port: u16| listen(&HaproxyAddress { port: Some(port.to_string()), ..address.clone() }, bind);
        let is_range = first > 0 && first <= last && usize::from(last - first) < PORTS_MAX;
        let all: Option<Vec<_>> =
            (first..=last).map(each).take(if is_range { PORTS_MAX } else { 0 }).collect();
        return all.map(|lists| lists.concat()).filter(|_| is_range);
    }
    if !port.contains("${") && address.port_number().is_none_or(|port| port == 0) {
        return None;
    }
    let host = match (address.host.as_str(), address.family) {
        ("", AddressFamily::Ipv6) => "[::]".to_owned(),
        ("::", _) if bind.v6only => "[::]".to_owned(),
        ("::", _) if bind.v4v6 => String::new(),
        // As the kernel has it, unless `net.ipv6.bindv6only` is set.
        ("::", _) => String::new(),
        ("", _) => String::new(),
        (host, _) if host.parse::<std::net::IpAddr>().is_ok() || host.contains("${") => address.host_text(),
        ("localhost", _) => "127.0.0.1".to_owned(),
        _ => return None,
    };
    Some(vec![(format!("{host}:{port}"), address.port_number())])
}

struct BindOptions<'s> {
    keys: Keys<'s>,
    tls: TlsBind<'s>,
    v4v6: bool,
    v6only: bool,
}

impl<'s> BindOptions<'s> {
    fn write_tls(
        &mut self,
        proxy: &ProxySection<'s>,
        statement: &'s Statement,
        global: &GlobalFacts<'s>,
        files: &dyn SourceFiles,
    ) {
        tls_default(proxy.ledger, global, &mut self.tls);
        self.tls.write(
            proxy,
            &mut self.keys,
            statement,
            &|path| path_in(global.crt_base, path),
            &|path| path_in(global.ca_base, path),
            (files, &global.stores),
        );
    }

    fn read(&mut self, proxy: &ProxySection<'s>, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let ledger = proxy.ledger;
        while let Some(word) = words.text() {
            if self.tls.word(ledger, statement, word, words) || self.number(proxy, statement, word, words) {
                continue;
            }
            match word {
                "v4v6" => self.v4v6 = true,
                "v6only" => self.v6only = true,
                "accept-proxy" => {
                    let all: Vec<String> = vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()];
                    self.keys.set("proxy_protocol.from", all, statement);
                }
                "defer-accept" => self.keys.set("defer_accept", "1s", statement),
                "tfo" => self.keys.set("fast_open", 1024, statement),
                "quic-force-retry" => {}
                "quic-cc-algo" | "quic-socket" => {
                    words.next();
                }
                "name" | "id" | "nice" | "process" | "thread" | "shards" | "label" | "level"
                | "severity-output" | "expose-fd" => {
                    words.next();
                }
                "user" | "group" | "uid" | "gid" | "mode" => {
                    words.next();
                    ledger.approximated(
                        statement,
                        "the socket belongs to the user of Weir, with the mode that its umask leaves",
                    );
                }
                "proto" => match words.text() {
                    Some("h2") if !proxy.is_tcp() => {
                        self.keys.set("http2.prior_knowledge", "only", statement);
                    }
                    Some("h1") => self.keys.set("http2.enabled", false, statement),
                    _ => {
                        ledger.unsupported(statement, "`http2` of a listener says which protocols it speaks");
                    }
                },
                "tcp-ut" | "mss" | "namespace" | "interface" => {
                    words.next();
                    ledger.unsupported(
                        statement,
                        &format!("Weir's listeners have no `{word}`: bind to an address of the interface"),
                    );
                }
                "transparent" | "accept-netscaler-cip" => {
                    ledger.unsupported(statement, &format!("Weir's listeners have no `{word}`"));
                }
                other => {
                    ledger.unsupported(statement, &format!("the import does not know the option `{other}`"));
                }
            }
        }
    }

    /// Takes an option with a number.
    fn number(
        &mut self,
        proxy: &ProxySection<'s>,
        statement: &'s Statement,
        word: &str,
        words: &mut StatementWords<'s>,
    ) -> bool {
        let (key, most) = match word {
            "backlog" => ("backlog", 65_535),
            "maxconn" => ("connections_max", 100_000_000),
            _ => return false,
        };
        let number = words.text().and_then(|text| text.parse::<i64>().ok());
        if let Some(number) = number.filter(|number| *number > 0) {
            self.keys.set(key, number.min(most), statement);
        }
        if word == "maxconn" && (words.peek().is_some() || proxy.all(&["bind"]).len() > 1) {
            proxy.ledger.approximated(statement, "the addresses of a listener have one `connections_max`");
        }
        true
    }
}

impl BindGroup<'_> {
    /// The address of the admin listener, which has one.
    pub(in crate::haproxy) fn address(&self) -> Option<String> {
        let address = match self.keys.get("address")? {
            TomlValue::Text(text) => text,
            TomlValue::Array(list) => match list.first()? {
                TomlValue::Text(text) => text,
                _ => return None,
            },
            _ => return None,
        };
        let is_other = address.starts_with("unix:") || self.facts.tls;
        // The admin listener takes no address without a host.
        Some(if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.clone() })
            .filter(|_| !is_other)
    }
}
