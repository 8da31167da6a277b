//! What one step of a codec comes to.

/// What a step has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodecProgress {
    /// How much of the input was taken.
    pub(crate) consumed: usize,
    /// How much of the room was filled.
    pub(crate) produced: usize,
    /// Whether all that was asked for is in the output; else the same is to be asked again, with more room.
    pub(crate) is_done: bool,
}

/// Why a codec cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodecError {
    /// The input is not what it has to be.
    Broken,
    /// There is no memory left for it.
    NoMemory,
}
