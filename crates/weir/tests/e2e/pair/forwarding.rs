//! Connections after the address has moved: the node that has it forwards their packets to the other one, by the rules of examples/pair.
//!
//! Only where the other node lived when the address moved: else clients are told at once that their connections are gone.

use rustix::process::Signal;

use super::forwarding_pair::{Pair, RST, answer_to_unknown, connect_from, counted, forwards};
use super::node::{EXAMPLES, SHARED, responding_at, set_kernel};
use crate::harness::foreign_program::{foreign_command, output_of};
use crate::harness::namespace::Network;
use crate::harness::websocket::assert_byte_comes_back;
use crate::harness::{End, eventually};

#[test]
fn a_tunnel_and_a_running_request_survive_a_planned_change_and_the_way_back() {
    let Some(pair) = Pair::active_passive() else { return };
    let mut of_a = pair.tunnel_at(SHARED);
    let mut running = pair.connect_to(SHARED);
    running.send_get("/app/");
    pair.hand_over();
    assert_byte_comes_back(&mut of_a);
    pair.answers.open();
    let response = running.response();
    assert!(response.text() == "late" && response.closes(), "{response:?}");
    running.assert_closed();

    // The node that serves has done nothing to end its connections.
    let mut of_b = pair.tunnel_at(SHARED);
    pair.take_back();
    assert_byte_comes_back(&mut of_a);
    assert_byte_comes_back(&mut of_b);
}

#[test]
fn a_tunnel_survives_a_stop_until_it_ends() {
    let Some(mut pair) = Pair::active_passive() else { return };
    let mut tunnel = pair.tunnel_at(SHARED);
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
    let Some(pair) = Pair::active_passive() else { return };
    pair.hand_over();
    let last = pair.client().inside(|| {
        let mut client = connect_from(PORT, SHARED);
        client.send("GET / HTTP/1.1\r\nHost: pair\r\nConnection: close\r\n\r\n");
        let response = client.response();
        client.assert_closed();
        response.text()
    });
    assert_eq!(last, "b");
    pair.take_back();
    let mut kept = pair.client().inside(|| connect_from(PORT, SHARED));
    kept.send_get("/app/");
    pair.hand_over();
    pair.answers.open();
    assert_eq!(kept.response().text(), "late");
}

#[test]
fn clients_of_a_dead_node_are_told_at_once() {
    let Some(pair) = Pair::active_passive() else { return };
    // A planned change before, and the way back, are over.
    pair.hand_over();
    pair.take_back();
    eventually("the second node forwards no more", || !forwards("192.0.2.10", &pair.network.machines[1]));
    let forwarded = counted(&pair.network.machines[1])[0];
    let mut tunnel = pair.tunnel_at(SHARED);
    pair.network.cut(0);
    pair.wait_until_serves("b");
    tunnel.send("x");
    assert_eq!(tunnel.take_to_end(), (Vec::new(), End::Reset));
    assert_eq!(answer_to_unknown(SHARED, pair.client()), Some(RST));
    assert_eq!(counted(&pair.network.machines[1])[0], forwarded);
}

#[test]
fn connections_of_the_node_that_gives_up_the_address_survive_the_end_of_a_partition() {
    let Some(pair) = Pair::active_passive() else { return };
    pair.network.cut(0);
    pair.wait_until_serves("b");
    let mut of_b = pair.tunnel_at(SHARED);
    // The first node still has the address, and does not hear that the second one has it, too, before that gives it up.
    let deaf = "add table ip deaf; add chain ip deaf arriving { type filter hook prerouting priority raw; }; \
                add rule ip deaf arriving ip protocol vrrp ip saddr 192.0.2.2 drop";
    let mut command = foreign_command("nft");
    command.arg(deaf);
    pair.network.machines[0].inside(|| output_of(command));
    pair.network.mend(0);
    pair.wait_until_serves("a");
    eventually("the first node knows that the second one lives", || {
        forwards("192.0.2.10", &pair.network.machines[0])
    });
    assert_byte_comes_back(&mut of_b);
}

#[test]
fn clients_of_a_killed_node_are_told_at_once() {
    let Some(mut pair) = Pair::active_passive() else { return };
    pair.a.weir.kill();
    pair.wait_until_serves("b");
    assert_eq!(answer_to_unknown(SHARED, pair.client()), Some(RST));
    assert_eq!(counted(&pair.network.machines[1])[0], 0);
}

#[test]
fn a_packet_that_neither_node_knows_goes_there_and_back_once_and_is_reset() {
    let Some(pair) = Pair::active_passive() else { return };
    pair.hand_over();
    let [first, second] = [0, 1].map(|node| &pair.network.machines[node]);
    let before = [counted(first), counted(second)];
    assert_eq!(answer_to_unknown(SHARED, pair.client()), Some(RST));
    let [of_first, of_second] = before;
    let expected = [[of_first[0], of_first[1] + 1], [of_second[0] + 1, of_second[1]]];
    assert_eq!([counted(first), counted(second)], expected);
}

#[test]
fn a_syn_cookie_is_no_packet_of_an_unknown_connection() {
    let Some(pair) = Pair::active_passive() else { return };
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
    let Some(network) = Network::new(1) else { return };
    let [of_4, of_6] = ["forward", "forward-ipv6"].map(|name| {
        let path = format!("{EXAMPLES}/{name}.nft");
        let mut command = foreign_command("nft");
        command.arg("-f").arg(&path);
        network.machines[0].inside(|| output_of(command));
        std::fs::read_to_string(path).expect("it is there")
    });
    let mut translated = of_4.replace("# For nft(8)", "# As forward.nft, for addresses of IPv6. For nft(8)");
    for (of_4, of_6) in [
        // Advertisements come from the link-local address of the other node.
        ("ip protocol vrrp ip saddr $other ", "meta l4proto vrrp "),
        ("ip protocol vrrp", "meta l4proto vrrp"),
        ("icmp type destination-unreachable", "icmpv6 type { destination-unreachable, packet-too-big }"),
        ("\"fragmentation needed\"", "\"packet too big\""),
        ("table ip pair", "table ip6 pair"),
        ("ip dscp", "ip6 dscp"),
        ("ip daddr", "ip6 daddr"),
        ("type ipv4_addr", "type ipv6_addr"),
        ("@th,64,32", "@th,64,128"),
        ("@th,96,32", "@th,192,128"),
        ("192.0.2.", "2001:db8::"),
        ("net.ipv4.fwmark_reflect", "net.ipv6.fwmark_reflect"),
    ] {
        assert!(translated.contains(of_4), "{of_4:?} is gone");
        translated = translated.replace(of_4, of_6);
    }
    assert_eq!(of_6, translated);
}
