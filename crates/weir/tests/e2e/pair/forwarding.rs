//! Connections after the address has moved: the node that has it forwards their packets to the other one, by the rules of examples/pair.
//!
//! Only where the other node lived when the address moved: else clients are told at once that their connections are gone.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use rustix::process::Signal;
use socket2::{Domain, Protocol, Socket, Type};

use super::node::{
    EXAMPLES, Node, PATIENCE, SHARED, example, forward_to, responding_at, set_kernel, wait_until_serves,
};
use crate::harness::foreign_program::{foreign_command, output_of};
use crate::harness::namespace::{Namespace, Network};
use crate::harness::origin::ok;
use crate::harness::watchdog::WATCHDOG;
use crate::harness::websocket::{assert_byte_comes_back, open_tunnel, switch_and_return_bytes};
use crate::harness::{Client, End, Gate, Origin, eventually};

/// The client, the third machine of the network.
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);

/// More than keepalived needs for it here, with an advertisement each second.
const ADDRESS_MOVES: &str = "8s";

/// Two nodes that forward, and a client.
struct Pair {
    network: Network,
    a: Node,
    _b: Node,
    /// Of each node: a tunnel at `/socket`, and one response that waits for `answers`.
    _origins: [Origin; 2],
    answers: Gate,
}

impl Pair {
    fn start() -> Option<Pair> {
        let network = Network::of(3)?;
        let answers = Gate::new();
        let (of_a, of_b) = example();
        let start = |name, machine: &Namespace, other, keepalived: &str| {
            forward_to(other, machine);
            let origin = machine.inside(|| waiting_origin(answers.clone()));
            let more = format!(
                "process.stop_delay = \"{ADDRESS_MOVES}\"\nupstream.app.servers = [\"{}\"]\n[[listener.web.route]]\npath = \"/app/\"\nupstream = \"app\"\n\
                 [[listener.web.route]]\npath = \"/socket\"\nupstream = \"app\"\n",
                origin.address()
            );
            (Node::start_with(name, machine, keepalived, more), origin)
        };
        let (a, of_a) = start("a", &network.machines[0], "192.0.2.2", &of_a);
        let (b, of_b) = start("b", &network.machines[1], "192.0.2.1", &of_b);
        let pair = Pair { network, a, _b: b, _origins: [of_a, of_b], answers };
        pair.wait_until_serves("a");
        Some(pair)
    }

    fn client(&self) -> &Namespace {
        &self.network.machines[2]
    }

    fn wait_until_serves(&self, node: &str) {
        wait_until_serves(self.client(), node);
    }

    fn tunnel(&self) -> Client {
        self.client().inside(|| open_tunnel(shared()))
    }

    /// The address moves from the first node to the second; returns when the second has seen that, too.
    fn hand_over(&self) {
        self.a.ctl("hand-over");
        self.wait_until_serves("b");
    }

    /// The way back, without a step that would end connections of the second node.
    fn take_back(&self) {
        self.a.ctl("take-back");
        self.wait_until_serves("a");
    }
}

fn shared() -> SocketAddr {
    SHARED.parse().expect("it is an address")
}

fn waiting_origin(answers: Gate) -> Origin {
    Origin::start(move |conn| {
        let request = conn.request()?;
        if request.target() == "/socket" {
            return switch_and_return_bytes(conn);
        }
        answers.wait("the address has moved");
        conn.send(ok("late"))
    })
}

/// A connection of the client from this port.
fn connect_from(port: u16) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("a new socket takes settings");
    socket.bind(&SocketAddrV4::new(CLIENT, port).into()).expect("the port is free");
    socket.connect_timeout(&shared().into(), WATCHDOG).expect("a node has the address");
    Client::over(socket.into())
}

/// What `nft list` says of an object in the table of the example.
fn listed(machine: &Namespace, kind: &str, name: &str) -> String {
    let mut command = foreign_command("nft");
    command.args(["list", kind, "ip", "pair", name]);
    machine.inside(|| output_of(command))
}

/// Whether packets of unknown connections go from this node to the other one.
fn forwards(machine: &Namespace) -> bool {
    listed(machine, "set", "forwards").contains("elements")
}

