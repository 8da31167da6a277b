//! Two nodes with keepalived, as in examples/pair: clients reach one address, whatever becomes of a node.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::foreign_program::foreign_command;
use crate::harness::namespace::{Namespace, Network};
use crate::harness::stream::{Address, Stream};
use crate::harness::watchdog::pause;
use crate::harness::{Client, End, ForeignProgram, Weir, eventually, run, temporary_folder};

/// The address that both nodes share, as the example has it.
const SHARED: &str = "192.0.2.10:80";

/// How long an attempt of a client may take: packets are lost while the address moves.
const PATIENCE: Duration = Duration::from_secs(1);

/// The file in both examples.
const TRACK_FILE: &str = "/var/lib/weir/keepalived";

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pair");

/// A node: Weir, and keepalived beside it.
struct Node {
    name: &'static str,
    weir: Weir,
    _keepalived: ForeignProgram,
    /// That of the track file, which both name.
    folder: TempDir,
}

impl Node {
    fn start(name: &'static str, machine: &Namespace, keepalived: &str) -> Node {
        let folder = temporary_folder();
        let track = folder.path().join("track");
        let weir = start_weir(name, machine, &track);
        let keepalived = start_keepalived(machine, &keepalived.replace(TRACK_FILE, path(&track)));
        Node { name, weir, _keepalived: keepalived, folder }
    }

    /// Starts Weir again, where it is watched by the same keepalived.
    fn restart(&mut self, machine: &Namespace) {
        self.weir = start_weir(self.name, machine, &self.folder.path().join("track"));
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn start_weir(name: &str, machine: &Namespace, track: &Path) -> Weir {
    let text = format!(
        "admin.socket = \"unix:{{dir}}/weir.sock\"\nprocess.hand_over_delay = \"1s\"\nprocess.frozen_after = \"4s\"\n\
         process.keepalived.track_file = \"{}\"\n\
         listener.web.address = \":80\"\nlistener.web.route = [{{ respond = {{ status = 200, body = \"{name}\" }} }}]\n",
        path(track)
    );
    machine.inside(|| Weir::start(&text))
}

fn start_keepalived(machine: &Namespace, text: &str) -> ForeignProgram {
    // As the guide has it.
    for (key, value) in [("arp_ignore", "1"), ("arp_announce", "2")] {
        let file = format!("/proc/sys/net/ipv4/conf/all/{key}");
        machine.inside(|| std::fs::write(file, value).expect("a namespace has settings of its own"));
    }
    let folder = temporary_folder();
    let file = |name: &str| folder.path().join(name);
    // A busy machine may be late by more than three tenths of a second.
    let patient = text.replace("advert_int 0.1", "advert_int 1");
    assert_ne!(text, patient);
    std::fs::write(file("keepalived.conf"), patient).expect("the folder is the test's");
    let mut command = foreign_command("keepalived");
    command.args(["--dont-fork", "--vrrp", "--log-console", "--log-detail"]);
    command.arg("--use-file").arg(file("keepalived.conf"));
    command.arg("--pid").arg(file("pid")).arg("--vrrp_pid").arg(file("vrrp_pid"));
    machine.inside(|| ForeignProgram::start(command, folder, |folder| folder.join("vrrp_pid").exists()))
}

/// The node that answers a client at this address, if one does within a moment.
fn responding_at(address: &str, client: &Namespace) -> Option<String> {
    let address: SocketAddr = address.parse().expect("it is an address");
    client.inside(|| {
        let mut client = Client::over(TcpStream::connect_timeout(&address, PATIENCE).ok()?);
        client.limit_reads(PATIENCE);
        client.send_what_is_taken("GET / HTTP/1.1\r\nHost: pair\r\nConnection: close\r\n\r\n").ok()?;
        Some(client.try_response_to("GET").ok()?.text())
    })
}

fn wait_until_serves(client: &Namespace, node: &str) {
    let serves = || responding_at(SHARED, client).as_deref() == Some(node);
    eventually(&format!("{node} serves"), serves);
}

/// The example, and the same with the priority of the second node.
fn example() -> (String, String) {
    let text = std::fs::read_to_string(format!("{EXAMPLES}/keepalived.conf")).expect("it is there");
    let second = text.replace("priority 150", "priority 100");
    assert_ne!(text, second);
    (text, second)
}

#[test]
fn the_examples_are_valid() {
    for example in ["pair/weir.toml", "anycast/weir.toml"] {
        let checked = run(&["check", &format!("{EXAMPLES}/../{example}")]);
        assert!(checked.code == Some(0) && !checked.text().contains("warning"), "{checked:?}");
    }
}

#[test]
fn the_other_node_takes_over_when_one_is_killed_frozen_cut_off_or_stopped() {
    let Some(network) = Network::of(3) else { return };
    let [first, second, client] = &network.machines[..] else { unreachable!("there are three") };
    let (of_a, of_b) = example();
    let mut a = Node::start("a", first, &of_a);
    let _b = Node::start("b", second, &of_b);
    wait_until_serves(client, "a");

    a.weir.kill();
    wait_until_serves(client, "b");
    a.restart(first);
    wait_until_serves(client, "a");

    a.weir.pause();
    wait_until_serves(client, "b");
    a.weir.signal(Signal::CONT);
    wait_until_serves(client, "a");

    network.cut(0);
    wait_until_serves(client, "b");
    network.mend(0);
    wait_until_serves(client, "a");

    a.weir.signal(Signal::TERM);
    wait_until_serves(client, "b");
    assert_eq!(a.weir.wait_for_exit().code(), Some(0), "{}", a.weir.stderr());
    assert_eq!(responding_at(SHARED, client).as_deref(), Some("b"));
}

/// Requests one after the other over one connection as long as it lasts, and over the next one then; every connection ends as announced.
///
/// A request that is on its way at the very moment at which the address moves meets a node that does not know its connection, or its
/// response is not sent: such a client repeats it. Returns how often that was.
fn go_on_until(client: &Namespace, ends: &AtomicBool, keeps: bool) -> usize {
    client.inside(|| {
        let address = Address::Tcp(SHARED.parse().expect("it is an address"));
        let (mut kept, mut repeated) = (None, 0);
        while !ends.load(Ordering::SeqCst) {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => match Stream::connect(&address) {
                    Ok(stream) => Client::on(stream),
                    // The last packet of the handshake has met the other node.
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                        repeated += 1;
                        continue;
                    }
                    Err(error) => panic!("no connection: {error}"),
                },
            };
            connection.limit_reads(PATIENCE * 5);
            let sent = connection.send_what_is_taken("GET / HTTP/1.1\r\nHost: pair\r\n\r\n");
            match sent.and_then(|()| connection.try_response_to("GET")) {
                Ok(response) => {
                    assert_eq!(response.status, 200, "{response:?}");
                    kept = Some(connection).filter(|_| keeps && !response.closes());
                }
                Err(End::Reset | End::Silence) => repeated += 1,
                Err(end) => panic!("a request has failed: {end}"),
            }
            pause();
        }
        repeated
    })
}

