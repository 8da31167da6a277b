//! The frames of HTTP/2 (RFC 9113 sections 4 and 6): header, types, flags and error codes.
//!
//! A frame is nine bytes of header and its payload. Must not know streams.

/// Bytes of the header of a frame (RFC 9113 section 4.1).
pub const FRAME_HEADER_BYTES: usize = 9;

/// The payload that every endpoint takes, and the most that Weir takes (RFC 9113 section 4.2).
pub const FRAME_BYTES_MAX: usize = 16_384;

/// What a client sends first (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The greatest size of a window, and the greatest number of a stream.
pub(super) const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The types of frames that Weir knows; others are skipped (RFC 9113 section 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameType {
    Data = 0,
    Headers = 1,
    Priority = 2,
    RstStream = 3,
    Settings = 4,
    PushPromise = 5,
    Ping = 6,
    GoAway = 7,
    WindowUpdate = 8,
    Continuation = 9,
    /// RFC 9218 section 7.1
    PriorityUpdate = 16,
}

impl FrameType {
    /// The type with this number.
    pub(super) const fn new(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::RstStream,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            16 => Self::PriorityUpdate,
            _ => return None,
        })
    }
}

/// The flags that mean something (RFC 9113 section 6).
pub(super) mod flag {
    /// On DATA and HEADERS.
    pub(in crate::h2) const END_STREAM: u8 = 0x1;
    /// On SETTINGS and PING.
    pub(in crate::h2) const ACK: u8 = 0x1;
    /// On HEADERS and CONTINUATION.
    pub(in crate::h2) const END_HEADERS: u8 = 0x4;
    /// On DATA and HEADERS.
    pub(in crate::h2) const PADDED: u8 = 0x8;
    /// On HEADERS.
    pub(in crate::h2) const PRIORITY: u8 = 0x20;
}

/// Declares [`ErrorCode`] with the names of the RFC.
macro_rules! error_codes {
    ($($name:ident $number:literal $text:literal,)+) => {
        /// Why a stream or a connection ends (RFC 9113 section 7); any number may arrive.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct ErrorCode(pub u32);

        impl ErrorCode {
            $(#[doc = concat!("`", $text, "`")] pub const $name: Self = Self($number);)+

            /// The name of the code; `None` for one that the RFC does not define.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)+
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    NO_ERROR 0 "NO_ERROR",
    PROTOCOL_ERROR 1 "PROTOCOL_ERROR",
    INTERNAL_ERROR 2 "INTERNAL_ERROR",
    FLOW_CONTROL_ERROR 3 "FLOW_CONTROL_ERROR",
    SETTINGS_TIMEOUT 4 "SETTINGS_TIMEOUT",
    STREAM_CLOSED 5 "STREAM_CLOSED",
    FRAME_SIZE_ERROR 6 "FRAME_SIZE_ERROR",
    REFUSED_STREAM 7 "REFUSED_STREAM",
    CANCEL 8 "CANCEL",
    COMPRESSION_ERROR 9 "COMPRESSION_ERROR",
    CONNECT_ERROR 10 "CONNECT_ERROR",
    ENHANCE_YOUR_CALM 11 "ENHANCE_YOUR_CALM",
    INADEQUATE_SECURITY 12 "INADEQUATE_SECURITY",
    HTTP_1_1_REQUIRED 13 "HTTP_1_1_REQUIRED",
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Bytes of the payload, below 2^24.
    pub(super) len: u32,
    pub(super) number: u8,
    pub(super) flags: u8,
    /// The stream, or 0 for the connection; without the reserved bit.
    pub(super) stream: u32,
}

impl FrameHeader {
    /// A frame of a known type.
    pub(super) const fn new(len: usize, frame_type: FrameType, flags: u8, stream: u32) -> Self {
        debug_assert!(len < 1 << 24);
        Self { len: len as u32, number: frame_type as u8, flags, stream }
    }

    /// The header at the front of `bytes`; `None` while it is not whole.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, number, flags, d, e, f, g] = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
        Some(Self {
            len: u32::from_be_bytes([0, a, b, c]),
            number,
            flags,
            stream: u32::from_be_bytes([d, e, f, g]) & WINDOW_MAX,
        })
    }

    /// The nine bytes.
    #[inline]
    pub(super) const fn bytes(self) -> [u8; FRAME_HEADER_BYTES] {
        let [_, a, b, c] = self.len.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.number, self.flags, d, e, f, g]
    }

    /// Appends the nine bytes.
    #[inline]
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    pub(super) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends RST_STREAM (RFC 9113 section 6.4).
pub(super) fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    FrameHeader::new(4, FrameType::RstStream, 0, stream).write(out);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends WINDOW_UPDATE (RFC 9113 section 6.9); stream 0 is the connection.
pub(super) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    debug_assert!(increment > 0 && increment <= WINDOW_MAX);
    FrameHeader::new(4, FrameType::WindowUpdate, 0, stream).write(out);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Appends PING (RFC 9113 section 6.7), or the acknowledgement of one.
pub(super) fn write_ping(out: &mut Vec<u8>, payload: [u8; 8], is_ack: bool) {
    FrameHeader::new(8, FrameType::Ping, if is_ack { flag::ACK } else { 0 }, 0).write(out);
    out.extend_from_slice(&payload);
}

/// Appends GOAWAY (RFC 9113 section 6.8) without debug data.
pub(super) fn write_go_away(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode) {
    FrameHeader::new(8, FrameType::GoAway, 0, 0).write(out);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_is_written() {
        let header = FrameHeader { len: 0x01_02_03, number: 9, flags: 0x25, stream: 0x7fff_fffe };
        let bytes = header.bytes();
        assert_eq!(bytes, [1, 2, 3, 9, 0x25, 0x7f, 0xff, 0xff, 0xfe]);
        assert_eq!(FrameHeader::read(&bytes), Some(header));
        assert_eq!(FrameHeader::read(&bytes[..8]), None);
        let reserved = [0, 0, 0, 0, 0, 0x80, 0, 0, 1];
        assert_eq!(FrameHeader::read(&reserved).unwrap().stream, 1, "the reserved bit is ignored");
    }

    #[test]
    fn codes_have_the_names_of_the_rfc() {
        assert_eq!(ErrorCode::ENHANCE_YOUR_CALM.name(), Some("ENHANCE_YOUR_CALM"));
        assert_eq!(ErrorCode(14).name(), None);
    }

    #[test]
    fn types_keep_their_numbers() {
        for number in 0..=u8::MAX {
            assert!(FrameType::new(number).is_none_or(|known| known as u8 == number), "{number}");
        }
    }
}
