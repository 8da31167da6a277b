//! Where a piece of a head lies in the bytes it was parsed from.
//!
//! Parsers hand out spans instead of slices, so that a parsed head can live beside the buffer it describes.
//! A span is only meaningful together with the text it was made for; it never owns or copies bytes.

use std::ops::Range;

/// A range of bytes in the text of one head: 8 bytes, `Copy`, without a lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TextSpan {
    /// Index of the first byte.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl TextSpan {
    /// The span of the bytes `start..end`; both lie in a head, and a head is never larger than 4 GiB.
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> TextSpan {
        debug_assert!(start <= end && end <= u32::MAX as usize, "a head is bounded far below 4 GiB");
        TextSpan { start: start as u32, len: (end - start) as u32 }
    }

    /// The bytes of this span. A span that does not fit `bytes` (made for another text) gives an empty slice.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.range()).unwrap_or_default()
    }

    /// The span as a range of indices.
    #[inline]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end()
    }

    /// Index after the last byte.
    #[inline]
    pub const fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// Whether the span holds no bytes.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::TextSpan;

    #[test]
    fn a_span_of_another_text_is_empty_rather_than_wrong() {
        let span = TextSpan::new(2, 5);
        assert_eq!((span.range(), span.end(), span.is_empty()), (2..5, 5, false));
        assert_eq!(span.of(b"abcdef"), b"cde");
        assert_eq!(span.of(b"abcd"), b"");
        assert_eq!(TextSpan { start: u32::MAX, len: u32::MAX }.of(b"abcd"), b"");
        assert_eq!(size_of::<TextSpan>(), 8);
    }
}
