//! Frames as bytes (RFC 9113 section 4.1).

/// What a client begins with (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const WITH_PRIORITY: u8 = 32;

/// A whole frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut bytes = vec![len[1], len[2], len[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of its payload.
    pub len: usize,
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
}

impl FrameHeader {
    /// Bytes of a header.
    pub const LEN: usize = 9;

    /// The header at the front of `bytes`, if it is there.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes.first_chunk::<{ Self::LEN }>()?;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(Self { len, kind, flags, stream: u32::from_be_bytes([d, e, f, g]) })
    }

    /// Whether this flag is set.
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The payload of a frame without its padding, if it has any (RFC 9113 section 6.1).
pub(super) fn without_padding(header: FrameHeader, payload: &[u8]) -> Result<&[u8], String> {
    if !header.has(PADDED) {
        return Ok(payload);
    }
    let (len, rest) = payload.split_first().ok_or_else(|| format!("padded, and empty: {header:?}"))?;
    let end = rest.len().checked_sub(usize::from(*len));
    end.map(|end| &rest[..end]).ok_or_else(|| format!("more padding than payload: {header:?}"))
}
