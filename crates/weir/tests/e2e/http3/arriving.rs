//! What is beside HTTP/3 on its way in: TLS, limits, mistakes of the config.

use crate::harness::http2::start_with_tls;
use crate::harness::http3::Http3Client;
use crate::harness::scripts::echo;
use crate::harness::{WrittenConfig, run};

#[test]
fn a_listener_without_tls_has_none() {
    let file = WrittenConfig::new(
        "listener.web = { address = \"127.0.0.1:0\", http3 = {}, route = [{ path = \"/\", respond = { status = 200 } }] }\n",
    );
    let done = run(&["check", "--format", "short", file.path()]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stdout.contains("HTTP/3 needs TLS 1.3 on a port of an address"), "{done:?}");
}

#[test]
fn the_limit_on_connections_of_a_client_holds() {
    let origin = echo();
    let settings = "listener.web.http3 = {}\nlistener.web.connections_per_client_max = 2\n";
    let (authority, weir) = start_with_tls(&origin, settings);
    let mut one = Http3Client::connect(weir.web(), &authority);
    let mut two = Http3Client::connect(weir.web(), &authority);
    assert_eq!((one.get("/1").status, two.get("/2").status), (200, 200));
    assert!(Http3Client::try_connect(weir.web(), authority.client()).is_err(), "a third is refused");
    assert_eq!(one.get("/3").status, 200);
}
