//! Servers that requests may name: hosts, networks and ports of a list, and the one form of an address that is compared with it.
//!
//! What a request says has to be in that form but for case and one dot at the end. Everything that another program might read in another way is refused, not
//! translated: an address of IPv4 in odd notation, a zone, a user, a label in punycode.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::LazyLock;

use ipnet::IpNet;

use crate::key::{TextFormat, text_values};
use crate::value::{ServerAddress, ValueError, dns_name, parse_network};

/// The longest text that is looked at: a name and a port.
const TEXT_BYTES_MAX: usize = 253 + 1 + ":65535".len();

/// Networks where no server of a name is, unless the list has a part of them: this machine, its link, everybody, and addresses that mean others.
static SPECIAL: LazyLock<[IpNet; 21]> = LazyLock::new(|| {
    [
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "::ffff:0:0:0/96",
        "2001::/32",
        "2002::/16",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
        // What machines of a cloud ask for their credentials and settings, where that is not on their link: AWS, Google, Oracle, Scaleway; Oracle,
        // Alibaba, Azure.
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "fd00:c1::a9fe:a9fe/128",
        "fd00:42::42/128",
        "192.0.0.192/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
    ]
    .map(|network| network.parse().expect("each is a network"))
});

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedServer {
    place: AllowedPlace,
    /// `None`: any.
    ports: Option<RangeInclusive<u16>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AllowedPlace {
    /// A name.
    Host(Box<str>),
    /// All names that end with this, which begins with a dot.
    Below(Box<str>),
    /// Addresses.
    Network(IpNet),
}

impl AllowedServer {
    fn has_port(&self, port: u16) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.contains(&port))
    }

    /// Whether it says which ports.
    pub fn names_ports(&self) -> bool {
        self.ports.is_some()
    }
}

impl FromStr for AllowedServer {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help = "write `app.internal`, `*.apps.internal`, `10.20.0.0/16` or `[fd00::]/8`, each with `:8080` or `:8000-8999` behind it where ports count";
        let error = |message: String| ValueError::new(message).help(help);
        if let Ok(network) = parse_network(text) {
            return Ok(Self { place: AllowedPlace::Network(network), ports: None });
        }
        let (place, ports) = match text.rsplit_once(':') {
            Some((place, ports)) if !ports.contains([']', '/']) => (
                place,
                Some(parse_ports(ports).ok_or_else(|| {
                    error(format!("`{text}`: `{ports}` is neither a port nor a range of ports"))
                })?),
            ),
            _ => (text, None),
        };
        if matches!(place, "*" | "*." | "") {
            return Err(error(format!(
                "`{text}` allows every host: then a client decides where requests go"
            )));
        }
        let plain = place.replacen('[', "", 1).replacen(']', "", 1);
        let place = if place.contains('/') || plain.parse::<IpAddr>().is_ok() {
            AllowedPlace::Network(parse_network(&plain)?)
        } else if let Some(rest) = place.strip_prefix("*.") {
            AllowedPlace::Below(format!(".{}", host_name(rest).ok_or_else(|| not_a_host(rest, help))?).into())
        } else {
            AllowedPlace::Host(host_name(place).ok_or_else(|| not_a_host(place, help))?)
        };
        Ok(Self { place, ports })
    }
}

text_values! {
    AllowedServer, str::parse, |value: &AllowedServer| value.to_string(), TextFormat {
        name: "allowed server",
        article: "a host name or a network",
        examples: &["*.apps.internal", "app.internal:8080", "10.20.0.0/16", "10.20.0.0/16:8000-8999", "[fd00::]/8:443"],
        pattern: r"^(\*\.)?[0-9A-Za-z._:\[\]-]+(/[0-9]{1,3})?(:[0-9]{1,5}(-[0-9]{1,5})?)?$",
        about: "A host name, all names below one (`*.apps.internal`, however deep), or a network, each for one port or a range of ports where one is \
                written behind it. A network is what names may resolve to, and an address in it may be named itself.",
    };
}

fn not_a_host(text: &str, help: &str) -> ValueError {
    ValueError::new(format!("`{text}` is neither a host name nor a network")).help(help)
}

