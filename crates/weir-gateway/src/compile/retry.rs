//! Retries of a rule (GEP-1731): how often and after which failures a request goes again.

use std::time::Duration;

use weir_traffic::retry::RetryPolicy;

use super::duration;
use crate::api::HttpRouteRuleRetry;
use crate::refusal::Refusal;

/// Attempts after the first, where the rule does not say.
const RETRIES: u32 = 1;
/// The least pause between two attempts, where the rule does not say.
const BACKOFF: Duration = Duration::from_millis(25);
/// The largest number of attempts after the first.
const RETRIES_MAX: u32 = 99;
/// What limits the time of all attempts is the limit of the whole request.
const ELAPSED_MAX: Duration = Duration::from_secs(3600);

/// What a rule wants, in place of what holds for its backends: connections that fail and time limits of backends are reasons, too.
pub(super) fn read(written: &HttpRouteRuleRetry) -> Result<RetryPolicy, Refusal> {
    let retries = match written.attempts {
        None => RETRIES,
        Some(attempts) => u32::try_from(attempts)
            .ok()
            .filter(|attempts| *attempts <= RETRIES_MAX)
            .ok_or_else(|| Refusal::unsupported(format!("retry.attempts: from 0 to {RETRIES_MAX}")))?,
    };
    let status = |code: &i32| {
        let status = u16::try_from(*code).ok().filter(|status| (400..=599).contains(status));
        status.ok_or_else(|| Refusal::unsupported(format!("retry.codes: {code} is no status of a failure")))
    };
    let mut on_status: Vec<u16> = written.codes.iter().map(status).collect::<Result<_, _>>()?;
    on_status.sort_unstable();
    let backoff = duration::limit("retry.backoff", written.backoff.as_deref())?;
    Ok(RetryPolicy {
        attempts_max: retries + 1,
        elapsed_max: ELAPSED_MAX,
        on_connection_error: true,
        on_timeout: true,
        on_status,
        on_grpc_status: Vec::new(),
        same_server: true,
        backoff: backoff.map_or(BACKOFF, Option::unwrap_or_default),
    })
}
