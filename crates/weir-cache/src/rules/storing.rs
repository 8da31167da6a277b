//! Whether a response may be stored, without which fields, and for how long (RFC 9111 sections 3 and 4.2).

use std::ops::RangeInclusive;

use weir_http::{AcceptedCodings, ContentCoding, Field, FieldName, FieldSet, Method, date};

use super::lifetime::{Lifetime, LifetimeSource, initial_age_ms};
use super::refusal::NotStored;
use super::vary::{IgnoredVary, SELECTING_FIELDS_MAX, VaryRule};
use crate::directives::{AccelExpires, FieldScope, MessageTimes, RequestDirectives, ResponseDirectives};
use crate::head::{HeadView, StoredHead};
use crate::time::CacheTime;

/// How long responses with some statuses are fresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusTtl {
    /// From one status to another, both included.
    pub statuses: RangeInclusive<u16>,
    /// Milliseconds; 0: they are not stored.
    pub ttl_ms: u64,
    /// Whether it holds whatever the response says; else only when that says nothing.
    pub overrides: bool,
}

/// Heuristic freshness (RFC 9111 section 4.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeuristicRule {
    /// How much of the time since `Last-Modified`, in hundredths; 0: none.
    pub percent: u8,
    /// At most so many milliseconds.
    pub max_ms: u64,
}

/// What the operator says about storing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRules {
    /// Times by status; the first that contains the status counts.
    pub ttls: Vec<StatusTtl>,
    /// At most so many milliseconds, whatever the response says.
    pub ttl_max_ms: u64,
    /// Whether `Cache-Control`, `CDN-Cache-Control`, `Expires` and `Pragma` of responses are ignored. Then only what `ttls` names is stored.
    pub ignores_origin: bool,
    /// `stale-while-revalidate` of responses that do not say, in milliseconds.
    pub stale_while_revalidate_ms: u64,
    /// `stale-if-error` of responses that do not say, in milliseconds.
    pub stale_if_error_ms: u64,
    /// Whether `X-Accel-Expires` of responses counts, before all else that they say.
    pub obeys_accel_expires: bool,
    /// Whether a response with `Set-Cookie` is stored, without that field: only the client whose request has fetched it gets that.
    pub ignores_set_cookie: bool,
    /// Fields of `Vary` that make no variants.
    pub ignored_vary: IgnoredVary,
    /// Heuristic freshness.
    pub heuristic: HeuristicRule,
    /// Whether `no-store` of a request counts.
    pub obeys_request_no_store: bool,
    /// Fields that the server gets with a value of the exchange in place of the client's, in lower case: what depends on one of them is not stored, since
    /// the request of the client does not select it.
    pub written_fields: Vec<Box<str>>,
}

impl Default for StoreRules {
    fn default() -> Self {
        Self {
            ttls: Vec::new(),
            ttl_max_ms: u64::MAX,
            ignores_origin: false,
            stale_while_revalidate_ms: 0,
            stale_if_error_ms: 0,
            obeys_accel_expires: false,
            ignores_set_cookie: false,
            ignored_vary: IgnoredVary::default(),
            heuristic: HeuristicRule { percent: 10, max_ms: 24 * 3_600_000 },
            obeys_request_no_store: true,
            written_fields: Vec::new(),
        }
    }
}

/// The request to which a response is to be stored.
#[derive(Debug, Clone, Copy)]
pub struct StoredRequest<'a> {
    /// Its method.
    pub method: Method,
    /// Its fields as the client sent them.
    pub head: HeadView<'a>,
    /// When it was sent to the server.
    pub sent: CacheTime,
    /// Whether its client has proven who it is by something else than `Authorization`.
    pub is_proven: bool,
}

/// A response that may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePlan {
    /// How long.
    pub lifetime: Lifetime,
    /// For which requests.
    pub vary: VaryRule,
    /// `private="..."` and `no-cache="..."`: fields that are not stored.
    dropped: [FieldScope; 2],
}

/// Fields that belong to a connection or are written anew for each response.
const NEVER_SENT: FieldSet = FieldSet::RESPONSE_HOP.with(FieldSet::new(&[
    FieldName::Age,
    FieldName::ProxyAuthenticate,
    FieldName::ProxyAuthorization,
]));

impl StorePlan {
    /// Whether the stored response has this field.
    pub fn keeps(&self, head: HeadView<'_>, field: &Field) -> bool {
        field.known != FieldName::SetCookie
            && !self.dropped.iter().any(|scope| scope.names(field.name.of(head.text)))
            && is_sent(head, field)
    }

