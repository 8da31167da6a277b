//! `[limit.NAME]` in the text.

use std::time::Duration;

use crate::key::{OneOrMany, Spanned, TextFormat, section, text_values};
use crate::value::{ByteRate, RequestFrequency, Size, StatusRange, Template};

section! {
    /// How many requests each key may make: in a time (`rate`), at once (`concurrent`); how fast it gets responses (`bandwidth`); or all of these. It holds where `limited_by` of a listener, a
    /// route or an upstream names it; what is counted under one name is counted together, by all workers, and goes on after a reload.
    #[derive(Debug, Clone)]
    pub(crate) struct LimitText at "limit.NAME" {
        /// What has a limit of its own: each text that this comes to, with [placeholders](#placeholders). Text without placeholders is one
        /// limit for all requests together. A request for which no placeholder has a value is not limited. With `{user}` or `{jwt.NAME}`, it
        /// is asked once the route has authenticated the client. Each line of a header that came in several counts.
        key: Spanned<Template> = "{client_address}", like "nginx `limit_req_zone`, HAProxy `http-request track-sc0`, Envoy `descriptors`, Traefik `sourceCriterion`";
        /// The networks that count as one client in `{client_address}`.
        prefix: LimitPrefixes = {}, like "HAProxy `ipmask`, Traefik `ipStrategy.ipv6Subnet`";
        /// Requests per time.
        rate: Spanned<RequestFrequency> = optional, like "nginx `rate=`, HAProxy `http_req_rate`, Envoy `token_bucket`, Traefik `average`";
        /// Requests that a key may make at once after a pause. Without it, the number in `rate`.
        burst: u32 = optional, in 1..=1_000_000_000, like "nginx `burst=`, Envoy `max_tokens`, Traefik `burst`";
        /// The longest time that a request of a burst waits for its turn, so that servers get requests evenly, at the pace of `rate`; one that
        /// would wait longer is refused. Off: requests of a burst go on at once.
        delay: Option<Duration> = "off", in 1..=600_000, like "nginx `limit_req` without `nodelay`";
        /// How long a key is refused everything once it was over `rate`. Off: until `rate` allows a request again.
        block: Option<Duration> = "off", in 1..=86_400_000, like "HAProxy `stick-table expire`";
        /// Only requests whose response has one of these statuses count towards `rate`: a key that is over it is refused everything. One, a
        /// range, or a list of both.
        count_status: OneOrMany<StatusRange> = optional, like "HAProxy `http_err_rate`, `http_fail_rate`";
        /// Requests of a key at once, tunnels included.
        concurrent: u32 = optional, in 1..=10_000_000, like "Traefik `inFlightReq`";
        /// Bytes per second of the bodies of all responses of a key together. Connections and streams of one key share it evenly.
        bandwidth: ByteRate = optional, in 1..=1_099_511_627_776, like "nginx `limit_rate`, HAProxy `filter bwlim-out`, Envoy `bandwidth_limit`";
        /// Bytes that a key gets at once after a pause. Without it, an eighth of a second of `bandwidth`.
        bandwidth_burst: Spanned<Size> = optional, in 1..=1_099_511_627_776, like "nginx `limit_rate_after`";
        /// The store in which several nodes share this limit, by its name: all of them together admit what `rate` says, instead of each. Not with `concurrent` and
        /// `bandwidth`.
        shared: Spanned<Box<str>> = optional, like "Traefik `rateLimit.redis`, Envoy `rate_limit_service`, HAProxy `peers`";
        /// The status of refusals.
        status: u16 = 429, in 400..=599, like "nginx `limit_req_status`, HAProxy `deny_status`";
        /// Whether refusals by `rate` have the fields `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers), beside
        /// `Retry-After`.
        fields: bool = true, like "Envoy `enable_x_ratelimit_headers`";
        /// Whether all other responses under the limit have these fields, too: with what is left of `rate`. Those of the server itself pass
        /// beside them.
        fields_in_responses: bool = false, like "Envoy `enable_x_ratelimit_headers`";
        /// Whether requests are only counted, and none is refused or delayed: to try a limit.
        dry_run: bool = false, like "nginx `limit_req_dry_run`, Envoy `filter_enforced`";
        /// The keys that the table has room for, 55 bytes each. When more come, the key that has used least of its rate is forgotten.
        keys_max: usize = 100_000, in 1..=4_000_000, like "nginx `zone=`, HAProxy `stick-table size`";
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
