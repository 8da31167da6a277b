//! Header blocks: what Weir accepts, `httlib-hpack` reads as the same lines; written anew, both read the same again.

use httlib_hpack::Decoder;
use weir_http::FieldWriter;
use weir_http::h2::{HeadWriter, HpackDecoder, HpackEncoder, HpackError};

/// A name and a value.
type Line = (Vec<u8>, Vec<u8>);

/// The two decoders of one connection, and an encoder that writes again what they read.
struct HpackTables<'a> {
    decoder: HpackDecoder,
    other: Decoder<'a>,
    encoder: HpackEncoder,
    decoder_again: HpackDecoder,
    other_again: Decoder<'a>,
}

/// Takes a block off the front of an input: its length in one byte, then its bytes. A length of 255 is a new size of the tables.
enum HpackStep<'a> {
    Block(&'a [u8]),
    TableSize(usize),
}

fn next<'a>(input: &mut &'a [u8]) -> Option<HpackStep<'a>> {
    let (&len, rest) = input.split_first()?;
    if len == u8::MAX {
        let (&size, rest) = rest.split_first()?;
        *input = rest;
        return Some(HpackStep::TableSize(usize::from(size) * 16));
    }
    let (block, rest) = rest.split_at(rest.len().min(len.into()));
    *input = rest;
    Some(HpackStep::Block(block))
}

fn decode(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Vec<Line>, HpackError> {
    let mut lines = Vec::new();
    decoder.decode_fields(block, |name, value| lines.push((name.to_vec(), value.to_vec())))?;
    Ok(lines)
}

fn decode_there(decoder: &mut Decoder<'_>, block: &[u8]) -> Vec<Line> {
    let mut lines = Vec::new();
    decoder.decode(&mut block.to_vec(), &mut lines).expect("Weir read the block");
    lines.into_iter().map(|(name, value, _)| (name, value)).collect()
}

/// Whether a line is one that a head may have.
fn is_field((name, value): &&Line) -> bool {
    const LEFT_OUT: [&[u8]; 6] =
        [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te"];
    let is_name = |byte: &u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'0'..=b'9');
    let is_value = |byte: &u8| *byte > 0x20 && *byte != 0x7f;
    !name.is_empty()
        && name.iter().all(is_name)
        && value.iter().all(is_value)
        && !LEFT_OUT.contains(&&name[..])
}

impl HpackTables<'_> {
    fn set_size(&mut self, size: usize) {
        self.decoder.set_table_bytes_max(size);
        self.other.set_max_dynamic_size(size as u32);
        self.encoder.set_peer_table_bytes_max(size);
        self.decoder_again.set_table_bytes_max(size);
        self.other_again.set_max_dynamic_size(size as u32);
    }

    fn read(&mut self, block: &[u8]) -> Result<(), HpackError> {
        let lines = decode(&mut self.decoder, block)?;
        assert_eq!(decode_there(&mut self.other, block), lines);
        let fields: Vec<Line> = lines.iter().filter(is_field).cloned().collect();
        let mut again = Vec::new();
        let mut head = HeadWriter::trailers(&mut self.encoder, &mut again);
        fields.iter().for_each(|(name, value)| head.field(name, value));
        assert_eq!(decode(&mut self.decoder_again, &again).as_ref(), Ok(&fields));
        assert_eq!(decode_there(&mut self.other_again, &again), fields);
        Ok(())
    }
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let mut tables = HpackTables {
        decoder: HpackDecoder::new(),
        other: Decoder::with_dynamic_size(4_096),
        encoder: HpackEncoder::default(),
        decoder_again: HpackDecoder::new(),
        other_again: Decoder::with_dynamic_size(4_096),
    };
    let mut rest = input;
    while let Some(step) = next(&mut rest) {
        match step {
            HpackStep::TableSize(size) => tables.set_size(size),
            HpackStep::Block(block) => {
                if tables.read(block).is_err() {
                    break;
                }
            }
        }
    }
}
