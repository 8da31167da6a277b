//! Addresses of listeners and servers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustls_pki_types::ServerName;

use super::ValueError;
use super::ascii_host::ascii_help;

/// Longest path of a Unix socket: the kernel's 108 bytes less the final NUL.
const UNIX_PATH_MAX: usize = 107;

/// Where a listener accepts connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// One address and port: `"127.0.0.1:8080"`, `"[::1]:8080"`. `"[::]:80"` means IPv6 only. Port 0 lets the system choose.
    Tcp(SocketAddr),
    /// Every address of the machine, IPv6 and IPv4: `":8080"`. On a machine without IPv6 the IPv4 ones.
    AllTcp {
        /// The port; 0 lets the system choose.
        port: u16,
    },
    /// A Unix stream socket: `"unix:/run/weir.sock"`.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Whether one connection could belong to both addresses; port 0 is a new port each time.
    pub fn overlaps(&self, other: &Self) -> bool {
        let port = |address: &Self| match address {
            Self::Tcp(socket) => Some(socket.port()),
            Self::AllTcp { port } => Some(*port),
            Self::Unix(_) => None,
        };
        match (self, other) {
            (Self::Unix(one), Self::Unix(two)) => one == two,
            (Self::Unix(_), _) | (_, Self::Unix(_)) => false,
            _ if port(self) != port(other) || port(self) == Some(0) => false,
            (Self::Tcp(one), Self::Tcp(two)) => {
                one.is_ipv4() == two.is_ipv4()
                    && (one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified())
            }
            _ => true,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix_path(path).map(Self::Unix);
        }
        let help = "write `address:port`, `:port` for all addresses, or `unix:/path`";
        let (host, port) = split_port(text).map_err(|error| error.help(help))?;
        match host {
            Host::None => Ok(Self::AllTcp { port }),
            Host::Ip(ip) if ip.to_canonical() != ip => {
                let plain = SocketAddr::new(ip.to_canonical(), port);
                Err(ValueError::new(format!("`{text}` is an address of IPv4, written as one of IPv6"))
                    .help(format!("write `{plain}`")))
            }
            Host::Ip(ip) => Ok(Self::Tcp(SocketAddr::new(ip, port))),
            Host::Name("*") => Err(ValueError::new(format!("`{text}` is not an address"))
                .help(format!("`:{port}` means all addresses"))),
            Host::Name("localhost") => Err(ValueError::new(format!("`{text}` is a name, not an address"))
                .help(format!("write `127.0.0.1:{port}`, and `[::1]:{port}` for IPv6"))),
            Host::Name(name) => {
                let message = format!("`{text}`: a listener needs an IP address, and `{name}` is a name");
                Err(ValueError::new(message).help(help))
            }
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(socket) => socket.fmt(f),
            Self::AllTcp { port } => write!(f, ":{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where a server accepts connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// An IPv4 or IPv6 address and port: `"10.0.0.1:80"`, `"[2001:db8::1]:80"`.
    Ip(SocketAddr),
    /// A DNS name and port: `"app.internal:8080"`. Resolved in the background, again and again.
    Name {
        /// The name in lower case, without a dot at its end.
        host: Box<str>,
        /// The port.
        port: u16,
    },
    /// A Unix stream socket: `"unix:/run/app.sock"`.
    Unix(PathBuf),
}

/// Where connections to a server come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceAddress {
    /// This address of the machine.
    Fixed(IpAddr),
    /// The address of the client.
    Client,
}

impl SourceAddress {
    /// How the config says the address of the client.
    pub const CLIENT: &'static str = "{client_address}";
}

impl FromStr for SourceAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text == Self::CLIENT {
            return Ok(Self::Client);
        }
        let help = "write an address of this machine without a port, or `{client_address}`";
        let Ok(address) = text.parse::<IpAddr>() else {
            return Err(ValueError::new(format!("`{text}` is not a source address")).help(help));
        };
        let plain = address.to_canonical();
        if plain != address {
            let message = format!("`{text}` is an address of IPv4, written as one of IPv6");
            return Err(ValueError::new(message).help(format!("write `{plain}`")));
        }
        let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
        if address.is_unspecified() {
            let message = format!("`{text}` leaves the choice to the system");
            return Err(ValueError::new(message).help("write `off` for that"));
        }
        if address.is_multicast() || is_broadcast {
            return Err(ValueError::new(format!("`{text}` is not the address of one machine")).help(help));
        }
        Ok(Self::Fixed(address))
    }
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(address) => address.fmt(f),
            Self::Client => f.write_str(Self::CLIENT),
        }
    }
}