    /// The fields that are stored of this head; a date is among them in any case (RFC 9110 section 6.6.1).
    pub fn stored_head(&self, head: HeadView<'_>) -> StoredHead {
        self.dated(head, StoredHead::copy(head, |field| self.keeps(head, field)))
    }

    /// The fields that the client gets whose request has fetched it, if there are some that are not stored: `private="..."`, `no-cache="..."` and the
    /// rule about `Set-Cookie` are about other requests (RFC 9111 sections 5.2.2.4 and 5.2.2.7).
    pub fn fetched_head(&self, head: HeadView<'_>) -> Option<StoredHead> {
        let is_stored_whole = !head.fields.contains(FieldName::SetCookie)
            && self.dropped.iter().all(|scope| !matches!(scope, FieldScope::Named(_)));
        if is_stored_whole {
            return None;
        }
        Some(self.dated(head, StoredHead::copy(head, |field| is_sent(head, field))))
    }

    /// `copied` of `head`, with a date.
    fn dated(&self, head: HeadView<'_>, mut copied: StoredHead) -> StoredHead {
        if !head.fields.contains(FieldName::Date) {
            copied.append(b"Date", &date(self.lifetime.received.seconds()));
            copied.shrink();
        }
        copied
    }
}

/// Whether a field of the server reaches a client at all.
fn is_sent(head: HeadView<'_>, field: &Field) -> bool {
    !NEVER_SENT.contains(field.known)
        && !field.name.of(head.text).eq_ignore_ascii_case(b"proxy-authentication-info")
        && !is_named_by_connection(head, field)
}

fn is_named_by_connection(head: HeadView<'_>, field: &Field) -> bool {
    head.fields.contains(FieldName::Connection)
        && field.known.is_strippable()
        && head
            .all("connection")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(field.name.of(head.text)))
}

/// Whether this response to this request may be stored, and how. `received` is the time of its head.
///
/// # Errors
/// Why it may not.
pub fn plan_storing(
    request: &StoredRequest<'_>,
    status: u16,
    response: HeadView<'_>,
    rules: &StoreRules,
    received: CacheTime,
) -> Result<StorePlan, NotStored> {
    plan_storing_as(request, status, response, (rules, accel_expires(response, rules, received)), received)
}

/// What a response says in `X-Accel-Expires`, where that counts.
pub(super) fn accel_expires(
    response: HeadView<'_>,
    rules: &StoreRules,
    received: CacheTime,
) -> Option<AccelExpires> {
    if rules.obeys_accel_expires { AccelExpires::new(response, received) } else { None }
}

/// The same for a response with this `X-Accel-Expires`.
pub(super) fn plan_storing_as(
    request: &StoredRequest<'_>,
    status: u16,
    response: HeadView<'_>,
    (rules, accel): (&StoreRules, Option<AccelExpires>),
    received: CacheTime,
) -> Result<StorePlan, NotStored> {
    if request.method != Method::Get {
        return Err(NotStored::Method);
    }
    if status < 200 || matches!(status, 206 | 304) {
        return Err(NotStored::Status);
    }
    let said = Said::new(response, rules, accel);
    if accel == Some(AccelExpires::Never) && !rules.ignores_origin {
        return Err(NotStored::Accel);
    }
    check_directives(request, status, response, rules, &said)?;
    let written = &rules.written_fields;
    let mut vary = VaryRule::without(response, &rules.ignored_vary, written).ok_or(NotStored::Vary)?;
    if vary.names().any(|name| written.iter().any(|written| **written == *name)) {
        return Err(NotStored::Vary);
    }
    check_coding(request.head, response, &mut vary)?;
    let lifetime = lifetime(request, status, &said, rules, received)?;
    let has_validator = response.contains("etag") || said.times.last_modified.is_some();
    if !has_validator && is_never_used(&lifetime) {
        return Err(NotStored::Stale);
    }
    Ok(StorePlan { lifetime, vary, dropped: [said.directives.private, said.directives.no_cache] })
}

