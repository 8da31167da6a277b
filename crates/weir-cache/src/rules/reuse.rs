//! Whether a stored response may be used for a request now (RFC 9111 section 4, RFC 5861).

use weir_http::{FieldName, Validators, parse_date};

use super::lifetime::Lifetime;
use crate::directives::RequestDirectives;
use crate::head::HeadView;
use crate::time::CacheTime;

/// What of the request the operator lets count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRules {
    /// `no-cache` and `Pragma: no-cache`.
    pub no_cache: bool,
    /// `max-age`, `min-fresh` and `max-stale`.
    pub ages: bool,
}

impl Default for ClientRules {
    fn default() -> Self {
        Self { no_cache: true, ages: true }
    }
}

/// Why the server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevalidateCause {
    /// It is stale.
    Stale,
    /// It says `no-cache`.
    NoCache,
    /// The request says so: `no-cache`, `max-age` or `min-fresh`.
    Request,
}

/// What becomes of a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// It is used.
    Fresh,
    /// It is stale and used, as the client allows.
    Stale,
    /// It is used, and refreshed behind that.
    StaleWhileRevalidate,
    /// The server is asked first.
    Revalidate {
        /// Why.
        cause: RevalidateCause,
        /// Whether it is used when the server fails.
        stale_on_error: bool,
    },
}

/// Whether a response with this lifetime is used for a request with these directives.
pub fn reuse(lifetime: &Lifetime, request: &RequestDirectives, client: ClientRules, now: CacheTime) -> Reuse {
    let counted = RequestDirectives {
        max_age: request.max_age.filter(|_| client.ages),
        min_fresh: request.min_fresh.filter(|_| client.ages),
        max_stale: request.max_stale.filter(|_| client.ages),
        no_cache: request.no_cache && client.no_cache,
        ..*request
    };
    match revalidate_cause(lifetime, &counted, now) {
        None => Reuse::Fresh,
        Some(RevalidateCause::Stale) if is_stale_allowed(lifetime, &counted, now) => Reuse::Stale,
        Some(RevalidateCause::Stale) if is_refreshed_behind(lifetime, now) => Reuse::StaleWhileRevalidate,
        Some(cause) => Reuse::Revalidate { cause, stale_on_error: is_used_on_error(lifetime, request, now) },
    }
}

/// Whether the client has a stored response with this status and these fields already, so that it is answered with 304. `received` counts as its date
/// when it has no other (RFC 9111 section 4.3.2).
pub fn is_not_modified(
    status: u16,
    stored: HeadView<'_>,
    received: CacheTime,
    request: HeadView<'_>,
) -> bool {
    let dated = || stored.first("last-modified").or_else(|| stored.first("date")).and_then(parse_date);
    let is_asked = request.fields.contains(FieldName::IfNoneMatch)
        || request.fields.contains(FieldName::IfModifiedSince);
    status == 200 && is_asked && {
        let modified = dated().unwrap_or(received.seconds());
        let validators = Validators { etag: stored.first("etag").unwrap_or_default(), modified };
        validators.is_had(request.fields, request.text)
    }
}

fn millis(seconds: u64) -> u64 {
    seconds.saturating_mul(1_000)
}

fn revalidate_cause(
    lifetime: &Lifetime,
    request: &RequestDirectives,
    now: CacheTime,
) -> Option<RevalidateCause> {
    if lifetime.no_cache {
        return Some(RevalidateCause::NoCache);
    }
    let age_ms = lifetime.age_ms(now);
    // With `max-stale` an age over `max-age` may be covered by it, but a client that names both wants the stricter.
    let is_too_old = request.max_age.is_some_and(|max| age_ms > millis(max) || max == 0);
    if request.no_cache || is_too_old {
        return Some(RevalidateCause::Request);
    }
    if !lifetime.is_fresh(now) {
        return Some(RevalidateCause::Stale);
    }
    let left_ms = lifetime.fresh_ms - age_ms;
    request.min_fresh.is_some_and(|min| left_ms < millis(min)).then_some(RevalidateCause::Request)
}

fn is_stale_allowed(lifetime: &Lifetime, request: &RequestDirectives, now: CacheTime) -> bool {
    lifetime.may_clients_want_stale()
        && request.max_stale.is_some_and(|max| lifetime.stale_ms(now) <= millis(max))
}

fn is_refreshed_behind(lifetime: &Lifetime, now: CacheTime) -> bool {
    !lifetime.must_revalidate && lifetime.stale_ms(now) < lifetime.stale_while_revalidate_ms
}

/// Whether it is used at `now` in place of an error of the server (RFC 5861 section 4).
fn is_used_on_error(lifetime: &Lifetime, request: &RequestDirectives, now: CacheTime) -> bool {
    let wanted = request.stale_if_error.filter(|_| lifetime.may_clients_want_stale());
    let limit_ms = lifetime.stale_if_error_ms.max(wanted.map_or(0, millis));
    !lifetime.must_revalidate && !lifetime.no_cache && !request.no_cache && lifetime.stale_ms(now) < limit_ms
}
