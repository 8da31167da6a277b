//! SIGTERM ends the process when the open exchanges are done; a second signal ends it at once.

use std::io::ErrorKind;
use std::net::TcpStream;

use rustix::process::Signal;

use crate::harness::scripts::{echo, echo_gated, tunnelling};
use crate::harness::tls::{self, WEB_TLS};
use crate::harness::watchdog::{WATCHDOG, pause};
use crate::harness::websocket::open_tunnel;
use crate::harness::{CertificateAuthority, Client, Gate, Origin, Weir, eventually, temporary_folder};

#[test]
fn a_running_exchange_is_finished_and_the_exit_is_clean() {
    for signal in [Signal::TERM, Signal::INT] {
        let gate = Gate::new();
        let origin = echo_gated(&gate, "/slow");
        let mut weir = Weir::proxying(&origin);
        let address = weir.web();
        let mut client = Client::connect(address);
        client.send_get("/slow");
        origin.wait_for_requests(1);
        weir.signal(signal);
        eventually("new connections are refused", || TcpStream::connect(address).is_err());
        assert!(weir.runs(), "an exchange is still under way");
        gate.open();
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, "/slow".to_owned()));
        assert!(response.closes(), "the client must know: {response:?}");
        client.assert_closed();
        assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    }
}

#[test]
fn idle_connections_do_not_delay_the_end() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/slow");
    let mut weir = Weir::proxying(&origin);
    let mut used = Client::connect(weir.web());
    assert_eq!(used.fetch("/quick").status, 200);
    let mut unused = Client::connect(weir.web());
    weir.signal(Signal::TERM);
    used.assert_closed();
    // Perhaps it was never accepted; then its end is a reset.
    assert!(unused.take_to_end().0.is_empty());
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

/// What a client still sends after its answer is taken in while Weir runs, and for a moment when it stops.
#[test]
fn an_unread_upload_does_not_delay_the_stop() {
    let origin = Origin::serving("never asked");
    let mut weir = Weir::proxying_with(&origin, "listener.web.limits.body_size = \"1KiB\"");
    let mut client = Client::connect(weir.web());
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000000\r\n\r\n");
    assert_eq!(client.response().status, 413);
    // Slow, so that neither silence nor the bound in bytes ends it.
    let uploading = std::thread::spawn(move || {
        while client.send_what_is_taken("x").is_ok() {
            pause();
        }
    });
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    uploading.join().expect("the upload ends with the connection");
}

#[test]
fn a_response_under_way_is_finished() {
    let gate = Gate::new();
    let rest = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")?;
        rest.wait("the stop has begun");
        conn.send("other")
    });
    let mut weir = Weir::proxying(&origin);
    let address = weir.web();
    let mut client = Client::connect(address);
    client.send_get("/");
    client.head();
    assert_eq!(client.take(5), b"first");
    weir.signal(Signal::TERM);
    eventually("new connections are refused", || TcpStream::connect(address).is_err());
    gate.open();
    assert_eq!(client.take(5), b"other");
    client.assert_closed();
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

#[test]
fn the_grace_period_has_an_end() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/slow");
    let mut weir = Weir::proxying_with(&origin, "process.stop_grace = \"200ms\"");
    let mut client = Client::connect(weir.web());
    client.send_get("/slow");
    origin.wait_for_requests(1);
    weir.signal(Signal::TERM);
    let exit = weir.wait_for_exit();
    assert_eq!(exit.code(), Some(3), "something was cut: {exit}");
    gate.open();
}

/// A tunnel has no end of its own: it may go on for the grace period ...
#[test]
fn a_tunnel_goes_on_during_the_grace_period() {
    let origin = tunnelling();
    let mut weir = Weir::proxying_with(&origin, "process.stop_grace = \"1h\"");
    let address = weir.web();
    let mut client = open_tunnel(weir.web());
    weir.signal(Signal::TERM);
    eventually("the stop has begun", || TcpStream::connect(address).is_err());
    client.send("ping");
    assert_eq!(client.take(4), b"ping");
    assert!(weir.runs());
}

/// ... then it is cut.
#[test]
fn a_tunnel_is_cut_at_the_end_of_the_grace_period() {
    let origin = tunnelling();
    let mut weir = Weir::proxying_with(&origin, "process.stop_grace = \"200ms\"");
    let mut client = open_tunnel(weir.web());
    weir.signal(Signal::TERM);
    assert!(client.take_to_end().0.is_empty());
    assert_eq!(weir.wait_for_exit().code(), Some(3), "{}", weir.stderr());
}

