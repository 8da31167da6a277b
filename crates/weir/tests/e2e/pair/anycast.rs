//! Two nodes announce one address by BGP, with BIRD as in examples/anycast: the route follows Weir.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::foreign_program::foreign_command;
use crate::harness::namespace::{Namespace, Network};
use crate::harness::{Client, ForeignProgram, Weir, eventually, temporary_folder};

/// The address that the example announces.
const ADDRESS: &str = "198.51.100.10:80";

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/anycast");

/// How long an attempt of a client may take.
const PATIENCE: Duration = Duration::from_secs(1);

fn example(name: &str) -> String {
    std::fs::read_to_string(format!("{EXAMPLES}/{name}")).expect("it is there")
}

/// BIRD, with its control socket at `bird.ctl` in its folder.
fn start_bird(machine: &Namespace, text: &str) -> (ForeignProgram, String) {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("bird.conf"), text).expect("the folder is the test's");
    let socket = folder.path().join("bird.ctl");
    let mut command = foreign_command("bird");
    command.arg("-f").arg("-c").arg(folder.path().join("bird.conf")).arg("-s").arg(&socket);
    let socket = socket.to_str().expect("temporary paths are UTF-8").to_owned();
    let bird = machine.inside(|| {
        ForeignProgram::start(command, folder, |folder| {
            std::os::unix::net::UnixStream::connect(folder.join("bird.ctl")).is_ok()
        })
    });
    (bird, socket)
}

struct Node {
    weir: Weir,
    _bird: ForeignProgram,
}

impl Node {
    fn start(name: &str, machine: &Namespace, bird: &str) -> Node {
        machine.ip("address add 198.51.100.10/32 dev lo");
        let (bird, socket) = start_bird(machine, bird);
        let text = format!(
            "admin.socket = \"unix:{{dir}}/weir.sock\"\nprocess.hand_over_delay = \"100ms\"\n\
             process.bird = {{ socket = \"{socket}\", protocol = \"anycast\" }}\n\
             listener.web.address = \"{ADDRESS}\"\n\
             listener.web.route = [{{ respond = {{ status = 200, body = \"{name}\" }} }}]\n"
        );
        Node { weir: machine.inside(|| Weir::start(&text)), _bird: bird }
    }
}

/// The machines that the router sends packets for the address to.
fn routes(router: &Namespace) -> Vec<&'static str> {
    let table = router.ip("route show 198.51.100.10");
    let nodes = ["192.0.2.1", "192.0.2.2"];
    nodes.into_iter().filter(|node| table.contains(&format!("via {node} "))).collect()
}

fn wait_for_routes(router: &Namespace, expected: &[&str]) {
    eventually(&format!("the routes are {expected:?}"), || routes(router) == expected);
}

fn responding(router: &Namespace) -> Option<String> {
    let address: SocketAddr = ADDRESS.parse().expect("it is an address");
    router.inside(|| {
        let mut client = Client::over(TcpStream::connect_timeout(&address, PATIENCE).ok()?);
        client.limit_reads(PATIENCE);
        client.send_what_is_taken("GET / HTTP/1.1\r\nHost: anycast\r\nConnection: close\r\n\r\n").ok()?;
        Some(client.try_response_to("GET").ok()?.text())
    })
}

#[test]
fn the_route_is_there_while_weir_serves() {
    let Some(network) = Network::new(3) else { return };
    let [first, second, router] = &network.machines[..] else { unreachable!("there are three") };
    let (_router, _) = start_bird(router, &example("router.conf"));
    let of_a = example("bird.conf");
    let of_b = of_a.replace("192.0.2.1", "192.0.2.2");
    let mut a = Node::start("a", first, &of_a);
    let mut b = Node::start("b", second, &of_b);
    wait_for_routes(router, &["192.0.2.1", "192.0.2.2"]);
    a.weir.line(&["announced", "BIRD, protocol anycast", "enabled"]);

    // The route is withdrawn, and what still arrives is served.
    assert_eq!(a.weir.run_over_socket(&["ctl", "hand-over"]).code, Some(0));
    wait_for_routes(router, &["192.0.2.2"]);
    assert_eq!(responding(router).as_deref(), Some("b"));
    let address: SocketAddr = ADDRESS.parse().expect("it is an address");
    assert_eq!(first.inside(|| Client::get(address, "/").text()), "a");
    a.weir.run_over_socket(&["ctl", "take-back"]);
    wait_for_routes(router, &["192.0.2.1", "192.0.2.2"]);

    // Killed, frozen, cut off.
    b.weir.kill();
    wait_for_routes(router, &["192.0.2.1"]);
    assert_eq!(responding(router).as_deref(), Some("a"));
    a.weir.pause();
    wait_for_routes(router, &[]);
    a.weir.signal(Signal::CONT);
    wait_for_routes(router, &["192.0.2.1"]);
    network.cut(0);
    wait_for_routes(router, &[]);
    network.mend(0);
    wait_for_routes(router, &["192.0.2.1"]);

    // A stop withdraws it before connections are refused.
    a.weir.signal(Signal::TERM);
    wait_for_routes(router, &[]);
    assert_eq!(a.weir.wait_for_exit().code(), Some(0), "{}", a.weir.stderr());
    a.weir.line(&["announced", "disabled"]);
}
