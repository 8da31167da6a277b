//! What routes and listeners are checked against: the document, and what is defined in it by name.

use super::admission::limit::LimitLookup;
use super::admission::list::ListLookup;
use super::admission::table::TableLookup;
use super::cache::CacheLookup;
use super::files::Files;
use super::upstream_lookup::UpstreamLookup;
use crate::text::Document;

/// The context that a listener is checked against.
pub(in crate::check) struct CheckScope<'a> {
    pub(in crate::check) document: &'a Document,
    pub(in crate::check) files: &'a Files<'a>,
    pub(in crate::check) upstreams: &'a UpstreamLookup<'a>,
    pub(in crate::check) lists: &'a ListLookup,
    pub(in crate::check) limits: &'a LimitLookup,
    pub(in crate::check) tables: &'a TableLookup,
    pub(in crate::check) caches: &'a CacheLookup,
}