/// Also when a reload has removed its listener meanwhile.
#[test]
fn a_tunnel_of_a_removed_listener_is_cut_as_well() {
    for (grace, signals) in [("200ms", 1), ("1h", 2)] {
        let origin = tunnelling();
        let config = |name: &str| {
            format!(
                "listener.{name} = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n\
                 process.stop_grace = \"{grace}\"\n",
                origin.address()
            )
        };
        let mut weir = Weir::start(&config("web"));
        let mut client = open_tunnel(weir.web());
        weir.reload(&config("other"));
        let address = weir.new_address("other");
        for _ in 0..signals {
            weir.signal(Signal::TERM);
            eventually("the signal was taken", || TcpStream::connect(address).is_err());
        }
        assert!(client.take_to_end().0.is_empty());
        assert_eq!(weir.wait_for_exit().code(), Some(3), "{}", weir.stderr());
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/slow");
    let mut weir = Weir::proxying_with(&origin, "process.stop_grace = \"1h\"");
    let address = weir.web();
    let mut client = Client::connect(address);
    client.send_get("/slow");
    origin.wait_for_requests(1);
    weir.signal(Signal::TERM);
    eventually("the first signal was taken", || TcpStream::connect(address).is_err());
    weir.signal(Signal::TERM);
    let response = client.response();
    assert_eq!((response.status, response.reason()), (503, Some("killed-by-operator")));
    assert_eq!(weir.wait_for_exit().code(), Some(3), "{}", weir.stderr());
    gate.open();
}

#[test]
fn the_second_signal_says_that_something_was_cut() {
    let origin = tunnelling();
    let mut weir = Weir::proxying_with(&origin, "process.stop_grace = \"1h\"");
    let address = weir.web();
    let _tunnel = open_tunnel(weir.web());
    weir.signal(Signal::TERM);
    eventually("the first signal was taken", || TcpStream::connect(address).is_err());
    weir.signal(Signal::INT);
    assert_eq!(weir.wait_for_exit().code(), Some(3), "{}", weir.stderr());
    assert!(
        weir.stderr().contains("exchanges or tunnels were cut: a second signal came cut=1"),
        "{}",
        weir.stderr()
    );
}

/// The stop finds requests that have arrived and are not read yet.
#[test]
fn requests_that_have_arrived_are_answered() {
    let origin = echo();
    let mut weir = Weir::proxying(&origin);
    let mut clients: Vec<Client> = (0..50).map(|_| Client::connect(weir.web())).collect();
    for client in &mut clients {
        assert_eq!(client.fetch("/first").text(), "/first");
    }
    weir.pause();
    clients.iter_mut().for_each(|client| client.send_get("/second"));
    weir.signal(Signal::TERM);
    weir.signal(Signal::CONT);
    for client in &mut clients {
        assert_eq!(client.response().text(), "/second");
    }
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

#[test]
fn load_balancers_in_front_see_the_stop_before_it_begins() {
    let origin = echo_gated(&Gate::new(), "/slow");
    let settings = "process.stop_delay = \"1h\"\nadmin = { address = \"127.0.0.1:0\", socket = \"unix:{dir}/weir.sock\" }";
    let mut weir = Weir::proxying_with(&origin, settings);
    let by_command = |weir: &Weir| {
        let result = weir.run_over_socket(&["ctl", "ready"]);
        (result.code, result.stdout, result.stderr)
    };
    assert_eq!(by_command(&weir), (Some(0), "ready\n".to_owned(), String::new()));
    assert_eq!(weir.run_over_socket(&["ctl", "ready", "--upstream", "none"]).code, Some(1));
    let ready = |weir: &Weir, query: &str| {
        let response = Client::get_by_address(weir.address("admin"), &format!("/ready{query}"));
        (response.status, response.text())
    };
    assert_eq!(ready(&weir, ""), (200, "ready\n".to_owned()));
    assert_eq!(ready(&weir, "?upstream=app").0, 200);
    assert_eq!(ready(&weir, "?upstream=none"), (404, "there is no upstream `none`\n".to_owned()));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/before").status, 200);
    weir.signal(Signal::TERM);
    eventually("`/ready` reports the stop", || ready(&weir, "") == (503, "stopping\n".to_owned()));
    assert_eq!(Client::get_by_address(weir.address("admin"), "/live").status, 200, "it is not to be ended");
    let (code, printed, error) = by_command(&weir);
    assert_eq!((code, printed.as_str()), (Some(1), ""));
    assert!(error.contains("stopping (503)"), "{error}");
    let response = client.fetch("/after");
    assert_eq!((response.status, response.closes()), (200, false), "it goes on as before");
    assert_eq!(Client::get(weir.web(), "/new").status, 200, "and takes new connections");
    weir.signal(Signal::TERM);
    client.assert_closed();
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

#[test]
fn an_upstream_without_a_usable_server_is_not_ready() {
    let origin = echo_gated(&Gate::new(), "/slow");
    let weir = Weir::proxying_with(&origin, "admin = { address = \"127.0.0.1:0\", changes = true }");
    let servers = Client::get_by_address(weir.address("admin"), "/servers").text();
    let row: Vec<&str> = servers.lines().nth(1).expect("there is a server").split('\t').collect();
    let server = format!("upstream={}&server={}", row[0], row[1].replace(':', "%3A"));
    assert_eq!(weir.admin_post(&format!("/servers?{server}&mode=maintenance")).status, 200);
    let response = Client::get_by_address(weir.address("admin"), &format!("/ready?upstream={}", row[0]));
    assert_eq!(response.status, 503, "{}", response.text());
    assert_eq!(Client::get_by_address(weir.address("admin"), "/ready").status, 200);
}

#[test]
fn the_supervisor_is_notified() {
    let folder = temporary_folder();
    let path = folder.path().join("notify.sock");
    let supervisor = std::os::unix::net::UnixDatagram::bind(&path).expect("the folder is new");
    supervisor.set_read_timeout(Some(WATCHDOG)).expect("a socket takes a time limit");
    let hear = || {
        let mut notified = [0; 512];
        let len = supervisor.recv(&mut notified).expect("a notification comes");
        String::from_utf8_lossy(&notified[..len]).into_owned()
    };
    let config = "listener.web = { address = \"127.0.0.1:0\", upstream = \"app\" }\nupstream.app.servers = [\"127.0.0.1:1\"]\n";
    let variable = [("NOTIFY_SOCKET", path.to_str().expect("temporary paths are UTF-8"))];
    let own = temporary_folder();
    let mut weir = Weir::start_in_environment(own, config, &variable);
    assert!(hear().starts_with("READY=1\n"));
    weir.signal(Signal::HUP);
    let notified = hear();
    assert!(notified.starts_with("RELOADING=1\n") && notified.contains("MONOTONIC_USEC="), "{notified}");
    assert!(hear().starts_with("READY=1\n"));
    weir.signal(Signal::TERM);
    assert!(hear().starts_with("STOPPING=1\n"));
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

/// Connects and asks once, again and again, until connections are refused; gives what came instead of an answer on those that were made.
fn ask_until_refused(connect: impl Fn() -> std::io::Result<Client>) -> Vec<String> {
    let mut lost = Vec::new();
    loop {
        let outcome = match connect() {
            Ok(mut client) => client
                .send_what_is_taken("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
                .and_then(|()| client.try_response_to("GET"))
                .map_err(|end| end.to_string()),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return lost,
            Err(error) => Err(error.to_string()),
        };
        match outcome {
            Ok(response) if response.status == 200 => {}
            other => lost.push(format!("{other:?}")),
        }
    }
}

#[test]
fn each_connection_that_is_made_while_it_stops_has_its_answer() {
    for is_tls in [false, true] {
        for _ in 0..3 {
            let origin = Origin::serving("x");
            let authority = CertificateAuthority::new();
            let folder = authority.folder_for_web();
            let text = format!(
                "process.workers = 2\nlistener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n{}\
                 upstream.app.servers = [\"{}\"]\n",
                if is_tls { WEB_TLS } else { "" },
                origin.address()
            );
            let mut weir = Weir::start_in(folder, &text);
            let address = weir.web();
            let connect = || match is_tls {
                true => tls::try_connect(address, authority.client(), "a.test"),
                false => TcpStream::connect(address).map(Client::over),
            };
            let lost: Vec<String> = std::thread::scope(|scope| {
                let clients: Vec<_> = (0..16).map(|_| scope.spawn(|| ask_until_refused(connect))).collect();
                origin.wait_for_requests(200);
                weir.signal(Signal::TERM);
                clients.into_iter().flat_map(|client| client.join().expect("no client panics")).collect()
            });
            assert!(lost.is_empty(), "TLS {is_tls}: {lost:?}");
            assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
        }
    }
}

#[test]
fn a_first_request_that_is_under_way_when_it_stops_has_its_answer() {
    let origin = Origin::serving("x");
    let mut weir = Weir::proxying(&origin);
    let address = weir.web();
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(address)).collect();
    let mut used = Client::connect(address);
    used.assert_alive();
    weir.signal(Signal::TERM);
    eventually("new connections are refused", || TcpStream::connect(address).is_err());
    used.assert_closed();
    for client in &mut clients {
        let response = client.fetch("/");
        assert_eq!((response.status, response.closes()), (200, true), "{response:?}");
    }
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}
