//! The PROXY protocol with HAProxy and nginx on either side: headers are accepted in both directions.

use std::net::SocketAddr;
use std::path::Path;

use crate::harness::foreign_program::{self, free_address};
use crate::harness::{Client, ForeignProgram, Origin, Weir, eventually};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

fn haproxy(text: &str, address: SocketAddr) -> ForeignProgram {
    let defaults = "defaults\n mode http\n timeout connect 20s\n timeout client 20s\n timeout server 20s\n";
    ForeignProgram::haproxy(&format!("{defaults}{text}"), address)
}

fn nginx(text: &str, address: SocketAddr) -> ForeignProgram {
    const STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";
    assert!(Path::new(STREAM).exists(), "nginx lacks its stream module: cargo xtask setup");
    ForeignProgram::nginx(&format!("load_module {STREAM};\n"), text, address)
}

/// Two requests on one connection from 127.0.0.3, to a proxy in front of Weir; returns the fields that the server behind Weir received.
fn forwarded_through(front: SocketAddr, origin: &Origin, port: &str) {
    let mut client = Client::connect_from("127.0.0.3", front);
    for _ in 0..2 {
        client.send(GET);
        assert_eq!(client.response().status, 200);
        let request = origin.last_request();
        assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.3"));
        assert_eq!(request.field("x-forwarded-port"), Some(port));
    }
}

fn accepting(origin: &Origin) -> Weir {
    Weir::proxying_with(
        origin,
        "admin.address = \"127.0.0.1:0\"\nlistener.web.proxy_protocol.from = [\"127.0.0.0/8\"]",
    )
}

#[test]
fn what_haproxy_sends_is_understood() {
    let origin = Origin::serving("seen");
    let weir = accepting(&origin);
    for options in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c,authority,unique-id,ssl,cert-cn",
        // Checks of its own come with LOCAL, and with an address of its own.
        "send-proxy-v2 check inter 100ms",
        "send-proxy check inter 100ms",
    ] {
        let address = free_address();
        let text = format!(
            "listen web\n bind {{address}}\n unique-id-format %[uuid]\n server weir {} {options}\n",
            weir.web()
        );
        let _haproxy = haproxy(&text, address);
        forwarded_through(address, &origin, &address.port().to_string());
    }
    let failures = weir.metrics().all("weir_listener_failures_total", &["listener=\"web\""]);
    assert_eq!(failures.iter().sum::<f64>(), 0.0, "{}", weir.stderr());
}

#[test]
fn what_nginx_sends_is_understood() {
    let origin = Origin::serving("seen");
    let weir = accepting(&origin);
    let address = free_address();
    let text = format!(
        "stream {{ server {{ listen {{address}}; proxy_pass {}; proxy_protocol on; }} }}\n",
        weir.web()
    );
    let _nginx = nginx(&text, address);
    forwarded_through(address, &origin, &address.port().to_string());
}

/// Sends requests of two clients through Weir to `server`, which answers with what it knows of the client.
fn assert_client_address(server: SocketAddr, version: &str, settings: &str) {
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{server}\"]\n\
         upstream.app.proxy_protocol = \"{version}\"\nadmin.address = \"127.0.0.1:0\"\n{settings}"
    ));
    for from in ["127.0.0.3", "127.0.0.4"] {
        let mut client = Client::connect_from(from, weir.web());
        let expected = format!("{from}:{} 127.0.0.1:{}", client.local_port(), weir.web().port());
        for _ in 0..2 {
            client.send(GET);
            let response = client.response();
            assert_eq!((response.status, response.text().trim()), (200, expected.as_str()));
        }
    }
    let opened = weir.metrics().sum("weir_server_connects_total", &[]);
    assert_eq!(opened, 2.0, "one connection for each client");
    if !settings.is_empty() {
        eventually("a probe passed", || {
            weir.metrics().sum("weir_server_probes_total", &["result=\"passed\""]) >= 2.0
        });
    }
}

const PROBED: &str = "upstream.app.health = { path = \"/\", interval = \"50ms\", timeout = \"15s\" }\n";

#[test]
fn haproxy_takes_what_it_is_sent() {
    let address = free_address();
    let text = "frontend web\n bind {address} accept-proxy\n http-request return status 200 content-type text/plain \
                lf-string \"%[src]:%[src_port] %[dst]:%[dst_port]\"\n";
    let _haproxy = haproxy(text, address);
    assert_client_address(address, "v1", PROBED);
    assert_client_address(address, "v2", PROBED);
}

#[test]
fn nginx_takes_what_it_is_sent() {
    let address = free_address();
    let text = format!(
        "http {{ access_log off; {} server {{ listen {{address}} proxy_protocol; location / {{ return 200 \
         \"$proxy_protocol_addr:$proxy_protocol_port $proxy_protocol_server_addr:$proxy_protocol_server_port\"; }} }} }}\n",
        foreign_program::nginx_folders()
    );
    let _nginx = nginx(&text, address);
    assert_client_address(address, "v1", PROBED);
    assert_client_address(address, "v2", PROBED);
}
