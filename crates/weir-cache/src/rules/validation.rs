//! Asking the server whether a stored response still holds, and what its answer changes (RFC 9111 sections 4.3 and 3.2).

use weir_http::{FieldName, FieldSet, FieldWriter, date};

use super::lifetime::Lifetime;
use super::refusal::NotStored;
use super::storing::{StoreRules, StoredRequest, accel_expires, plan_storing_as};
use crate::head::{HeadView, StoredHead};
use crate::time::CacheTime;

/// Fields that a 304 never changes: they are about the stored body (RFC 9111 section 3.2), or belong to a connection.
const NEVER_UPDATED: FieldSet = FieldSet::RESPONSE_HOP.with(FieldSet::new(&[
    FieldName::Age,
    FieldName::SetCookie,
    FieldName::ProxyAuthenticate,
    FieldName::ContentEncoding,
    FieldName::ContentType,
    FieldName::Etag,
    FieldName::Vary,
]));

/// Writes the preconditions by which the server is asked whether `stored` still holds: `If-None-Match` and `If-Modified-Since`. Says whether
/// there are any.
pub fn write_validators(stored: HeadView<'_>, writer: &mut impl FieldWriter) -> bool {
    let (etag, modified) = (stored.first("etag"), stored.first("last-modified"));
    if let Some(etag) = etag {
        writer.field(b"If-None-Match", etag);
    }
    if let Some(modified) = modified {
        writer.field(b"If-Modified-Since", modified);
    }
    etag.is_some() || modified.is_some()
}

/// What a 304 makes of a stored response.
#[derive(Debug)]
pub struct Freshened {
    /// Its fields from now on.
    pub head: StoredHead,
    /// Its times from now on.
    pub lifetime: Lifetime,
}

/// What becomes of a stored response whose server has answered 304.
#[derive(Debug)]
pub enum FreshenPlan {
    /// It is stored anew with these fields and times.
    Store(Box<Freshened>),
    /// It may be sent this time with these fields. It is forgotten, if the reason [is of the response](NotStored::is_of_response); else it stays as it
    /// is: the 304 was for one client.
    SendOnly(Box<Freshened>, NotStored),
    /// The 304 is about another version: the stored response is forgotten, and the request sent again without preconditions.
    OtherVersion,
}

/// What a 304 with these fields makes of a stored response. `request` is the one that was sent.
pub fn plan_freshening(
    request: &StoredRequest<'_>,
    status: u16,
    stored: HeadView<'_>,
    not_modified: HeadView<'_>,
    rules: &StoreRules,
    received: CacheTime,
) -> FreshenPlan {
    if !is_same_version(stored, not_modified) {
        return FreshenPlan::OtherVersion;
    }
    let mut head = freshen(stored, not_modified);
    // A 304 without a date is as new as it is received; that of the stored response is an older one.
    if !not_modified.fields.contains(FieldName::Date) {
        head = StoredHead::copy(head.view(), |field| field.known != FieldName::Date);
        head.append(b"Date", &date(received.seconds()));
    }
    // What the 304 says of it, which no stored head has.
    let accel = accel_expires(not_modified, rules, received);
    match plan_storing_as(request, status, head.view(), (rules, accel), received) {
        Ok(plan) => {
            let head = plan.stored_head(head.view());
            let mut lifetime = plan.lifetime;
            lifetime.initial_age_ms = lifetime.initial_age_ms.max(age_ms(not_modified));
            FreshenPlan::Store(Box::new(Freshened { head, lifetime }))
        }
        Err(reason) => {
            let lifetime = Lifetime { received, ..Lifetime::default() };
            FreshenPlan::SendOnly(Box::new(Freshened { head, lifetime }), reason)
        }
    }
}

fn age_ms(head: HeadView<'_>) -> u64 {
    crate::directives::MessageTimes::new(head).age.saturating_mul(1_000)
}

/// Whether a 304 with these fields is about the stored version (RFC 9111 section 4.3.4): a strong validator of it must be that of the stored one.
pub fn is_same_version(stored: HeadView<'_>, not_modified: HeadView<'_>) -> bool {
    let opaque = |tag: &'_ [u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    match (not_modified.first("etag"), stored.first("etag")) {
        (Some(new), Some(old)) => opaque(new) == opaque(old),
        (Some(_), None) | (None, _) => {
            match (not_modified.first("last-modified"), stored.first("last-modified")) {
                (Some(new), Some(old)) => new == old || not_modified.contains("etag"),
                _ => true,
            }
        }
    }
}

/// The fields of a stored response with those of a newer head in their place (RFC 9111 section 3.2).
pub fn freshen(stored: HeadView<'_>, newer: HeadView<'_>) -> StoredHead {
    let replaces = |name: &[u8], known: FieldName| {
        !NEVER_UPDATED.contains(known) && !name.eq_ignore_ascii_case(b"content-range")
    };
    let named = |name: &[u8]| {
        newer.fields.iter().any(|field| {
            let newer_name = field.name.of(newer.text);
            newer_name.eq_ignore_ascii_case(name) && replaces(newer_name, field.known)
        })
    };
    let mut head =
        StoredHead::copy(stored, |field| field.known != FieldName::Age && !named(field.name.of(stored.text)));
    for field in newer.fields {
        let name = field.name.of(newer.text);
        if replaces(name, field.known) {
            head.append(name, field.value.of(newer.text));
        }
    }
    head
}

/// Whether the answer to a HEAD confirms a stored response (RFC 9111 section 4.3.5): with the same validators and length it updates the fields as a
/// 304 does, else the stored response is to be invalidated.
pub fn updates_by_head(
    stored: HeadView<'_>,
    stored_len: Option<u64>,
    newer: HeadView<'_>,
    newer_len: Option<u64>,
) -> bool {
    let is_same = |name: &str| newer.first(name).is_none_or(|value| stored.first(name) == Some(value));
    let same_len = newer_len.is_none() || stored_len.is_none() || newer_len == stored_len;
    same_len && is_same("etag") && is_same("last-modified")
}
