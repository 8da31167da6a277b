//! A route with an access log of its own, in place of that of its listener.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::scripts::gated;
use crate::harness::{CLOSED_PORT, Client, Gate, Origin, Weir, eventually};

/// Waits until the file has these lines, in any order.
fn assert_lines(path: &Path, expected: &[&str]) {
    let read = || {
        let mut lines: Vec<String> =
            fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    eventually(&format!("{path:?} has {} lines", expected.len()), || read().len() >= expected.len());
    assert_eq!(read(), expected, "{path:?}");
}

fn config(origin: &Origin, listener: &str, routes: &str) -> String {
    format!(
        "[listener.web]\naddress = \"127.0.0.1:0\"\nupstream = \"app\"\n{listener}\n{routes}\n\
         [upstream.app]\nservers = [\"{}\"]\n[upstream.none]\nservers = [\"{CLOSED_PORT}\"]\n",
        origin.address()
    )
}

/// One file for two routes and another for the listener; a route without a log has lines of failures in that of the listener.
#[test]
fn lines_go_to_the_log_of_the_route() {
    let origin = Origin::serving("fine");
    let own = "access_log = { format = 'own {target} {status}', output = \"file:{dir}/own.log\" }";
    let weir = Weir::start(&config(
        &origin,
        "access_log = { format = '{target} {status}', output = \"file:{dir}/access.log\" }",
        &format!(
            "[[listener.web.route]]\npath = \"/own\"\nupstream = \"app\"\n{own}\n\
             [[listener.web.route]]\npath = \"/broken\"\nupstream = \"none\"\n{own}\n\
             [[listener.web.route]]\npath = \"/fixed\"\nrespond = {{ status = 204 }}\n\
             access_log = {{ format = 'fixed {{target}} {{header.x-a}}', output = \"file:{{dir}}/own.log\" }}\n\
             [[listener.web.route]]\npath = \"/silent\"\nupstream = \"app\"\naccess_log = false\n\
             [[listener.web.route]]\npath = \"/silent/broken\"\nupstream = \"none\"\naccess_log = false\n\
             [[listener.web.route]]\npath = \"/same\"\nupstream = \"app\"\naccess_log = true\n"
        ),
    ));
    let mut client = Client::connect(weir.web());
    for (target, status) in [
        ("/own/1", 200),
        ("/silent", 200),
        ("/silent/broken", 502),
        ("/broken", 502),
        ("/", 200),
        ("/same", 200),
    ] {
        client.send_get(target);
        assert_eq!(client.response().status, status, "{target}");
    }
    let fixed = "GET /fixed HTTP/1.1\r\nHost: a.test\r\nX-A: b\r\n\r\n";
    assert_eq!(Client::exchange(weir.web(), fixed).status, 204);
    assert_lines(&weir.folder().join("own.log"), &["fixed /fixed b", "own /broken 502", "own /own/1 200"]);
    assert_lines(&weir.folder().join("access.log"), &["/ 200", "/same 200", "/silent/broken 502"]);
}

/// The listener needs no log for a route to have one.
#[test]
fn the_only_log_is_that_of_a_route() {
    let origin = Origin::serving("fine");
    let route = "[[listener.web.route]]\npath = \"/own\"\nupstream = \"app\"\n\
                 access_log = { format = '{local_address} {target}', output = \"file:{dir}/own.log\" }";
    let weir = Weir::start(&config(&origin, "", route));
    let mut client = Client::connect(weir.web());
    assert_eq!((client.fetch("/").status, client.fetch("/own").status), (200, 200));
    assert_lines(&weir.folder().join("own.log"), &["127.0.0.1 /own"]);
}

/// An exchange has its line where its config says, also when a reload has changed that; files are opened again on SIGUSR1.
#[test]
fn reloads_and_rotations() {
    let gate = Gate::new();
    let origin = gated(&gate, "/own/held", "fine");
    let to = |file: &str| {
        let route = "[[listener.web.route]]\npath = \"/own\"\nupstream = \"app\"\n\
                     access_log = { format = '{target}', output = \"file:{dir}/FILE\" }";
        config(&origin, "", &route.replace("FILE", file))
    };
    let weir = Weir::start(&to("first.log"));
    let at = |name: &str| weir.folder().join(name);
    let mut held = Client::connect(weir.web());
    held.send_get("/own/held");
    origin.wait_for_requests(1);
    weir.reload(&to("second.log"));
    assert_eq!(Client::get(weir.web(), "/own/new").status, 200);
    assert_lines(&at("second.log"), &["/own/new"]);
    gate.open();
    assert_eq!(held.response().status, 200);
    assert_lines(&at("first.log"), &["/own/held"]);
    fs::rename(at("second.log"), at("moved.log")).expect("the test owns the file");
    weir.signal(Signal::USR1);
    eventually("the file is there again", || at("second.log").exists());
    assert_eq!(held.fetch("/own/after").status, 200);
    assert_lines(&at("second.log"), &["/own/after"]);
    assert_lines(&at("moved.log"), &["/own/new"]);
    // Without it, the route has no line any more.
    weir.reload(&config(&origin, "", "[[listener.web.route]]\npath = \"/own\"\nupstream = \"app\"\n"));
    assert_eq!(held.fetch("/own/last").status, 200);
    weir.reload(&to("second.log"));
    assert_eq!(held.fetch("/own/again").status, 200);
    assert_lines(&at("second.log"), &["/own/after", "/own/again"]);
}

/// A connection of a TCP listener is an exchange, too.
#[test]
fn routes_of_a_tcp_listener() {
    let origin = Origin::start(|conn| {
        let bytes = conn.take(4)?;
        conn.send(bytes)?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&format!(
        "[listener.web]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\n\
         [[listener.web.route]]\nupstream = \"app\"\n\
         access_log = {{ format = '{{route}} {{body_bytes_out}}', output = \"file:{{dir}}/own.log\" }}\n\
         [upstream.app]\nservers = [\"{}\"]\n",
        origin.address()
    ));
    let mut client = Client::connect(weir.web());
    client.send("ping");
    assert_eq!(client.take(4), b"ping");
    client.finish();
    client.take_to_end();
    assert_lines(&weir.folder().join("own.log"), &["* 4"]);
}