/// Sees to it that only requests find a response that can decode it. Of a coding that Weir does not know it cannot tell, since the normal form of
/// `Accept-Encoding` has only those that it knows; one that the request does not accept is what the server has sent in spite of it, and no answer to
/// others without that coding. A coded response depends on `Accept-Encoding` even where the server does not say so.
fn check_coding(request: HeadView<'_>, response: HeadView<'_>, vary: &mut VaryRule) -> Result<(), NotStored> {
    if !response.fields.contains(FieldName::ContentEncoding) {
        return Ok(());
    }
    let values = response.all("content-encoding").flat_map(|value| value.split(|byte| *byte == b','));
    let named = values.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
    let codings = named.filter(|name| !name.eq_ignore_ascii_case(b"identity")).map(ContentCoding::from_name);
    let codings: Option<Vec<ContentCoding>> = codings.collect();
    let depends = vary.names().any(|name| name == "accept-encoding");
    let codings = match codings {
        None if depends => return Err(NotStored::Coding),
        None => return Ok(()),
        Some(codings) => codings,
    };
    // Without the field, any coding is acceptable (RFC 9110 section 12.5.3); such requests are a variant of their own.
    let accepted = AcceptedCodings::parse(request.all("accept-encoding"));
    let is_accepted = !request.fields.contains(FieldName::AcceptEncoding)
        || codings.iter().all(|coding| accepted.accepts(*coding));
    if !is_accepted {
        return Err(NotStored::CodingNotAccepted);
    }
    if !codings.is_empty() && vary.names().count() < SELECTING_FIELDS_MAX {
        vary.add("accept-encoding");
    }
    Ok(())
}

/// What the response says, as far as it counts.
pub(super) struct Said {
    pub(super) directives: ResponseDirectives,
    pub(super) times: MessageTimes,
    /// What its times are of, if that is no usual field.
    targeted: Option<LifetimeSource>,
    /// `Pragma: no-cache` and no `Cache-Control`: not specified for responses (RFC 9111 section 5.4). It counts unless a rule of the operator says how
    /// long the response is fresh.
    has_pragma: bool,
}

impl Said {
    fn new(response: HeadView<'_>, rules: &StoreRules, accel: Option<AccelExpires>) -> Self {
        let mut times = MessageTimes::new(response);
        if rules.ignores_origin {
            times.expires = None;
            return Self {
                directives: ResponseDirectives::default(),
                times,
                targeted: None,
                has_pragma: false,
            };
        }
        if let Some(AccelExpires::Fresh(seconds)) = accel {
            times.expires = None;
            // What other caches may do is no matter of this one. Fields that are for one client, and what forbids to use a stale response, are.
            let mut directives = ResponseDirectives::new(response);
            directives.no_store = false;
            directives.private = directives.private.of_fields();
            directives.no_cache = directives.no_cache.of_fields();
            (directives.max_age, directives.s_maxage) = (Some(seconds), None);
            return Self { directives, times, targeted: Some(LifetimeSource::Accel), has_pragma: false };
        }
        if let Some(directives) = ResponseDirectives::targeted(response) {
            times.expires = None;
            return Self { directives, times, targeted: Some(LifetimeSource::Targeted), has_pragma: false };
        }
        let directives = ResponseDirectives::new(response);
        let has_pragma = !directives.is_present
            && response.all("pragma").any(|value| value.eq_ignore_ascii_case(b"no-cache"));
        Self { directives, times, targeted: None, has_pragma }
    }
}

fn check_directives(
    request: &StoredRequest<'_>,
    status: u16,
    response: HeadView<'_>,
    rules: &StoreRules,
    said: &Said,
) -> Result<(), NotStored> {
    let directives = &said.directives;
    if directives.must_understand && !is_understood(status) {
        return Err(NotStored::MustUnderstand);
    }
    if rules.obeys_request_no_store && RequestDirectives::new(request.head).no_store {
        return Err(NotStored::RequestNoStore);
    }
    // A cache that knows the status ignores `no-store` beside `must-understand` (RFC 9111 section 5.2.2.3).
    if directives.no_store && !directives.must_understand {
        return Err(NotStored::NoStore);
    }
    if directives.private.is_whole() {
        return Err(NotStored::Private);
    }
    let allows_shared = directives.public || directives.must_revalidate || directives.s_maxage.is_some();
    if request.head.fields.contains(FieldName::Authorization) && !allows_shared {
        return Err(NotStored::Authorization);
    }
    if request.is_proven && !allows_shared {
        return Err(NotStored::Proven);
    }
    // Fields that only their addressee may see can be left out; a cookie that is meant for one client cannot be told apart.
    let drops_cookie = directives.private.names(b"set-cookie") || directives.no_cache.names(b"set-cookie");
    if response.fields.contains(FieldName::SetCookie) && !rules.ignores_set_cookie && !drops_cookie {
        return Err(NotStored::SetCookie);
    }
    Ok(())
}

