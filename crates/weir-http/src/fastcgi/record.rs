//! Records (FastCGI 1.0 section 3.3) on their way out, and what their types are called.

/// Bytes of the header of a record.
pub const RECORD_HEADER_LEN: usize = 8;

/// The most content that Weir puts into one record: a multiple of eight, so that none needs padding.
pub const RECORD_CONTENT_MAX: usize = 65_528;

/// The only version of the protocol.
pub(super) const VERSION: u8 = 1;

/// The id of the only request on a connection.
pub(super) const REQUEST_ID: u16 = 1;

const BEGIN_REQUEST: u8 = 1;
pub(super) const END_REQUEST: u8 = 3;
pub(super) const PARAMS: u8 = 4;
const STDIN: u8 = 5;
pub(super) const STDOUT: u8 = 6;
pub(super) const STDERR: u8 = 7;

/// The role of a server that answers requests (section 6.2).
const RESPONDER: u8 = 1;

/// The server leaves the connection open behind the response.
const KEEP_CONN: u8 = 1;

/// What an END_REQUEST record says about the request (section 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// It has ended as requests do.
    Complete,
    /// The server serves one request at a time on a connection.
    CannotMultiplex,
    /// The server has no room for it.
    Overloaded,
    /// The server is no responder.
    UnknownRole,
}

impl ProtocolStatus {
    pub(super) const fn new(byte: u8) -> Option<ProtocolStatus> {
        match byte {
            0 => Some(ProtocolStatus::Complete),
            1 => Some(ProtocolStatus::CannotMultiplex),
            2 => Some(ProtocolStatus::Overloaded),
            3 => Some(ProtocolStatus::UnknownRole),
            _ => None,
        }
    }
}

/// The header of a record without padding.
pub(super) const fn header(kind: u8, len: u16) -> [u8; RECORD_HEADER_LEN] {
    let ([id_high, id_low], [len_high, len_low]) = (REQUEST_ID.to_be_bytes(), len.to_be_bytes());
    [VERSION, kind, id_high, id_low, len_high, len_low, 0, 0]
}

/// Appends the record that begins a request; the server closes the connection behind the response unless `keeps_connection`.
pub fn begin_request(out: &mut Vec<u8>, keeps_connection: bool) {
    let flags = if keeps_connection { KEEP_CONN } else { 0 };
    out.extend_from_slice(&header(BEGIN_REQUEST, 8));
    out.extend_from_slice(&[0, RESPONDER, flags, 0, 0, 0, 0, 0]);
}

/// The header of a record with `len` bytes of the body of the request, at most [`RECORD_CONTENT_MAX`].
pub const fn stdin_header(len: usize) -> [u8; RECORD_HEADER_LEN] {
    debug_assert!(0 < len && len <= RECORD_CONTENT_MAX, "an empty record would end the body");
    header(STDIN, len as u16)
}

/// The record that ends the body of the request.
pub const fn end_of_stdin() -> [u8; RECORD_HEADER_LEN] {
    header(STDIN, 0)
}

/// Whether `received` seems to end with an END_REQUEST record.
pub fn ends_with_end_request(received: &[u8]) -> bool {
    let Some(start) = received.len().checked_sub(2 * RECORD_HEADER_LEN) else { return false };
    let [version, kind, id_high, id_low, ..] = &received[start..] else { return false };
    (*version, *kind) == (VERSION, END_REQUEST) && [*id_high, *id_low] == REQUEST_ID.to_be_bytes()
}
