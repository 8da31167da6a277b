//! CRC-32C (Castagnoli), the checksum of a header of version 2 (RFC 4960 appendix B, by section 2.2.3).
//!
//! A header is short and comes once per connection, so a table of 256 entries is fast enough.

/// The polynomial of Castagnoli, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = (rest >> 1) ^ if rest & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

/// The checksum of `pieces` one behind the other.
pub(super) fn crc32c(pieces: &[&[u8]]) -> u32 {
    let bytes = pieces.iter().copied().flatten();
    !bytes.fold(u32::MAX, |sum, &byte| (sum >> 8) ^ TABLE[((sum ^ u32::from(byte)) & 0xff) as usize])
}
