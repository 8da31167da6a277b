//! The defaults, and the printed config.

use std::time::Duration;

use weir_config::{
    ByteRate, CheckedConfig, Config, ConfigDump, ConfigParts, Listener, ListenerParts, ProgressLimit, Route,
    Server, Size, Upstream, UpstreamIndex, UpstreamParts,
};

use crate::{checked, config, examples};

const MINIMAL: &str =
    "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[upstream.app]\nservers = [\"a:80\"]\n";

const LIMITS: &str = r#"
[list.near]
action = "tag"
entries = ["10.0.0.0/8 office", "::1"]
[list."with.dot"]
action = "tarpit"
key = "{header.x-user}"
entries = ["ann"]
delay = "5s"
[limit.per-client]
rate = "5/90s"
burst = 7
delay = "2s"
prefix.ipv4 = 24
[limit.errors]
rate = "10/m"
count_status = ["400-403", 404]
block = "10m"
concurrent = 3
key = "{client_address} {tag}"
[listener.web]
address = ":0"
connections_per_client_rate = "10/s"
lists = ["near", "with.dot"]
limited_by = "per-client"
[[listener.web.route]]
upstream = "app"
limited_by = ["errors"]
[upstream.app]
servers = ["a:80"]
limited_by = "per-client"
"#;

fn shown(config: &Config) -> String {
    format!("{config:#?}")
}

#[test]
fn the_printed_config_means_the_same() {
    let minimal = ("minimal".to_owned(), MINIMAL.to_owned());
    let limits = ("limits".to_owned(), LIMITS.to_owned());
    for (name, text) in examples().into_iter().chain([minimal, limits]) {
        let first = CheckedConfig::parse_alone(&text, "weir.toml", &|_| None);
        let printed = first.print();
        let second = checked(&printed);
        assert!(second.diagnostics.is_empty(), "{name}: {}\n{printed}", second.diagnostics);
        assert_eq!(second.print(), printed, "{name}");
        assert_eq!(shown(&second.config.unwrap()), shown(&first.config.unwrap()), "{name}");
    }
}

#[test]
fn text_with_dollars_survives_printing() {
    let text = format!(
        "{MINIMAL}[[listener.web.route]]\npath_regex = '^/(a|b)$'\nupstream = \"app\"\n\
         replace_regex = {{ pattern = '^/(a)$', replacement = '/$1/$${{1}}/$$$$' }}\n\
         request_headers.set = {{ x-price = \"$$${{PRICE:-5}}\", \"x.dotted\" = 'quote \"' }}\n"
    );
    let first = checked(&text);
    assert!(first.diagnostics.is_empty(), "{}", first.diagnostics);
    let second = checked(&first.print());
    assert_eq!(
        shown(second.config.as_ref().unwrap()),
        shown(first.config.as_ref().unwrap()),
        "{}",
        first.print()
    );
}

#[test]
fn types_and_texts_have_the_same_defaults() {
    let server = Server::new("a:80".parse().unwrap());
    let upstream = Upstream::from_parts(UpstreamParts::new("app", vec![server])).unwrap();
    let route = Route::to_upstream("*", UpstreamIndex(0));
    let parts = ListenerParts::new("web", vec![":0".parse().unwrap()], vec![route.into()]);
    let listener = Listener::from_parts(parts).unwrap();
    let mut parts = ConfigParts::default();
    parts.listeners = vec![listener.into()];
    parts.upstreams = vec![upstream.into()];
    let built = Config::from_parts(parts).unwrap();
    // The part of the text that is shown has none here.
    let mut parts = config(MINIMAL).into_parts();
    parts.dump = ConfigDump::default();
    let of_text = Config::from_parts(parts).unwrap();
    assert_eq!(shown(&of_text), shown(&built));
}

#[test]
fn documented_defaults_are_right() {
    let config = config(MINIMAL);
    let listener = &config.listeners[0];
    assert_eq!(listener.timeouts.idle, Duration::from_secs(75));
    let rate = ByteRate::from_bytes_per_second(500);
    assert_eq!(listener.timeouts.request_body, Some(ProgressLimit::with_rate(Duration::from_secs(30), rate)));
    assert_eq!(listener.limits.head_size, Size::from_kib(32));
    assert_eq!(config.process.stop_grace, Duration::from_secs(30));
    assert!(listener.access_log.format.is_none() && listener.limits.body_size.is_none());
    assert_eq!(config.upstreams[0].balance.name(), "least-requests");
}
