//! An explanation for programs: one JSON object. Keys are only added, never renamed.

use serde_json::{Value, json};
use weir_observe::Failure;
use weir_traffic::balance::ServerCandidate;
use weir_traffic::route::{RouteOutcome, RouteRequest as _};
use weir_traffic::{Eligibility, ServerTier};

use super::explanation::{
    Disposition, ForwardedRequest, RequestExplanation, SharePercent, UpstreamDestination,
};
use super::request::lossy;
use super::{rules, sentence};

pub(super) fn render(explanation: &RequestExplanation<'_>) -> String {
    let request = explanation.request;
    let addresses: Vec<String> = explanation.listener.addresses.iter().map(ToString::to_string).collect();
    let routes: Vec<Value> = explanation
        .routes
        .iter()
        .map(|(route, outcome)| {
            json!({
                "name": &*route.name,
                "outcome": outcome_name(outcome),
                "why": sentence::outcome(outcome, route, request),
            })
        })
        .collect();
    let mut object = json!({
        "request": {
            "method": request.method,
            "target": request.url.target,
            "normal_path": request.normal_path(),
            "host": lossy(request.host()),
            "peer": request.from.to_string(),
            "client": request.source().to_string(),
        },
        "listener": {
            "name": explanation.listener.name,
            "addresses": addresses,
            "why": explanation.why.sentence(),
        },
        "steps": explanation.steps,
        "routes": routes,
        "route": explanation.route.map(|route| &*route.name),
    });
    rules::add_json(&mut object, explanation);
    let (name, ending) = ending(explanation);
    object[name] = ending;
    format!("{object:#}\n")
}

/// One of six keys, and what stands there.
fn ending(explanation: &RequestExplanation<'_>) -> (&'static str, Value) {
    match &explanation.disposition {
        Disposition::Refused(failure) => ("refused", refused(*failure)),
        Disposition::LastHop(status) => ("last_hop", json!({ "status": status })),
        Disposition::Redirect { status, location } => {
            ("redirect", json!({ "status": status, "location": location }))
        }
        Disposition::Respond(fixed) => (
            "respond",
            json!({ "status": fixed.status, "content_type": &*fixed.content_type, "body": fixed.body }),
        ),
        Disposition::Files { files, path, otherwise } => (
            "files",
            json!({
                "root": files.root,
                "path": path,
                "try_files": files.try_files.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "otherwise": otherwise.map(|upstream| &upstream.name),
                "fallback": files.fallback.as_ref().map(|_| sentence::fallback(files)),
                "scripts": explanation.fastcgi().map(sentence::scripts),
            }),
        ),
        Disposition::Forward(forward) => ("forward", forwarded(explanation, forward)),
    }
}

fn refused(failure: Failure) -> Value {
    let explanation = failure.explanation();
    json!({
        "status": failure.log_status(),
        "reason": failure.reason(),
        "phase": failure.phase.name(),
        "party": failure.party.name(),
        "happened": explanation.happened,
        "change": explanation.change,
    })
}

fn forwarded(explanation: &RequestExplanation<'_>, forward: &ForwardedRequest<'_>) -> Value {
    let route = explanation.route.expect("what is forwarded has a route");
    let changes = sentence::changes(&route.request_headers);
    let host = sentence::forward_host(&route.forward_host).into_iter();
    let headers: Vec<String> = host.chain(sentence::without_headers(route)).chain(changes).collect();
    let upgrade = forward.upgrade.as_ref();
    json!({
        "target": forward.target,
        "rewritten": forward.rewritten,
        "headers": headers,
        "scripts": explanation.fastcgi().map(sentence::scripts),
        "upgrade": upgrade.map(|(protocol, passes)| json!({ "protocol": protocol, "passes": passes })),
        "answers": forward.answers.iter().map(|(status, percent)| json!({ "status": status, "percent": percent })).collect::<Vec<_>>(),
        "upstreams": forward.destinations.iter().map(|one| destination(explanation, one)).collect::<Vec<_>>(),
    })
}

fn destination(explanation: &RequestExplanation<'_>, destination: &UpstreamDestination<'_>) -> Value {
    let key = destination.key.as_ref();
    let servers: Vec<Value> = destination
        .candidates
        .iter()
        .map(|(candidate, share)| server(destination, candidate, *share))
        .collect();
    let keyed = |is_keyed: bool| {
        destination.cookie.as_ref().filter(|cookie| cookie.affinity.key().is_some() == is_keyed)
    };
    json!({
        "name": destination.upstream.name,
        "source": explanation.sources.json(destination.upstream),
        "percent": destination.percent,
        "headers": sentence::own_changes(explanation, destination),
        "protocol": destination.upstream.protocol.name(),
        "balance": destination.upstream.balance.name(),
        "when_full": destination.upstream.when_full.name(),
        "key": key.map(|key| json!({
            "of": sentence::key_name(key),
            "value": sentence::key_value(key, explanation.request),
            "present": key.present,
        })),
        "affinity": keyed(true).map(|cookie| json!({
            "key": cookie.affinity.cookie,
            "mode": cookie.affinity.mode.name(),
            "strict": cookie.affinity.strict,
            "present": cookie.key.is_some(),
        })),
        "cookie": keyed(false).map(|cookie| json!({
            "name": cookie.affinity.cookie,
            "mode": cookie.affinity.mode.name(),
            "server": cookie.server.map(|server| &destination.server(server).name),
        })),
        "named": destination.named.as_ref().map(|named| json!({ "text": named.text, "server": named.server })),
        "tls": destination.upstream.tls.as_deref().map(sentence::tls),
        "health": destination.upstream.health.as_ref().map(|check| sentence::health(Some(check))),
        "servers": servers,
    })
}

fn server(destination: &UpstreamDestination<'_>, candidate: &ServerCandidate, share: SharePercent) -> Value {
    let server = destination.server(candidate.server);
    json!({
        "name": server.name,
        "address": server.address.to_string(),
        "weight": candidate.weight,
        "max_requests": server.max_requests,
        "source_address": server.source_address.map(|source| source.to_string()),
        "backup": candidate.tier == ServerTier::Backup,
        "eligible": candidate.eligibility == Eligibility::Eligible,
        "eligibility": candidate.eligibility.sentence(),
        "percent": share,
    })
}

const fn outcome_name(outcome: &RouteOutcome) -> &'static str {
    match outcome {
        RouteOutcome::Chosen => "chosen",
        RouteOutcome::LessSpecific => "less-specific",
        RouteOutcome::Later => "later",
        RouteOutcome::Host => "host",
        RouteOutcome::Path => "path",
        RouteOutcome::Method => "method",
        RouteOutcome::Header(_) => "header",
        RouteOutcome::Query(_) => "query",
        RouteOutcome::Source => "source",
        RouteOutcome::Condition => "condition",
    }
}
