//! What keeps a client on its server: cookies, read from the request, taken out or unmarked on the way to the server, set or marked on the way back; keys
//! that the config makes of the request, learned from what servers say. Which server a cookie or a key stands for is known in weir-traffic alone.

pub(in crate::exchange) mod by_name;

use std::time::Duration;

use tokio::sync::oneshot;
use weir_config::{Feature, Stage};
use weir_http::{Field, FieldName, FieldWriter};
use weir_observe::AffinityOutcome;
use weir_traffic::ServerId;
use weir_traffic::affinity::{Affinity, LearnSource, RequestAffinity, unquoted};
use weir_traffic::balance::WhenFull;

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::phases::pause;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock::Instant;
use crate::state::snapshot::UpstreamPlan;

/// The longest wait for the store of other nodes; the store has a time limit of its own.
const STORE_WAIT_MAX: Duration = Duration::from_secs(1);

/// A key that this node does not know, and of which the store is asked.
pub(in crate::exchange) type AskedKey = oneshot::Receiver<Option<Box<str>>>;

/// Looks up the server of the request, by its cookies or its key. Other nodes may know one that this node does not.
pub(in crate::exchange) fn begin<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
) -> Option<AskedKey> {
    let plan = plans.upstream;
    let affinity = plan.affinity.as_ref()?;
    if !affinity.needs_key() {
        begin_by_cookies(context.exchange, plan, context.client.now);
        return None;
    }
    acting::note(Stage::Upstream, Feature::Affinity);
    let key = request_key(context, plans)?;
    let found = affinity.lookup_key(&key, plan.seconds(context.client.now));
    set(context.exchange, plan, found);
    let sharing = plan.affinity_sharing.as_ref()?;
    if let Some(server) = found.due() {
        sharing.tell(unquoted(&key), name_of(plan, server));
    }
    if found.is_open() { sharing.ask(unquoted(&key)) } else { None }
}

/// The key of the request, if it has one.
fn request_key<U>(context: &Context<'_, impl ClientEnd, U>, plans: Plans<'_>) -> Option<Vec<u8>> {
    let template = plans.upstream.config.affinity.as_ref()?.key()?;
    let mut key = Vec::new();
    TemplateValues::new(context, Some(plans.route)).write_own_key(template, &mut key).then_some(key)
}

fn name_of(plan: &UpstreamPlan, server: ServerId) -> &str {
    plan.config.servers.get(server.index()).map_or("", |server| &server.name)
}

/// Waits for what other nodes know of the key of the request. Without an answer in time, the request is as one whose key is not known.
///
/// # Errors
/// When the client leaves meanwhile, or the time of the exchange is over.
pub(in crate::exchange) async fn take_over<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    asked: AskedKey,
) -> Result<(), Ended> {
    let answer = pause::for_answer(context, asked, STORE_WAIT_MAX).await?;
    let plan = plans.upstream;
    let server = answer.and_then(|name| plan.in_service(&name)).and_then(|at| u32::try_from(at).ok());
    if let (Some(server), Some(affinity)) = (server, &plan.affinity) {
        let now_s = plan.seconds(context.client.now);
        context.exchange.affinity = affinity.found(context.exchange.affinity, ServerId(server), now_s);
    }
    Ok(())
}

/// The same by cookies alone: nothing is looked up for a copy by a key, since no client gets what its server says.
pub(in crate::exchange) fn begin_by_cookies(exchange: &mut Exchange, plan: &UpstreamPlan, now: Instant) {
    let Some(affinity) = &plan.affinity else { return };
    acting::note(Stage::Upstream, Feature::Affinity);
    let text = &exchange.request_text[..];
    let cookies = exchange.request.fields().all(FieldName::Cookie).map(|field| field.value.of(text));
    let found = affinity.lookup(cookies, plan.seconds(now));
    set(exchange, plan, found);
}

fn set(exchange: &mut Exchange, plan: &UpstreamPlan, found: RequestAffinity) {
    exchange.affinity = match plan.when_full {
        WhenFull::Never => found.strictly(),
        WhenFull::Queue | WhenFull::Spill => found,
    };
}

/// The affinity of the upstream of the request that this one is a copy of: no other server gets what binds a client to one of its servers.
#[cold]
pub(crate) fn of_copied<'a>(exchange: &Exchange, plans: Plans<'a>) -> Option<&'a Affinity> {
    let upstream = plans.config.snapshot.upstreams.get(exchange.copied_from?)?;
    upstream.affinity.as_ref().filter(|affinity| affinity.changes_requests())
}

