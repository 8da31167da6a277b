//! Messages as they are received, until the task of their stream takes them.

use weir_http::Fields;

/// A head as it was received: what its spans refer to is beside it.
#[derive(Debug, Default)]
pub(crate) struct ReceivedHead<H> {
    pub(crate) head: H,
    pub(crate) text: Vec<u8>,
}

/// Fields behind a body.
#[derive(Default)]
pub(crate) struct ReceivedTrailers {
    pub(super) fields: Fields,
    pub(super) text: Vec<u8>,
}

impl ReceivedTrailers {
    /// Names and values.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.as_slice().iter().map(|field| (field.name.of(&self.text), field.value.of(&self.text)))
    }
}
