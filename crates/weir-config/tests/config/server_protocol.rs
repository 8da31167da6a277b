//! The meaning of the keys of HTTP/2 with servers.

use std::time::Duration;

use weir_config::{Config, GrpcStatusName, ServerProtocol, UpstreamHttp2};

use crate::config;

fn with(upstream: &str) -> Config {
    config(&format!(
        "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[upstream.app]\nservers = [\"a:80\"]\n{upstream}\n"
    ))
}

#[test]
fn servers_speak_http1_by_default() {
    let config = with("");
    let mut http2 = UpstreamHttp2::default();
    http2.streams_max = 100;
    http2.connections_max = 100;
    http2.ping_interval = Some(Duration::from_secs(10));
    http2.ping_timeout = Duration::from_secs(5);
    assert_eq!((config.upstreams[0].protocol, &config.upstreams[0].http2), (ServerProtocol::Http1, &http2));
}

#[test]
fn servers_speak_the_protocol_that_is_named() {
    for (upstream, protocol) in [
        ("protocol = \"http1\"", ServerProtocol::Http1),
        ("protocol = \"http1\"\ntls = {}", ServerProtocol::Http1),
        ("protocol = \"h2\"\ntls = {}", ServerProtocol::H2),
        ("protocol = \"h2c\"", ServerProtocol::H2c),
        ("protocol = \"auto\"\ntls = {}", ServerProtocol::Auto),
    ] {
        assert_eq!(with(upstream).upstreams[0].protocol, protocol, "{upstream}");
    }
}

#[test]
fn streams_connections_and_pings_are_read() {
    let config = with(
        "protocol = \"h2c\"\nhttp2 = { streams_max = 1, connections_max = 10_000, ping_interval = \"off\" }",
    );
    let mut http2 = UpstreamHttp2::default();
    http2.streams_max = 1;
    http2.connections_max = 10_000;
    http2.ping_interval = None;
    assert_eq!(config.upstreams[0].http2, http2);
}

#[test]
fn grpc_statuses_are_named() {
    assert_eq!(with("").upstreams[0].retry.on_grpc_status, []);
    let config =
        with("retry = { methods = [\"POST\"], on_grpc_status = [\"unavailable\", \"resource-exhausted\"] }");
    assert_eq!(
        config.upstreams[0].retry.on_grpc_status,
        [GrpcStatusName::Unavailable, GrpcStatusName::ResourceExhausted]
    );
}
