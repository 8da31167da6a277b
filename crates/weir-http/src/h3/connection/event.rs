//! What a connection reports to its owner.

use crate::message::field_values::priority::Priority;

/// The outcome of one step of [`Http3Connection::receive`](super::Http3Connection::receive).
#[derive(Debug, PartialEq, Eq)]
pub struct PeerReceived {
    /// Bytes of the input that are dealt with.
    pub used: usize,
    /// What has happened; `None` when more input is needed.
    pub event: Option<PeerEvent>,
}

/// Something that the peer says about the connection.
#[derive(Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// Its settings have come.
    Settings,
    /// It takes no further requests (from a server), from the one with this id on; or no further pushes (from a client), of which there are none.
    GoAway {
        /// The id.
        id: u64,
    },
    /// The client wants another order (RFC 9218 section 7.2).
    Priority {
        /// The request stream, which may not be open yet, or over.
        stream: u64,
        /// What it asks for.
        priority: Priority,
    },
    /// The stream has a type that means nothing here: to be stopped with H3_STREAM_CREATION_ERROR, and forgotten.
    UnknownStream,
}

/// The streams that we open besides requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnStream {
    /// The control stream.
    Control,
    /// The encoder stream of QPACK.
    Encoder,
    /// The decoder stream of QPACK.
    Decoder,
}

/// Whether a request is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestAdmission {
    /// It is.
    Taken,
    /// It came behind our GOAWAY: its stream is to be reset and stopped with H3_REQUEST_REJECTED.
    Rejected,
}