impl ServerAddress {
    /// The port, where there is one.
    pub const fn port(&self) -> Option<u16> {
        match self {
            Self::Ip(socket) => Some(socket.port()),
            Self::Name { port, .. } => Some(*port),
            Self::Unix(_) => None,
        }
    }

    /// Whether it is on this machine for sure.
    pub fn is_this_machine(&self) -> bool {
        match self {
            Self::Ip(addr) => addr.ip().to_canonical().is_loopback(),
            Self::Name { host, .. } => &**host == "localhost",
            Self::Unix(_) => true,
        }
    }

    /// The name that a certificate has to match, by the address. A Unix socket counts as localhost, for which there is no SNI.
    pub fn tls_name(&self) -> ServerName<'static> {
        let localhost = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
        match self {
            Self::Ip(addr) => ServerName::IpAddress(addr.ip().into()),
            Self::Name { host, .. } => ServerName::try_from(host.to_string()).unwrap_or(localhost),
            Self::Unix(_) => localhost,
        }
    }
}

impl FromStr for ServerAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix_path(path).map(Self::Unix);
        }
        for scheme in ["http://", "https://", "tcp://"] {
            if let Some(rest) = text.strip_prefix(scheme) {
                let authority = rest.split('/').next().unwrap_or_default();
                let port = match scheme {
                    _ if split_port(authority).is_ok() => "",
                    "https://" => ":443",
                    _ => ":80",
                };
                let message = format!("`{text}` is a URL; a server is an address");
                return Err(ValueError::new(message).help(format!("write `{authority}{port}`")));
            }
        }
        let help = "write `10.0.0.1:80`, `[2001:db8::1]:80`, `name:80` or `unix:/path`";
        let (host, port) = split_port(text).map_err(|error| error.help(help))?;
        if port == 0 {
            return Err(ValueError::new(format!("`{text}`: no server listens on port 0")));
        }
        match host {
            Host::None => Err(ValueError::new(format!("`{text}` has no host")).help(help)),
            Host::Ip(ip) => Ok(Self::Ip(SocketAddr::new(ip, port))),
            Host::Name(name) => Ok(Self::Name { host: dns_name(name)?, port }),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(socket) => socket.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

enum Host<'a> {
    None,
    Ip(IpAddr),
    Name(&'a str),
}

/// Splits `host:port`; the host may be empty, an IPv6 address needs its brackets.
fn split_port(text: &str) -> Result<(Host<'_>, u16), ValueError> {
    if text.parse::<Ipv6Addr>().is_ok() && text.len() > 1 {
        return Err(ValueError::new(format!("`{text}` is an IPv6 address without brackets and port")));
    }
    let Some((host, port)) = text.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) else {
        let message =
            if text.bytes().all(|byte| byte.is_ascii_digit()) { "has no `:`" } else { "has no port" };
        return Err(ValueError::new(format!("`{text}` {message}")));
    };
    let port_start = host.len() + 1;
    let Some(number) = plain_number(port).filter(|number| *number <= u64::from(u16::MAX)) else {
        let message = format!("`{text}`: `{port}` is not a port; ports are 0 to 65535");
        return Err(ValueError::new(message).range(port_start..text.len()));
    };
    let port = number as u16;
    let host = if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        match inner.parse::<Ipv6Addr>() {
            Ok(ip) => Host::Ip(IpAddr::V6(ip)),
            Err(_) => {
                let message = format!("`{text}`: `{inner}` is not an IPv6 address");
                return Err(ValueError::new(message).range(0..host.len()));
            }
        }
    } else if host.is_empty() {
        Host::None
    } else if let Ok(ip) = host.parse::<Ipv4Addr>() {
        Host::Ip(IpAddr::V4(ip))
    } else if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(
            ValueError::new(format!("`{text}`: `{host}` is not an IPv4 address")).range(0..host.len())
        );
    } else {
        Host::Name(host)
    };
    Ok((host, port))
}

fn plain_number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) { None } else { text.parse().ok() }
}

/// A name as DNS has it (RFC 1123 section 2.1; underscores are in use inside clusters): letters, digits, `-`, `_`, labels of at most 63
/// bytes, at most 253 in all.
pub(crate) fn dns_name(name: &str) -> Result<Box<str>, ValueError> {
    let plain = name.strip_suffix('.').unwrap_or(name);
    let label_is_valid = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if plain.len() > 253 || !plain.split('.').all(label_is_valid) {
        return Err(ValueError::new(format!("`{name}` is not a host name")).help_if(ascii_help(name)));
    }
    Ok(plain.to_ascii_lowercase().into())
}

