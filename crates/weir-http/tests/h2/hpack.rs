//! HPACK against `httlib-hpack`: what one writes, the other reads, with tables of changing size.

use httlib_hpack::{Decoder, Encoder};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use weir_http::FieldWriter;
use weir_http::h2::{HeadWriter, HpackDecoder, HpackEncoder, HpackError};

/// A name and a value.
pub(crate) type Line = (Vec<u8>, Vec<u8>);

/// What this crate reads.
pub(crate) fn decode(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Vec<Line>, HpackError> {
    let mut lines = Vec::new();
    decoder.decode_fields(block, |name, value| lines.push((name.to_vec(), value.to_vec())))?;
    Ok(lines)
}

/// What this crate writes.
pub(crate) fn encode<'a>(
    encoder: &mut HpackEncoder,
    lines: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Vec<u8> {
    let mut block = Vec::new();
    let mut head = HeadWriter::trailers(encoder, &mut block);
    for (name, value) in lines {
        head.field(name, value);
    }
    block
}

/// What the other one reads.
pub(crate) fn decode_there(decoder: &mut Decoder<'_>, block: &[u8]) -> Vec<Line> {
    let mut lines = Vec::new();
    decoder.decode(&mut block.to_vec(), &mut lines).expect("the block is valid");
    lines.into_iter().map(|(name, value, _)| (name, value)).collect()
}

/// Something that happens to an encoder of this crate.
#[derive(Debug, Clone)]
enum Step {
    Block(Vec<(String, String)>),
    TableSize(usize),
    Release,
}

/// Names and values of few kinds, so that they recur.
fn lines() -> impl Strategy<Value = Vec<(String, String)>> {
    let names =
        ["accept", "cookie", "server", "x-a", "x-request-id", "set-cookie", "authorization", "etag", "a"];
    let value = prop_oneof![
        4 => select(&["", "1", "weir", "text/html; charset=utf-8", "0123456789012345678901234567890123456789"][..])
            .prop_map(str::to_owned),
        2 => (0..30_u32).prop_map(|number| number.to_string()),
        1 => "[!-~]{1,200}",
        1 => (1_500_usize..5_000).prop_map(|len| "y".repeat(len)),
    ];
    vec((select(names.to_vec()).prop_map(str::to_owned), value), 0..12)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => lines().prop_map(Step::Block),
        2 => prop_oneof![Just(0), Just(4_096), 0_usize..5_000, Just(1 << 20)].prop_map(Step::TableSize),
        1 => Just(Step::Release),
    ]
}

/// A line of any bytes, how the other encoder writes it, and the sizes that the table has before it.
fn foreign_line() -> impl Strategy<Value = (Line, u8)> {
    let name = prop_oneof![
        3 => select(&[":path", ":method", "cookie", "server", "x-a"][..]).prop_map(|name| name.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..40),
    ];
    let value = prop_oneof![
        3 => select(&["/", "GET", "1", ""][..]).prop_map(|value| value.as_bytes().to_vec()),
        2 => vec(any::<u8>(), 0..200),
        1 => (0_usize..5_000).prop_map(|len| vec![b'z'; len]),
    ];
    // Five bits: Huffman coding of either, entering the table or never, and the best form.
    ((name, value), 0_u8..32)
}

proptest! {
    #[test]
    fn what_we_write_others_read(steps in vec(step(), 1..40), own_size in prop_oneof![Just(4_096), 0_usize..5_000]) {
        let mut encoder = HpackEncoder::new(own_size);
        let (mut here, mut there) = (HpackDecoder::new(), Decoder::with_dynamic_size(4_096));
        for step in steps {
            match step {
                Step::Block(lines) => {
                    let given = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                    let block = encode(&mut encoder, given.clone());
                    let expected: Vec<Line> =
                        given.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                    prop_assert_eq!(decode(&mut here, &block), Ok(expected.clone()));
                    prop_assert_eq!(decode_there(&mut there, &block), expected);
                }
                Step::TableSize(size) => {
                    encoder.set_peer_table_bytes_max(size);
                    here.set_table_bytes_max(size);
                    there.set_max_dynamic_size(size as u32);
                }
                Step::Release => encoder.release(),
            }
        }
    }

    #[test]
    fn what_others_write_we_read(
        blocks in vec((vec(0_u32..=4_096, 0..=2), vec(foreign_line(), 0..10)), 1..20),
    ) {
        let (mut encoder, mut decoder) = (Encoder::with_dynamic_size(4_096), HpackDecoder::new());
        for (sizes, lines) in blocks {
            let mut block = Vec::new();
            for size in sizes {
                encoder.update_max_dynamic_size(size, &mut block).unwrap();
            }
            for ((name, value), flags) in &lines {
                encoder.encode((name.clone(), value.clone(), *flags), &mut block).unwrap();
            }
            let expected: Vec<Line> = lines.into_iter().map(|(line, _)| line).collect();
            prop_assert_eq!(decode(&mut decoder, &block), Ok(expected));
        }
    }

    #[test]
    fn no_bytes_do_harm(blocks in vec(vec(any::<u8>(), 0..300), 1..4)) {
        let (mut here, mut there) = (HpackDecoder::new(), Decoder::with_dynamic_size(4_096));
        for block in blocks {
            match decode(&mut here, &block) {
                Ok(lines) => prop_assert_eq!(decode_there(&mut there, &block), lines),
                Err(_) => break,
            }
        }
    }
}
