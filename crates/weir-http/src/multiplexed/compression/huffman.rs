//! The Huffman code of strings (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes ascend with their length, and with the symbol where the length is the same. So all tables follow from the
//! lengths alone, and the compiler makes them.

use super::coding_error::CodingError;

/// Lengths of the codes of all bytes, in bits. The end of a string has the last code, of 30 ones.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // 0x20
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // 0x30
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // 0x40
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, // 0x50
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // 0x60
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, // 0x70
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
];

/// Length of the shortest code, in bits.
const CODE_BITS_MIN: usize = 5;
/// Length of the longest code, in bits.
const CODE_BITS_MAX: usize = 30;
/// Codes of up to this many bits are looked up at once; nearly all bytes of fields have one.
const SHORT_BITS: usize = 8;

/// A byte and the length of its code in bits.
#[derive(Clone, Copy)]
struct Symbol {
    byte: u8,
    code_bits: u8,
}

/// The codes of one length.
#[derive(Clone, Copy)]
struct CodeLength {
    /// Their first one, at the top of 32 bits.
    first: u32,
    /// Number of codes that are shorter.
    shorter: u32,
}

/// All tables.
struct CodeTables {
    /// The code of each byte.
    codes: [u32; 256],
    /// The symbol by the next bits; of no length when its code is longer.
    short: [Symbol; 1 << SHORT_BITS],
    /// The codes by their length.
    lengths: [CodeLength; CODE_BITS_MAX + 1],
    /// The bytes in the order of their codes.
    ordered: [u8; 256],
}

static TABLES: CodeTables = tables();

const fn tables() -> CodeTables {
    let none = Symbol { byte: 0, code_bits: 0 };
    let mut tables = CodeTables {
        codes: [0; 256],
        short: [none; 1 << SHORT_BITS],
        lengths: [CodeLength { first: 0, shorter: 0 }; CODE_BITS_MAX + 1],
        ordered: [0; 256],
    };
    let (mut code, mut position, mut bits) = (0_u32, 0, 1);
    while bits <= CODE_BITS_MAX {
        code <<= 1;
        tables.lengths[bits] = CodeLength { first: code << (32 - bits), shorter: position as u32 };
        let mut byte = 0;
        while byte < 256 {
            if LENGTHS[byte] as usize == bits {
                tables.codes[byte] = code;
                tables.ordered[position] = byte as u8;
                if bits <= SHORT_BITS {
                    let mut slot = (code as usize) << (SHORT_BITS - bits);
                    let end = (code as usize + 1) << (SHORT_BITS - bits);
                    while slot < end {
                        tables.short[slot] = Symbol { byte: byte as u8, code_bits: bits as u8 };
                        slot += 1;
                    }
                }
                code += 1;
                position += 1;
            }
            byte += 1;
        }
        bits += 1;
    }
    // The code of the end of a string is what is left.
    assert!(code == (1 << CODE_BITS_MAX) - 1 && position == 256);
    tables
}

/// Bits that are still to be decoded, the next one at the top.
struct BitBuffer<'a> {
    bits: u64,
    len: usize,
    rest: &'a [u8],
}

impl BitBuffer<'_> {
    /// Holds at least 32 bits if there are that many.
    #[inline(always)]
    fn fill(&mut self) {
        if self.len >= 32 {
            return;
        }
        if let Some((word, rest)) = self.rest.split_first_chunk() {
            self.bits |= u64::from(u32::from_be_bytes(*word)) << (32 - self.len);
            self.len += 32;
            self.rest = rest;
        } else {
            for byte in std::mem::take(&mut self.rest) {
                self.bits |= u64::from(*byte) << (56 - self.len);
                self.len += 8;
            }
        }
    }

    /// The next symbol, which is not taken yet. What is missing at the end counts as ones.
    #[inline(always)]
    fn peek(&self) -> Result<Symbol, CodingError> {
        let symbol = TABLES.short[(self.bits >> (64 - SHORT_BITS)) as usize];
        if symbol.code_bits > 0 { Ok(symbol) } else { long_symbol((self.bits >> 32) as u32) }
    }

    #[inline(always)]
    fn take(&mut self, symbol: Symbol) {
        self.bits <<= symbol.code_bits;
        self.len -= usize::from(symbol.code_bits);
    }
}

