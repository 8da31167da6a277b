//! What arrives on a stream.

/// The next bytes of a stream, in their order.
#[derive(Debug, Clone, Copy)]
pub struct StreamInput<'a> {
    /// The bytes, of which there may be none.
    pub bytes: &'a [u8],
    /// Whether the stream ends behind them.
    pub is_last: bool,
}
