//! A client of two nodes that sends requests while an address moves.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

use super::node::{PATIENCE, address_of};
use crate::harness::namespace::Namespace;
use crate::harness::stream::{Address, Stream};
use crate::harness::watchdog::pause;
use crate::harness::{Client, End};

/// What became of the requests and connections of a client.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SteadyOutcome {
    /// Requests and connections that met a node which did not know them: a client repeats these.
    pub(super) repeated: usize,
    /// Connections that a node has ended with a response, though the client would have kept them.
    pub(super) ended: usize,
}

/// Requests one after the other, over one connection as long as it lasts if the client `keeps` it; every connection ends as announced.
///
/// Without the rules for nftables, a request that is on its way at the very moment at which the address moves meets a node that does not know its
/// connection.
pub(super) fn go_on_until(
    ends: &AtomicBool,
    address: &str,
    client: &Namespace,
    keeps: bool,
) -> SteadyOutcome {
    client.inside(|| {
        let address = Address::Tcp(address_of(address));
        let mut outcome = SteadyOutcome::default();
        let mut kept = None;
        while !ends.load(Ordering::SeqCst) {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => match Stream::connect(&address) {
                    Ok(stream) => Client::on(stream),
                    // The last packet of the handshake has met the other node.
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                        outcome.repeated += 1;
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
                    outcome.ended += usize::from(keeps && response.closes());
                    kept = Some(connection).filter(|_| keeps && !response.closes());
                }
                Err(End::Reset | End::Silence) => outcome.repeated += 1,
                Err(end) => panic!("a request has failed: {end}"),
            }
            pause();
        }
        outcome
    })
}
