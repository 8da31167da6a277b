//! A body that is sent piece by piece: in chunks (RFC 9112 7.1), slowly, or not to its end.
//!
//! Knows no connection and no time: `Connection` asks for the next piece when the last one has left, and waits between two.

use std::io::Write as _;
use std::time::Duration;

use crate::wire::pattern;

/// Bytes of a piece where the URL does not say it.
const PIECE_LEN: u64 = 1024;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces {
    position: u64,
    end: u64,
    piece: u64,
    is_chunked: bool,
    /// It ends before the body does.
    is_cut: bool,
    /// How long to wait after each piece.
    pub(super) pause: Duration,
}

impl Pieces {
    /// A body of `len` bytes, in chunks of this many bytes or as it is.
    pub(super) fn new(len: u64, chunk: Option<u64>, pause: Duration) -> Self {
        let piece = chunk.unwrap_or(PIECE_LEN);
        Self { position: 0, end: len, piece, is_chunked: chunk.is_some(), is_cut: false, pause }
    }

    /// The first half of it.
    pub(super) fn cut(self) -> Self {
        Self { end: self.end / 2, is_cut: true, ..self }
    }

    /// Appends the next piece; says whether it was the last.
    pub(super) fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        let len = self.piece.min(self.end - self.position).min(pattern::RUN_MAX as u64);
        if len > 0 {
            if self.is_chunked {
                write!(out, "{len:x}\r\n").expect("a Vec takes every write");
            }
            out.extend_from_slice(pattern::run(self.position, len as usize));
            if self.is_chunked {
                out.extend_from_slice(b"\r\n");
            }
            self.position += len;
        }
        let is_last = self.position == self.end;
        if is_last && self.is_chunked && !self.is_cut {
            out.extend_from_slice(b"0\r\n\r\n");
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use super::Pieces;
    use crate::wire::pattern;
    use std::time::Duration;

    fn all(mut pieces: Pieces) -> (usize, Vec<u8>) {
        let (mut out, mut count) = (Vec::new(), 1);
        while !pieces.write_next(&mut out) {
            count += 1;
        }
        (count, out)
    }

    #[test]
    fn chunks_have_their_lengths_and_an_end() {
        let run = pattern::run(0, 5);
        let expected = [b"3\r\n", &run[..3], b"\r\n2\r\n", &run[3..], b"\r\n0\r\n\r\n"].concat();
        assert_eq!(all(Pieces::new(5, Some(3), Duration::ZERO)), (2, expected));
        assert_eq!(all(Pieces::new(0, Some(3), Duration::ZERO)), (1, b"0\r\n\r\n".to_vec()));
    }

    #[test]
    fn a_cut_body_has_neither_its_second_half_nor_an_end() {
        let (_, out) = all(Pieces::new(10, Some(100), Duration::ZERO).cut());
        assert_eq!(out, [b"5\r\n", pattern::run(0, 5), b"\r\n"].concat());
        let (count, out) = all(Pieces::new(6000, None, Duration::ZERO).cut());
        assert_eq!((count, out.as_slice()), (3, pattern::run(0, 3000)));
    }
}