/// Adds the Cookie field of a request as the server gets it, after the changes of each affinity.
pub(crate) fn write_cookie(
    out: &mut impl FieldWriter,
    affinities: [Option<&Affinity>; 2],
    text: &[u8],
    field: &Field,
) {
    let value = field.value.of(text);
    acting::note(Stage::Server, Feature::Affinity);
    match affinities {
        [None, None] => {}
        [Some(affinity), None] | [None, Some(affinity)] => {
            out.field_unless_empty(b"Cookie", |out| affinity.write_cookie(out, value));
        }
        [Some(first), Some(second)] => {
            let mut changed = Vec::new();
            first.write_cookie(&mut changed, value);
            out.field_unless_empty(b"Cookie", |out| second.write_cookie(out, &changed));
        }
    }
}

/// Adds a Set-Cookie field of a response as the client gets it.
pub(crate) fn write_set_cookie(
    out: &mut impl FieldWriter,
    affinity: &Affinity,
    server: ServerId,
    text: &[u8],
    field: &Field,
) {
    out.field_with(b"Set-Cookie", |out| {
        if !affinity.mark_set_cookie(out, field.value.of(text), server) {
            out.extend_from_slice(field.value.of(text));
        }
    });
}

/// Adds the cookie that binds the client to the server that has answered.
pub(crate) fn write_affinity_cookie(
    out: &mut impl FieldWriter,
    request: RequestAffinity,
    plans: Plans<'_>,
    (server, changes): (ServerId, HeadChanges<'_>),
) {
    let Some(affinity) = &plans.upstream.affinity else { return };
    if let Some(cookie) = affinity.set_cookie(request, server) {
        out.field(b"Set-Cookie", cookie.as_bytes());
        acting::note(Stage::ResponseFields, Feature::Affinity);
        // A shared cache that kept this response would give one client's cookie to all (RFC 9111 section 7.3).
        if changes.leave(b"Cache-Control") {
            out.field(b"Cache-Control", b"private");
        }
    }
}

/// Counts whether affinity kept or moved the client.
pub(crate) fn count(exchange: &mut Exchange, plans: Plans<'_>, server: ServerId) {
    if plans.upstream.affinity.is_none() {
        return;
    }
    let kept = match exchange.affinity.server {
        None => AffinityOutcome::New,
        Some(own) if own == server => AffinityOutcome::Kept,
        Some(_) => AffinityOutcome::Moved,
    };
    exchange.record.affinity = Some(kept);
    plans.upstream_shard().affinity[kept as usize].increment();
}

/// Learns what the server says in the response head `head`, cookies or keys, and the new server of a client that moved; forgets the key of a session
/// that is over. Other nodes are told of it where they share it.
pub(in crate::exchange) fn learn<U>(
    context: &Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
    server: ServerId,
    head: &[u8],
) {
    let plan = plans.upstream;
    let Some(affinity) = &plan.affinity else { return };
    let (exchange, now_s) = (&*context.exchange, plan.seconds(context.client.now));
    let sharing = plan.affinity_sharing.as_deref();
    let has_moved = affinity.learn(exchange.affinity, server, now_s);
    if let (true, Some(sharing)) = (has_moved, sharing)
        && let Some(key) = request_key(context, plans)
    {
        sharing.tell(unquoted(&key), name_of(plan, server));
    }
    let learn_key = |key: &[u8]| {
        let is_news = affinity.learn_value(key, server, now_s);
        if let (true, Some(sharing)) = (is_news, sharing) {
            sharing.tell(unquoted(key), name_of(plan, server));
        }
    };
    let fields = exchange.response.fields();
    for source in affinity.sources() {
        if let LearnSource::Header(name) = source {
            fields.all_by_name(head, name).for_each(|field| learn_key(field.value.of(head)));
        }
    }
    if affinity.sources().iter().any(|source| matches!(source, LearnSource::Cookie(_))) {
        let set = fields.all(FieldName::SetCookie).map(|field| field.value.of(head));
        set.filter_map(|field| affinity.set_key(field)).for_each(learn_key);
    }
    forget(context, plans, affinity, server, head);
}

/// Forgets the key of the request, if the config says that this response ends its session.
fn forget<U>(
    context: &Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
    affinity: &Affinity,
    server: ServerId,
    head: &[u8],
) {
    let settings = plans.upstream.config.affinity.as_ref();
    let Some(condition) = settings.and_then(|settings| settings.forget_when.as_ref()) else { return };
    let exchange = &*context.exchange;
    let response = Some((exchange.response.fields(), head));
    let values = TemplateValues::for_attempt(context, plans, server);
    let values = TemplateValues { response, status: exchange.response.status(), ..values };
    if !condition.holds(&values) {
        return;
    }
    affinity.forget(exchange.affinity);
    if let Some(sharing) = &plans.upstream.affinity_sharing
        && let Some(key) = request_key(context, plans)
    {
        sharing.forget(unquoted(&key));
    }
}
