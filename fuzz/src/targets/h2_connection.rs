//! Connections of HTTP/2 with a hostile peer: the same events and the same output however the bytes arrive, and bounds on both. What was written is
//! exactly the requests or the responses that were meant, for `weir-wire`.

use std::collections::{BTreeMap, BTreeSet};

use crate::pieces::growths;
use weir_http::h2::{
    Block, BlockError, BlockUse, ConnectionCodec, ConnectionFault, ConnectionLimits, ErrorCode, Event,
    HeadWriter, HpackDecoder, HpackEncoder, PREFACE, RequestPseudoFields, Role, Settings, StreamFault,
    read_request, read_response, read_trailers, skip_block,
};
use weir_http::{ChunkedLimits, FieldWriter, Fields, HeadLimits, RequestHead, ResponseHead, Rule};
use weir_wire::http2::{self, FRAME_MAX, FrameSender, RecordedStream};

const STREAMS_MAX: u32 = 4;

/// One end of a connection, which does something with all that it receives.
struct FuzzedConnection {
    role: Role,
    connection: ConnectionCodec,
    decoder: HpackDecoder,
    encoder: HpackEncoder,
    limits: HeadLimits,
    text: Vec<u8>,
    out: Vec<u8>,
    /// What was seen, as text; bodies are counted until they end.
    seen: Vec<String>,
    bodies: BTreeMap<u32, usize>,
    /// Streams on which a message was written, and the bytes of its body.
    written: BTreeMap<u32, usize>,
}

/// The path of the request on a stream.
fn path(stream: u32) -> String {
    format!("/{stream}")
}

impl FuzzedConnection {
    /// The first byte of an input says what kind of end it is for.
    fn new(kind: u8) -> Self {
        let role = if kind & 1 == 0 { Role::Server } else { Role::Client };
        let local = Settings {
            max_concurrent_streams: STREAMS_MAX,
            initial_window_size: if kind & 2 == 0 { 65_535 } else { 100 },
            ..Settings::default()
        };
        let held_bytes_max = if kind & 4 == 0 { 1 << 20 } else { 50 };
        let limits = ConnectionLimits { held_bytes_max, block_bytes_max: 1_000 };
        let mut out = Vec::new();
        let mut connection = ConnectionCodec::new(role, local, limits, &mut out);
        let (mut encoder, mut written) = (HpackEncoder::default(), BTreeMap::new());
        if role == Role::Client {
            for _ in 0..STREAMS_MAX {
                let stream = connection.open_stream();
                let (path, block) = (path(stream), connection.begin_block(stream, &mut out));
                let pseudo = RequestPseudoFields {
                    method: b"GET",
                    scheme: b"http",
                    authority: b"a.test",
                    path: path.as_bytes(),
                    protocol: None,
                };
                HeadWriter::request(&mut encoder, &mut out, &pseudo);
                connection.end_block(block, true, &mut out);
                written.insert(stream, 0);
            }
        }
        Self {
            role,
            connection,
            decoder: HpackDecoder::new(),
            encoder,
            limits: HeadLimits { head_bytes_max: 1_000, fields_max: 10, ..HeadLimits::default() },
            text: Vec::new(),
            out,
            seen: Vec::new(),
            bodies: BTreeMap::new(),
            written,
        }
    }

    /// Takes in what has come; returns how much of it was used.
    fn receive(&mut self, input: &[u8]) -> Result<usize, ConnectionFault> {
        let mut used = 0;
        loop {
            let received = self.connection.receive(&input[used..], 0, &mut self.out)?;
            let rest = &input[used..];
            used += received.used;
            match received.event {
                None => return Ok(used),
                Some(event) => self.take(event, rest)?,
            }
        }
    }

    fn take(&mut self, event: Event, input: &[u8]) -> Result<(), ConnectionFault> {
        match event {
            Event::Data { stream, data, ends_stream } => {
                *self.bodies.entry(stream).or_default() += data.len();
                if ends_stream {
                    self.end_body(stream);
                }
            }
            Event::Block { stream, block, usage, ends_stream } => {
                let block = match block {
                    Block::Input(range) => input[range].to_vec(),
                    Block::Gathered => self.connection.take_block(),
                };
                self.take_block(stream, &block, usage, ends_stream)?;
            }
            Event::Settings => {
                let size = self.connection.remote().header_table_size;
                self.encoder.set_peer_table_bytes_max(size as usize);
                self.seen.push(format!("{:?}", self.connection.remote()));
            }
            Event::Reset { stream, code } => {
                self.seen.push(format!("reset {stream} {code:?}"));
                self.release(stream);
            }
            Event::Priority { stream, value } => {
                self.seen.push(format!("priority {stream} {:?}", &input[value]));
            }
            Event::Fault { stream, fault } => {
                self.seen.push(format!("{stream} {fault:?}"));
                self.release(stream);
            }
            other => self.seen.push(format!("{other:?}")),
        }
        Ok(())
    }