impl fmt::Display for AllowedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, &self.ports) {
            (AllowedPlace::Host(host), _) => f.write_str(host)?,
            (AllowedPlace::Below(rest), _) => write!(f, "*{rest}")?,
            (AllowedPlace::Network(network @ IpNet::V6(_)), Some(_)) => {
                write!(f, "[{}]/{}", network.addr(), network.prefix_len())?;
            }
            (AllowedPlace::Network(network), _) => write!(f, "{network}")?,
        }
        match &self.ports {
            None => Ok(()),
            Some(ports) if ports.start() == ports.end() => write!(f, ":{}", ports.start()),
            Some(ports) => write!(f, ":{}-{}", ports.start(), ports.end()),
        }
    }
}

fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (parse_port(first)?, parse_port(last)?);
    (first <= last).then_some(first..=last)
}

/// A port in its one form: neither a sign nor zeros before it.
fn parse_port(text: &str) -> Option<u16> {
    let is_plain = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain && !text.starts_with('0'))
}

/// A name in DNS in its one form. `None` for what is none, for labels in punycode, and for what some programs read as an address of IPv4: such a
/// text ends with a number (WHATWG URL, "ends in a number").
fn host_name(text: &str) -> Option<Box<str>> {
    let name = dns_name(text).ok()?;
    let is_number = |label: &str| {
        let hex = label.strip_prefix("0x");
        label.bytes().all(|byte| byte.is_ascii_digit())
            || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let is_odd = name.split('.').any(|label| label.starts_with("xn--"))
        || name.rsplit('.').next().is_some_and(is_number);
    (!is_odd).then_some(name)
}

/// What a request names, in its one form.
///
/// # Errors
/// When it is in no form that has one meaning.
fn parse_named(text: &[u8]) -> Option<ServerAddress> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_BYTES_MAX)?;
    let (host, port) = text.rsplit_once(':')?;
    let port = parse_port(port)?;
    if let Some(inner) = host.strip_prefix('[') {
        let ip: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
        // One of IPv4 in another notation has no name of its own here.
        return (IpAddr::V6(ip).to_canonical() == ip)
            .then(|| ServerAddress::Ip(SocketAddr::new(ip.into(), port)));
    }
    match host.parse::<Ipv4Addr>() {
        Ok(ip) => Some(ServerAddress::Ip(SocketAddr::new(ip.into(), port))),
        Err(_) => Some(ServerAddress::Name { host: host_name(host)?, port }),
    }
}

/// The servers that requests may name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedServers(Vec<AllowedServer>);

impl AllowedServers {
    /// Those of a list.
    pub const fn new(entries: Vec<AllowedServer>) -> Self {
        Self(entries)
    }

    /// The entries, in their order.
    pub fn entries(&self) -> &[AllowedServer] {
        &self.0
    }

    /// The server that a text names; `None` when the list has none like it.
    pub fn find(&self, text: &[u8]) -> Option<ServerAddress> {
        parse_named(text).filter(|address| self.allows(address))
    }

    /// Whether the list has a server like this.
    pub fn allows(&self, address: &ServerAddress) -> bool {
        match address {
            ServerAddress::Unix(_) => false,
            ServerAddress::Ip(addr) => self.allows_literal(addr.ip(), addr.port()),
            ServerAddress::Name { host, port } => self.0.iter().any(|entry| {
                let is_it = match &entry.place {
                    AllowedPlace::Host(name) => name == host,
                    AllowedPlace::Below(rest) => host.len() > rest.len() && host.ends_with(&**rest),
                    AllowedPlace::Network(_) => false,
                };
                is_it && entry.has_port(*port)
            }),
        }
    }

    fn networks(&self) -> impl Iterator<Item = (&AllowedServer, &IpNet)> {
        self.0.iter().filter_map(|entry| match &entry.place {
            AllowedPlace::Network(network) => Some((entry, network)),
            AllowedPlace::Host(_) | AllowedPlace::Below(_) => None,
        })
    }

    /// An address that a request names by itself has to be in a network of the list.
    fn allows_literal(&self, ip: IpAddr, port: u16) -> bool {
        self.networks().any(|(entry, network)| entry.has_port(port) && network.contains(&ip))
            && self.allows_address(ip, port)
    }

