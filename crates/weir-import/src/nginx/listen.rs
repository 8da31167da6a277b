//! `listen`: addresses and what nginx sets on their sockets.

use crate::document::DraftTable;
use crate::report::Ledger;
use crate::source::Statement;

/// An address of a server with its options.
#[derive(Clone, Debug)]
pub(super) struct NginxListen<'s> {
    /// `0.0.0.0:80`, `[::]:80`, `:80` for both, `unix:/path`.
    pub(super) address: String,
    pub(super) tls: bool,
    pub(super) is_default: bool,
    /// `http2` as a parameter.
    pub(super) http2: bool,
    pub(super) proxy_protocol: bool,
    /// Keys of the listener.
    pub(super) keys: Vec<(&'static str, ListenValue)>,
    pub(super) statement: Option<&'s Statement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenValue {
    Number(i64),
    Text(String),
}

impl<'s> NginxListen<'s> {
    /// That of a server without `listen`.
    pub(super) fn unwritten() -> Self {
        NginxListen {
            address: "0.0.0.0:80".to_owned(),
            tls: false,
            is_default: false,
            http2: false,
            proxy_protocol: false,
            keys: Vec::new(),
            statement: None,
        }
    }

    /// Reads a statement; `None` where it is no address, which is said in the account.
    pub(super) fn read(ledger: &'s Ledger, statement: &'s Statement) -> Option<Self> {
        let mut words = ledger.words(statement);
        let Some(written) = words.text() else {
            ledger.unsupported(statement, "`listen` without an address");
            return None;
        };
        let mut listen = NginxListen { statement: Some(statement), ..NginxListen::unwritten() };
        let dual = words.option("ipv6only=") == Some("off");
        match address(written, dual) {
            Ok(address) => listen.address = address,
            Err(advice) => {
                ledger.unsupported(statement, &advice);
                return None;
            }
        }
        listen.tls = words.flag("ssl");
        listen.http2 = words.flag("http2");
        listen.is_default = words.flag("default_server") || words.flag("default");
        listen.proxy_protocol = words.flag("proxy_protocol");
        // Sockets of all workers are like that.
        for flag in ["reuseport", "bind", "spdy"] {
            words.flag(flag);
        }
        listen.read_socket(ledger, statement, &mut words);
        ledger.exact(statement);
        Some(listen)
    }

    fn read_socket(
        &mut self,
        ledger: &'s Ledger,
        statement: &'s Statement,
        words: &mut crate::report::StatementWords<'s>,
    ) {
        if let Some(backlog) = words.option("backlog=").and_then(|text| text.parse().ok()) {
            self.keys.push(("backlog", ListenValue::Number(backlog)));
        }
        if let Some(length) = words.option("fastopen=").and_then(|text| text.parse().ok()) {
            self.keys.push(("fast_open", ListenValue::Number(length)));
        }
        if words.flag("deferred") {
            self.keys.push(("defer_accept", ListenValue::Text("60s".to_owned())));
        }
        if let Some(keepalive) = words.option("so_keepalive=") {
            let idle = keepalive.split(':').next().unwrap_or_default();
            match keepalive {
                "on" => {}
                "off" => self.keys.push(("tcp_keepalive", ListenValue::Text("off".to_owned()))),
                _ if idle.ends_with(|c: char| c.is_ascii_digit()) => {
                    self.keys.push(("tcp_keepalive", ListenValue::Text(format!("{idle}s"))));
                }
                _ if !idle.is_empty() => {
                    self.keys.push(("tcp_keepalive", ListenValue::Text(idle.to_owned())));
                }
                _ => {}
            }
            if keepalive.contains(':') {
                ledger
                    .approximated(statement, "the interval and the number of probes are those of the system");
            }
        }
        for option in ["rcvbuf=", "sndbuf="] {
            if words.option(option).is_some() {
                ledger.approximated(statement, "buffers of sockets have the size that the system chooses");
            }
        }
    }

    /// Sets the options of the socket.
    pub(super) fn apply(&self, listener: &mut DraftTable) {
        let Some(statement) = self.statement else { return };
        for (key, value) in &self.keys {
            match value {
                ListenValue::Number(number) => listener.set(key, *number, statement),
                ListenValue::Text(text) => listener.set(key, text.as_str(), statement),
            }
        }
    }
}

/// An address as Weir writes it.
pub(super) fn address(written: &str, dual: bool) -> Result<String, String> {
    if let Some(path) = written.strip_prefix("unix:") {
        return Ok(format!("unix:{path}"));
    }
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    if is_port(written) {
        return Ok(format!("0.0.0.0:{written}"));
    }
    let (host, port) = match written.rsplit_once(':') {
        Some((host, port)) if is_port(port) && (!host.contains(':') || host.ends_with(']')) => (host, port),
        _ => (written, "80"),
    };
    if host == "[::]" && dual {
        return Ok(format!(":{port}"));
    }
    let is_address = host.parse::<std::net::Ipv4Addr>().is_ok()
        || host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
    match host {
        "*" => Ok(format!("0.0.0.0:{port}")),
        "localhost" => Ok(format!("127.0.0.1:{port}")),
        _ if is_address => Ok(format!("{host}:{port}")),
        _ => Err(format!("write the address that `{host}` stands for: listeners have addresses, not names")),
    }
}

/// Puts `0.0.0.0:80` and `[::]:80` together as `:80`.
pub(super) fn joined(mut addresses: Vec<String>) -> Vec<String> {
    let both: Vec<String> = addresses
        .iter()
        .filter_map(|address| address.strip_prefix("0.0.0.0").map(ToOwned::to_owned))
        .filter(|port| addresses.contains(&format!("[::]{port}")))
        .collect();
    for port in both {
        let at = addresses.iter().position(|one| *one == format!("0.0.0.0{port}")).unwrap_or(0);
        addresses[at].clone_from(&port);
        addresses.retain(|one| *one != format!("[::]{port}"));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_nginx() {
        for (written, expected) in [
            ("80", "0.0.0.0:80"),
            ("*:8080", "0.0.0.0:8080"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("[::]:443", "[::]:443"),
            ("[::1]", "[::1]:80"),
            ("localhost:81", "127.0.0.1:81"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(address(written, false).as_deref(), Ok(expected));
        }
        assert_eq!(address("[::]:80", true).as_deref(), Ok(":80"));
        assert!(address("web.example:80", false).is_err());
    }

    #[test]
    fn both_families_are_one_address() {
        let both = ["0.0.0.0:80", "127.0.0.1:81", "[::]:80"].map(ToOwned::to_owned).to_vec();
        assert_eq!(joined(both), [":80", "127.0.0.1:81"]);
    }
}