    fn take_block(
        &mut self,
        stream: u32,
        block: &[u8],
        usage: BlockUse,
        ends_stream: bool,
    ) -> Result<(), ConnectionFault> {
        let outcome = match (usage, self.role) {
            (BlockUse::Head, Role::Server) => {
                let mut head = RequestHead::new();
                read_request(&mut self.decoder, block, &mut head, &mut self.text, &self.limits, ends_stream)
            }
            (BlockUse::Head, Role::Client) => {
                let mut head = ResponseHead::new();
                read_response(&mut self.decoder, block, &mut head, &mut self.text, &self.limits, ends_stream)
            }
            (BlockUse::Trailers, _) => {
                let limits = ChunkedLimits { trailer_bytes_max: 500, ..ChunkedLimits::default() };
                read_trailers(&mut self.decoder, block, &mut Fields::new(), &mut self.text, &limits)
            }
            (BlockUse::Discard | BlockUse::Refused | BlockUse::Fault(_), _) => {
                skip_block(&mut self.decoder, block, &mut self.text, &self.limits)
            }
        };
        assert!(self.text.len() < 20_000, "memory is bounded");
        self.seen.push(format!("{stream} {usage:?} {outcome:?}"));
        if let Some(fault) = outcome.err().and_then(BlockError::connection_fault) {
            return Err(fault);
        }
        match outcome {
            Err(_) => {
                let fault = StreamFault::protocol(Rule::BadMethod);
                let event = self.connection.fail(stream, fault, 0, &mut self.out)?;
                self.seen.push(format!("{event:?}"));
                self.release(stream);
            }
            Ok(()) if ends_stream => self.end_body(stream),
            Ok(()) => {}
        }
        Ok(())
    }

    /// All of a message has come: it is consumed, and a server answers it.
    fn end_body(&mut self, stream: u32) {
        let len = self.bodies.remove(&stream).unwrap_or_default();
        self.seen.push(format!("{stream} ended with {len} bytes"));
        self.connection.consumed(stream, len as u32, &mut self.out);
        if self.role == Role::Server && stream % 4 == 1 {
            let block = self.connection.begin_block(stream, &mut self.out);
            let mut head = HeadWriter::response(&mut self.encoder, &mut self.out, 200);
            head.field(b"server", b"weir");
            self.connection.end_block(block, false, &mut self.out);
            let sent = self.connection.send_data(stream, &[b'.'; 100], usize::MAX, &mut self.out);
            assert_eq!(self.written.insert(stream, sent), None, "a stream is answered twice");
            self.connection.send_end(stream, None, &mut self.out);
        }
        self.release(stream);
    }

    /// Fails unless the output is what was meant.
    fn check_written(&self) {
        let (sender, first) = match self.role {
            Role::Server => (FrameSender::Server, (":status", "200".to_owned())),
            Role::Client => (FrameSender::Client, (":method", "GET".to_owned())),
        };
        let reading = http2::read(&self.out, sender, &BTreeSet::new(), FRAME_MAX);
        assert_eq!(reading.fault, None, "{}", self.out.escape_ascii());
        let has_head = |(_, stream): &(&u32, &RecordedStream)| !stream.head.0.is_empty();
        let heads: Vec<u32> = reading.streams.iter().filter(has_head).map(|(id, _)| *id).collect();
        assert_eq!(heads, self.written.keys().copied().collect::<Vec<_>>());
        for (id, len) in &self.written {
            let stream = &reading.streams[id];
            assert_eq!(stream.head.first(first.0), Some(&*first.1));
            let path = (self.role == Role::Client).then(|| path(*id));
            assert_eq!(stream.head.first(":path"), path.as_deref());
            assert_eq!((&stream.body[..], stream.has_ended), (&vec![b'.'; *len][..], true), "stream {id}");
            assert_eq!((&stream.trailers, stream.interim.len()), (&None, 0));
        }
    }

    fn release(&mut self, stream: u32) {
        self.bodies.remove(&stream);
        self.connection.release(stream, ErrorCode::CANCEL, &mut self.out);
    }
}

/// The whole of what became of an input that arrives in these pieces.
type Account = (Vec<String>, Vec<u8>, Option<ConnectionFault>);

fn account(kind: u8, input: &[u8], growth: &[usize]) -> Account {
    let mut end = FuzzedConnection::new(kind);
    let mut used = 0;
    let mut fault = None;
    for &len in growth {
        match end.receive(&input[used..len]) {
            Ok(more) => used += more,
            Err(found) => {
                fault = Some(found);
                break;
            }
        }
        // A client opens them itself.
        assert!(end.connection.streams_open() <= STREAMS_MAX as usize);
    }
    end.check_written();
    // Most is written for a request: a head, a hundred bytes, and the end.
    assert!(end.out.len() <= 400 + 40 * input.len(), "{} bytes for {}", end.out.len(), input.len());
    (end.seen, end.out, fault)
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let Some((&kind, frames)) = input.split_first() else { return };
    // What comes first is always right, so that chance need not find it.
    let preface: &[u8] = if kind & 1 == 0 { PREFACE } else { b"" };
    let input = [preface, &[0, 0, 0, 4, 0, 0, 0, 0, 0], frames].concat();
    let whole = account(kind, &input, &[input.len()]);
    for growth in growths(&input) {
        assert_eq!(account(kind, &input, &growth), whole);
    }
}
