//! The answer to `/checksum`: one line with length and CRC-32 of the request's body, written and expected alike.

/// The line for a body of `len` bytes with CRC-32 `crc`.
pub fn line(len: u64, crc: u32) -> String {
    format!("{len:012} {crc:08x}\n")
}

/// The line for `body`.
pub fn line_for(body: &[u8]) -> String {
    line(body.len() as u64, crc32fast::hash(body))
}

#[cfg(test)]
mod tests {
    use super::line_for;

    #[test]
    fn the_check_value_of_crc_32_comes_out() {
        assert_eq!(line_for(b"123456789"), "000000000009 cbf43926\n");
    }
}
