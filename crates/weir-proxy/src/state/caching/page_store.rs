//! Error pages that were fetched from servers, for further failures: a burst of them makes one request.
//!
//! A small store of responses for each listener, for all workers. Bounds and times are fixed but for `ttl`. Must not fetch anything.

use weir_cache::directives::RequestDirectives;
use weir_cache::rules::{ClientRules, Freshened, Reuse, StatusTtl, StoreRules, reuse};
use weir_cache::store::{FetchTicket, FetchWait, Found, Join, Store, StoreLimits, StoredResponse};
use weir_cache::{CacheTime, HeadView};
use weir_config::{Listener, RemotePage};

use std::sync::Arc;

use super::cache::random_secret;

/// Bytes of the pages of a listener; more, if one may be so large that few would have room.
const MEMORY_BYTES: u64 = 4 * 1024 * 1024;

/// A page is used for so long at most, whatever it says, in milliseconds: there is no other way to have it fetched anew.
const TTL_MAX_MS: u64 = 60_000;

/// How long one is used when it cannot be fetched anew, in milliseconds: what has the pages may have failed with all else.
const STALE_IF_ERROR_MS: u64 = 3_600_000;

/// How long a page is not asked for that could not be fetched, in milliseconds.
const FAILED_MS: u64 = 1_000;

/// The pages of a listener and its routes.
#[derive(Debug)]
pub(crate) struct PageStore {
    store: Store,
}

/// What is to be done for a page.
pub(crate) enum PageStep {
    /// It is here.
    Send(Arc<StoredResponse>),
    /// Another failure has it fetched.
    Wait(FetchWait),
    /// It has to be fetched; the page of before is sent if that fails.
    Fetch(FetchTicket, Option<Arc<StoredResponse>>),
    /// It could not be fetched a moment ago.
    Unavailable,
}

impl PageStore {
    /// `None` without pages that are used again.
    pub(in crate::state) fn new(config: &Listener) -> Option<Self> {
        let of_routes = config.routes.iter().flat_map(|route| &route.error_pages);
        let pages = config.error_pages.iter().chain(of_routes).filter_map(|page| page.remote.as_ref());
        let kept = pages.filter(|page| !page.ttl.is_zero());
        let object_max = kept.map(|page| page.body_size.bytes()).max()?;
        let limits = StoreLimits { memory_max: MEMORY_BYTES.max(4 * object_max), object_max };
        Some(Self { store: Store::new(limits, random_secret()) })
    }

    /// What is to be done for the page under `key`, that a request with these fields asks for. `has_waited`: a request that was waited for has not brought one
    /// that others may have.
    pub(crate) fn step(
        &self,
        key: &[u8],
        request: HeadView<'_>,
        has_waited: bool,
        now: CacheTime,
    ) -> PageStep {
        let key = self.store.key(key);
        let (joined, stale) = match self.store.find(&key, request, now) {
            Found::Hit(stored) => {
                let rules = ClientRules { no_cache: false, ages: false };
                let stale_on_error =
                    match reuse(&stored.lifetime(), &RequestDirectives::default(), rules, now) {
                        Reuse::Fresh => return PageStep::Send(stored),
                        Reuse::Stale | Reuse::StaleWhileRevalidate => true,
                        Reuse::Revalidate { stale_on_error, .. } => stale_on_error,
                    };
                (self.store.join_refresh(&key, &stored), stale_on_error.then_some(stored))
            }
            Found::Passed(_) => return PageStep::Unavailable,
            Found::Missing(slot) if has_waited => (Join::Lead(self.store.lead_alone(&key, slot)), None),
            Found::Missing(slot) => (self.store.join(&key, slot), None),
        };
        match joined {
            Join::Lead(ticket) => PageStep::Fetch(ticket, stale),
            Join::Wait(wait) => PageStep::Wait(wait),
        }
    }

    /// The server does not let this page be used again any more.
    pub(crate) fn forget(&self, page: &StoredResponse) {
        self.store.remove(page);
    }

    /// Whether a page that was waited for is one for this request.
    pub(crate) fn is_for(&self, page: &StoredResponse, key: &[u8], request: HeadView<'_>) -> bool {
        self.store.is_for(page, &self.store.key(key), request)
    }
}

