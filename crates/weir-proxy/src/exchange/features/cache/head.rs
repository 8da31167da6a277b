//! A HEAD for what is not stored, or is stale: what the response to the GET in its place makes of it, and what its own response is good for.

use std::sync::Arc;

use weir_cache::rules::ForwardReason;
use weir_cache::store::{FetchOutcome, StoredResponse};
use weir_observe::CacheResult;

use super::send::StoredAnswer;
use crate::exchange::exchange_state::cache_use::CacheTask;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::state::caching::cache::RouteCachePlan;

/// What a HEAD gets of the response to the GET in its place; `None` when there is none for it.
pub(super) fn answer(
    exchange: &Exchange,
    plan: &RouteCachePlan,
    (key, reason): (&[u8], ForwardReason),
    (outcome, before): (FetchOutcome, Option<Arc<StoredResponse>>),
) -> Option<StoredAnswer> {
    let FetchOutcome::Stored(stored) = outcome else { return None };
    let store = plan.store();
    if !store.is_for(&stored, &store.key(key), exchange.request_for_cache()) {
        return None;
    }
    let is_confirmed = before.is_some_and(|before| Arc::ptr_eq(before.body(), stored.body()));
    let result = if is_confirmed { CacheResult::Revalidated } else { CacheResult::Miss };
    let mut answer = StoredAnswer::new(stored, result)?;
    answer.forwarded = Some((reason, is_confirmed.then_some(304)));
    answer.is_new = !is_confirmed;
    Some(answer)
}

/// What the response to a HEAD is good for, when it asks about what is stored: nothing is stored of it.
pub(super) fn task(stored: Arc<StoredResponse>, stale_on_error: bool) -> CacheTask {
    match stale_on_error {
        true => CacheTask::Refresh { ticket: None, stored, stale_on_error },
        false => CacheTask::Pass,
    }
}
