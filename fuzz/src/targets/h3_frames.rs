//! The unidirectional streams of a hostile peer: the same events and the same fault however the bytes of each arrive, and bounds on what is kept.

use crate::pieces::growths;
use weir_http::h3::{
    Http3Connection, Http3Fault, Http3Limits, Http3Settings, OwnStream, PeerEvent, Role, StreamInput,
    UnidirectionalStream,
};

/// Streams that the peer may have open.
const STREAMS: usize = 4;

/// One end of a connection.
struct FuzzedStreams {
    connection: Http3Connection,
    streams: [UnidirectionalStream; STREAMS],
    seen: Vec<String>,
}

impl FuzzedStreams {
    /// The first byte of an input says what kind of end it is for.
    fn new(kind: u8) -> Self {
        let role = if kind & 1 == 0 { Role::Server } else { Role::Client };
        let local = Http3Settings {
            qpack_max_table_capacity: if kind & 2 == 0 { 4_096 } else { 100 },
            qpack_blocked_streams: 2,
            ..Http3Settings::default()
        };
        let grease = (kind & 4 != 0).then_some(u64::from(kind) << 30);
        let connection = Http3Connection::new(role, &local, Http3Limits::default(), grease);
        Self { connection, streams: [UnidirectionalStream::new(); STREAMS], seen: Vec::new() }
    }

    /// Gives the next bytes of a stream, until there is no event.
    fn give(&mut self, number: usize, bytes: &[u8], is_last: bool) -> Result<(), Http3Fault> {
        let stream = &mut self.streams[number];
        let mut rest = bytes;
        loop {
            let received = self.connection.receive(stream, StreamInput { bytes: rest, is_last }, 0)?;
            rest = &rest[received.used..];
            match received.event {
                Some(PeerEvent::Settings) => self.seen.push(format!("{:?}", self.connection.remote())),
                Some(event) => self.seen.push(format!("{number} {event:?}")),
                None => break,
            }
        }
        assert!(rest.is_empty(), "all is used");
        Ok(())
    }
}

/// What became of an input whose parts arrive in pieces.
fn account(kind: u8, input: &[u8], cut: fn(&[u8]) -> Vec<usize>) -> (Vec<String>, Option<Http3Fault>) {
    let mut end = FuzzedStreams::new(kind);
    let mut rest = input;
    // A part has its stream and its length in one byte; the upper bit ends the stream.
    while let Some((&tag, tail)) = rest.split_first() {
        let (part, behind) = tail.split_at(tail.len().min(usize::from(tag & 0x1f)));
        rest = behind;
        let (number, is_last) = (usize::from(tag >> 5) % STREAMS, tag & 0x80 != 0);
        let mut start = 0;
        for stop in cut(part) {
            let ends = is_last && stop == part.len();
            if let Err(fault) = end.give(number, &part[start..stop], ends) {
                return (end.seen, Some(fault));
            }
            start = stop;
        }
        let unsent = [OwnStream::Control, OwnStream::Encoder, OwnStream::Decoder]
            .map(|stream| end.connection.unsent(stream).len());
        assert!(unsent.iter().sum::<usize>() < 100 + 2 * input.len(), "what waits is bounded: {unsent:?}");
    }
    (end.seen, None)
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let Some((&kind, parts)) = input.split_first() else { return };
    let whole = account(kind, parts, |part| vec![part.len()]);
    assert_eq!(account(kind, parts, |part| (0..=part.len()).collect()), whole);
    let in_some = |part: &[u8]| growths(part).pop().unwrap_or_default();
    assert_eq!(account(kind, parts, in_some), whole);
}
