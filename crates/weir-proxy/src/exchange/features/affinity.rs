//! Cookies that keep a client on its server: read from the request, taken out or unmarked on the way to the server, set
//! or marked on the way back. Which server a cookie stands for is known in weir-traffic alone.

use weir_config::{Feature, Stage};
use weir_http::{Field, FieldName, FieldWriter};
use weir_observe::AffinityOutcome;
use weir_traffic::ServerId;
use weir_traffic::affinity::{CookieAffinity, RequestAffinity};

use crate::exchange::acting;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::exchange::exchange_state::plans::Plans;
use crate::net::clock::Instant;
use crate::state::snapshot::UpstreamPlan;

/// Looks up the server of the request by its cookies.
pub(crate) fn begin(exchange: &mut Exchange, plan: &UpstreamPlan, now: Instant) {
    let Some(affinity) = &plan.affinity else { return };
    acting::note(Stage::Upstream, Feature::Affinity);
    let text = &exchange.request_text[..];
    let cookies = exchange.request.fields().all(FieldName::Cookie).map(|field| field.value.of(text));
    exchange.affinity = affinity.lookup(cookies, plan.seconds(now));
}

/// The affinity of the upstream of the request that this one is a copy of: no other server gets what binds a client to one of its servers.
#[cold]
pub(crate) fn of_copied<'a>(exchange: &Exchange, plans: Plans<'a>) -> Option<&'a CookieAffinity> {
    let upstream = plans.config.snapshot.upstreams.get(exchange.copied_from?)?;
    upstream.affinity.as_ref().filter(|affinity| affinity.changes_requests())
}

/// Adds the Cookie field of a request as the server gets it, after the changes of each affinity.
pub(crate) fn write_cookie(
    out: &mut impl FieldWriter,
    affinities: [Option<&CookieAffinity>; 2],
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
    affinity: &CookieAffinity,
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

/// Learns the cookies that the server sets in the response head `text`, and the new server of a client that moved.
pub(crate) fn learn(exchange: &Exchange, plan: &UpstreamPlan, server: ServerId, text: &[u8], now: Instant) {
    let Some(affinity) = &plan.affinity else { return };
    let now_s = plan.seconds(now);
    affinity.learn(exchange.affinity, server, now_s);
    for field in exchange.response.fields().all(FieldName::SetCookie) {
        affinity.learn_set_cookie(field.value.of(text), server, now_s);
    }
}