    /// Whether a server of a name may have this address: one of the networks of the list, if there are any, and no special one unless a network
    /// of the list lies within the special ones.
    pub fn allows_address(&self, ip: IpAddr, port: u16) -> bool {
        let ip = ip.to_canonical();
        let holds =
            |(entry, network): &(&AllowedServer, &IpNet)| entry.has_port(port) && network.contains(&ip);
        match SPECIAL.iter().find(|special| special.contains(&ip)) {
            Some(special) => self.networks().any(|entry| holds(&entry) && special.contains(entry.1)),
            None => self.networks().next().is_none() || self.networks().any(|entry| holds(&entry)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> AllowedServers {
        AllowedServers::new(entries.iter().map(|entry| entry.parse().expect(entry)).collect())
    }

    fn found(list: &AllowedServers, text: &str) -> Option<String> {
        list.find(text.as_bytes()).map(|address| address.to_string())
    }

    #[test]
    fn entries_are_read_and_printed() {
        for text in [
            "app.internal",
            "*.apps.internal",
            "*.apps.internal:8080",
            "app_1:8000-8999",
            "10.20.0.0/16",
            "10.20.0.1/32",
            "10.20.0.0/16:443",
            "fd00::/8",
            "[fd00::]/8:443",
        ] {
            let entry: AllowedServer = text.parse().expect(text);
            assert_eq!(entry.to_string(), text);
            assert_eq!(entry.to_string().parse::<AllowedServer>().as_ref(), Ok(&entry));
        }
        for text in [
            "",
            "*",
            "*:80",
            "*.",
            "*.*",
            "a*.b",
            "*b.c",
            "app:0",
            "app:80-70",
            "app:http",
            "app:+80",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "http://app",
            "app/path",
            "user@app",
            "xn--bcher-kva.example",
            "1.2.3",
            "0x7f.1",
            "[app]",
            "app:80:90",
            "b\u{fc}cher.example",
            "*.",
            "*..internal",
            "unix:/run/app.sock",
        ] {
            assert!(text.parse::<AllowedServer>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_compared_in_one_form() {
        let list = list(&["*.apps.internal", "web:80", "db.internal:5000-5999"]);
        for (text, form) in [
            ("one.apps.internal:8080", "one.apps.internal:8080"),
            ("ONE.Apps.Internal.:8080", "one.apps.internal:8080"),
            ("a.b.apps.internal:1", "a.b.apps.internal:1"),
            ("my_app.apps.internal:65535", "my_app.apps.internal:65535"),
            ("web:80", "web:80"),
            ("db.internal:5432", "db.internal:5432"),
        ] {
            assert_eq!(found(&list, text).as_deref(), Some(form), "{text}");
        }
    }

    #[test]
    fn what_is_not_in_the_list_or_has_more_than_one_meaning_is_refused() {
        let list = list(&["*.apps.internal", "web:80", "10.20.0.0/16", "[fd00::]/8:443", "127.0.0.0/24"]);
        for text in [
            "",
            ":",
            ":80",
            "web",
            "web:",
            "web:0",
            "web:80 ",
            " web:80",
            "web:080",
            "web:+80",
            "web:81",
            "web:80:80",
            "web..:80",
            ".web:80",
            "web\0:80",
            "web:80\0",
            "web\n:80",
            "web%2e:80",
            "web/:80",
            "http://web:80",
            "user@web:80",
            "web:80@evil.example:80",
            "evil.example#web:80",
            "evil.example?.apps.internal:80",
            "evil.example\\.apps.internal:80",
            "evil.example/.apps.internal:80",
            "evil.example@one.apps.internal:80",
            "apps.internal:80",
            ".apps.internal:80",
            "xapps.internal:80",
            "oneapps.internal:80",
            "one.apps.internal.evil.example:80",
            "-one.apps.internal:80",
            "one-.apps.internal:80",
            "xn--ne-uia.apps.internal:80",
            "\u{f6}ne.apps.internal:80",
            "\u{ff4f}ne.apps.internal:80",
            "one\u{3002}apps\u{3002}internal:80",
            "0x0a140001:80",
            "0x7f.1:80",
            "0x7f.0.0.1:80",
            "2130706433:80",
            "169090561:80",
            "012.024.0.1:80",
            "10.20.1:80",
            "10.20:80",
            "10.20.0.1.:80",
            "10.20.0.01:80",
            "10.21.0.1:80",
            "[10.20.0.1]:80",
            "[::ffff:10.20.0.1]:80",
            "[::ffff:a14:1]:80",
            "[::10.20.0.1]:80",
            "[fd00::1]:80",
            "fd00::1:443",
            "[fd00::1%eth0]:443",
            "[fd00::1%25eth0]:443",
            "[fd00::1]443",
            "[fd00::1:443",
            "[::1]:443",
            "127.0.1.1:80",
            "0.0.0.0:80",
            "localhost:80",
            "unix:/run/app.sock",
            "unix:80",
            "*.apps.internal:80",
        ] {
            assert_eq!(found(&list, text), None, "{text:?}");
        }
        let long = format!("{}.apps.internal:80", "a.".repeat(120) + "a");
        assert!(found(&list, &long).is_none());
        assert_eq!(list.find(b"\xff\xfe.apps.internal:80"), None);
        for text in ["10.20.0.1:80", "10.20.255.255:1", "[fd00::1]:443", "127.0.0.1:80"] {
            assert_eq!(found(&list, text).as_deref(), Some(text));
        }
        assert_eq!(found(&list, "[FD00:0:0::1]:443").as_deref(), Some("[fd00::1]:443"));
    }

    #[test]
    fn special_addresses_are_refused_unless_a_network_names_them() {
        let special = [
            "127.0.0.1",
            "127.255.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:0:127.0.0.1",
            "2001:0:7f00:1::1",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "192.0.0.192",
            "100.100.100.200",
            "168.63.129.16",
            "::ffff:168.63.129.16",
        ];
        let hosts = list(&["*.apps.internal"]);
        let wide = list(&["*.apps.internal", "0.0.0.0/0", "::/0"]);
        for ip in special {
            let ip: IpAddr = ip.parse().unwrap();
            assert!(!hosts.allows_address(ip, 80), "{ip}");
            assert!(!wide.allows_address(ip, 80), "{ip}: a network that is wider does not name it");
        }
        for ip in [
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "100.64.0.1",
            "8.8.8.8",
            "2001:db8::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "168.63.129.17",
            "2001:1::1",
        ] {
            let ip: IpAddr = ip.parse().unwrap();
            assert!(hosts.allows_address(ip, 80) && wide.allows_address(ip, 80), "{ip}");
        }
        let named = list(&["*.apps.internal", "127.0.0.0/8:8080", "169.254.169.254", "::1"]);
        for (ip, port, is_allowed) in [
            ("127.0.0.1", 8080, true),
            ("::ffff:127.0.0.1", 8080, true),
            ("127.0.0.1", 8081, false),
            ("169.254.169.254", 80, true),
            ("169.254.169.253", 80, false),
            ("::1", 80, true),
            ("10.0.0.1", 80, false),
        ] {
            assert_eq!(named.allows_address(ip.parse().unwrap(), port), is_allowed, "{ip} {port}");
        }
    }

    #[test]
    fn an_address_of_a_name_is_in_a_network_of_the_list_if_there_are_any() {
        let list = list(&["*.apps.internal", "10.20.0.0/16:8080", "fd00:20::/32"]);
        for (ip, port, is_allowed) in [
            ("10.20.3.4", 8080, true),
            ("10.20.3.4", 80, false),
            ("10.21.3.4", 8080, false),
            ("fd00:20::1", 80, true),
            ("fd00:21::1", 80, false),
        ] {
            assert_eq!(list.allows_address(ip.parse().unwrap(), port), is_allowed, "{ip} {port}");
        }
    }

    proptest::proptest! {
        /// What is found is what would be found by its own form, and is below the name of the list or in its network.
        #[test]
        fn what_is_found_is_in_the_list(text in r"[a-zA-Z0-9.:@%/_\[\]\\ -]{0,24}(\.apps\.internal|10\.20\.0\.[0-9]{1,3})?\.?(:[0-9]{0,6})?") {
            let list = list(&["*.apps.internal", "10.20.0.0/16:80"]);
            if let Some(address) = list.find(text.as_bytes()) {
                assert_eq!(list.find(address.to_string().as_bytes()).as_ref(), Some(&address));
                match &address {
                    ServerAddress::Name { host, .. } => {
                        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
                        assert!(host.ends_with(".apps.internal") && host.bytes().all(is_plain), "{host}");
                    }
                    ServerAddress::Ip(addr) => {
                        assert!(addr.to_string().starts_with("10.20.") && addr.port() == 80, "{addr}");
                    }
                    ServerAddress::Unix(_) => unreachable!("no text is a socket"),
                }
            }
        }
    }
}
