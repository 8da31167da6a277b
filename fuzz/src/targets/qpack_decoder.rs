//! Field sections and instructions of QPACK: what they mean is what a plain model of the table finds, and no more streams wait than may.

use std::collections::VecDeque;

use httlib_hpack::Decoder;
use weir_http::h3::{
    FieldSection, Http3Connection, Http3Limits, Http3Settings, OwnStream, QpackError, Role, SectionError,
    SectionProgress, StreamInput, UnidirectionalStream, read_trailers,
};
use weir_http::{ChunkedLimits, Fields};

const CAPACITY: usize = 300;
const BLOCKED: u64 = 2;

/// A name and a value.
type NameAndValue = (Vec<u8>, Vec<u8>);

/// The table as it is written in the RFC, with all that was ever inserted.
#[derive(Default)]
struct QpackModel {
    inserted: Vec<NameAndValue>,
    gone: usize,
    capacity: usize,
    /// What came on the encoder stream and is not followed yet.
    stream: VecDeque<u8>,
}

/// An integer with a prefix, at the front of `bytes`.
fn integer(bytes: &mut &[u8], prefix_bits: u32) -> Option<u64> {
    let (&first, mut rest) = bytes.split_first()?;
    let max = (1_u64 << prefix_bits) - 1;
    let mut value = u64::from(first) & max;
    if value == max {
        let mut shift = 0;
        loop {
            let (&byte, tail) = rest.split_first()?;
            rest = tail;
            value += u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 56 {
                return None;
            }
        }
    }
    *bytes = rest;
    Some(value)
}

