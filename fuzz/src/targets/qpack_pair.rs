//! An encoder and a decoder of QPACK: what one writes, the other reads as the same lines, without ever waiting, however late the instructions of both arrive.

use weir_http::FieldWriter;
use weir_http::h3::{
    FieldSection, Http3Connection, Http3Limits, Http3Settings, OwnStream, Role, SectionProgress,
    SectionWriter, StreamInput, UnidirectionalStream, read_varint,
};

/// Bytes of one direction of a stream that are on their way.
struct Wire {
    bytes: Vec<u8>,
    stream: UnidirectionalStream,
}

impl Wire {
    const fn new() -> Self {
        Self { bytes: Vec::new(), stream: UnidirectionalStream::new() }
    }

    /// Delivers so many eighths of what is on its way.
    fn deliver(&mut self, to: &mut Http3Connection, eighths: u8) {
        let len = self.bytes.len() * usize::from(eighths) / 8;
        let mut rest = &self.bytes[..len];
        loop {
            let input = StreamInput { bytes: rest, is_last: false };
            let received = to.receive(&mut self.stream, input, 0).expect("each keeps the rules of the other");
            rest = &rest[received.used..];
            if received.event.is_none() {
                break;
            }
        }
        self.bytes.drain(..len);
    }

    fn take_in(&mut self, from: &mut Http3Connection, stream: OwnStream) {
        self.bytes.append(from.unsent(stream));
    }
}

/// Both ends, of which the server sends.
struct QpackPair {
    server: Http3Connection,
    client: Http3Connection,
    instructions: Wire,
    acknowledgements: Wire,
    requests: u64,
}

impl QpackPair {
    fn new(capacity: u64) -> Self {
        let local = Http3Settings { qpack_max_table_capacity: capacity, ..Http3Settings::default() };
        let mut client = Http3Connection::new(Role::Client, &local, Http3Limits::default(), None);
        let mut server =
            Http3Connection::new(Role::Server, &Http3Settings::default(), Http3Limits::default(), None);
        let mut control = Wire::new();
        control.take_in(&mut client, OwnStream::Control);
        control.deliver(&mut server, 8);
        Self { server, client, instructions: Wire::new(), acknowledgements: Wire::new(), requests: 0 }
    }

    /// Sends a section whose fields depend on `what`, which arrives at once.
    fn send(&mut self, what: u8, is_read: bool) {
        let stream = self.requests * 4;
        self.requests += 1;
        // So that instructions never end the connection by their number.
        self.client.budgets = self.server.budgets;
        let names = ["x-a", "Server", "set-cookie", "content-type", "X-Long-Name-Of-A-Field"];
        let fields: Vec<_> = (0..what % 4)
            .map(|more| {
                let number = usize::from(what / 4 + more);
                (names[number % names.len()], "v".repeat(number % 7 * 40))
            })
            .collect();
        let mut out = Vec::new();
        let mut writer = SectionWriter::trailers(&mut self.server.encoder, stream, &mut out);
        fields.iter().for_each(|(name, value)| writer.field(name.as_bytes(), value.as_bytes()));
        writer.finish();
        self.instructions.take_in(&mut self.server, OwnStream::Encoder);
        let (len, len_len) = read_varint(&out[1..]).expect("a frame was written");
        let bytes = &out[1 + len_len..];
        assert_eq!(len as usize, bytes.len());
        if !is_read {
            self.client.decoder.cancel(stream);
            return;
        }
        let mut lines = Vec::new();
        let part = FieldSection { stream, bytes };
        let take = |name: &[u8], value: &[u8]| lines.push((name.to_vec(), value.to_vec()));
        assert_eq!(self.client.decoder.decode_fields(part, take), Ok(SectionProgress::Read), "nothing waits");
        let meant = fields
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase().into_bytes(), value.clone().into_bytes()));
        assert_eq!(lines, meant.collect::<Vec<_>>());
    }
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let Some((&capacity, steps)) = input.split_first() else { return };
    let mut pair = QpackPair::new(u64::from(capacity) * 32);
    for step in steps {
        let (kind, what) = (step >> 6, step & 0x3f);
        match kind {
            0 => pair.send(what, true),
            1 => pair.send(what, false),
            2 if what & 0x20 != 0 => pair.server.shrink(),
            2 => pair.instructions.deliver(&mut pair.client, (what & 7) + 1),
            _ => {
                pair.acknowledgements.take_in(&mut pair.client, OwnStream::Decoder);
                pair.acknowledgements.deliver(&mut pair.server, (what & 7) + 1);
            }
        }
    }
}
