//! Bodies that are other than their heads have said, given to the writers of HTTP/1 and FastCGI: nothing of what is not allowed leaves.

use std::io::Read as _;
use std::os::unix::net::UnixStream;

use weir_http::Framing;

use super::fastcgi::{RecordOutput, RecordWriter};
use super::http1::{Outgoing, TransferCoding, Writer};
use super::memory::MemoryBody;
use super::message_end::expected;
use super::*;
use crate::net::connection::Connection;
use crate::net::socket::Socket;
use crate::state::crashes::framing_violations;

const HEAD: &[u8] = b"HEAD";

/// What would be a message of its own.
const SURPLUS: &[u8] = b"POST /admin/steal HTTP/1.1\r\n\r\n";

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Http1,
    Fastcgi,
}

/// Relays `body` behind a head with this framing, and once more `behind` it; the outcome of the last, and what the peer got.
fn relay(
    protocol: Protocol,
    framing: Framing,
    coding: TransferCoding,
    bodies: &[&[u8]],
) -> (Result<(), RelayError>, Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it can be made");
    let _entered = runtime.enter();
    let (ours, mut theirs) = UnixStream::pair().expect("there are descriptors");
    ours.set_nonblocking(true).expect("a socket takes its options");
    let mut connection = Connection::new(Socket::new(ours.into()));
    let (mut outgoing, mut output) = (Outgoing::new(), RecordOutput::new());
    outgoing.staged.extend_from_slice(HEAD);
    outgoing.begin(framing, coding);
    output.staged.extend_from_slice(HEAD);
    output.allowance.begin(framing);
    let mut outcome = Ok(());
    for body in bodies {
        let mut relay = Relay::new();
        let mut source = MemoryBody(body);
        outcome = runtime.block_on(std::future::poll_fn(|cx| match protocol {
            Protocol::Http1 => {
                let mut sink = Writer { connection: &mut connection, outgoing: &mut outgoing };
                relay.poll(cx, &mut source, &mut sink)
            }
            Protocol::Fastcgi => {
                let mut sink = RecordWriter { connection: &mut connection, output: &mut output };
                relay.poll(cx, &mut source, &mut sink)
            }
        }));
        if outcome.is_err() {
            break;
        }
    }
    drop(connection);
    let mut received = Vec::new();
    theirs.read_to_end(&mut received).expect("the socket is closed");
    (outcome, received)
}

fn is_violation(outcome: &Result<(), RelayError>) -> bool {
    matches!(outcome, Err(RelayError::Framing))
}

fn has_surplus(bytes: &[u8]) -> bool {
    bytes.windows(5).any(|window| window == b"steal")
}

#[test]
fn bodies_as_their_heads_say_are_written() {
    use TransferCoding::{Chunked, None};
    let rows: [(Framing, TransferCoding, &[u8], &[u8]); 6] = [
        (Framing::None, None, b"", b"HEAD"),
        (Framing::Length(0), None, b"", b"HEAD"),
        (Framing::Length(5), None, b"hello", b"HEADhello"),
        (Framing::Delimited, Chunked, b"hello", b"HEAD5\r\nhello\r\n0\r\n\r\n"),
        (Framing::Delimited, Chunked, b"", b"HEAD0\r\n\r\n"),
        (Framing::UntilClose, None, b"hello", b"HEADhello"),
    ];
    for (framing, coding, body, expected) in rows {
        let (outcome, received) = relay(Protocol::Http1, framing, coding, &[body]);
        assert!(outcome.is_ok() && received == expected, "{framing:?}: {outcome:?} {received:?}");
    }
    let (outcome, received) = relay(Protocol::Fastcgi, Framing::Length(5), TransferCoding::None, &[b"hello"]);
    assert!(outcome.is_ok() && received.windows(5).any(|window| window == b"hello"), "{received:?}");
}

#[test]
fn nothing_that_a_head_does_not_allow_is_written() {
    let large = vec![b'x'; 300_000];
    let large_and_more = [&large[..], SURPLUS].concat();
    for protocol in [Protocol::Http1, Protocol::Fastcgi] {
        let rows: [(Framing, &[&[u8]]); 7] = [
            (Framing::None, &[SURPLUS]),
            (Framing::Length(0), &[SURPLUS]),
            (Framing::Length(1), &[SURPLUS]),
            // Behind an end.
            (Framing::Length(5), &[b"hello", SURPLUS]),
            (Framing::None, &[b"", SURPLUS]),
            // An end before the length.
            (Framing::Length(5), &[b"hell"]),
            (Framing::Length(300_000), &[&large_and_more]),
        ];
        for (framing, bodies) in rows {
            expected::violation(|| {
                let before = framing_violations::count();
                let (outcome, received) = relay(protocol, framing, TransferCoding::None, bodies);
                assert!(is_violation(&outcome), "{protocol:?} {framing:?}: {outcome:?}");
                assert!(!has_surplus(&received), "{protocol:?} {framing:?}: {received:?}");
                assert!(framing_violations::count() > before, "it is counted");
            });
        }
    }
    expected::violation(|| {
        let bodies: [&[u8]; 2] = [b"hello", SURPLUS];
        let (outcome, received) =
            relay(Protocol::Http1, Framing::Delimited, TransferCoding::Chunked, &bodies);
        assert!(is_violation(&outcome) && !has_surplus(&received), "behind the last chunk: {received:?}");
    });
}
