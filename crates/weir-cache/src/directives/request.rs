//! The directives of a request (RFC 9111 section 5.2.1).

use super::list::DirectiveList;
use super::seconds::parse_seconds;
use crate::head::HeadView;

/// What a client asks of caches. Numbers are seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `max-age`; 0 when it is malformed.
    pub max_age: Option<u64>,
    /// `max-stale`; `u64::MAX` when it has no number. Ignored when it is malformed.
    pub max_stale: Option<u64>,
    /// `min-fresh`.
    pub min_fresh: Option<u64>,
    /// `no-cache`, or `Pragma: no-cache` without a `Cache-Control`.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `only-if-cached`.
    pub only_if_cached: bool,
    /// `stale-if-error` (RFC 5861 section 4).
    pub stale_if_error: Option<u64>,
}

impl RequestDirectives {
    /// Those of this head. Allocates nothing, unless an argument contains a backslash in quotes.
    pub fn new(head: HeadView<'_>) -> Self {
        let mut directives = Self::default();
        let mut is_present = false;
        for directive in head.all("cache-control").flat_map(DirectiveList::new) {
            is_present = true;
            let argument = directive.argument.as_deref().filter(|_| !directive.is_malformed);
            let seconds = argument.and_then(parse_seconds);
            let largest = |present: Option<u64>| Some(seconds.unwrap_or(0).max(present.unwrap_or(0)));
            let smallest = |present: Option<u64>| Some(seconds.unwrap_or(0).min(present.unwrap_or(u64::MAX)));
            match () {
                () if directive.is("max-age") => directives.max_age = smallest(directives.max_age),
                () if directive.is("min-fresh") => directives.min_fresh = largest(directives.min_fresh),
                () if directive.is("max-stale") && directive.argument.is_none() => {
                    directives.max_stale = Some(u64::MAX);
                }
                () if directive.is("max-stale") => directives.max_stale = smallest(directives.max_stale),
                () if directive.is("stale-if-error") => {
                    directives.stale_if_error = smallest(directives.stale_if_error);
                }
                () if directive.is("no-cache") => directives.no_cache = true,
                () if directive.is("no-store") => directives.no_store = true,
                () if directive.is("only-if-cached") => directives.only_if_cached = true,
                () => {}
            }
        }
        if !is_present {
            let mut pragmas = head.all("pragma").flat_map(DirectiveList::new);
            directives.no_cache = pragmas.any(|pragma| pragma.is("no-cache"));
        }
        directives
    }
}