/// The symbol with a long code that `next` starts with.
#[cold]
fn long_symbol(next: u32) -> Result<Symbol, CodingError> {
    let bits = (SHORT_BITS + 1..=CODE_BITS_MAX).rev().find(|&bits| next >= TABLES.lengths[bits].first);
    let bits = bits.unwrap_or(CODE_BITS_MAX);
    let CodeLength { first, shorter } = TABLES.lengths[bits];
    let position = shorter + ((next - first) >> (32 - bits));
    match TABLES.ordered.get(position as usize) {
        Some(&byte) => Ok(Symbol { byte, code_bits: bits as u8 }),
        None => Err(CodingError::EndOfString),
    }
}

/// Appends the bytes that `encoded` stands for.
pub(crate) fn decode(encoded: &[u8], out: &mut Vec<u8>) -> Result<(), CodingError> {
    let start = out.len();
    out.resize(start + encoded.len() * 8 / CODE_BITS_MIN, 0);
    let len = decode_into(encoded, &mut out[start..])?;
    out.truncate(start + len);
    Ok(())
}

/// Writes the bytes that `encoded` stands for to the front of `to`, which has room for them. Gives their number.
fn decode_into(encoded: &[u8], to: &mut [u8]) -> Result<usize, CodingError> {
    let mut buffer = BitBuffer { bits: 0, len: 0, rest: encoded };
    let mut len = 0;
    loop {
        buffer.fill();
        if buffer.len < 32 {
            break;
        }
        // No code is longer than 32 bits, and four short ones are not.
        for _ in 0..4 {
            let symbol = buffer.peek()?;
            let is_long = usize::from(symbol.code_bits) > SHORT_BITS;
            if is_long && usize::from(symbol.code_bits) > buffer.len {
                break;
            }
            to[len] = symbol.byte;
            len += 1;
            buffer.take(symbol);
            if is_long {
                break;
            }
        }
    }
    // The rest is padded with ones, the start of the code for the end of a string.
    buffer.bits |= u64::MAX >> buffer.len;
    while buffer.bits != u64::MAX {
        let symbol = buffer.peek()?;
        if usize::from(symbol.code_bits) > buffer.len {
            return Err(CodingError::BadPadding);
        }
        to[len] = symbol.byte;
        len += 1;
        buffer.take(symbol);
        buffer.bits |= u64::MAX >> buffer.len;
    }
    match buffer.len {
        0..8 => Ok(len),
        CODE_BITS_MAX.. => Err(CodingError::EndOfString),
        _ => Err(CodingError::BadPadding),
    }
}

