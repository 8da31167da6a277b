//! The settings of HTTP/3 (RFC 9114 section 7.2.4), QPACK (RFC 9204 section 5) and extended CONNECT (RFC 9220).

use super::fault::{Http3Code, Http3Fault};
use super::frame::{frame_type, reserved_number, write_frame_head};
use super::varint::{read_varint, write_varint};
use crate::message::rule::Rule;

/// Most settings of a frame.
const SETTINGS_MAX: usize = 32;

/// Most bytes of a SETTINGS frame: as many as its settings can have.
pub(super) const SETTINGS_BYTES_MAX: u64 = (SETTINGS_MAX * 16) as u64;

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
/// RFC 9297 section 2.1.1. Datagrams are not used; only a value that cannot be is a fault.
const DATAGRAM: u64 = 0x33;

/// What one endpoint allows the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Http3Settings {
    /// Bytes of the dynamic table that it keeps for what it receives.
    pub qpack_max_table_capacity: u64,
    /// Streams that may wait for the dynamic table at once.
    pub qpack_blocked_streams: u64,
    /// The largest head that it takes; advice only. `None` when it says nothing.
    pub max_field_section_size: Option<u64>,
    /// Whether it takes extended CONNECT.
    pub enable_connect_protocol: bool,
}

impl Http3Settings {
    /// Appends the frame: what differs from the values at first, and a setting that means nothing when `grease` gives a number for it.
    pub(super) fn write(&self, grease: Option<u64>, out: &mut Vec<u8>) {
        let own = [
            Some((QPACK_MAX_TABLE_CAPACITY, self.qpack_max_table_capacity)).filter(|(_, value)| *value > 0),
            self.max_field_section_size.map(|bytes| (MAX_FIELD_SECTION_SIZE, bytes)),
            Some((QPACK_BLOCKED_STREAMS, self.qpack_blocked_streams)).filter(|(_, value)| *value > 0),
            self.enable_connect_protocol.then_some((ENABLE_CONNECT_PROTOCOL, 1)),
            grease.map(|random| (reserved_number(random), random % 64)),
        ];
        let mut payload = Vec::with_capacity(32);
        for (number, value) in own.into_iter().flatten() {
            write_varint(&mut payload, number);
            write_varint(&mut payload, value);
        }
        write_frame_head(out, frame_type::SETTINGS, payload.len() as u64);
        out.extend_from_slice(&payload);
    }

    /// The settings of a received frame.
    ///
    /// # Errors
    /// The fault of the connection: a setting that is not allowed, twice the same, or too many.
    pub(super) fn read(payload: &[u8]) -> Result<Self, Http3Fault> {
        let mut settings = Self::default();
        let mut seen = [0; SETTINGS_MAX];
        let mut count = 0;
        let mut rest = payload;
        while !rest.is_empty() {
            let (number, len) = read_varint(rest).ok_or(Http3Fault::bad_frame())?;
            let (value, value_len) = read_varint(&rest[len..]).ok_or(Http3Fault::bad_frame())?;
            rest = &rest[len + value_len..];
            if seen[..count].contains(&number) {
                return Err(bad_setting());
            }
            *seen.get_mut(count).ok_or(Http3Fault::excessive_load(Rule::Http3TooManySettings))? = number;
            count += 1;
            settings.set(number, value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, number: u64, value: u64) -> Result<(), Http3Fault> {
        match (number, value) {
            // They had a meaning in HTTP/2 (RFC 9114 section 7.2.4.1).
            (0x0 | 0x2..=0x5, _) | (ENABLE_CONNECT_PROTOCOL | DATAGRAM, 2..) => return Err(bad_setting()),
            (QPACK_MAX_TABLE_CAPACITY, _) => self.qpack_max_table_capacity = value,
            (MAX_FIELD_SECTION_SIZE, _) => self.max_field_section_size = Some(value),
            (QPACK_BLOCKED_STREAMS, _) => self.qpack_blocked_streams = value,
            (ENABLE_CONNECT_PROTOCOL, _) => self.enable_connect_protocol = value == 1,
            // Unknown ones are ignored.
            _ => {}
        }
        Ok(())
    }
}

const fn bad_setting() -> Http3Fault {
    Http3Fault::connection(Http3Code::SETTINGS_ERROR, Rule::Http3BadSetting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(settings: &[(u64, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, value) in settings {
            write_varint(&mut out, *number);
            write_varint(&mut out, *value);
        }
        out
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        let own = Http3Settings {
            qpack_max_table_capacity: 4_096,
            qpack_blocked_streams: 16,
            max_field_section_size: Some(32_768),
            enable_connect_protocol: true,
        };
        for (settings, grease) in [(own, None), (own, Some(u64::MAX)), (Http3Settings::default(), None)] {
            let mut out = Vec::new();
            settings.write(grease, &mut out);
            assert_eq!((out[0], usize::from(out[1])), (4, out.len() - 2));
            assert_eq!(Http3Settings::read(&out[2..]), Ok(settings));
        }
    }

    #[test]
    fn settings_that_are_faults() {
        let rows: &[(&[(u64, u64)], Http3Code)] = &[
            (&[(0, 0)], Http3Code::SETTINGS_ERROR),
            (&[(2, 0)], Http3Code::SETTINGS_ERROR),
            (&[(3, 100)], Http3Code::SETTINGS_ERROR),
            (&[(4, 65_535)], Http3Code::SETTINGS_ERROR),
            (&[(5, 16_384)], Http3Code::SETTINGS_ERROR),
            (&[(8, 2)], Http3Code::SETTINGS_ERROR),
            (&[(0x33, 2)], Http3Code::SETTINGS_ERROR),
            (&[(1, 0), (6, 1), (1, 0)], Http3Code::SETTINGS_ERROR),
            (&[(0x21, 0), (0x21, 1)], Http3Code::SETTINGS_ERROR),
        ];
        for (settings, code) in rows {
            assert_eq!(Http3Settings::read(&payload(settings)).map_err(Http3Fault::code), Err(*code));
        }
        let many: Vec<_> = (0..SETTINGS_MAX as u64).map(|number| (number + 100, 0)).collect();
        assert!(Http3Settings::read(&payload(&many)).is_ok());
        let many: Vec<_> = (0..=SETTINGS_MAX as u64).map(|number| (number + 100, 0)).collect();
        assert_eq!(
            Http3Settings::read(&payload(&many)).map_err(Http3Fault::rule),
            Err(Rule::Http3TooManySettings)
        );
        for cut in [&[0x01][..], &[0x40], &[0x01, 0x40], &[0x06, 0x00, 0x07]] {
            assert_eq!(Http3Settings::read(cut), Err(Http3Fault::bad_frame()));
        }
    }
}
