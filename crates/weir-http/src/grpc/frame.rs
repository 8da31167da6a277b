//! Length-prefixed messages: counted in a body as it passes (`PROTOCOL-HTTP2.md`, Requests).
//!
//! Only prefixes are looked at: one byte of flags and four of length, before each message. Nothing is kept of the messages.

/// Bytes before each message: flags, and the length of the message.
pub const MESSAGE_PREFIX_BYTES: usize = 5;

/// The flag of a frame that holds the trailers of gRPC-Web (`PROTOCOL-WEB.md`, Message framing).
pub(super) const TRAILERS_FLAG: u8 = 0x80;

/// The Compressed-Flag of a message.
const COMPRESSED_FLAG: u8 = 0x01;

/// Follows the messages in one body of gRPC or of gRPC-Web in bytes.
///
/// ```
/// use weir_http::grpc::MessageObserver;
///
/// let mut messages = MessageObserver::default();
/// messages.observe(b"\0\0\0\0\x02hi\0\0\0");
/// assert_eq!((messages.count(), messages.is_at_boundary()), (1, false));
/// messages.observe(b"\0\0");
/// assert_eq!((messages.count(), messages.is_at_boundary()), (2, true));
/// ```
#[derive(Debug, Clone, Default)]
pub struct MessageObserver {
    count: u64,
    state: FrameState,
}

/// Where in the body the next byte lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FrameState {
    /// At the first byte of a prefix, which holds the flags.
    #[default]
    Flags,
    /// In the length: the `read` bytes that have arrived say `len`.
    Length { kind: FrameKind, len: u32, read: u8 },
    /// Behind a prefix, with `left` bytes of the frame missing, at least one.
    Content { kind: FrameKind, left: u32 },
    /// Behind flags that are none of gRPC.
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    Message,
    /// The trailers of gRPC-Web, which are not counted.
    Trailers,
}

impl MessageObserver {
    /// Number of messages that have passed to their last byte.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the body may end here: before the first frame, or right behind one.
    #[inline]
    pub fn is_at_boundary(&self) -> bool {
        self.state == FrameState::Flags
    }

