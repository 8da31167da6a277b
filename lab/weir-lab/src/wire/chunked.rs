//! Reads a chunked body (RFC 9112 7.1) as it arrives, in whatever pieces.
//!
//! Gives the data out by reference and keeps only its place in the grammar. Extensions and trailers are skipped;
//! a size that is not hexadecimal, a missing CRLF or an endless line is an error.

use super::fields::MalformedHead;

/// Longest chunk-size line and longest trailer section, in bytes.
const LINE_MAX: usize = 16 * 1024;

/// Where in the grammar the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// In the hexadecimal digits of a size.
    Size { digits: u32 },
    /// After the digits, up to the CR.
    Extension,
    /// At the LF that ends a size line.
    SizeEnd,
    /// In data, `left` bytes to come.
    Data,
    /// At the CR, then the LF, after the data.
    DataEnd { cr_seen: bool },
    /// At the start of a trailer line, or of the empty line.
    TrailerStart,
    /// In a trailer line, up to its LF.
    Trailer,
    /// At the LF of the empty line.
    LastLf,
    /// After the body.
    Done,
}

/// The place reached in a chunked body.
#[derive(Debug, Clone)]
pub struct ChunkedReader {
    state: ChunkState,
    left: u64,
    line_len: usize,
}

impl Default for ChunkedReader {
    fn default() -> Self {
        Self { state: ChunkState::Size { digits: 0 }, left: 0, line_len: 0 }
    }
}

impl ChunkedReader {
    /// Whether the whole body has been read.
    pub fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Reads `input`, hands the data to `sink`, and says how many bytes belonged to the body.
    ///
    /// # Errors
    /// The grammar rule that was broken.
    pub fn feed(&mut self, input: &[u8], mut sink: impl FnMut(&[u8])) -> Result<usize, MalformedHead> {
        let mut at = 0;
        while at < input.len() && self.state != ChunkState::Done {
            if self.state == ChunkState::Data {
                let take = self.left.min((input.len() - at) as u64) as usize;
                sink(&input[at..at + take]);
                at += take;
                self.left -= take as u64;
                if self.left == 0 {
                    self.state = ChunkState::DataEnd { cr_seen: false };
                }
            } else {
                self.step(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// Takes one byte that is not data.
    fn step(&mut self, byte: u8) -> Result<(), MalformedHead> {
        self.line_len += 1;
        if self.line_len > LINE_MAX {
            return Err(MalformedHead("a chunk line or trailer section without end"));
        }
        self.state = match (self.state, byte) {
            (ChunkState::Size { digits }, byte) if byte.is_ascii_hexdigit() => {
                if digits == 15 {
                    return Err(MalformedHead("a chunk size over 15 digits"));
                }
                let digit = (byte as char).to_digit(16).expect("checked to be a hexadecimal digit");
                self.left = self.left * 16 + u64::from(digit);
                ChunkState::Size { digits: digits + 1 }
            }
            (ChunkState::Size { digits: 0 }, _) => {
                return Err(MalformedHead("a chunk size that is not hexadecimal"));
            }
            (ChunkState::Size { .. } | ChunkState::Extension, b'\r') => ChunkState::SizeEnd,
            (ChunkState::Size { .. }, b';') => ChunkState::Extension,
            (ChunkState::Size { .. }, _) => {
                return Err(MalformedHead("a chunk size that is not hexadecimal"));
            }
            (ChunkState::Extension, b'\n') => return Err(MalformedHead("a chunk line ends with a bare LF")),
            (ChunkState::Extension, _) => ChunkState::Extension,
            (ChunkState::SizeEnd, b'\n') => {
                self.line_len = 0;
                if self.left == 0 { ChunkState::TrailerStart } else { ChunkState::Data }
            }
            (ChunkState::DataEnd { cr_seen: false }, b'\r') => ChunkState::DataEnd { cr_seen: true },
            (ChunkState::DataEnd { cr_seen: true }, b'\n') => {
                self.line_len = 0;
                ChunkState::Size { digits: 0 }
            }
            (ChunkState::TrailerStart, b'\r') => ChunkState::LastLf,
            (ChunkState::TrailerStart, b'\n') => {
                return Err(MalformedHead("a trailer section ends with a bare LF"));
            }
            (ChunkState::Trailer, b'\n') => ChunkState::TrailerStart,
            (ChunkState::TrailerStart | ChunkState::Trailer, _) => ChunkState::Trailer,
            (ChunkState::LastLf, b'\n') => ChunkState::Done,
            _ => return Err(MalformedHead("chunk data longer than its size, or CRLF missing")),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkedReader;
    use proptest::prelude::*;

    fn read(input: &[u8], piece: usize) -> Result<(Vec<u8>, usize, bool), &'static str> {
        let (mut body, mut chunked, mut used) = (Vec::new(), ChunkedReader::default(), 0);
        for part in input.chunks(piece) {
            let took = chunked.feed(part, |data| body.extend_from_slice(data)).map_err(|rule| rule.0)?;
            used += took;
            if took < part.len() {
                break;
            }
        }
        Ok((body, used, chunked.is_done()))
    }

    #[test]
    fn reads_data_and_skips_extensions_and_trailers() {
        let whole =
            b"4\r\nWiki\r\n6;a=\"b\"\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nX-Sum: 1\r\n\r\nnext";
        for piece in 1..whole.len() {
            let (body, used, done) = read(whole, piece).unwrap();
            assert_eq!(body, b"Wikipedia in \r\n\r\nchunks.");
            assert!(done && &whole[used..] == b"next", "pieces of {piece}");
        }
    }

    #[test]
    fn breaks_of_the_grammar_are_refused() {
        for input in [
            &b"\r\n"[..],
            b"x\r\n",
            b"-1\r\n",
            b"5 \r\n",
            b"5\nhello\r\n",
            b"5\r\nhelloo\r\n",
            b"5\r\nhello\n",
            b"5;a\n",
            b"0000000000000005\r\n",
        ] {
            assert!(read(input, 64).is_err(), "{}", input.escape_ascii());
        }
    }

    #[test]
    fn an_endless_extension_is_refused() {
        let mut input = b"5;".to_vec();
        input.resize(20_000, b'a');
        assert!(read(&input, 1000).is_err());
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_body(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..8), piece in 1usize..400) {
            let mut wire = Vec::new();
            for part in &parts {
                wire.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                wire.extend_from_slice(part);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            let (body, used, done) = read(&wire, piece).unwrap();
            prop_assert_eq!(body, parts.concat());
            prop_assert!(done && used == wire.len());
        }
    }
}