/// How often the rules of a node have sent packets on, and back.
fn counted(machine: &Namespace) -> [String; 2] {
    ["forwarded", "returned"].map(|name| {
        let text = listed(machine, "counter", name);
        text.split_whitespace().skip_while(|word| *word != "packets").nth(1).unwrap_or_default().to_owned()
    })
}

/// Flags of TCP.
const RST: u8 = 4;
const ACK: u8 = 0x10;

/// Sends a segment of a connection that no node has, and returns the flags of the answer, if one comes.
fn answer_to_unknown(client: &Namespace, port: u16) -> Option<u8> {
    client.inside(|| {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP)).expect("root may");
        socket.set_read_timeout(Some(PATIENCE)).expect("a new socket takes settings");
        let SocketAddr::V4(to) = shared() else { unreachable!("it is of IPv4") };
        let mut segment = [0_u8; 20];
        segment[..2].copy_from_slice(&port.to_be_bytes());
        segment[2..4].copy_from_slice(&to.port().to_be_bytes());
        // Sequence numbers of no meaning, five words of header, a window.
        (segment[7], segment[11], segment[12], segment[13], segment[14]) = (1, 1, 5 << 4, ACK, 1);
        let checksum = checksum_of(*to.ip(), segment);
        segment[16..18].copy_from_slice(&checksum.to_be_bytes());
        socket.send_to(&segment, &SocketAddrV4::new(*to.ip(), 0).into()).expect("it is sent");
        let mut packet = [0; 128];
        while let Ok(len) = (&socket).read(&mut packet) {
            // Behind a header of IP without options; other connections of the machine have other ports.
            if len >= 40 && packet[22..24] == port.to_be_bytes() {
                return Some(packet[33]);
            }
        }
        None
    })
}

/// RFC 9293 section 3.1, over a header without data.
fn checksum_of(to: Ipv4Addr, segment: [u8; 20]) -> u16 {
    let mut bytes = [CLIENT.octets(), to.octets(), [0, 6, 0, 20]].concat();
    bytes.extend_from_slice(&segment);
    let sum: u32 = bytes.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    !u16::try_from((sum & 0xffff) + (sum >> 16)).expect("few words")
}

#[test]
fn a_tunnel_and_a_running_request_survive_a_planned_change_and_the_way_back() {
    let Some(pair) = Pair::start() else { return };
    let mut of_a = pair.tunnel();
    let mut running = pair.client().inside(|| Client::connect(shared()));
    running.send_get("/app/");
    pair.hand_over();
    assert_byte_comes_back(&mut of_a);
    pair.answers.open();
    let response = running.response();
    assert!(response.text() == "late" && response.closes(), "{response:?}");
    running.assert_closed();

    // The node that serves has done nothing to end its connections.
    let mut of_b = pair.tunnel();
    pair.take_back();
    assert_byte_comes_back(&mut of_a);
    assert_byte_comes_back(&mut of_b);
}

#[test]
fn a_tunnel_survives_a_stop_until_it_ends() {
    let Some(mut pair) = Pair::start() else { return };
    let mut tunnel = pair.tunnel();
    pair.a.weir.signal(Signal::TERM);
    pair.wait_until_serves("b");
    assert_byte_comes_back(&mut tunnel);
    tunnel.finish();
    tunnel.assert_closed();
    assert_eq!(pair.a.weir.wait_for_exit().code(), Some(0), "{}", pair.a.weir.stderr());
}

#[test]
fn a_connection_is_found_where_the_other_node_has_its_ports_in_time_wait() {
    const PORT: u16 = 41_000;
    let Some(pair) = Pair::start() else { return };
    pair.hand_over();
    let last = pair.client().inside(|| {
        let mut client = connect_from(PORT);
        client.send("GET / HTTP/1.1\r\nHost: pair\r\nConnection: close\r\n\r\n");
        let response = client.response();
        client.assert_closed();
        response.text()
    });
    assert_eq!(last, "b");
    pair.take_back();
    let mut kept = pair.client().inside(|| connect_from(PORT));
    kept.send_get("/app/");
    pair.hand_over();
    pair.answers.open();
    assert_eq!(kept.response().text(), "late");
}

