//! Stored responses in files: read into memory when they are asked for, and forgotten when something has changed them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use weir_cache::disk::DiskHit;
use weir_cache::store::{FetchTicket, PurgeMode, PurgeScope, StoredResponse};
use weir_cache::{CacheTime, HeadView};
use weir_observe::{Failure, Phase};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Ended;
use crate::net::clock;
use crate::net::files::file::DiskWait;
use crate::state::caching::cache::{RouteCachePlan, cache_now};
use crate::state::connections::activity::Activity;

/// The file of a response that is not in memory, as far as there is one.
pub(in crate::exchange) fn find(
    plan: &RouteCachePlan,
    key: &[u8],
    request: HeadView<'_>,
    now: CacheTime,
) -> Option<DiskHit> {
    plan.plan.state.disk.as_ref()?.find(&plan.store().key(key), request, now)
}

/// What has become of a response in a file.
pub(in crate::exchange) enum Loaded {
    /// It is here, and in memory if that has room.
    Whole(Arc<StoredResponse>),
    /// It was purged meanwhile.
    Purged,
    /// The file is of no use, or too much is held already.
    Unusable(FetchTicket),
}

/// Brings a response from its file to memory, for all who wait for it.
///
/// # Errors
/// When the client leaves meanwhile, or the time of the exchange is over.
pub(in crate::exchange) async fn load<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    plan: &RouteCachePlan,
    (key, hit, ticket): (&[u8], DiskHit, FetchTicket),
) -> Result<Loaded, Ended> {
    let Some(folder) = plan.plan.state.disk.clone() else { return Ok(Loaded::Unusable(ticket)) };
    let (text, secret) = (key.to_vec(), folder.secret());
    let mut loading = DiskWait::run(move || {
        let found = folder.open_hit(&weir_cache::store::CacheKey::new(&secret, &text), &hit)?;
        Some((found.to_new(), found.read_body().ok()?, found.body_id()))
    });
    context.exchange.waits.begin(&Default::default());
    let loaded = poll_fn(|cx| {
        if let Poll::Ready(loaded) = loading.poll(cx) {
            return Poll::Ready(Ok(loaded.ok().flatten()));
        }
        if let Some(cause) = context.stream.poll_gone(cx, context.client) {
            return Poll::Ready(Err(Failure::client(Phase::Response, cause)));
        }
        context.report(Activity::Disk);
        context.poll_over(Activity::Disk, 0).map(Err)
    })
    .await
    .map_err(Ended::Failed)?;
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Response, now);
    let may_hold = |(_, body, _): &(_, Vec<u8>, _)| plan.store().may_hold(body.len() as u64);
    let Some((new, body, body_id)) = loaded.filter(may_hold) else { return Ok(Loaded::Unusable(ticket)) };
    let Some(response) = ticket.store_whole(new, context.exchange.request_for_cache(), &body) else {
        return Ok(Loaded::Purged);
    };
    response.set_file_body(body_id);
    Ok(Loaded::Whole(response))
}

/// Forgets the files of these keys, before the client learns that what is in them has changed.
pub(in crate::exchange) async fn forget<S, U>(
    context: &mut Context<'_, S, U>,
    plan: &RouteCachePlan,
    keys: &[Vec<u8>],
) {
    let Some(folder) = plan.plan.state.disk.clone().filter(|_| !keys.is_empty()) else { return };
    let (now, files) = (cache_now(), keys.to_vec());
    let mut forgetting = DiskWait::run(move || {
        for key in files {
            // A file that cannot be removed is forgotten all the same.
            folder.purge(PurgeScope::Exact(&key), PurgeMode::Hard, now).ok();
        }
    });
    poll_fn(|cx| {
        if forgetting.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        context.exchange.waits.poll_over(&mut context.client.deadline, Activity::Disk, 0).map(drop)
    })
    .await;
    // What was read from a file meanwhile is in memory again.
    for key in keys {
        plan.store().invalidate(&plan.store().key(key), now);
    }
}
