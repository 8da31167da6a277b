//! Whether a body follows a head, and how long it is, by the head alone (RFC 9110 section 8.6).
//!
//! How the end of a body of unknown length is found is the affair of the protocol.

/// Length of the body behind a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyLength {
    /// There is no body.
    #[default]
    None,
    /// The body has this many bytes, at least one.
    Known(u64),
    /// There is a body, which may be empty, and its end comes when it comes.
    Unknown,
}

impl BodyLength {
    /// The length by the Content-Length; `is_open`: a body follows even without one.
    #[inline]
    pub(crate) const fn of(content_length: Option<u64>, is_open: bool) -> BodyLength {
        match content_length {
            None if is_open => BodyLength::Unknown,
            None | Some(0) => BodyLength::None,
            Some(length) => BodyLength::Known(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BodyLength;

    #[test]
    fn a_length_that_is_announced_counts_first() {
        let rows = [
            (None, false, BodyLength::None),
            (None, true, BodyLength::Unknown),
            (Some(0), false, BodyLength::None),
            (Some(0), true, BodyLength::None),
            (Some(5), false, BodyLength::Known(5)),
            (Some(5), true, BodyLength::Known(5)),
        ];
        for (content_length, is_open, expected) in rows {
            assert_eq!(BodyLength::of(content_length, is_open), expected, "{content_length:?} {is_open}");
        }
    }
}
