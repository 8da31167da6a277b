//! Forwarding fields: whatever was claimed, the fields that Weir writes are well-formed and read back the same.

use std::net::{IpAddr, Ipv4Addr};

use weir_http::{ForwardedNode, client_address, forwarded, via_repeats, write_forwarded, x_forwarded_for};

fn check_node(node: ForwardedNode<'_>, host: &[u8]) {
    let mut out = Vec::new();
    write_forwarded(&mut out, node, Some(node), host, b"http");
    assert!(out.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)));
    let elements: Vec<_> = forwarded(&out).collect();
    let [Some(element)] = elements[..] else { panic!("not one element: {elements:?}") };
    assert_eq!(element.client, element.receiver);
    let read = element.client.and_then(|value| value.node());
    match node {
        // An IPv4 address in IPv6 clothes is written without them.
        ForwardedNode::Address(address, port) => {
            assert_eq!(read, Some(ForwardedNode::Address(address.to_canonical(), port)));
        }
        node => assert_eq!(read, Some(node)),
    }
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for node in x_forwarded_for(input).flatten() {
        check_node(node, input);
    }
    for element in forwarded(input).flatten() {
        for value in [element.client, element.receiver, element.host, element.scheme].into_iter().flatten() {
            let host = value.unquoted();
            if let Some(node) = value.node() {
                check_node(node, &host);
            }
        }
    }
    assert_eq!(client_address(peer, x_forwarded_for(input), |_| false), peer);
    _ = client_address(peer, x_forwarded_for(input), |address| address.is_loopback());
    _ = via_repeats(input, b"weir", |comment| comment == b"other");
}
