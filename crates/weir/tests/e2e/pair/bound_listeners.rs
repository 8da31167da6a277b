//! Listeners at the shared address itself, not at all addresses: what the guide says of them.

use super::forwarding_pair::{Pair, RST, answer_to_unknown, counted};
use super::node::{example, responding_at, set_kernel};
use crate::harness::namespace::{Namespace, Network};
use crate::harness::program::command;
use crate::harness::websocket::assert_byte_comes_back;
use crate::harness::{Client, CommandResult, End, Weir, temporary_folder};

/// Beside the listener at all addresses, which has another port.
const BOUND: &str = "192.0.2.10:443";

const LISTENER: &str = "listener.bound = { address = \"192.0.2.10:443\", upstream = \"app\" }\n";

/// The address comes with keepalived, which starts after Weir.
fn allow_absent_address(machine: &Namespace) {
    set_kernel(machine, "ip_nonlocal_bind", "1");
}

/// As the guide has it.
fn forwarding_pair() -> Option<Pair> {
    Pair::start(example(), &[("accepted = 0", "accepted = 0x20000000")], LISTENER, |machine| {
        allow_absent_address(machine);
        set_kernel(machine, "tcp_fwmark_accept", "1");
    })
}

#[test]
fn an_address_that_is_not_there_yet_needs_a_setting_of_the_kernel() {
    let Some(network) = Network::new(1) else { return };
    let machine = &network.machines[0];
    let folder = temporary_folder();
    let file = folder.path().join("weir.toml");
    let text =
        "listener.web.address = \"192.0.2.10:80\"\n[[listener.web.route]]\nrespond = { status = 204 }\n";
    std::fs::write(&file, text).expect("the folder is the test's");
    let path = file.to_str().expect("temporary paths are UTF-8");
    let refused = machine.inside(|| CommandResult::new(&mut command(&["serve", path])));
    let says =
        refused.stderr.contains("no such address") && refused.stderr.contains("net.ipv4.ip_nonlocal_bind=1");
    assert!(refused.code == Some(1) && says, "{refused:?}");

    allow_absent_address(machine);
    let weir = machine.inside(|| Weir::start(text));
    machine.ip("address add 192.0.2.10/32 dev lo");
    assert_eq!(machine.inside(|| Client::get(weir.web(), "/")).status, 204);
}

#[test]
fn their_connections_live_on_where_the_kernel_marks_what_it_accepts() {
    let Some(pair) = forwarding_pair() else { return };
    let mut of_a = pair.tunnel_at(BOUND);
    pair.hand_over();
    assert_byte_comes_back(&mut of_a);
    let mut of_b = pair.tunnel_at(BOUND);
    pair.take_back();
    assert_byte_comes_back(&mut of_a);
    assert_byte_comes_back(&mut of_b);
    assert_eq!(responding_at("192.0.2.10:80", pair.client()).as_deref(), Some("a"));
}

#[test]
fn a_packet_that_neither_of_them_knows_goes_there_and_back_once_and_is_reset() {
    let Some(pair) = forwarding_pair() else { return };
    pair.hand_over();
    let [first, second] = [0, 1].map(|node| &pair.network.machines[node]);
    let [of_first, of_second] = [counted(first), counted(second)];
    assert_eq!(answer_to_unknown(BOUND, pair.client()), Some(RST));
    let expected = [[of_first[0], of_first[1] + 1], [of_second[0] + 1, of_second[1]]];
    assert_eq!([counted(first), counted(second)], expected);
}

#[test]
fn a_connection_accepted_by_a_cookie_is_known() {
    let Some(pair) = forwarding_pair() else { return };
    pair.hand_over();
    // Always, as in a flood.
    set_kernel(&pair.network.machines[1], "tcp_syncookies", "2");
    let mut of_b = pair.tunnel_at(BOUND);
    assert_byte_comes_back(&mut of_b);
    // Also while the other node is restarted.
    pair.network.cut(0);
    assert_byte_comes_back(&mut of_b);
    let mut later = pair.tunnel_at(BOUND);
    assert_byte_comes_back(&mut later);
    pair.network.mend(0);
    pair.take_back();
    assert_byte_comes_back(&mut of_b);
}

#[test]
fn their_connections_end_with_a_planned_change_without_the_mark() {
    let Some(pair) = Pair::start(example(), &[], LISTENER, allow_absent_address) else { return };
    let mut tunnel = pair.tunnel_at(BOUND);
    pair.hand_over();
    tunnel.send("x");
    assert_eq!(tunnel.take_to_end(), (Vec::new(), End::Reset));
}