/// What makes a page one that is used again.
pub(crate) fn page_rules(page: &RemotePage) -> StoreRules {
    let ttl_ms = u64::try_from(page.ttl.as_millis()).unwrap_or(u64::MAX);
    StoreRules {
        ttls: vec![StatusTtl { statuses: 200..=200, ttl_ms, overrides: false }],
        ttl_max_ms: TTL_MAX_MS,
        stale_if_error_ms: STALE_IF_ERROR_MS,
        // No client gets it.
        ignores_set_cookie: true,
        ..StoreRules::default()
    }
}

/// A page could not be fetched: for a moment it is not asked for again, and `stale` is used.
pub(crate) fn page_failed(ticket: FetchTicket, stale: Option<&Arc<StoredResponse>>, now: CacheTime) {
    let Some(stale) = stale else { return ticket.not_stored(Some(now.after(FAILED_MS))) };
    let mut lifetime = stale.lifetime();
    let fresh_ms = lifetime.age_ms(now) + FAILED_MS;
    let more = fresh_ms.saturating_sub(lifetime.fresh_ms);
    lifetime.stale_if_error_ms = lifetime.stale_if_error_ms.saturating_sub(more);
    lifetime.fresh_ms = fresh_ms;
    ticket.freshen(stale, Freshened { head: stale.head().clone(), lifetime });
}

#[cfg(test)]
mod tests {
    use weir_cache::StoredHead;
    use weir_cache::rules::{Lifetime, VaryRule};
    use weir_cache::store::NewResponse;
    use weir_http::Fields;

    use super::*;

    static NO_FIELDS: Fields = Fields::new();
    const NONE: HeadView<'static> = HeadView { fields: &NO_FIELDS, text: b"" };
    const NOW: CacheTime = CacheTime::from_seconds(1_000_000);

    fn store() -> PageStore {
        let limits = StoreLimits { memory_max: MEMORY_BYTES, object_max: 4_096 };
        PageStore { store: Store::new(limits, random_secret()) }
    }

    fn fetch(step: PageStep) -> (FetchTicket, Option<Arc<StoredResponse>>) {
        match step {
            PageStep::Fetch(ticket, stale) => (ticket, stale),
            _ => panic!("it has to be fetched"),
        }
    }

    fn keep(ticket: FetchTicket, lifetime: Lifetime) {
        let vary = VaryRule::new(NONE).expect("nothing varies");
        let new = NewResponse { status: 200, head: StoredHead::default(), lifetime, vary, len: Some(1) };
        let mut storing = ticket.store(new, NONE);
        storing.writer.append(b"x").expect("there is room");
        storing.writer.finish();
    }

    #[test]
    fn failures_at_the_same_time_share_a_fetch() {
        let pages = store();
        let (ticket, stale) = fetch(pages.step(b"a", NONE, false, NOW));
        assert!(stale.is_none());
        assert!(matches!(pages.step(b"a", NONE, false, NOW), PageStep::Wait(_)));
        assert!(matches!(pages.step(b"b", NONE, false, NOW), PageStep::Fetch(..)));
        keep(ticket, Lifetime { received: NOW, fresh_ms: 5_000, ..Lifetime::default() });
        assert!(matches!(pages.step(b"a", NONE, false, NOW.after(4_999)), PageStep::Send(_)));
        fetch(pages.step(b"a", NONE, false, NOW.after(5_000)));
    }

    #[test]
    fn a_page_that_cannot_be_fetched_is_not_asked_for_a_moment() {
        let pages = store();
        let (ticket, _) = fetch(pages.step(b"a", NONE, false, NOW));
        page_failed(ticket, None, NOW);
        assert!(matches!(pages.step(b"a", NONE, false, NOW.after(999)), PageStep::Unavailable));
        let (ticket, _) = fetch(pages.step(b"a", NONE, false, NOW.after(1_000)));
        // With one of before, that is sent as long as it may be.
        let lifetime =
            Lifetime { received: NOW, fresh_ms: 5_000, stale_if_error_ms: 2_000, ..Lifetime::default() };
        keep(ticket, lifetime);
        for (at, has_stale) in [(6_000, true), (7_001, false)] {
            let (ticket, stale) = fetch(pages.step(b"a", NONE, false, NOW.after(at)));
            assert_eq!(stale.is_some(), has_stale);
            if has_stale {
                page_failed(ticket, stale.as_ref(), NOW.after(at));
                assert!(matches!(pages.step(b"a", NONE, false, NOW.after(at + 999)), PageStep::Send(_)));
            }
        }
    }
}
