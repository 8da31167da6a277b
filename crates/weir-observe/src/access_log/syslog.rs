//! A line as a syslog message (RFC 5424), ready to be sent as one datagram (RFC 5426) or written to a local socket.
//!
//! Pure: host name and process id are given by the caller, once.

use super::timestamp::UnixMicros;

/// Who is writing (RFC 5424 section 6.2.1).
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
pub struct Framing {
    facility: Facility,
    /// ` HOSTNAME APP-NAME PROCID MSGID - `, from the space after the timestamp to the one before the message.
    header: Box<str>,
}

impl Framing {
    /// Prepares the header; characters that may not stand in it are replaced by `_`, empty parts by `-`, and parts that are
    /// too long are cut (RFC 5424 section 6).
    pub fn new(
        facility: Facility,
        hostname: &str,
        app_name: &str,
        process_id: u32,
        message_id: &str,
    ) -> Framing {
        let header = format!(
            " {} {} {process_id} {} - ",
            header_part(hostname, 255),
            header_part(app_name, 48),
            header_part(message_id, 32),
        );
        Framing { facility, header: header.into() }
    }

    /// Appends one message; the newline that ends a line of the access log is left out, as the datagram ends it.
    pub fn frame(&self, severity: Severity, time: UnixMicros, line: &[u8], out: &mut Vec<u8>) {
        let priority = u16::from(self.facility as u8) * 8 + u16::from(severity as u8);
        out.push(b'<');
        out.extend_from_slice(itoa::Buffer::new().format(priority).as_bytes());
        out.extend_from_slice(b">1 ");
        out.extend_from_slice(&time.rfc3339());
        out.extend_from_slice(self.header.as_bytes());
        out.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
    }
}

/// A part of the header: printable ASCII without spaces.
fn header_part(text: &str, len_max: usize) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    text.chars().take(len_max).map(|char| if char.is_ascii_graphic() { char } else { '_' }).collect()
}
