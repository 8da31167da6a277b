//! What follows when a message breaks a rule of HTTP: status, where it can happen, and what to change.
//!
//! A request that breaks a rule is answered and never forwarded; a response that breaks one becomes 502. The sentences
//! about the rules themselves are in weir-http.

use weir_http::Rule;

use crate::phase::Phase;

/// The status for a request that breaks the rule (RFC 9110 section 15, RFC 6585).
pub(super) const fn request_status(rule: Rule) -> u16 {
    match rule {
        Rule::TargetTooLong => 414,
        Rule::HeadTooLarge | Rule::TooManyFields | Rule::TrailersTooLarge => 431,
        Rule::MethodTooLong | Rule::UnknownTransferCoding => 501,
        Rule::UnsupportedVersion | Rule::Http2Preface => 505,
        _ => 400,
    }
}

/// Where a request can break the rule: in its head, or while its body is sent on. Nowhere, when it is a rule for responses.
pub(super) const fn request_phases(rule: Rule) -> &'static [Phase] {
    match rule {
        Rule::BadStatusLine | Rule::BadStatus => &[],
        _ if is_body_rule(rule) => &[Phase::Send, Phase::Response, Phase::Relay],
        _ => &[Phase::Request],
    }
}

/// Where a response can break the rule: in its head, or while its body is relayed. Nowhere, when it is a rule for requests.
pub(super) const fn response_phases(rule: Rule) -> &'static [Phase] {
    match rule {
        Rule::BadMethod
        | Rule::BadRequestLine
        | Rule::BadTarget
        | Rule::BadScheme
        | Rule::Http2Preface
        | Rule::TlsOnPlainPort
        | Rule::ProxyHeaderUnexpected
        | Rule::MissingHost
        | Rule::SeveralHosts
        | Rule::BadHost
        | Rule::TargetTooLong
        | Rule::MethodTooLong => &[],
        _ if is_body_rule(rule) => &[Phase::Relay],
        _ => &[Phase::Response],
    }
}

const fn is_body_rule(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::BadChunkSize
            | Rule::BadChunkExtension
            | Rule::ChunkExtensionsTooLarge
            | Rule::BadChunkEnd
            | Rule::BadTrailer
            | Rule::TrailersTooLarge
    )
}

/// What the operator can do about a request that breaks the rule.
pub(super) const fn request_change(rule: Rule) -> &'static str {
    match rule {
        Rule::TargetTooLong => "Raise `listener.NAME.limits.target` if such long targets are legitimate.",
        Rule::HeadTooLarge => {
            "Raise `listener.NAME.limits.head` if such heads (often cookies) are legitimate."
        }
        Rule::TooManyFields => "Raise `listener.NAME.limits.fields` if so many fields are legitimate.",
        Rule::TrailersTooLarge => "Raise `listener.NAME.limits.trailers` if such trailers are legitimate.",
        _ => "Correct the client.",
    }
}

/// What the operator can do about a response that breaks the rule.
pub(super) const fn response_change(rule: Rule) -> &'static str {
    match rule {
        Rule::HeadTooLarge => "Raise `upstream.NAME.limits.head`.",
        _ => "Correct the server.",
    }
}

/// The reason code of a response that breaks the rule: the name of the rule after `response-`.
pub(super) fn response_code(rule: Rule) -> &'static str {
    let (bytes, len) = &RESPONSE_CODES[rule as usize];
    std::str::from_utf8(&bytes[..*len]).expect("names of rules are ASCII")
}

const CODE_MAX: usize = 64;
const PREFIX: &[u8] = b"response-";

static RESPONSE_CODES: [([u8; CODE_MAX], usize); Rule::ALL.len()] = response_codes();

const fn response_codes() -> [([u8; CODE_MAX], usize); Rule::ALL.len()] {
    let mut codes = [([0; CODE_MAX], 0); Rule::ALL.len()];
    let mut index = 0;
    while index < codes.len() {
        let name = Rule::ALL[index].name().as_bytes();
        let mut at = 0;
        while at < PREFIX.len() + name.len() {
            codes[index].0[at] = if at < PREFIX.len() { PREFIX[at] } else { name[at - PREFIX.len()] };
            at += 1;
        }
        codes[index].1 = at;
        index += 1;
    }
    codes
}
