//! What the cache has to do with an exchange whose request goes to a server.

use std::sync::Arc;
use weir_config::{Feature, Stage};

use weir_cache::CacheTime;
use weir_cache::rules::{CacheOutcome, ForwardReason, write_cache_status, write_validators};
use weir_cache::store::{FetchTicket, StoredResponse};
use weir_http::FieldWriter;

use super::header_changes::HeadChanges;
use crate::exchange::acting;

/// The name of the field that says what a cache did (RFC 9211).
pub(in crate::exchange) const STATUS: &[u8] = b"Cache-Status";

/// Fields of a client that are about a part of the response, or a version that it has: what is stored is the whole.
const ABOUT_VERSIONS: [&str; 4] = ["range", "if-range", "if-none-match", "if-modified-since"];

/// A key, and whether it is that of requests whose clients have proven who they are.
pub(in crate::exchange) struct RequestKey {
    pub(in crate::exchange) key: Vec<u8>,
    /// Which of the rules for its headers that depend on the request hold for it, by their places.
    pub(in crate::exchange) applied: u32,
    pub(in crate::exchange) is_proven: bool,
}

/// What the cache has to do with a request that goes to a server.
#[derive(Debug)]
pub(in crate::exchange) struct CacheUse {
    /// What is one response.
    pub(in crate::exchange) key: Vec<u8>,
    /// Which of the rules for its headers that depend on the request hold, by their places: what the key says is what the server gets.
    pub(in crate::exchange) applied: u32,
    /// Whether its client has proven who it is: to the route, or by a certificate.
    pub(in crate::exchange) is_proven: bool,
    /// Why it goes to a server.
    pub(in crate::exchange) forwarded: ForwardReason,
    pub(in crate::exchange) task: CacheTask,
    /// When it was sent.
    pub(in crate::exchange) sent: CacheTime,
}

/// What is to be done with the response.
#[derive(Debug)]
pub(in crate::exchange) enum CacheTask {
    /// Nothing.
    Pass,
    /// It is stored, if it may be.
    Fetch(FetchTicket),
    /// It confirms or replaces a stored one. Without a ticket, another request sees to what is stored.
    Refresh { ticket: Option<FetchTicket>, stored: Arc<StoredResponse>, stale_on_error: bool },
    /// What it has changed is forgotten.
    Invalidate,
}

impl CacheUse {
    /// Whether the server gets a field of the client's request.
    pub(in crate::exchange) fn passes(&self, name: &[u8]) -> bool {
        match &self.task {
            CacheTask::Fetch(_) | CacheTask::Refresh { .. } => !is_about_versions(name),
            CacheTask::Pass | CacheTask::Invalidate => true,
        }
    }

    /// Lets others fetch in its place: what comes of it is for this client alone, which may keep them waiting.
    pub(in crate::exchange) fn give_up_turn(&mut self) {
        match &mut self.task {
            CacheTask::Fetch(_) => self.task = CacheTask::Pass,
            CacheTask::Refresh { ticket, .. } => *ticket = None,
            CacheTask::Pass | CacheTask::Invalidate => {}
        }
    }

    /// Adds what is asked of the server besides.
    pub(in crate::exchange) fn write_request(&self, out: &mut impl FieldWriter) {
        if let CacheTask::Refresh { stored, .. } = &self.task {
            acting::note(Stage::Server, Feature::Cache);
            write_validators(stored.head().view(), out);
        }
    }
}

pub(in crate::exchange) fn is_about_versions(name: &[u8]) -> bool {
    ABOUT_VERSIONS.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// Adds what the cache did to a response that passes.
pub(in crate::exchange) fn write_status(
    out: &mut impl FieldWriter,
    used: &CacheUse,
    detail: Option<&'static str>,
    changes: HeadChanges<'_>,
) {
    if !changes.leave(STATUS) {
        return;
    }
    acting::note(Stage::ResponseFields, Feature::Cache);
    let outcome = CacheOutcome { forwarded: Some(used.forwarded), detail, ..CacheOutcome::default() };
    out.field_with(STATUS, |value| write_cache_status(value, &outcome));
}
