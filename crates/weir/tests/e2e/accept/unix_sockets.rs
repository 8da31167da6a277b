//! Unix sockets on both sides: as the address of a listener and as the address of a server.

use std::os::unix::net::{UnixListener, UnixStream};

use rustix::process::Signal;

use crate::harness::scripts::gated;
use crate::harness::stream::Address;
use crate::harness::{Client, Gate, Origin, Weir, eventually, origin::ok, temporary_folder};

#[test]
fn a_listener_on_a_unix_socket() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "listener.web.address = \"unix:{{dir}}/web.sock\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    ));
    let address = Address::Unix(weir.folder().join("web.sock"));
    let mut client = Client::connect(address.clone());
    for _ in 0..3 {
        assert_eq!(client.fetch("/").text(), "fine");
    }
    let seen = origin.last_request();
    assert!(
        seen.fields().all("x-forwarded-for").iter().all(|from| !from.contains('/')),
        "a path is no client: {seen:?}"
    );
    assert_eq!(Client::get(address, "/again").text(), "fine");
}

#[test]
fn a_server_on_a_unix_socket() {
    let folder = temporary_folder();
    let path = folder.path().join("app.sock");
    let origin = Origin::start_unix(&path, |conn| {
        loop {
            let request = conn.request()?;
            conn.send(ok(&format!("{}{}", request.target(), request.text())))?;
        }
    });
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"unix:{}\"]\n",
        path.display()
    ));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/a").text(), "/a");
    let body = "u".repeat(200_000);
    client.send(format!("POST /b HTTP/1.1\r\nHost: a.test\r\nContent-Length: 200000\r\n\r\n{body}"));
    assert_eq!(client.response().text(), format!("/b{body}"));
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_server_whose_socket_is_missing() {
    let weir = Weir::start(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"unix:{dir}/none.sock\"]\n",
    );
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.reason()), (502, Some("connect-socket-missing")), "{response:?}");
}

/// What a killed process left behind must not keep the next one from starting.
#[test]
fn a_socket_file_left_behind_is_replaced() {
    let origin = Origin::serving("fine");
    let folder = temporary_folder();
    let path = folder.path().join("web.sock");
    drop(UnixListener::bind(&path).expect("the test's own folder takes a socket"));
    assert!(path.exists(), "the file outlives its socket");
    let weir = Weir::start_in(
        folder,
        &format!(
            "listener.web.address = \"unix:{{dir}}/web.sock\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{}\"]\n",
            origin.address()
        ),
    );
    assert_eq!(Client::get(weir.listening("web").clone(), "/").text(), "fine");
}

/// A process that stops does not remove the socket file of the next one: that one would become unreachable.
#[test]
fn a_socket_file_of_the_next_process_is_left_alone() {
    let gate = Gate::new();
    let origin = gated(&gate, "/held", "fine");
    let folder = temporary_folder();
    let config = format!(
        "listener.web.address = \"unix:{}/web.sock\"\nlistener.web.upstream = \"app\"\nadmin.socket = \"unix:{}/admin.sock\"\n\
         upstream.app.servers = [\"{}\"]\nprocess.stop_grace = \"1h\"\n",
        folder.path().display(),
        folder.path().display(),
        origin.address()
    );
    let [web, admin] = ["web.sock", "admin.sock"].map(|name| folder.path().join(name));
    let mut first = Weir::start(&config);
    let mut held = Client::connect(Address::Unix(web.clone()));
    held.send_get("/held");
    origin.wait_for_requests(1);
    first.signal(Signal::TERM);
    eventually("the socket no longer accepts", || UnixStream::connect(&web).is_err());
    // The runtime socket answers as long as the process runs; the next one has its own.
    let next = Weir::start(&config.replace("/admin.sock", "/next.sock"));
    gate.open();
    assert_eq!(held.response().text(), "fine");
    assert_eq!(first.wait_for_exit().code(), Some(0), "{}", first.stderr());
    assert!(!admin.exists(), "its own files are gone");
    assert_eq!(Client::get(Address::Unix(web.clone()), "/").text(), "fine");
    next.signal(Signal::TERM);
    eventually("the last one tidies up", || !web.exists());
}

#[test]
fn several_addresses_of_one_listener() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "listener.web.address = [\"127.0.0.1:0\", \"[::1]:0\", \"unix:{{dir}}/web.sock\"]\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [\"{}\"]\n",
        origin.address()
    ));
    let all = weir.all("web");
    assert_eq!(all.len(), 3, "{all:?}");
    for address in all {
        assert_eq!(Client::get(address.clone(), "/").text(), "fine", "{address:?}");
    }
}
