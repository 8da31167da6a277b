//! A line as a syslog message (RFC 5424), ready to be sent as one datagram (RFC 5426) or written to a local socket.
//!
//! Pure: host name and process id are given by the caller, once.

use super::timestamp::UnixMicros;

/// The most bytes of a message: one UDP datagram over IPv4 (RFC 5426 section 3.2).
pub const MESSAGE_MAX: usize = 65_507;

/// The sender of a message (RFC 5424 section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Facility {
    /// User-level messages.
    User = 1,
    /// System daemons.
    Daemon = 3,
    /// Local use 0.
    Local0 = 16,
    /// Local use 1.
    Local1 = 17,
    /// Local use 2.
    Local2 = 18,
    /// Local use 3.
    Local3 = 19,
    /// Local use 4.
    Local4 = 20,
    /// Local use 5.
    Local5 = 21,
    /// Local use 6.
    Local6 = 22,
    /// Local use 7.
    Local7 = 23,
}

/// How bad it is (RFC 5424 section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Severity {
    /// Errors: a defect of Weir.
    Error = 3,
    /// Warnings: an exchange that failed on the side of a server or of Weir.
    Warning = 4,
    /// Notices.
    Notice = 5,
    /// Ordinary messages.
    Informational = 6,
    /// Details.
    Debug = 7,
}

/// The part of a message that is the same for all lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyslogFraming {
    facility: Facility,
    /// ` HOSTNAME APP-NAME PROCID MSGID - `, from the space after the timestamp to the one before the message.
    header: Box<str>,
}

impl SyslogFraming {
    /// Prepares the header; characters that are invalid in it are replaced by `_`, empty parts by `-`, and parts that are
    /// too long are cut (RFC 5424 section 6).
    pub fn new(
        facility: Facility,
        hostname: &str,
        app_name: &str,
        process_id: u32,
        message_id: &str,
    ) -> SyslogFraming {
        let header = format!(
            " {} {} {process_id} {} - ",
            header_part(hostname, 255),
            header_part(app_name, 48),
            header_part(message_id, 32),
        );
        SyslogFraming { facility, header: header.into() }
    }

    /// Appends one message; the newline that ends a line of the access log is left out, as the datagram ends it, and so is
    /// the part beyond [`MESSAGE_MAX`].
    pub fn frame(&self, severity: Severity, time: UnixMicros, line: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let priority = u16::from(self.facility as u8) * 8 + u16::from(severity as u8);
        out.push(b'<');
        out.extend_from_slice(itoa::Buffer::new().format(priority).as_bytes());
        out.extend_from_slice(b">1 ");
        out.extend_from_slice(&time.rfc3339());
        out.extend_from_slice(self.header.as_bytes());
        out.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        if out.len() - start > MESSAGE_MAX {
            let mut end = start + MESSAGE_MAX;
            while is_inside_char(out[end]) {
                end -= 1;
            }
            out.truncate(end);
        }
    }
}

/// Whether a byte of UTF-8 continues the character before it.
const fn is_inside_char(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// A part of the header: printable ASCII without spaces.
fn header_part(text: &str, len_max: usize) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    text.chars().take(len_max).map(|char| if char.is_ascii_graphic() { char } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(framing: &SyslogFraming, severity: Severity, line: &[u8]) -> String {
        let mut out = Vec::new();
        framing.frame(severity, UnixMicros(971_186_136_123_456), line, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_message_is_framed_to_the_letter() {
        let framing = SyslogFraming::new(Facility::Local0, "edge-1.example", "weir", 4711, "access");
        assert_eq!(
            framed(&framing, Severity::Informational, b"GET / 200\n"),
            "<134>1 2000-10-10T13:55:36.123456Z edge-1.example weir 4711 access - GET / 200"
        );
        assert_eq!(
            framed(&framing, Severity::Warning, b"without a newline"),
            "<132>1 2000-10-10T13:55:36.123456Z edge-1.example weir 4711 access - without a newline"
        );
    }

    #[test]
    fn priorities_follow_facility_and_severity() {
        for (facility, severity, priority) in [
            (Facility::User, Severity::Error, "<11>1 "),
            (Facility::Daemon, Severity::Notice, "<29>1 "),
            (Facility::Local7, Severity::Debug, "<191>1 "),
        ] {
            assert!(
                framed(&SyslogFraming::new(facility, "h", "a", 1, "m"), severity, b"").starts_with(priority)
            );
        }
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let framing = SyslogFraming::new(Facility::User, "h", "a", 1, "m");
        let before = framed(&framing, Severity::Debug, b"").len();
        for (char, fits) in [("x", MESSAGE_MAX), ("\u{1f980}", before + (MESSAGE_MAX - before) / 4 * 4)] {
            let text = framed(&framing, Severity::Debug, char.repeat(MESSAGE_MAX).as_bytes());
            assert_eq!(text.len(), fits, "{char}");
        }
    }

    #[test]
    fn header_parts_cannot_be_more_than_one() {
        let framing = SyslogFraming::new(Facility::User, "a b\nc\u{e9}", &"x".repeat(100), 1, "");
        let text = framed(&framing, Severity::Debug, b"m");
        let parts: Vec<&str> = text.split(' ').collect();
        assert_eq!(parts[2..], ["a_b_c_", &"x".repeat(48), "1", "-", "-", "m"]);
    }
}
