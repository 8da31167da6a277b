//! Where the data path may name what carries a client connection: sockets, their connections and TLS records.
//!
//! Exchanges and the loop of a connection with many streams know a client by the facts of its transport, so that another transport changes nothing
//! there. What moves bytes of bodies inside the kernel names sockets, below them.

use super::finding::Finding;
use super::paths::{NamedPath, named_paths};
use super::rule::HouseRule;
use super::tree::{RustFile, SourceTree};

/// The sources that know no transport, and no protocol either.
pub(super) const NEUTRAL: &[&str] = &[
    "crates/weir-proxy/src/exchange/",
    "crates/weir-proxy/src/responder/",
    "crates/weir-proxy/src/downstream/stream_driver.rs",
    "crates/weir-proxy/src/downstream/connection/mod.rs",
    "crates/weir-proxy/src/downstream/connection/streams.rs",
    "crates/weir-proxy/src/downstream/connection/stream_client.rs",
    "crates/weir-proxy/src/downstream/connection/lease.rs",
    "crates/weir-proxy/src/downstream/transport/mod.rs",
    "crates/weir-proxy/src/downstream/transport/facts.rs",
];

/// What a transport is made of.
const CARRIERS: &[&str] = &[
    "crate::net::connection",
    "crate::net::listening",
    "crate::net::socket::Socket",
    "crate::net::socket::PeerState",
    "crate::net::tls::records",
    "crate::net::tls::session",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::os::fd",
    "std::os::unix::net",
];

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let is_neutral =
        |source: &&RustFile| !source.test && NEUTRAL.iter().any(|place| source.path.starts_with(place));
    tree.sources().iter().filter(is_neutral).flat_map(carriers_in).collect()
}

fn carriers_in(source: &RustFile) -> Vec<Finding> {
    let Ok(syntax) = &source.syntax else { return Vec::new() };
    let named = named_paths(syntax).into_iter().filter(is_carrier);
    let finding = |named: NamedPath| {
        let message = format!("{} carries connections, and no transport is known here", named.path);
        Finding::new(HouseRule::Layer, &source.path, named.line, &named.path, message)
    };
    let mut findings: Vec<Finding> = named.map(finding).collect();
    findings.dedup();
    findings
}

fn is_carrier(named: &NamedPath) -> bool {
    let is = |carrier: &&str| {
        named.path.strip_prefix(*carrier).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    CARRIERS.iter().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let path = format!("crates/weir-proxy/src/{path}");
        check(&SourceTree::of(&[(&path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn no_transport_is_named_above_transports() {
        let text = "use crate::net::connection::Connection;\nuse crate::net::socket::{Behind, Socket};\n\
                    fn a(fd: std::os::fd::OwnedFd) {}\n";
        for path in
            ["exchange/phases/tunnel.rs", "downstream/connection/streams.rs", "downstream/stream_driver.rs"]
        {
            assert_eq!(lines(path, text), [1, 2, 3], "{path}");
        }
        for path in
            ["downstream/transport/bytes/mod.rs", "downstream/connection/bytes/mod.rs", "worker/accept.rs"]
        {
            assert_eq!(lines(path, text), [0; 0], "{path}");
        }
        assert_eq!(lines("exchange/a.rs", "use crate::net::socket::Behind;\n"), [0; 0], "of servers");
    }
}
