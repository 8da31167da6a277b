//! Answers of the server of `forward_auth` that are kept: which requests are alike, and which answers may be kept for how long.
//!
//! What is not certain is not kept: a request without credentials, an answer that sets cookies, forbids it, or depends on what is not in the key.

use std::time::Duration;

use weir_cache::HeadView;
use weir_cache::directives::ResponseDirectives;
use weir_config::{ForwardAuth, ForwardAuthCache, HeaderName, TemplateValue};
use weir_http::{FieldName, FieldSet, ResponseHead};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock::Instant;
use crate::state::routes::access::{AuthDecision, AuthDecisions, CredentialDigest};

/// Values of one placeholder in a key.
const VALUES_MAX: usize = 64;

/// Fields that `Vary` of an answer may name although no key has them: they say in which form the client wants to read it. Of a denial, which the client
/// reads, it is the first alone: one that is encoded is not kept.
const OF_FORM: [&[u8]; 4] = [b"accept-encoding", b"accept", b"accept-language", b"accept-charset"];

/// What a trusted proxy says of a request besides the address of the client: it goes on to the server.
const OF_PROXY: FieldSet = FieldSet::new(&[
    FieldName::Forwarded,
    FieldName::XForwardedHost,
    FieldName::XForwardedPort,
    FieldName::XForwardedProto,
    FieldName::XForwardedOther,
]);

/// What requests have in common that are answered alike; `None` for one that has none of the credentials, or keeps one of its fields from the server.
pub(super) fn digest<U>(
    context: &Context<'_, impl ClientEnd, U>,
    forward: &ForwardAuth,
    decisions: &AuthDecisions,
) -> Option<CredentialDigest> {
    let cache = decisions.cache()?;
    if context.exchange.keeps_fields_back() {
        return None;
    }
    let values = TemplateValues::new(context, context.route());
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut has_credentials = false;
    // In further headers of the question, what says who the client is may have another name.
    let told = forward.headers.iter().flat_map(|(_, template)| template.values());
    let told = told.filter(|value| value.leaves().iter().any(says_who)).map(|value| (value, false));
    let in_key = cache.key.values().map(|value| (value, is_sent_credential(forward, value)));
    for (value, is_credential) in in_key.chain(told) {
        let count = values.count(value);
        if count > VALUES_MAX {
            return None;
        }
        parts.push(vec![u8::try_from(count).ok()?]);
        for nth in 0..count {
            let mut part = Vec::new();
            values.write_sent(value, nth, &mut part);
            has_credentials |= is_credential && !part.is_empty();
            parts.push(part);
        }
    }
    if !has_credentials {
        return None;
    }
    push_fields(context, (forward, cache), &mut parts);
    let (exchange, text) = (&context.exchange, &context.exchange.request_text[..]);
    parts.push(exchange.request.method_span().of(text).to_vec());
    parts.push(exchange.request.authority().of(text).to_ascii_lowercase());
    parts.push(vec![u8::from(context.client.is_tls)]);
    let mut certificate = Vec::new();
    values.write_one(&TemplateValue::TlsClientFingerprint, &mut certificate);
    parts.push(certificate);
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Some(decisions.digest(&parts))
}

/// Whether a value tells clients apart by what they prove.
fn says_who(value: &TemplateValue) -> bool {
    let is_proven = matches!(value, TemplateValue::User | TemplateValue::TokenClaim(_));
    is_proven || ForwardAuthCache::is_credential(value)
}

/// Whether a value of a key is a credential that the server gets.
fn is_sent_credential(forward: &ForwardAuth, value: &TemplateValue) -> bool {
    ForwardAuthCache::is_credential(value)
        && match value {
            TemplateValue::Header(name) => is_sent(forward, name.as_bytes()),
            TemplateValue::Cookie(_) => is_sent(forward, b"cookie"),
            _ => true,
        }
}

