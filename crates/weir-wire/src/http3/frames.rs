//! Bytes of one stream to frames (RFC 9114 section 7); the payload of DATA as it comes, that of others when it is whole.

pub(super) const DATA: u64 = 0;
pub(super) const HEADERS: u64 = 1;
pub(super) const CANCEL_PUSH: u64 = 3;
pub(super) const SETTINGS: u64 = 4;
pub(super) const PUSH_PROMISE: u64 = 5;
pub(super) const GOAWAY: u64 = 7;
pub(super) const MAX_PUSH_ID: u64 = 0xd;
/// Types of HTTP/2 that may not be used (RFC 9114 section 7.2.8).
pub(super) const OF_HTTP2: [u64; 4] = [2, 6, 8, 9];

/// A frame, or a part of the payload of DATA.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CutFrame {
    Data(Vec<u8>),
    Other(u64, Vec<u8>),
}

/// Bytes of a stream that are not gone through.
#[derive(Debug, Default)]
pub(super) struct FrameCutter {
    rest: Vec<u8>,
    data_left: u64,
}

impl FrameCutter {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next frame, or part of one, as far as it came.
    pub(super) fn next(&mut self) -> Option<CutFrame> {
        if self.data_left > 0 {
            let len = self.rest.len().min(usize::try_from(self.data_left).unwrap_or(usize::MAX));
            self.data_left -= len as u64;
            return (len > 0).then(|| CutFrame::Data(self.rest.drain(..len).collect()));
        }
        let mut at = 0;
        let kind = varint(&self.rest, &mut at)?;
        let len = varint(&self.rest, &mut at)?;
        if kind == DATA {
            self.rest.drain(..at);
            self.data_left = len;
            return Some(CutFrame::Data(Vec::new()));
        }
        let end = at.checked_add(usize::try_from(len).ok()?)?;
        let payload = self.rest.get(at..end)?.to_vec();
        self.rest.drain(..end);
        Some(CutFrame::Other(kind, payload))
    }

    /// Whether no frame has begun that is not whole.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty() && self.data_left == 0
    }
}

/// An integer of variable length (RFC 9000 section 16), from `at` on.
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    let len = 1 << (first >> 6);
    let all = bytes.get(*at..*at + len)?;
    *at += len;
    Some(all[1..].iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte)))
}