fn lifetime(
    request: &StoredRequest<'_>,
    status: u16,
    said: &Said,
    rules: &StoreRules,
    received: CacheTime,
) -> Result<Lifetime, NotStored> {
    let rule = rules.ttls.iter().find(|rule| rule.statuses.contains(&status));
    let (fresh_ms, source) = freshness((status, rule), said, rules, received)?;
    let is_overridden = rule.is_some_and(|rule| rule.overrides);
    let directives = &said.directives;
    // `s-maxage` forbids what only the operator would allow (RFC 9111 section 5.2.2.10), not what stands beside it. What nothing calls fresh is not
    // meant for a cache, and what is stale from the start is to be confirmed each time: the default of the operator is about the time behind that.
    let may_help = !matches!(source, LifetimeSource::SMaxage | LifetimeSource::None);
    let millis = |seconds: Option<u64>, default: u64, has_default: bool| match seconds {
        Some(seconds) => seconds.saturating_mul(1_000),
        None if has_default => default,
        None => 0,
    };
    let (revalidated, failed) = (directives.stale_while_revalidate, directives.stale_if_error);
    let initial_age_ms = initial_age_ms(&said.times, request.sent, received);
    let fresh_ms = match source {
        // So long from now, not from when it was made.
        LifetimeSource::Accel => fresh_ms.saturating_add(initial_age_ms),
        _ => fresh_ms,
    };
    Ok(Lifetime {
        received,
        initial_age_ms,
        fresh_ms: fresh_ms.min(rules.ttl_max_ms),
        stale_while_revalidate_ms: millis(
            revalidated,
            rules.stale_while_revalidate_ms,
            may_help && fresh_ms > 0,
        ),
        stale_if_error_ms: millis(failed, rules.stale_if_error_ms, may_help),
        must_revalidate: directives.must_revalidate || directives.proxy_revalidate,
        no_cache: directives.no_cache.is_whole() && !is_overridden
            || said.has_pragma && source != LifetimeSource::Rule,
        source,
    })
}

/// How long the response is fresh, in milliseconds, and what says so.
fn freshness(
    (status, rule): (u16, Option<&StatusTtl>),
    said: &Said,
    rules: &StoreRules,
    received: CacheTime,
) -> Result<(u64, LifetimeSource), NotStored> {
    let by_rule = |rule: &StatusTtl| match rule.ttl_ms {
        0 => Err(NotStored::TtlZero),
        ttl_ms => Ok((ttl_ms, LifetimeSource::Rule)),
    };
    if let Some(rule) = rule.filter(|rule| rule.overrides || rules.ignores_origin) {
        return by_rule(rule);
    }
    if rules.ignores_origin {
        return Err(NotStored::NoLifetime);
    }
    let directives = &said.directives;
    let named = |seconds: u64, source| Ok((seconds.saturating_mul(1_000), said.targeted.unwrap_or(source)));
    if let Some(seconds) = directives.s_maxage {
        return named(seconds, LifetimeSource::SMaxage);
    }
    if let Some(seconds) = directives.max_age {
        return named(seconds, LifetimeSource::MaxAge);
    }
    if let Some(expires) = said.times.expires {
        let date = said.times.date.unwrap_or(received.seconds());
        return named(expires.map_or(0, |expires| expires.saturating_sub(date)), LifetimeSource::Expires);
    }
    if let Some(rule) = rule {
        return by_rule(rule);
    }
    if !is_heuristically_cacheable(status) && !directives.public {
        return Err(NotStored::NoLifetime);
    }
    let date = said.times.date.unwrap_or(received.seconds());
    let unchanged =
        said.times.last_modified.map_or(0, |modified| date.saturating_sub(modified)).saturating_mul(1_000);
    let heuristic =
        (unchanged / 100).saturating_mul(u64::from(rules.heuristic.percent)).min(rules.heuristic.max_ms);
    match heuristic {
        0 => Ok((0, LifetimeSource::None)),
        _ => Ok((heuristic, LifetimeSource::Heuristic)),
    }
}

/// Whether it is of no use without a validator.
fn is_never_used(lifetime: &Lifetime) -> bool {
    let has_time = lifetime.fresh_ms > lifetime.initial_age_ms
        || (!lifetime.must_revalidate
            && (lifetime.stale_while_revalidate_ms > 0 || lifetime.stale_if_error_ms > 0));
    lifetime.no_cache || !has_time
}

/// Statuses that may be stored when nothing says how long (RFC 9110 section 15.1). 206 is among them, but not stored here.
fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Statuses whose meaning for caches is known here: those of RFC 9110 and of its registry that add nothing to their class.
fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200..=205 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 428 | 429 | 431 | 451 | 500..=505 | 511
    )
}