    /// Whether the body has flags that are none of gRPC. Nothing is counted from there on, and no boundary is found.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.state == FrameState::Broken
    }

    /// Follows the next bytes of the body.
    pub fn observe(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let [byte, tail @ ..] = rest {
            rest = tail;
            self.state = match self.state {
                FrameState::Flags => match byte & !COMPRESSED_FLAG {
                    0 => FrameState::Length { kind: FrameKind::Message, len: 0, read: 0 },
                    TRAILERS_FLAG => FrameState::Length { kind: FrameKind::Trailers, len: 0, read: 0 },
                    _ => FrameState::Broken,
                },
                FrameState::Length { kind, len, read } => {
                    let len = len << 8 | u32::from(*byte);
                    if usize::from(read) + 2 < MESSAGE_PREFIX_BYTES {
                        FrameState::Length { kind, len, read: read + 1 }
                    } else {
                        self.content(kind, len)
                    }
                }
                FrameState::Content { kind, left } => {
                    // This byte, and those of the same frame behind it.
                    let more = usize::try_from(left - 1).map_or(tail.len(), |more| more.min(tail.len()));
                    rest = &tail[more..];
                    self.content(kind, left - 1 - more as u32)
                }
                FrameState::Broken => return,
            };
        }
    }

    /// The state with `left` bytes of a frame missing.
    fn content(&mut self, kind: FrameKind, left: u32) -> FrameState {
        if left > 0 {
            return FrameState::Content { kind, left };
        }
        self.count += u64::from(kind == FrameKind::Message);
        FrameState::Flags
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    /// Count, boundary, broken.
    type Outcome = (u64, bool, bool);

    fn outcome(pieces: &[&[u8]]) -> Outcome {
        let mut messages = MessageObserver::default();
        pieces.iter().for_each(|piece| messages.observe(piece));
        (messages.count(), messages.is_at_boundary(), messages.is_broken())
    }

    /// The same, found frame by frame in the whole body.
    fn naive(body: &[u8]) -> Outcome {
        let (mut rest, mut count) = (body, 0);
        while let [flags, tail @ ..] = rest {
            if flags & 0x7e != 0 {
                return (count, false, true);
            }
            let Some((len, tail)) = tail.split_first_chunk() else { return (count, false, false) };
            let Some((_, tail)) = tail.split_at_checked(u32::from_be_bytes(*len) as usize) else {
                return (count, false, false);
            };
            count += u64::from(flags & 0x80 == 0);
            rest = tail;
        }
        (count, true, false)
    }

    #[test]
    fn bodies() {
        let rows: [(&[u8], Outcome); 15] = [
            (b"", (0, true, false)),
            (b"\0", (0, false, false)),
            (b"\0\0\0\0", (0, false, false)),
            (b"\0\0\0\0\0", (1, true, false)),
            (b"\x01\0\0\0\0", (1, true, false)),
            (b"\0\0\0\0\x01", (0, false, false)),
            (b"\0\0\0\0\x01x", (1, true, false)),
            (b"\0\0\0\0\x01x\0", (1, false, false)),
            (b"\0\0\0\0\x01x\0\0\0\0\0", (2, true, false)),
            (b"\0\xff\xff\xff\xffx", (0, false, false)),
            (b"\0\0\0\0\0\x80\0\0\0\x02\r\n", (1, true, false)),
            (b"\x81\0\0\0\0", (0, true, false)),
            (b"\x02\0\0\0\0", (0, false, true)),
            (b"\0\0\0\0\0\xff\0\0\0\0", (1, false, true)),
            (b"<html></html>", (0, false, true)),
        ];
        for (body, expected) in rows {
            assert_eq!(outcome(&[body]), expected, "{body:?}");
            let bytes: Vec<_> = body.chunks(1).collect();
            assert_eq!(outcome(&bytes), expected, "{body:?}");
        }
        for flags in 0..=255 {
            assert_eq!(outcome(&[&[flags, 0, 0, 0, 0]]).2, !matches!(flags, 0 | 1 | 0x80 | 0x81), "{flags}");
        }
    }

    #[test]
    fn a_length_is_big_endian() {
        for (prefix, len) in [([0, 0, 1, 0], 0x100), ([0, 1, 0, 2], 0x1_0002), ([1, 0, 0, 0], 0x100_0000)] {
            let mut messages = MessageObserver::default();
            messages.observe(&[0]);
            messages.observe(&prefix);
            messages.observe(&vec![0xff; len - 1]);
            assert_eq!((messages.count(), messages.is_at_boundary()), (0, false));
            messages.observe(&[0xff]);
            assert_eq!((messages.count(), messages.is_at_boundary()), (1, true));
        }
    }

    proptest! {
        #[test]
        fn any_way_of_cutting_gives_the_same_outcome(
            frames in vec((0..4_usize, vec(any::<u8>(), 0..300)), 0..8),
            cut in 0..40_usize,
            junk in vec(any::<u8>(), 0..3),
            cuts in vec(0..400_usize, 0..12),
        ) {
            let mut body = Vec::new();
            for (flags, content) in &frames {
                body.push([0, 1, 0x80, 0x81][*flags]);
                body.extend_from_slice(&(content.len() as u32).to_be_bytes());
                body.extend_from_slice(content);
            }
            body.truncate(body.len().saturating_sub(cut.saturating_sub(20)));
            body.extend_from_slice(&junk);
            let (mut pieces, mut rest) = (Vec::new(), &body[..]);
            for len in cuts {
                let (piece, tail) = rest.split_at(len.min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            pieces.push(rest);
            prop_assert_eq!(outcome(&pieces), naive(&body));
            prop_assert_eq!(outcome(&body.chunks(1).collect::<Vec<_>>()), naive(&body));
        }
    }
}
