//! Two nodes that forward packets of unknown connections to each other, for the tests beside.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use socket2::{Domain, Protocol, Socket, Type};

use super::node::{Node, PATIENCE, address_of, example, example_of_both, load_rules, wait_until_serves};
use crate::harness::foreign_program::{foreign_command, output_of};
use crate::harness::namespace::{Namespace, Network};
use crate::harness::origin::ok;
use crate::harness::watchdog::WATCHDOG;
use crate::harness::websocket::{open_tunnel, switch_and_return_bytes};
use crate::harness::{Client, Gate, Origin};

/// The client, the third machine of the network.
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);

/// More than keepalived needs for it here, with an advertisement each second.
const ADDRESS_MOVES: &str = "8s";

/// Two nodes that forward, and a client.
pub(super) struct Pair {
    pub(super) network: Network,
    pub(super) a: Node,
    pub(super) b: Node,
    /// Of each node: a tunnel at `/socket`, and one response that waits for `answers`.
    _origins: [Origin; 2],
    pub(super) answers: Gate,
}

impl Pair {
    /// One address, at the first node.
    pub(super) fn active_passive() -> Option<Pair> {
        Pair::start(example(), &[], "", |_| {})
    }

    /// Two addresses: the first is that of the first node, the second that of the second.
    pub(super) fn active_active() -> Option<Pair> {
        Pair::start(example_of_both(), &[("{ 192.0.2.10 }", "{ 192.0.2.10, 192.0.2.11 }")], "", |_| {})
    }

    /// With these changes of the rules, lines in the config of Weir, and settings of the machines.
    pub(super) fn start(
        (of_a, of_b): (String, String),
        rules: &[(&str, &str)],
        more: &str,
        set: impl Fn(&Namespace),
    ) -> Option<Pair> {
        let network = Network::new(3)?;
        let answers = Gate::new();
        let start = |name, machine: &Namespace, other, keepalived: &str| {
            set(machine);
            load_rules(other, rules, machine);
            let origin = machine.inside(|| waiting_origin(answers.clone()));
            let more = format!(
                "process.stop_delay = \"{ADDRESS_MOVES}\"\nupstream.app.servers = [\"{}\"]\n{more}\
                 [[listener.web.route]]\npath = \"/app/\"\nupstream = \"app\"\n\
                 [[listener.web.route]]\npath = \"/socket\"\nupstream = \"app\"\n",
                origin.address()
            );
            (Node::start_with(name, machine, keepalived, more), origin)
        };
        let (a, of_a) = start("a", &network.machines[0], "192.0.2.2", &of_a);
        let (b, of_b) = start("b", &network.machines[1], "192.0.2.1", &of_b);
        let pair = Pair { network, a, b, _origins: [of_a, of_b], answers };
        pair.wait_until_serves("a");
        Some(pair)
    }

    pub(super) fn client(&self) -> &Namespace {
        &self.network.machines[2]
    }

    /// Waits until this node has the first address.
    pub(super) fn wait_until_serves(&self, node: &str) {
        wait_until_serves(self.client(), node);
    }

    pub(super) fn connect_to(&self, address: &str) -> Client {
        self.client().inside(|| Client::connect(address_of(address)))
    }

    pub(super) fn tunnel_at(&self, address: &str) -> Client {
        self.client().inside(|| open_tunnel(address_of(address)))
    }

    /// The first address moves from the first node to the second; returns when the second has seen that, too.
    pub(super) fn hand_over(&self) {
        self.a.ctl("hand-over");
        self.wait_until_serves("b");
    }

    /// The way back, without a step that would end connections of the second node.
    pub(super) fn take_back(&self) {
        self.a.ctl("take-back");
        self.wait_until_serves("a");
    }
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

/// A connection of the client from this port, to a shared address.
pub(super) fn connect_from(port: u16, to: &str) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("a new socket takes settings");
    socket.bind(&SocketAddrV4::new(CLIENT, port).into()).expect("the port is free");
    socket.connect_timeout(&address_of(to).into(), WATCHDOG).expect("a node has the address");
    Client::over(socket.into())
}

/// What `nft list` says of an object in the table of the example.
fn listed(machine: &Namespace, kind: &str, name: &str) -> String {
    let mut command = foreign_command("nft");
    command.args(["list", kind, "ip", "pair", name]);
    machine.inside(|| output_of(command))
}

/// Whether packets of unknown connections at this address go from this node to the other one.
pub(super) fn forwards(host: &str, machine: &Namespace) -> bool {
    listed(machine, "set", "forwards").contains(host)
}

/// How often the rules of a node have sent packets on, and back.
pub(super) fn counted(machine: &Namespace) -> [u64; 2] {
    ["forwarded", "returned"].map(|name| {
        let text = listed(machine, "counter", name);
        let count = text.split_whitespace().skip_while(|word| *word != "packets").nth(1);
        count.and_then(|count| count.parse().ok()).expect("nft prints the count")
    })
}

/// Flags of TCP.
pub(super) const RST: u8 = 4;
const ACK: u8 = 0x10;

/// Of a client that has no connection from it: below those that the kernel gives to connections (32 768 to 60 999).
const UNKNOWN_PORT: u16 = 12_000;

/// Sends a segment of a connection that no node has, and returns the flags of the answer, if one comes.
pub(super) fn answer_to_unknown(to: &str, client: &Namespace) -> Option<u8> {
    let port = UNKNOWN_PORT;
    client.inside(|| {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP)).expect("root may");
        socket.set_read_timeout(Some(PATIENCE)).expect("a new socket takes settings");
        let SocketAddr::V4(to) = address_of(to) else { unreachable!("it is of IPv4") };
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