#[test]
fn clients_of_a_dead_node_are_told_at_once() {
    let Some(pair) = Pair::start() else { return };
    // A planned change before, and the way back, are over.
    pair.hand_over();
    pair.take_back();
    eventually("the second node forwards no more", || !forwards(&pair.network.machines[1]));
    let forwarded = counted(&pair.network.machines[1])[0].clone();
    let mut tunnel = pair.tunnel();
    pair.network.cut(0);
    pair.wait_until_serves("b");
    tunnel.send("x");
    assert_eq!(tunnel.take_to_end(), (Vec::new(), End::Reset));
    assert_eq!(answer_to_unknown(pair.client(), 42_000), Some(RST));
    assert_eq!(counted(&pair.network.machines[1])[0], forwarded);
}

#[test]
fn clients_of_a_killed_node_are_told_at_once() {
    let Some(mut pair) = Pair::start() else { return };
    pair.a.weir.kill();
    pair.wait_until_serves("b");
    assert_eq!(answer_to_unknown(pair.client(), 42_000), Some(RST));
    assert_eq!(counted(&pair.network.machines[1])[0], "0");
}

#[test]
fn a_packet_that_neither_node_knows_goes_there_and_back_once_and_is_reset() {
    let Some(pair) = Pair::start() else { return };
    pair.hand_over();
    let [first, second] = [0, 1].map(|node| &pair.network.machines[node]);
    let before = [counted(first), counted(second)];
    assert_eq!(answer_to_unknown(pair.client(), 42_000), Some(RST));
    let number = |text: &String| text.parse::<u32>().expect("it is a count");
    let forwarded = number(&counted(second)[0]) - number(&before[1][0]);
    let returned = number(&counted(first)[1]) - number(&before[0][1]);
    assert_eq!((forwarded, returned), (1, 1));
    assert_eq!((&counted(first)[0], &counted(second)[1]), (&before[0][0], &before[1][1]));
}

#[test]
fn a_syn_cookie_is_no_packet_of_an_unknown_connection() {
    let Some(pair) = Pair::start() else { return };
    pair.hand_over();
    // Always, as in a flood.
    set_kernel(&pair.network.machines[1], "tcp_syncookies", "2");
    assert_eq!(responding_at(SHARED, pair.client()).as_deref(), Some("b"));
    // Also while the other node is restarted.
    pair.network.cut(0);
    assert_eq!(responding_at(SHARED, pair.client()).as_deref(), Some("b"));
}

#[test]
fn the_rules_for_ipv6_are_those_for_ipv4() {
    let Some(network) = Network::of(1) else { return };
    let [of_4, of_6] = ["forward", "forward-ipv6"].map(|name| {
        let path = format!("{EXAMPLES}/{name}.nft");
        let mut command = foreign_command("nft");
        command.arg("-f").arg(&path);
        network.machines[0].inside(|| output_of(command));
        std::fs::read_to_string(path).expect("it is there")
    });
    let mut translated = of_4.replace("# For nft(8)", "# As forward.nft, for an address of IPv6. For nft(8)");
    for (of_4, of_6) in [
        // Advertisements come from the link-local address of the other node.
        ("ip protocol vrrp ip saddr $other ", "meta l4proto vrrp "),
        ("ip protocol vrrp", "meta l4proto vrrp"),
        ("icmp type destination-unreachable", "icmpv6 type { destination-unreachable, packet-too-big }"),
        ("\"fragmentation needed\"", "\"packet too big\""),
        ("table ip pair", "table ip6 pair"),
        ("ip dscp", "ip6 dscp"),
        ("ip daddr", "ip6 daddr"),
        ("192.0.2.", "2001:db8::"),
        ("net.ipv4.fwmark_reflect", "net.ipv6.fwmark_reflect"),
    ] {
        assert!(translated.contains(of_4), "{of_4:?} is gone");
        translated = translated.replace(of_4, of_6);
    }
    assert_eq!(of_6, translated);
}
