//! An exchange whose request will be copied for mirrors.

/// An exchange whose request will be copied, and what its response is compared by.
#[derive(Debug, Default)]
pub(crate) struct Mirrored {
    pub(super) status: u16,
    /// Bytes of the request body that are kept in memory for them.
    pub(super) kept_max: usize,
    pub(super) copies: Vec<Copied>,
}

/// A copy that will be made.
#[derive(Debug)]
pub(super) struct Copied {
    /// The place of the mirror in its route.
    pub(super) place: usize,
    /// What it is compared with.
    pub(super) fields: Vec<ComparedField>,
}

/// The name of a header in lower case, and a value.
pub(super) type ComparedField = (Box<[u8]>, Box<[u8]>);
