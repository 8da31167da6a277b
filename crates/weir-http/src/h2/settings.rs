//! SETTINGS (RFC 9113 section 6.5): what an endpoint says about itself.

use super::fault::ConnectionFault;
use super::frame::{ErrorCode, FRAME_BYTES_MAX, FrameHeader, FrameType, WINDOW_MAX, flag};
use crate::message::rule::Rule;

/// Settings in one frame; more is an attack (CVE-2019-9515). There are eight.
const SETTINGS_MAX: usize = 32;

/// Bytes of one setting.
const SETTING_BYTES: usize = 6;

/// The windows of connections and streams at first (RFC 9113 section 6.9.2).
pub const INITIAL_WINDOW: u32 = 65_535;

/// The settings of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the HPACK table that it keeps for what it receives.
    pub header_table_size: u32,
    /// Whether it takes pushed responses.
    pub enable_push: bool,
    /// Streams that the other endpoint may have open at once.
    pub max_concurrent_streams: u32,
    /// The window of each stream that it receives on, in bytes.
    pub initial_window_size: u32,
    /// The largest payload of a frame that it takes.
    pub max_frame_size: u32,
    /// The largest head that it takes; advice only.
    pub max_header_list_size: u32,
    /// Whether it takes extended CONNECT (RFC 8441 section 3).
    pub enable_connect_protocol: bool,
    /// Whether it ignores the priorities of RFC 7540 (RFC 9218 section 2.1).
    pub no_rfc7540_priorities: bool,
}

impl Default for Settings {
    /// The values before any were received.
    fn default() -> Self {
        Self {
            header_table_size: 4_096,
            enable_push: true,
            max_concurrent_streams: u32::MAX,
            initial_window_size: INITIAL_WINDOW,
            max_frame_size: FRAME_BYTES_MAX as u32,
            max_header_list_size: u32::MAX,
            enable_connect_protocol: false,
            no_rfc7540_priorities: false,
        }
    }
}

impl Settings {
    /// The settings by their numbers.
    fn numbered(&self) -> [(u16, u32); 8] {
        [
            (1, self.header_table_size),
            (2, self.enable_push.into()),
            (3, self.max_concurrent_streams),
            (4, self.initial_window_size),
            (5, self.max_frame_size),
            (6, self.max_header_list_size),
            (8, self.enable_connect_protocol.into()),
            (9, self.no_rfc7540_priorities.into()),
        ]
    }

    /// Appends the frame: what differs from the values at first.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let at_first = Self::default().numbered();
        let changed = || self.numbered().into_iter().zip(at_first).filter(|(own, first)| own != first);
        let len = changed().count() * SETTING_BYTES;
        FrameHeader::new(len, FrameType::Settings, 0, 0).write(out);
        for ((number, value), _) in changed() {
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
    }

    /// Takes over the settings of a received frame, one after the other.
    ///
    /// # Errors
    /// The fault of the connection: a value that is not allowed, or too many.
    pub(super) fn apply(&mut self, payload: &[u8]) -> Result<(), ConnectionFault> {
        if payload.len() > SETTINGS_MAX * SETTING_BYTES {
            return Err(ConnectionFault::calm(Rule::Http2TooManySettings));
        }
        let (settings, []) = payload.as_chunks::<SETTING_BYTES>() else {
            return Err(ConnectionFault::frame_size());
        };
        settings.iter().try_for_each(|&[a, b, c, d, e, f]| {
            self.set(u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))
        })
    }

    fn set(&mut self, number: u16, value: u32) -> Result<(), ConnectionFault> {
        let bad = |code| Err(ConnectionFault { code, rule: Rule::Http2BadSetting });
        match (number, value) {
            (2 | 8 | 9, 2..) => return bad(ErrorCode::PROTOCOL_ERROR),
            (4, _) if value > WINDOW_MAX => return bad(ErrorCode::FLOW_CONTROL_ERROR),
            (5, _) if !(FRAME_BYTES_MAX as u32..1 << 24).contains(&value) => {
                return bad(ErrorCode::PROTOCOL_ERROR);
            }
            (1, _) => self.header_table_size = value,
            (2, _) => self.enable_push = value == 1,
            (3, _) => self.max_concurrent_streams = value,
            (4, _) => self.initial_window_size = value,
            (5, _) => self.max_frame_size = value,
            (6, _) => self.max_header_list_size = value,
            (8, _) => self.enable_connect_protocol = value == 1,
            (9, _) => self.no_rfc7540_priorities = value == 1,
            // Unknown ones are ignored (RFC 9113 section 6.5.2).
            _ => {}
        }
        Ok(())
    }
}

/// Appends the acknowledgement of received settings.
pub(super) fn write_ack(out: &mut Vec<u8>) {
    FrameHeader::new(0, FrameType::Settings, flag::ACK, 0).write(out);
}

#[cfg(test)]
mod tests {
    use super::super::frame::FRAME_HEADER_BYTES;
    use super::*;

    fn setting(number: u16, value: u32) -> Vec<u8> {
        [&number.to_be_bytes()[..], &value.to_be_bytes()[..]].concat()
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        let own = Settings {
            header_table_size: 0,
            enable_push: false,
            max_concurrent_streams: 128,
            initial_window_size: 1 << 20,
            max_frame_size: 1 << 20,
            max_header_list_size: 32_768,
            enable_connect_protocol: true,
            no_rfc7540_priorities: true,
        };
        let mut out = Vec::new();
        own.write(&mut out);
        assert_eq!(out.len(), FRAME_HEADER_BYTES + 8 * SETTING_BYTES);
        let mut read = Settings::default();
        read.apply(&out[FRAME_HEADER_BYTES..]).unwrap();
        assert_eq!(read, own);

        out.clear();
        Settings::default().write(&mut out);
        assert_eq!(out.len(), FRAME_HEADER_BYTES, "what is so at first is not said");
    }

    #[test]
    fn values_are_checked() {
        let rows = [
            (2, 2, Some(ErrorCode::PROTOCOL_ERROR)),
            (4, 1 << 31, Some(ErrorCode::FLOW_CONTROL_ERROR)),
            (5, 16_383, Some(ErrorCode::PROTOCOL_ERROR)),
            (5, 1 << 24, Some(ErrorCode::PROTOCOL_ERROR)),
            (8, 2, Some(ErrorCode::PROTOCOL_ERROR)),
            (4, WINDOW_MAX, None),
            (5, (1 << 24) - 1, None),
            (7, 77, None),
            (0xffff, 1, None),
        ];
        for (number, value, code) in rows {
            let applied = Settings::default().apply(&setting(number, value));
            assert_eq!(applied.err().map(|fault| fault.code), code, "{number} {value}");
        }
    }

    #[test]
    fn the_last_of_several_values_holds_and_there_may_not_be_too_many() {
        let mut settings = Settings::default();
        settings.apply(&[setting(4, 1), setting(4, 2)].concat()).unwrap();
        assert_eq!(settings.initial_window_size, 2);
        assert!(settings.apply(&setting(7, 0).repeat(SETTINGS_MAX)).is_ok());
        let fault = settings.apply(&setting(7, 0).repeat(SETTINGS_MAX + 1)).unwrap_err();
        assert_eq!(fault.code, ErrorCode::ENHANCE_YOUR_CALM);
        assert_eq!(settings.apply(&[0; 7]).unwrap_err().code, ErrorCode::FRAME_SIZE_ERROR);
    }
}
