//! A running Weir is replaced by another process of the program: nothing is refused, lost or forgotten.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, test_kill_process};

use crate::harness::http2::Http2Client;
use crate::harness::scripts::{FailureSwitch, echo, named, probed, tunnelling};
use crate::harness::stream::Address;
use crate::harness::tls::WEB_TLS;
use crate::harness::websocket::{assert_byte_comes_back, open_tunnel};
use crate::harness::{CertificateAuthority, Client, Gate, Origin, Weir, eventually};

/// A config with a runtime socket, where commands may change something.
fn config(origin: &Origin, more: &str) -> String {
    format!(
        "admin.socket = \"unix:{{dir}}/weir.sock\"\nadmin.socket_changes = true\n\
         listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [{{ name = \"a\", address = \"{}\" }}]\n{more}\n",
        origin.address()
    )
}

/// Clients that keep their connections for as long as the server does, and some that do not: not one request may fail.
struct Traffic {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    fn start(web: SocketAddr) -> Self {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |keeps: bool| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || {
                let mut client = Client::connect(web);
                while !stop.load(Ordering::SeqCst) {
                    let response = client.fetch("/work");
                    assert_eq!(response.status, 200, "{response:?}");
                    if response.closes() || !keeps {
                        client = Client::connect(web);
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let clients = [true, false, true, false].into_iter().map(client).collect();
        Self { stop, done, clients }
    }

    fn goes_on(&self) {
        let enough = self.done.load(Ordering::SeqCst) + 4 * self.clients.len() as u64;
        let fails = || self.clients.iter().any(JoinHandle::is_finished);
        eventually("requests go on", || self.done.load(Ordering::SeqCst) >= enough || fails());
    }

    fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().expect("no request has failed");
        }
    }
}

fn has_ended(process: Pid) -> bool {
    test_kill_process(process).is_err()
}

#[test]
fn no_request_fails_and_no_connection_is_refused() {
    let gate = Gate::new();
    let origin = named("a", &gate);
    let mut weir = Weir::start(&config(&origin, "process.workers = 2"));
    let traffic = Traffic::start(weir.web());
    let mut processes = vec![weir.serving_pid()];
    for _ in 0..8 {
        weir.upgrade();
        traffic.goes_on();
        processes.push(weir.serving_pid());
    }
    traffic.end();
    let first = weir.wait_for_exit_of_the_first();
    assert_eq!(first.code(), Some(0), "{}", weir.stderr());
    let last = processes.pop().expect("there are many");
    for process in processes.into_iter().skip(1) {
        eventually("a process that was replaced ends after its last connection", || has_ended(process));
    }
    assert!(!has_ended(last));
}

#[test]
fn http2_goes_on_with_another_connection() {
    let origin = echo();
    let mut weir = Weir::start(&config(&origin, "listener.web.http2.prior_knowledge = \"allowed\""));
    let mut before = Http2Client::connect(weir.web());
    assert_eq!(before.fetch("/one").status, 200);
    weir.upgrade();
    let mut after = Http2Client::connect(weir.web());
    assert_eq!(after.fetch("/two").status, 200);
    let first = weir.wait_for_exit_of_the_first();
    assert_eq!(first.code(), Some(0), "{}", weir.stderr());
}

#[test]
fn an_idle_connection_has_one_more_response() {
    let origin = echo();
    let mut weir = Weir::start(&config(&origin, ""));
    let mut idle = Client::connect(weir.web());
    assert!(!idle.fetch("/one").closes());
    weir.upgrade();
    eventually("new connections reach the new process alone", || {
        !Client::connect(weir.web()).fetch("/two").closes()
    });
    assert!(weir.runs(), "the process before waits for its connection");
    let response = idle.fetch("/three");
    assert_eq!((response.status, response.closes()), (200, true), "{response:?}");
    idle.assert_closed();
    assert_eq!(weir.wait_for_exit_of_the_first().code(), Some(0), "{}", weir.stderr());
}

#[test]
fn a_program_that_does_not_start_changes_nothing() {
    let origin = echo();
    let good = config(&origin, "");
    let mut weir = Weir::start(&good);
    weir.write_config(&good.replace("listener.web.upstream = \"app\"", "listener.web.upstream = \"none\""));
    let refused = weir.run_over_socket(&["upgrade"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("this process continues") && refused.stderr.contains("none"),
        "{refused:?}"
    );
    weir.line(&["no upgrade", "none"]);
    assert!(weir.runs());
    assert_eq!(Client::connect(weir.web()).fetch("/").status, 200);
    // An address that another program has.
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let taken = other.local_addr().expect("it is bound");
    weir.write_config(&format!("{good}admin.address = \"{taken}\"\n"));
    let refused = weir.run_over_socket(&["upgrade"]);
    assert!(refused.stderr.contains(&taken.to_string()), "{refused:?}");
    assert_eq!(Client::connect(weir.web()).fetch("/").status, 200);
    // And a good one does.
    weir.write_config(&good);
    let done = weir.run_over_socket(&["upgrade"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("serves now, with version"), "{done:?}");
    let line = weir.line(&["another process serves now"]);
    weir.note_successor(&line);
    assert_eq!(Client::connect(weir.web()).fetch("/").status, 200);
    assert_eq!(weir.run_over_socket(&["ctl", "ready"]).code, Some(0));
}

#[test]
fn a_stop_during_an_upgrade_is_a_stop() {
    let origin = echo();
    let mut weir = Weir::start(&config(&origin, ""));
    let web = weir.web();
    weir.signal(Signal::USR2);
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit_of_the_first().code(), Some(0), "{}", weir.stderr());
    eventually("no process is left on the address", || std::net::TcpListener::bind(web).is_ok());
}

#[test]
fn tunnels_continue_until_their_time_is_over() {
    let origin = tunnelling();
    for (grace, ends) in [("1h", false), ("300ms", true)] {
        let mut weir = Weir::start(&config(&origin, &format!("process.reload_grace = \"{grace}\"")));
        let mut tunnel = open_tunnel(weir.web());
        weir.upgrade();
        if ends {
            tunnel.assert_closed();
            assert_eq!(weir.wait_for_exit_of_the_first().code(), Some(3), "{}", weir.stderr());
        } else {
            assert_byte_comes_back(&mut tunnel);
            assert_byte_comes_back(&mut open_tunnel(weir.web()));
            assert!(weir.runs());
        }
    }
}

#[test]
fn workers_and_addresses_may_change() {
    let gate = Gate::new();
    let origin = named("a", &gate);
    let text = |workers: u32, more: &str| {
        config(
            &origin,
            &format!(
                "process.workers = {workers}\nlistener.other.upstream = \"app\"\nlistener.other.address = [{more}]"
            ),
        )
    };
    let mut weir = Weir::start(&text(3, "\"unix:{dir}/a.sock\", \"127.0.0.1:0\""));
    let traffic = Traffic::start(weir.web());
    let path = |name: &str| weir.folder().join(name);
    let (one, two) = (path("a.sock"), path("b.sock"));
    for (workers, addresses) in [
        (1, "\"unix:{dir}/a.sock\""),
        (4, "\"unix:{dir}/a.sock\", \"unix:{dir}/b.sock\""),
        (2, "\"unix:{dir}/b.sock\""),
    ] {
        weir.write_config(&text(workers, addresses));
        weir.upgrade();
        traffic.goes_on();
        for (name, socket) in [("a.sock", &one), ("b.sock", &two)] {
            if addresses.contains(name) {
                assert_eq!(
                    Client::connect(Address::Unix(socket.clone())).fetch("/work").status,
                    200,
                    "{name}"
                );
            } else {
                eventually("a socket that is not used any more is removed", || !socket.exists());
            }
        }
    }
    traffic.end();
}

#[test]
fn what_operators_have_changed_outlives_the_process() {
    let (origin, second) = (echo(), echo());
    let text = |of_b: &str| {
        config(
            &origin,
            &format!(
                "[upstream.more]\nservers = [{{ name = \"b\", address = \"{}\"{of_b} }}, {{ name = \"c\", address = \"{}\" }}]",
                origin.address(),
                second.address()
            ),
        )
    };
    let mut weir = Weir::start(&text(""));
    for command in
        [&["ctl", "weight", "more", "b", "7"][..], &["ctl", "drain", "more", "c", "--deadline", "1h"]]
    {
        let done = weir.run_over_socket(command);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let servers = |weir: &Weir| weir.run_over_socket(&["ctl", "servers"]).stdout;
    let of = |table: &str, server: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.split('\t').nth(1) == Some(server));
        line.unwrap_or_else(|| panic!("{server} in {table}")).split('\t').map(str::to_owned).collect()
    };
    for _ in 0..2 {
        weir.upgrade();
        let table = servers(&weir);
        assert_eq!(of(&table, "b")[4], "7", "{table}");
        let c = of(&table, "c");
        assert_eq!(c[2], "draining", "{table}");
        assert!(c[7].ends_with('s'), "the deadline goes on: {table}");
    }
    // The config has the last word where it says something else than before.
    weir.write_config(&text(", weight = 3"));
    weir.upgrade();
    let table = servers(&weir);
    assert_eq!(of(&table, "b")[4], "3", "{table}");
}

#[test]
fn a_server_that_is_down_gets_no_request_of_the_new_process() {
    let fails = FailureSwitch::new(true);
    let (a, b) = (probed("a", &FailureSwitch::new(false)), probed("b", &fails));
    let mut weir = Weir::start(&config(
        &a,
        &format!(
            "admin.address = \"127.0.0.1:0\"\n[[listener.web.route]]\npath = \"/checked\"\nupstream = \"checked\"\n\
             [upstream.checked]\nservers = [\"{}\", \"{}\"]\nhealth = {{ path = \"/healthz\", interval = \"100ms\" }}",
            a.address(),
            b.address()
        ),
    ));
    let down = |weir: &Weir| weir.run_over_socket(&["ctl", "servers"]).stdout.matches("\tdown\t").count();
    eventually("the server is down", || down(&weir) == 1);
    weir.upgrade();
    let probes = || weir.metrics().sum("weir_server_probes_total", &["upstream=\"checked\""]);
    eventually("it is checked by the new process", || probes() >= 8.0);
    assert_eq!(down(&weir), 1);
    let changes = weir.metrics().sum("weir_server_health_changes_total", &["upstream=\"checked\""]);
    assert_eq!(changes, 0.0, "it was down all the time");
    fails.set(false);
    eventually("it comes back", || down(&weir) == 0);
}

#[test]
fn tls_listeners_are_handed_over() {
    let origin = echo();
    let authority = CertificateAuthority::new();
    let mut weir = Weir::start_in(authority.folder_for_web(), &config(&origin, WEB_TLS));
    let mut client = authority.connect(weir.web());
    assert_eq!(client.fetch("/one").status, 200);
    weir.upgrade();
    assert_eq!(authority.connect(weir.web()).fetch("/two").status, 200);
    assert_eq!(client.fetch("/three").status, 200);
}

#[test]
fn nothing_else_is_inherited() {
    let origin = tunnelling();
    let mut weir = Weir::start(&config(&origin, "process.workers = 2"));
    let mut tunnel = open_tunnel(weir.web());
    let before = weir.serving_pid();
    weir.upgrade();
    assert_byte_comes_back(&mut tunnel);
    let of = |process: Pid| -> HashSet<String> {
        let open = std::fs::read_dir(format!("/proc/{process}/fd")).expect("the process runs");
        let links = open.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links.map(|link| link.display().to_string()).filter(|link| link.starts_with("socket:")).collect()
    };
    let shared: HashSet<String> = of(before).intersection(&of(weir.serving_pid())).cloned().collect();
    // The process before closes its listening sockets.
    eventually("no socket is open in both", || of(before).is_disjoint(&of(weir.serving_pid())));
    assert!(shared.len() <= 3, "two listening sockets and the runtime socket at most: {shared:?}");
    weir.signal(Signal::TERM);
}
