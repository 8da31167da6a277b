//! The meaning of the keys of the PROXY protocol.

use std::time::Duration;

use weir_config::{Config, ProxyVersion};

use crate::config;

fn with(listener: &str, upstream: &str) -> Config {
    config(&format!(
        "[listener.web]\naddress = [\":0\", \"unix:/run/weir.sock\"]\nupstream = \"app\"\n{listener}\n\
         [upstream.app]\nservers = [\"a:80\"]\n{upstream}\n"
    ))
}

#[test]
fn it_is_off_by_default() {
    let config = with("", "");
    assert_eq!((&config.listeners[0].proxy_protocol, config.upstreams[0].proxy_protocol), (&None, None));
}

#[test]
fn peers_are_networks_addresses_and_unix_sockets() {
    let config = with("proxy_protocol.from = [\"10.0.0.0/8\", \"2001:db8::1\", \"unix\"]", "");
    let protocol = config.listeners[0].proxy_protocol.as_ref().expect("it was given");
    for (peer, expected) in
        [("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("2001:db8::1", true), ("2001:db8::2", false)]
    {
        assert_eq!(protocol.from.contains(Some(peer.parse().unwrap())), expected, "{peer}");
    }
    assert!(protocol.from.contains(None));
    assert_eq!((protocol.timeout, protocol.header_size.bytes()), (Duration::from_secs(10), 4096));
}

#[test]
fn servers_get_the_version_that_is_named() {
    for (word, version) in [("v1", Some(ProxyVersion::V1)), ("v2", Some(ProxyVersion::V2)), ("off", None)] {
        let config = with("", &format!("proxy_protocol = \"{word}\""));
        assert_eq!(config.upstreams[0].proxy_protocol, version, "{word}");
    }
}
