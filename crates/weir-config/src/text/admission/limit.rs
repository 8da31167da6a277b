//! `[limit.NAME]` in the text.

use std::time::Duration;

use crate::config::{BANDWIDTH, BURST, CONCURRENT, KEYS_MAX, REFUSAL_STATUSES};
use crate::key::{OneOrMany, Spanned, TextFormat, section, text_values};
use crate::text::ConditionText;
use crate::value::{ByteRate, RequestFrequency, Size, StatusRange, Template};

section! {
    /// Limits per key: requests per time (`rate`), concurrent requests (`concurrent`), bandwidth of responses (`bandwidth`), or several of
    /// these. A limit applies where `limited_by` of a listener, a route or an upstream names it. All places that name it, and all workers,
    /// share its counts; a reload keeps them.
    #[derive(Debug, Clone)]
    pub(crate) struct LimitText at "limit.NAME" {
        /// Key; each distinct value has its own limit. Text with [placeholders](#placeholders); without any, one limit for all requests
        /// together. A request in which no placeholder has a value is not limited. A key with `{user}` or `{jwt.NAME}` is evaluated after
        /// authentication. If a header has several lines, each line counts as a value.
        key: Spanned<Template> = "{client_address}", like "nginx `limit_req_zone`, HAProxy `http-request track-sc0`, Envoy `descriptors`, Traefik `sourceCriterion`";
        /// A condition: only requests for which it holds are limited and counted. See [Conditions](#conditions).
        when: ConditionText = optional, like "nginx `map` with an empty key, HAProxy `http-request track-sc0 ... if`";
        /// The networks that count as one client in `{client_address}`.
        prefix: LimitPrefixes = {}, like "HAProxy `ipmask`, Traefik `ipStrategy.ipv6Subnet`";
        /// Requests per time.
        rate: Spanned<RequestFrequency> = optional, like "nginx `rate=`, HAProxy `http_req_rate`, Envoy `token_bucket`, Traefik `average`";
        /// Size of the burst: requests that a key may make at once after a pause. Without it, the number in `rate`.
        burst: u32 = optional, in BURST, like "nginx `burst=`, Envoy `max_tokens`, Traefik `burst`";
        /// How long a request of a burst may be delayed to keep the pace of `rate`; one that would wait longer is rejected. Off: requests
        /// of a burst are not delayed.
        delay: Option<Duration> = "off", in 1..=600_000, like "nginx `limit_req` without `nodelay`";
        /// How long all requests of a key are rejected after it has exceeded `rate`. Off: until `rate` allows a request again.
        block: Option<Duration> = "off", in 1..=86_400_000, like "HAProxy `stick-table expire`";
        /// Count only requests whose response has one of these statuses towards `rate`: one status, a range, or a list of both. All
        /// requests of a key that exceeds `rate` are rejected.
        count_status: OneOrMany<StatusRange> = optional, like "HAProxy `http_err_rate`, `http_fail_rate`";
        /// Concurrent requests of a key, tunnels included.
        concurrent: u32 = optional, in CONCURRENT, like "Traefik `inFlightReq`";
        /// Bytes per second of response bodies, for all connections and streams of a key together. They share it evenly.
        bandwidth: ByteRate = optional, in BANDWIDTH, like "nginx `limit_rate`, HAProxy `filter bwlim-out`, Envoy `bandwidth_limit`";
        /// Size of the burst in bytes, available to a key after a pause. Without it, an eighth of a second of `bandwidth`.
        bandwidth_burst: Spanned<Size> = optional, in BANDWIDTH, like "nginx `limit_rate_after`";
        /// The store in which several nodes share this limit, by its name: all of them together admit what `rate` says, instead of each. Not with `concurrent` and
        /// `bandwidth`.
        shared: Spanned<Box<str>> = optional, like "Traefik `rateLimit.redis`, Envoy `rate_limit_service`, HAProxy `peers`";
        /// The status of rejected requests.
        status: u16 = 429, in REFUSAL_STATUSES, like "nginx `limit_req_status`, HAProxy `deny_status`";
        /// Whether refusals by `rate` have the fields `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers), beside
        /// `Retry-After`.
        fields: bool = true, like "Envoy `enable_x_ratelimit_headers`";
        /// Whether responses of accepted requests have these fields as well, with the remaining quota. Fields of the same names that the
        /// server has sent are kept.
        fields_in_responses: bool = false, like "Envoy `enable_x_ratelimit_headers`";
        /// Dry run: requests are counted, but none is rejected or delayed.
        dry_run: bool = false, like "nginx `limit_req_dry_run`, Envoy `filter_enforced`";
        /// The maximum number of keys in the table, at 55 bytes each. Above it, the key that has used the least of its rate is evicted.
        keys_max: usize = 100_000, in KEYS_MAX, like "nginx `zone=`, HAProxy `stick-table size`";
    }
}

section! {
    /// The networks that count as one client.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct LimitPrefixes at "limit.NAME.prefix" {
        /// Bits of an IPv4 address.
        ipv4: u16 = 32, in 1..=32;
        /// Bits of an IPv6 address: a client usually has a network of 64 bits.
        ipv6: u16 = 64, in 1..=128;
    }
}

text_values! {
    RequestFrequency, str::parse, |value: &RequestFrequency| value.to_string(), TextFormat {
        name: "request rate",
        article: "a rate of requests",
        examples: &["10/s", "100/m", "5/10s"],
        pattern: r"^[0-9]+/([0-9]+(\.[0-9]+)?)?(ms|s|m|h|d)",
        about: "A number of requests, and the time in which they may come: `s`, `m`, `h`, `d`, or a [duration](#duration) of at most a day.",
    };
    Template, str::parse, |value: &Template| value.to_string(), TextFormat {
        name: "text with placeholders",
        article: "a text",
        examples: &["{client_address}", "{header.x-api-key}", "{client_address} {path}"],
        pattern: "",
        about: "Text with [placeholders](#placeholders) in braces for values of the exchange; `{{` and `}}` are braces.",
    };
}
