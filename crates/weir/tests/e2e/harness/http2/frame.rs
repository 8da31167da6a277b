//! Frames as bytes (RFC 9113 section 4.1), and the numbers that they hold.

/// What a client begins with (RFC 9113 section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const WITH_PRIORITY: u8 = 32;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const FLOW_CONTROL_ERROR: u32 = 3;
pub(crate) const SETTINGS_TIMEOUT: u32 = 4;
pub(crate) const STREAM_CLOSED: u32 = 5;
pub(crate) const FRAME_SIZE_ERROR: u32 = 6;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const HTTP_1_1_REQUIRED: u32 = 13;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const COMPRESSION_ERROR: u32 = 9;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// Settings by their numbers (RFC 9113 section 6.5.2, RFC 8441 section 3).
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 8;

/// Windows at first, and the greatest payload that every endpoint takes.
pub(crate) const WINDOW: i64 = 65_535;
pub(crate) const PAYLOAD_MAX: usize = 16_384;

/// A whole frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![len[1], len[2], len[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// RST_STREAM.
pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// WINDOW_UPDATE; stream 0 is the connection.
pub(crate) fn window_update(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

/// SETTINGS, as numbers and values.
pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = values
        .iter()
        .flat_map(|(number, value)| [&number.to_be_bytes()[..], &value.to_be_bytes()[..]].concat())
        .collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// PRIORITY_UPDATE (RFC 9218 section 7.1).
pub(crate) fn priority_update(stream: u32, value: &str) -> Vec<u8> {
    frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], value.as_bytes()].concat())
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHeader {
    /// Bytes of a header.
    pub(crate) const LEN: usize = 9;

    /// The header at the front of `bytes`.
    pub(crate) fn read(bytes: &[u8]) -> Option<FrameHeader> {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes.first_chunk::<{ FrameHeader::LEN }>()?;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(FrameHeader { len, kind, flags, stream: u32::from_be_bytes([d, e, f, g]) })
    }

    /// Whether this flag is set.
    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The number at the front of a payload.
pub(crate) fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
