//! The CORS protocol of browsers (Fetch Standard): preflights are answered here, and responses say who may read them.

use weir_config::{Cors, Feature, Stage};
use weir_http::{FieldName, FieldWriter, Method};

use crate::exchange::acting;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::responder::Answer;
use crate::state::snapshot::RoutePlan;

/// What each header of the protocol in a response begins with.
const PREFIX: &[u8] = b"access-control-";

/// The method of the request that a browser asks about.
const REQUEST_METHOD: &str = "access-control-request-method";

/// Whether a request asks what another may do.
pub(in crate::exchange) fn is_preflight(exchange: &Exchange) -> bool {
    let fields = exchange.request.fields();
    exchange.request.method() == Method::Options
        && fields.contains(FieldName::Origin)
        && fields.get_by_name(&exchange.request_text, REQUEST_METHOD).is_some()
}

/// Whether a browser asks what another request may do, on a route that answers that.
#[inline(always)]
pub(in crate::exchange) fn is_preflight_on(route: &RoutePlan, exchange: &Exchange) -> bool {
    route.config.cors.is_some() && is_preflight(exchange)
}

/// Whether a field of a response of a server is about the protocol, which is Weir's matter then.
pub(in crate::exchange) fn is_of_protocol(name: &[u8]) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// The origin of the request, if its scripts may read responses.
fn allowed_origin<'a>(cors: &Cors, exchange: &'a Exchange) -> Option<&'a [u8]> {
    let origin = exchange.request.fields().first(FieldName::Origin)?.value.of(&exchange.request_text);
    cors.allows(origin).then_some(origin)
}

/// The answer to a preflight.
pub(in crate::exchange) fn answer_preflight(cors: &Cors, exchange: &Exchange) -> Answer<'static> {
    let vary = &b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"[..];
    if allowed_origin(cors, exchange).is_none() {
        let text = &b"This origin is not allowed (CORS).\n"[..];
        let answer =
            Answer::new(403).with(b"Content-Type", &b"text/plain; charset=utf-8"[..]).with(b"Vary", vary);
        return Answer { body: text.into(), ..answer };
    }
    let asked =
        exchange.request.fields().get_by_name(&exchange.request_text, "access-control-request-headers");
    let headers = match &cors.headers {
        Some(names) => list(names.iter().map(|name| name.as_bytes())),
        None => asked.map(|field| field.value.of(&exchange.request_text).to_vec()).unwrap_or_default(),
    };
    let methods = match &cors.methods {
        Some(methods) => list(methods.iter().map(|method| method.as_bytes())),
        None => {
            let asked = exchange.request.fields().get_by_name(&exchange.request_text, REQUEST_METHOD);
            asked.map(|field| field.value.of(&exchange.request_text).to_vec()).unwrap_or_default()
        }
    };
    let mut answer = Answer::new(204)
        .with(b"Access-Control-Allow-Methods", methods)
        .with(b"Access-Control-Max-Age", cors.max_age.as_secs().to_string().into_bytes())
        .with(b"Vary", vary);
    if !headers.is_empty() {
        answer = answer.with(b"Access-Control-Allow-Headers", headers);
    }
    answer
}

/// Adds what the response says of the origin of its request. Caches may keep it for others: it says the same to all, or that it does not.
pub(in crate::exchange) fn write(out: &mut impl FieldWriter, cors: &Cors, exchange: &Exchange) {
    acting::note(Stage::ResponseFields, Feature::Cors);
    if !cors.allows_any() && !is_preflight(exchange) {
        out.field(b"Vary", b"Origin");
    }
    let origin = if cors.allows_any() { Some(&b"*"[..]) } else { allowed_origin(cors, exchange) };
    let Some(origin) = origin else { return };
    out.field(b"Access-Control-Allow-Origin", origin);
    if cors.credentials {
        out.field(b"Access-Control-Allow-Credentials", b"true");
    }
    if !cors.expose.is_empty() {
        out.field(b"Access-Control-Expose-Headers", &list(cors.expose.iter().map(|name| name.as_bytes())));
    }
}

/// A list as the value of a header.
fn list<'a>(names: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut list = Vec::new();
    for name in names {
        if !list.is_empty() {
            list.extend_from_slice(b", ");
        }
        list.extend_from_slice(name);
    }
    list
}