#[test]
fn a_planned_change_and_the_way_back_lose_nothing() {
    let Some(network) = Network::of(3) else { return };
    let [first, second, client] = &network.machines[..] else { unreachable!("there are three") };
    let (of_a, of_b) = example();
    let a = Node::start("a", first, &of_a);
    let b = Node::start("b", second, &of_b);
    wait_until_serves(client, "a");
    let ends = Arc::new(AtomicBool::new(false));
    thread::scope(|threads| {
        let clients = [true, true, false].map(|keeps| {
            let ends = Arc::clone(&ends);
            threads.spawn(move || go_on_until(client, &ends, keeps))
        });
        let ctl = |node: &Node, verb: &str| {
            let done = node.weir.run_over_socket(&["ctl", verb]);
            assert_eq!(done.code, Some(0), "{done:?}");
        };
        ctl(&a, "hand-over");
        wait_until_serves(client, "b");
        // The way back is a hand-over of the other node.
        ctl(&b, "hand-over");
        wait_until_serves(client, "a");
        ctl(&a, "take-back");
        ctl(&b, "take-back");
        wait_until_serves(client, "a");
        ends.store(true, Ordering::SeqCst);
        for client in clients {
            let repeated = client.join().expect("no request has failed");
            assert!(repeated <= 2, "{repeated} requests were repeated, and the address has moved twice");
        }
    });
}

#[test]
fn each_node_has_an_address_and_takes_that_of_the_other() {
    let Some(network) = Network::of(3) else { return };
    let [first, second, client] = &network.machines[..] else { unreachable!("there are three") };
    let text = std::fs::read_to_string(format!("{EXAMPLES}/keepalived-both.conf")).expect("it is there");
    let swapped = text.replace("priority 150", "priority X").replace("priority 100", "priority 150");
    let mut a = Node::start("a", first, &text);
    let _b = Node::start("b", second, &swapped.replace("priority X", "priority 100"));
    let both = || ["192.0.2.10:80", "192.0.2.11:80"].map(|at| responding_at(at, client).unwrap_or_default());
    eventually("each has its own", || both() == ["a", "b"]);
    a.weir.kill();
    eventually("one has both", || both() == ["b", "b"]);
    a.restart(first);
    eventually("each has its own again", || both() == ["a", "b"]);
}