/// A string whose length has a prefix of so many bits, with the bit of Huffman before it.
fn string(bytes: &mut &[u8], prefix_bits: u32) -> Option<Vec<u8>> {
    let is_coded = bytes.first()? >> prefix_bits & 1 != 0;
    let len = usize::try_from(integer(bytes, prefix_bits)?).ok()?;
    let (string, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    if !is_coded {
        return Some(string.to_vec());
    }
    // As the value of a literal of HPACK.
    let mut block = vec![0, 1, b'x'];
    let huffman = |len: usize, block: &mut Vec<u8>| match len.checked_sub(0x7f) {
        None => block.push(0x80 | len as u8),
        Some(mut rest) => {
            block.push(0xff);
            while rest >= 0x80 {
                block.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
    };
    huffman(len, &mut block);
    block.extend_from_slice(string);
    let mut lines = Vec::new();
    Decoder::default().decode(&mut block, &mut lines).ok()?;
    lines.pop().map(|(_, value, _)| value)
}

impl QpackModel {
    fn size(&self) -> usize {
        self.inserted[self.gone..].iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    fn insert(&mut self, line: NameAndValue) {
        let size = line.0.len() + line.1.len() + 32;
        self.shrink(self.capacity.checked_sub(size).expect("Weir has taken it"));
        self.inserted.push(line);
    }

    fn shrink(&mut self, size: usize) {
        while self.size() > size {
            self.gone += 1;
        }
    }

    /// The entry that came in as the last but so many.
    fn last_but(&self, age: u64) -> Option<NameAndValue> {
        self.absolute((self.inserted.len() as u64).checked_sub(age + 1)?)
    }

    fn absolute(&self, index: u64) -> Option<NameAndValue> {
        let index = usize::try_from(index).ok().filter(|index| *index >= self.gone)?;
        self.inserted.get(index).cloned()
    }

    /// Follows what came on the encoder stream; `None` when an instruction is not whole. Names of the static table are left empty: what they are is a test of
    /// the crate.
    fn follow(&mut self, input: &[u8]) {
        self.stream.extend(input);
        let all: Vec<u8> = self.stream.iter().copied().collect();
        let mut rest = &all[..];
        while let Some(behind) = self.follow_one(rest) {
            rest = behind;
        }
        self.stream = rest.iter().copied().collect();
    }

    fn follow_one<'a>(&mut self, input: &'a [u8]) -> Option<&'a [u8]> {
        let mut rest = input;
        match *input.first()? {
            first @ 0x80.. => {
                let index = integer(&mut rest, 6)?;
                let value = string(&mut rest, 7)?;
                let name = if first & 0x40 != 0 { static_name(index) } else { self.last_but(index)?.0 };
                self.insert((name, value));
            }
            0x40.. => {
                let name = string(&mut rest, 5)?;
                let value = string(&mut rest, 7)?;
                self.insert((name, value));
            }
            0x20.. => {
                self.capacity = integer(&mut rest, 5)? as usize;
                self.shrink(self.capacity);
            }
            _ => {
                let line = self.last_but(integer(&mut rest, 5)?)?;
                self.insert(line);
            }
        }
        Some(rest)
    }

    /// The lines of a section that Weir has read.
    fn read(&self, section: &[u8]) -> Option<Vec<NameAndValue>> {
        let mut rest = section;
        let encoded = integer(&mut rest, 8)?;
        let is_negative = rest.first()? & 0x80 != 0;
        let delta = integer(&mut rest, 7)?;
        // The only count that fits, of those that differ by a multiple.
        let range = 2 * (CAPACITY as u64 / 32);
        let inserted = self.inserted.len() as u64;
        let required =
            if encoded == 0 { 0 } else { (1..=inserted).rev().find(|count| count % range + 1 == encoded)? };
        let base = if is_negative { required - delta - 1 } else { required + delta };
        let mut lines = Vec::new();
        while let Some(&first) = rest.first() {
            lines.push(match first {
                0xc0.. => static_line(integer(&mut rest, 6)?)?,
                0x80.. => self.absolute(base - integer(&mut rest, 6)? - 1)?,
                0x50..0x60 | 0x70..0x80 => (static_name(integer(&mut rest, 4)?), string(&mut rest, 7)?),
                0x40.. => (self.absolute(base - integer(&mut rest, 4)? - 1)?.0, string(&mut rest, 7)?),
                0x20.. => (string(&mut rest, 3)?, string(&mut rest, 7)?),
                0x10.. => self.absolute(base + integer(&mut rest, 4)?)?,
                _ => (self.absolute(base + integer(&mut rest, 3)?)?.0, string(&mut rest, 7)?),
            });
        }
        Some(lines)
    }
}

/// A line of the static table: as Weir reads it alone.
fn static_line(index: u64) -> Option<NameAndValue> {
    let mut section = vec![0, 0];
    match index {
        0..63 => section.push(0xc0 | index as u8),
        _ => section.extend_from_slice(&[0xff, u8::try_from(index - 63).ok()?]),
    }
    let mut decoder = weir_http::h3::QpackDecoder::new(0, 0);
    let mut lines = Vec::new();
    let part = FieldSection { stream: 0, bytes: &section };
    decoder.decode_fields(part, |name, value| lines.push((name.to_vec(), value.to_vec()))).ok()?;
    lines.pop()
}

fn static_name(index: u64) -> Vec<u8> {
    static_line(index).map(|line| line.0).unwrap_or_default()
}

/// A decoder and its model.
struct QpackTables {
    connection: Http3Connection,
    encoder_stream: UnidirectionalStream,
    model: QpackModel,
    waiting: Vec<(u64, Vec<u8>)>,
}

impl QpackTables {
    fn new() -> Self {
        let local = Http3Settings {
            qpack_max_table_capacity: CAPACITY as u64,
            qpack_blocked_streams: BLOCKED,
            ..Http3Settings::default()
        };
        let mut connection = Http3Connection::new(Role::Server, &local, Http3Limits::default(), None);
        let mut encoder_stream = UnidirectionalStream::new();
        let input = StreamInput { bytes: &[2], is_last: false };
        connection.receive(&mut encoder_stream, input, 0).expect("it may be opened");
        Self { connection, encoder_stream, model: QpackModel::default(), waiting: Vec::new() }
    }

    /// Whether the connection lives on.
    fn instructions(&mut self, bytes: &[u8]) -> bool {
        let input = StreamInput { bytes, is_last: false };
        if self.connection.receive(&mut self.encoder_stream, input, 0).is_err() {
            return false;
        }
        self.model.follow(bytes);
        while let Some(stream) = self.connection.decoder.next_unblocked() {
            let place = self.waiting.iter().position(|(waiting, _)| *waiting == stream);
            let (_, section) = self.waiting.swap_remove(place.expect("it waits"));
            if !self.section(stream, &section) {
                return false;
            }
        }
        true
    }

    fn section(&mut self, stream: u64, bytes: &[u8]) -> bool {
        let mut lines = Vec::new();
        let part = FieldSection { stream, bytes };
        let decoder = &mut self.connection.decoder;
        let outcome = decoder.decode_fields(part, |name, value| lines.push((name.to_vec(), value.to_vec())));
        match outcome {
            Ok(SectionProgress::Read) => {
                assert_eq!(self.model.read(bytes), Some(lines), "{}", bytes.escape_ascii());
                // Readers of heads do not get lost, whatever is in it.
                let (mut fields, mut text) = (Fields::new(), Vec::new());
                let again = read_trailers(decoder, part, &mut fields, &mut text, &ChunkedLimits::default());
                assert!(!matches!(again, Err(SectionError::Compression(_)) | Ok(SectionProgress::Blocked)));
                true
            }
            Ok(SectionProgress::Blocked) => {
                self.waiting.push((stream, bytes.to_vec()));
                assert_eq!(self.waiting.len(), decoder.streams_blocked());
                assert!(self.waiting.len() as u64 <= BLOCKED);
                true
            }
            Err(QpackError::TooManyBlocked) => {
                assert_eq!(self.waiting.len() as u64, BLOCKED);
                false
            }
            Err(_) => false,
        }
    }
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let mut tables = QpackTables::new();
    let (mut rest, mut stream) = (input, 0);
    // A part has its length in seven bits; the eighth says that it is a section.
    while let Some((&tag, tail)) = rest.split_first() {
        let (part, behind) = tail.split_at(tail.len().min(usize::from(tag & 0x7f)));
        rest = behind;
        stream += 4;
        let lives = if tag & 0x80 != 0 { tables.section(stream, part) } else { tables.instructions(part) };
        let unsent = tables.connection.unsent(OwnStream::Decoder).len();
        assert!(unsent <= 8 * input.len() + 8, "{unsent} bytes wait");
        if !lives {
            break;
        }
    }
}
