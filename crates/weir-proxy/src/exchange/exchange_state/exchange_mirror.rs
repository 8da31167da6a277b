//! An exchange whose request will be copied for mirrors.

use weir_http::ContentCoding;

/// An exchange whose request will be copied, and what its response is compared by.
#[derive(Debug, Default)]
pub(crate) struct ExchangeMirror {
    pub(in crate::exchange) status: u16,
    /// The content coding of its body, if there is one that can be decoded.
    pub(in crate::exchange) coding: Option<ContentCoding>,
    /// Bytes of the request body that are kept in memory for them.
    pub(in crate::exchange) kept_max: usize,
    pub(in crate::exchange) copies: Vec<Copied>,
}

/// A copy that will be made.
#[derive(Debug)]
pub(in crate::exchange) struct Copied {
    /// The place of the mirror in its route.
    pub(in crate::exchange) place: usize,
    /// What it is compared with.
    pub(in crate::exchange) fields: Vec<ComparedField>,
}

/// The name of a header in lower case, and a value.
pub(in crate::exchange) type ComparedField = (Box<[u8]>, Box<[u8]>);
