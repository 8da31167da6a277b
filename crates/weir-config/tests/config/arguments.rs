//! A configuration from the arguments of a command.

use weir_config::{Config, ListenAddress, RouteAction, UpstreamIndex};

#[test]
fn addresses_alone_make_a_configuration() {
    let config = Config::from_arguments(&[":8080", "127.0.0.1:8081"], &["10.0.0.1:80", "app:81"]).unwrap();
    let [listener] = &config.listeners[..] else { panic!("one listener") };
    assert_eq!(listener.addresses[0], ListenAddress::AllTcp { port: 8080 });
    assert_eq!(listener.addresses.len(), 2);
    assert_eq!(listener.routes[0].action, RouteAction::Upstream(UpstreamIndex(0)));
    let servers: Vec<String> =
        config.upstreams[0].servers.iter().map(|server| server.address.to_string()).collect();
    assert_eq!(servers, ["10.0.0.1:80", "app:81"]);
}

#[test]
fn diagnostics_in_addresses_are_pointed_at() {
    let cases: [(&[&str], &[&str], &[&str]); 4] = [
        (&["8080"], &["10.0.0.1:80"], &["command line:1:10: error: `8080` has no `:`"]),
        (
            &[":8080"],
            &["a", "http://b/"],
            &[
                "command line:1:21: error: `a` has no port",
                "command line:1:28: error: `http://b/` is a URL; a server is an address (write `b:80`)",
            ],
        ),
        (&[":1"], &["a:1", "a:1"], &["command line:1:27: error: the server `a:1` is listed twice"]),
        (
            &[],
            &[],
            &[
                "command line:1:1: error: there is no `--listen`",
                "command line:1:1: error: there is no `--to`",
            ],
        ),
    ];
    for (listen, to, expected) in cases {
        let diagnostics = Config::from_arguments(listen, to).unwrap_err().to_string();
        let lines: Vec<&str> = diagnostics.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{diagnostics}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.starts_with(expected), "{line}\n{expected}");
        }
    }
}
