//! Annotations about how many requests a client may make.

use super::access::some_networks;
use super::values::positive;
use super::{IngressAnnotation, IngressDraft};

const PER_CLIENT: &str = "`limit.NAME` with the key `{client_address}` and `rate`; the burst is five times the rate unless \
     `limit-burst-multiplier` says otherwise. Each process counts by itself. More is answered 429, by ingress-nginx 503";

pub(super) const ROWS: &[IngressAnnotation] = &[
    IngressAnnotation::guard("limit-rps", "requests per second of a client", PER_CLIENT, |draft, value| {
        draft.limits.per_second = Some(positive(value)?);
        Ok(())
    }),
    IngressAnnotation::guard("limit-rpm", "requests per minute of a client", PER_CLIENT, |draft, value| {
        draft.limits.per_minute = Some(positive(value)?);
        Ok(())
    }),
    IngressAnnotation::guard(
        "limit-connections",
        "connections of a client",
        "`limit.NAME` with the key `{client_address}` and `concurrent`: requests at once, whatever connections they come on",
        |draft, value| {
            draft.limits.concurrent = Some(positive(value)?);
            Ok(())
        },
    ),
    IngressAnnotation::guard(
        "limit-burst-multiplier",
        "the burst of a rate",
        "`limit.NAME.burst`",
        |draft, value| {
            draft.limits.burst_multiplier = Some(positive(value)?);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "limit-whitelist",
        "networks without limits",
        "a `list` with `action = \"allow\"`",
        exempt,
    ),
    IngressAnnotation::translated(
        "limit-allowlist",
        "networks without limits",
        "a `list` with `action = \"allow\"`",
        exempt,
    ),
    IngressAnnotation::left_out(
        "limit-rate",
        "KiB per second of each response",
        "`limit.NAME.bandwidth` of a config, which all responses of a client have together",
    ),
    IngressAnnotation::left_out(
        "limit-rate-after",
        "KiB before `limit-rate` counts",
        "`limit.NAME.bandwidth_burst` of a config",
    ),
];

/// Networks without limits at most: each is compared with those that are denied.
const EXEMPT_MAX: usize = 100;

fn exempt(draft: &mut IngressDraft, value: &str) -> Result<(), String> {
    let networks = some_networks(value)?;
    if networks.len() > EXEMPT_MAX {
        return Err(format!("it names more than {EXEMPT_MAX} networks"));
    }
    draft.limits.exempt = networks;
    Ok(())
}