/// Whether the server gets the fields of this name of the client.
fn is_sent(forward: &ForwardAuth, name: &[u8]) -> bool {
    let is_it = |one: &HeaderName| one.as_bytes().eq_ignore_ascii_case(name);
    forward.request_headers.as_ref().is_none_or(|wanted| wanted.iter().any(is_it))
        && !forward.response_headers.iter().any(is_it)
        && !forward.headers.iter().any(|(own, _)| is_it(own))
}

/// Appends the fields of the request that are part of every key.
fn push_fields<U>(
    context: &Context<'_, impl ClientEnd, U>,
    (forward, cache): (&ForwardAuth, &ForwardAuthCache),
    parts: &mut Vec<Vec<u8>>,
) {
    let (exchange, text) = (&context.exchange, &context.exchange.request_text[..]);
    let names_cookies = cache.key.values().any(|value| matches!(value, TemplateValue::Cookie(_)));
    let of_client = [
        (FieldName::Authorization, is_sent(forward, b"authorization")),
        (FieldName::Cookie, !names_cookies && is_sent(forward, b"cookie")),
    ];
    for (name, counts) in of_client {
        let lines = exchange.request.fields().all(name).filter(|_| counts);
        let lines: Vec<Vec<u8>> = lines.map(|field| field.value.of(text).to_vec()).collect();
        parts.push(lines.len().to_be_bytes().to_vec());
        parts.extend(lines);
    }
    // Which fields go on to the server depends on the peer: what it says of others, without these, is not said of requests behind a trusted proxy.
    let is_trusted = context.listener.trusts(context.client.peer);
    parts.push(vec![u8::from(is_trusted)]);
    let fields = exchange.request.fields().iter();
    let said = fields.filter(|field| is_trusted && OF_PROXY.contains(field.known));
    let said =
        said.flat_map(|field| [field.name.of(text).to_ascii_lowercase(), field.value.of(text).to_vec()]);
    let said: Vec<Vec<u8>> = said.collect();
    parts.push(said.len().to_be_bytes().to_vec());
    parts.extend(said);
}

/// How long an answer with this head may be kept; `None`: not at all.
pub(super) fn time_max(
    cache: &ForwardAuthCache,
    (response, text): (&ResponseHead, &[u8]),
) -> Option<Duration> {
    let (fields, status) = (response.fields(), response.status());
    let time = match status {
        200..=299 => cache.time,
        401 | 403 => cache.denied_time?,
        _ => return None,
    };
    let head = HeadView { fields, text };
    let directives = ResponseDirectives::new(head);
    let is_denial = status >= 400;
    let forbids = directives.no_store
        || directives.no_cache.is_whole()
        || head.contains("set-cookie")
        || is_denial && head.contains("content-encoding");
    let of_form = if is_denial { &OF_FORM[..1] } else { &OF_FORM };
    let is_known = |name: &[u8]| {
        let in_key = |value: &TemplateValue| match value {
            TemplateValue::Header(known) => known.as_bytes().eq_ignore_ascii_case(name),
            _ => false,
        };
        [&b"authorization"[..], b"cookie"].iter().chain(of_form).any(|known| known.eq_ignore_ascii_case(name))
            || cache.key.values().any(in_key)
    };
    let mut names =
        head.all("vary").flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    if forbids || !names.all(|name| name.is_empty() || is_known(name)) {
        return None;
    }
    let fresh = directives
        .s_maxage
        .or(directives.max_age)
        .map_or(time, |seconds| time.min(Duration::from_secs(seconds)));
    (!fresh.is_zero()).then_some(fresh)
}

/// Keeps an answer for so long.
pub(super) fn keep(
    decision: &AuthDecision,
    (decisions, digest): (&AuthDecisions, CredentialDigest),
    now: Instant,
    time: Duration,
) {
    let AuthDecision { status, fields, body } = decision;
    // Of a request that passes, the body of the answer is of no use.
    let body = if (200..300).contains(status) { Vec::new() } else { body.clone() };
    decisions.keep(digest, AuthDecision { status: *status, fields: fields.clone(), body }, now, time);
}
