//! What was received on a stream and not yet taken by its task.

use weir_http::{Fields, RequestHead, Rule};

/// From the task of a connection to that of a stream.
#[derive(Default)]
pub(super) struct Inbox {
    /// The head, until the exchange takes it.
    pub(super) head: Option<Box<ReceivedHead>>,
    /// Bytes of its block.
    pub(super) head_bytes: usize,
    /// The rule that the head breaks: it is not served.
    pub(super) refused: Option<Rule>,
    /// Bytes of the body.
    pub(super) body: Vec<u8>,
    /// Whether nothing follows.
    pub(super) has_ended: bool,
    pub(super) trailers: Option<Box<ReceivedTrailers>>,
}

/// A head as it was received: what its spans refer to is beside it.
#[derive(Default)]
pub(super) struct ReceivedHead {
    pub(super) request: RequestHead,
    pub(super) text: Vec<u8>,
}

/// Fields behind a body.
#[derive(Default)]
pub(super) struct ReceivedTrailers {
    pub(super) fields: Fields,
    pub(super) text: Vec<u8>,
}

impl ReceivedTrailers {
    /// Names and values.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.as_slice().iter().map(|field| (field.name.of(&self.text), field.value.of(&self.text)))
    }
}