fn unix_path(path: &str) -> Result<PathBuf, ValueError> {
    let message = if path.is_empty() {
        "`unix:` has no path".to_owned()
    } else if path.contains('\0') {
        "the path of a Unix socket cannot hold a NUL".to_owned()
    } else if path.len() > UNIX_PATH_MAX {
        format!("the path of a Unix socket has at most {UNIX_PATH_MAX} bytes, this one has {}", path.len())
    } else if !Path::new(path).is_absolute() {
        format!("`unix:{path}`: the path does not begin with `/`")
    } else {
        return Ok(PathBuf::from(path));
    };
    Err(ValueError::new(message).help("write `unix:/run/name.sock`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_addresses_are_read() {
        for text in ["10.0.0.5", "127.0.0.2", "2001:db8::5", "{client_address}"] {
            assert_eq!(text.parse::<SourceAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "10.0.0.5:80",
            "[2001:db8::5]",
            "eth0",
            "{client_port}",
            " {client_address}",
            "0.0.0.0",
            "::",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
            "::ffff:10.0.0.5",
        ] {
            assert!(text.parse::<SourceAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn listen_addresses_are_read_and_printed() {
        for text in ["127.0.0.1:8080", "0.0.0.0:80", "[::]:80", "[::1]:0", ":8080", "unix:/run/weir.sock"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn server_addresses_are_read_and_printed() {
        for text in ["10.0.0.1:80", "[2001:db8::1]:80", "app.internal:8080", "my_app:1", "unix:/run/app.sock"]
        {
            assert_eq!(text.parse::<ServerAddress>().unwrap().to_string(), text);
        }
        assert_eq!("App.Internal.:80".parse::<ServerAddress>().unwrap().to_string(), "app.internal:80");
    }

    #[test]
    fn diagnostics_in_listen_addresses_say_what_is_wrong() {
        let help = "(write `address:port`, `:port` for all addresses, or `unix:/path`)";
        let cases = [
            ("8080", format!("`8080` has no `:` {help}")),
            ("127.0.0.1", format!("`127.0.0.1` has no port {help}")),
            ("*:80", "`*:80` is not an address (`:80` means all addresses)".to_owned()),
            (
                "localhost:80",
                "`localhost:80` is a name, not an address (write `127.0.0.1:80`, and `[::1]:80` for IPv6)"
                    .to_owned(),
            ),
            (
                "example.com:80",
                format!(
                    "`example.com:80`: a listener needs an IP address, and `example.com` is a name {help}"
                ),
            ),
            (":99999", format!("`:99999`: `99999` is not a port; ports are 0 to 65535 {help}")),
            (":+80", format!("`:+80`: `+80` is not a port; ports are 0 to 65535 {help}")),
            ("[::1]", format!("`[::1]` has no port {help}")),
            ("::1", format!("`::1` is an IPv6 address without brackets and port {help}")),
            (
                "[::ffff:10.0.0.1]:80",
                "`[::ffff:10.0.0.1]:80` is an address of IPv4, written as one of IPv6 (write `10.0.0.1:80`)"
                    .to_owned(),
            ),
            ("[::g]:80", format!("`[::g]:80`: `::g` is not an IPv6 address {help}")),
            ("1.2.3.400:80", format!("`1.2.3.400:80`: `1.2.3.400` is not an IPv4 address {help}")),
            (
                "unix:run/a",
                "`unix:run/a`: the path does not begin with `/` (write `unix:/run/name.sock`)".to_owned(),
            ),
            ("", format!("`` has no `:` {help}")),
        ];
        for (text, message) in cases {
            assert_eq!(
                text.parse::<ListenAddress>().map_err(|error| error.to_string()),
                Err(message),
                "{text}"
            );
        }
    }

    #[test]
    fn diagnostics_in_server_addresses_say_what_is_wrong() {
        let cases = [
            ("http://a:81/x", "`http://a:81/x` is a URL; a server is an address (write `a:81`)"),
            ("https://a", "`https://a` is a URL; a server is an address (write `a:443`)"),
            ("a:0", "`a:0`: no server listens on port 0"),
            ("-a:80", "`-a` is not a host name"),
            ("a..b:80", "`a..b` is not a host name"),
        ];
        for (text, message) in cases {
            assert_eq!(
                text.parse::<ServerAddress>().map_err(|error| error.to_string()),
                Err(message.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn addresses_overlap_when_one_connection_could_belong_to_both() {
        let cases = [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "[::]:80", false),
            (":80", "[::]:80", true),
            (":80", "127.0.0.1:80", true),
            (":80", ":81", false),
            (":0", ":0", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("unix:/a", "unix:/a", true),
            ("unix:/a", ":80", false),
        ];
        for (one, two, expected) in cases {
            let [first, second]: [ListenAddress; 2] = [one.parse().unwrap(), two.parse().unwrap()];
            assert_eq!(first.overlaps(&second), expected, "{one} {two}");
            assert_eq!(second.overlaps(&first), expected, "{two} {one}");
        }
    }
}
