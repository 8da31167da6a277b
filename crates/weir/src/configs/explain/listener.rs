//! Which listener a request arrives at: the one that is named, the one on the port of the URL, or the only one.

use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{Config, ListenAddress, Listener};

use super::url::Url;
use crate::error::CommandError;

/// Why a listener was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenerChoice {
    Named,
    Address,
    Port,
    Only,
}

impl ListenerChoice {
    pub(super) const fn sentence(self) -> &'static str {
        match self {
            ListenerChoice::Named => "as --listener says",
            ListenerChoice::Address => "has the address and port of the URL",
            ListenerChoice::Port => "has the port of the URL",
            ListenerChoice::Only => "the only listener",
        }
    }
}

/// Chooses the listener.
///
/// # Errors
/// When the named one does not exist, or several match.
pub(super) fn choose<'a>(
    config: &'a Config,
    url: &Url,
    named: Option<&str>,
) -> Result<(&'a Listener, ListenerChoice), CommandError> {
    let all = &config.listeners;
    if let Some(name) = named {
        let what = || format!("there is no listener `{name}`");
        return all
            .iter()
            .find(|listener| &*listener.name == name)
            .map(|listener| (&**listener, ListenerChoice::Named))
            .ok_or_else(|| unclear(what(), all));
    }
    let host = url.host().trim_matches(['[', ']']).parse().ok();
    for (why, host) in [(ListenerChoice::Address, host), (ListenerChoice::Port, None)] {
        let mut fitting = all.iter().filter(|listener| {
            url.port.is_some_and(|port| listener.addresses.iter().any(|address| fits(address, host, port)))
        });
        match (fitting.next(), fitting.next()) {
            (Some(listener), None) if why == ListenerChoice::Port || host.is_some() => {
                return Ok((&**listener, why));
            }
            _ => {}
        }
    }
    match &all[..] {
        [only] => Ok((&**only, ListenerChoice::Only)),
        _ => Err(unclear("it is not clear which listener the request arrives at".to_owned(), all)),
    }
}

/// Whether a client that connects to `port` (and to `host`, if that is an address) reaches `address`.
fn fits(address: &ListenAddress, host: Option<IpAddr>, port: u16) -> bool {
    match address {
        ListenAddress::Tcp(socket) => {
            let reached = host.is_none_or(|host| {
                socket.ip() == host || socket.ip().is_unspecified() && socket.is_ipv4() == host.is_ipv4()
            });
            socket.port() == port && reached
        }
        ListenAddress::AllTcp { port: own } => *own == port,
        ListenAddress::Unix(_) => false,
    }
}

fn unclear(what: String, listeners: &[Arc<Listener>]) -> CommandError {
    let list: Vec<String> = listeners.iter().map(|listener| describe(listener)).collect();
    let help = Some(format!("choose with --listener one of {}", list.join(", ")));
    CommandError::Usage { what, help }
}

/// `web (127.0.0.1:8080, unix:/run/weir.sock)`.
pub(super) fn describe(listener: &Listener) -> String {
    let addresses: Vec<String> = listener.addresses.iter().map(ToString::to_string).collect();
    format!("{} ({})", listener.name, addresses.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        listener.web = { address = ":80", upstream = "app" }
        listener.one = { address = "127.0.0.1:81", upstream = "app" }
        listener.two = { address = ["127.0.0.2:81", "unix:/run/two"], upstream = "app" }
        upstream.app.servers = ["10.0.0.1:80"]
    "#;

    fn chosen(config: &str, url: &str, named: Option<&str>) -> Result<(String, ListenerChoice), String> {
        let config = Config::parse(config, "weir.toml").unwrap();
        match choose(&config, &Url::parse(url).unwrap(), named) {
            Ok((listener, why)) => Ok((listener.name.to_string(), why)),
            Err(CommandError::Usage { what, help }) => Err(format!("{what}; {}", help.unwrap_or_default())),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_listener_is_found() {
        for (url, named, expected) in [
            ("http://any.test/", None, ("web", ListenerChoice::Port)),
            ("http://127.0.0.9/", None, ("web", ListenerChoice::Address)),
            ("http://[::1]/", None, ("web", ListenerChoice::Address)),
            ("http://127.0.0.2:81/", None, ("two", ListenerChoice::Address)),
            ("http://any.test/", Some("one"), ("one", ListenerChoice::Named)),
        ] {
            assert_eq!(chosen(CONFIG, url, named), Ok((expected.0.to_owned(), expected.1)), "{url}");
        }
        let single = "listener.web = { address = \":8080\", upstream = \"app\" }\nupstream.app.servers = [\"10.0.0.1:80\"]";
        for url in ["/x", "http://any.test/"] {
            assert_eq!(chosen(single, url, None), Ok(("web".to_owned(), ListenerChoice::Only)), "{url}");
        }
    }

    #[test]
    fn what_is_unclear_is_asked_back() {
        for (url, named) in [
            ("/x", None),
            ("http://any.test:81/", None),
            ("http://any.test:82/", None),
            ("/x", Some("three")),
        ] {
            let error = chosen(CONFIG, url, named).unwrap_err();
            let list = "web (:80), one (127.0.0.1:81), two (127.0.0.2:81, unix:/run/two)";
            assert!(error.ends_with(list), "{url}: {error}");
        }
    }
}