/// Number of bytes that `bytes` have when they are encoded.
pub(crate) fn encoded_len(bytes: &[u8]) -> usize {
    let bits: usize = bytes.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends `bytes`, encoded.
pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut len) = (0_u64, 0);
    for &byte in bytes {
        let code_bits = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << code_bits | u64::from(TABLES.codes[usize::from(byte)]);
        len += code_bits;
        if len >= 32 {
            len -= 32;
            out.extend_from_slice(&((bits >> len) as u32).to_be_bytes());
        }
    }
    if len > 0 {
        // Padded with ones.
        let last = ((bits << (32 - len)) as u32) | (u32::MAX >> len);
        out.extend_from_slice(&last.to_be_bytes()[..(len as usize).div_ceil(8)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    fn decoded(encoded: &[u8]) -> Result<Vec<u8>, CodingError> {
        let mut out = b"before".to_vec();
        decode(encoded, &mut out).map(|()| out.split_off(6))
    }

    /// RFC 7541 appendix B, one code of each length.
    #[test]
    fn codes_are_those_of_the_rfc() {
        let rows: &[(u8, u32, u8)] = &[
            (b'0', 0x0, 5),
            (b' ', 0x14, 6),
            (b':', 0x5c, 7),
            (b'&', 0xf8, 8),
            (b'!', 0x3f8, 10),
            (b'+', 0x7fb, 11),
            (b'#', 0xffa, 12),
            (0, 0x1ff8, 13),
            (b'^', 0x3ffc, 14),
            (b'<', 0x7ffc, 15),
            (b'\\', 0x7fff0, 19),
            (128, 0xfffe6, 20),
            (153, 0x1f_ffdc, 21),
            (129, 0x3f_ffd2, 22),
            (1, 0x7f_ffd8, 23),
            (9, 0xff_ffea, 24),
            (199, 0x1ff_ffec, 25),
            (192, 0x3ff_ffe0, 26),
            (203, 0x7ff_ffde, 27),
            (2, 0xfff_ffe2, 28),
            (b'\n', 0x3fff_fffc, 30),
            (22, 0x3fff_fffe, 30),
        ];
        for (byte, code, bits) in rows {
            assert_eq!(
                (TABLES.codes[usize::from(*byte)], LENGTHS[usize::from(*byte)]),
                (*code, *bits),
                "{byte}"
            );
        }
    }

    #[test]
    fn padding_is_less_than_a_byte_of_ones() {
        // `a` is 00011.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        assert_eq!(decoded(&[0b0001_1110]), Err(CodingError::BadPadding));
        assert_eq!(decoded(&[0b0001_1111, 0xff]), Err(CodingError::BadPadding));
        assert_eq!(decoded(&[]), Ok(vec![]));
        assert_eq!(decoded(&[0xff]), Err(CodingError::BadPadding));
        assert_eq!(decoded(&[0xff, 0xff, 0xff]), Err(CodingError::BadPadding));
        // `&` is 11111000, so nothing is padded.
        assert_eq!(decoded(&[0b1111_1000]), Ok(b"&".to_vec()));
        assert_eq!(decoded(&[0b1111_1000, 0xff]), Err(CodingError::BadPadding));
        // Five, four and seven bits of a code of which more are missing.
        assert_eq!(decoded(&[0b0001_1011]), Err(CodingError::BadPadding));
        assert_eq!(decoded(&[0b1111_1110]), Err(CodingError::BadPadding));
    }

    #[test]
    fn the_end_of_a_string_is_never_sent() {
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(CodingError::EndOfString));
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc]), Err(CodingError::EndOfString));
        assert_eq!(decoded(&[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff]), Err(CodingError::EndOfString));
        assert_eq!(decoded(&[0xff; 40]), Err(CodingError::EndOfString));
        // One bit less than that is the code of byte 22.
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfb]), Ok(vec![22]));
    }

    #[test]
    fn every_byte_in_every_place() {
        for byte in 0..=255 {
            for before in 0..9 {
                for after in 0..9 {
                    let bytes = [vec![b'0'; before], vec![byte], vec![b'&'; after]].concat();
                    let mut encoded = Vec::new();
                    encode(&bytes, &mut encoded);
                    assert_eq!(encoded.len(), encoded_len(&bytes));
                    assert_eq!(decoded(&encoded), Ok(bytes));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_reads_back(bytes in vec(prop_oneof![4 => 0x20_u8..0x7f, 1 => any::<u8>()], 0..60)) {
            let mut encoded = Vec::new();
            encode(&bytes, &mut encoded);
            prop_assert_eq!(encoded.len(), encoded_len(&bytes));
            prop_assert_eq!(decoded(&encoded), Ok(bytes));
        }

        #[test]
        fn what_is_decoded_was_encoded_so(encoded in vec(any::<u8>(), 0..60)) {
            // A string has one encoding.
            if let Ok(bytes) = decoded(&encoded) {
                let mut again = Vec::new();
                encode(&bytes, &mut again);
                prop_assert_eq!(again, encoded);
            }
        }
    }
}
