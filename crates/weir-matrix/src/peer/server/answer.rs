//! What a server says to a request, whatever the protocol: the exchange it is of, the fields of its response.

use std::time::Duration;

use super::{ServerRole, ServerShared};
use crate::array::{Body, Feature, Method};
use crate::exchange::{FOR_PROXY, Fate, REMOVED, ScriptedExchange, is_coded};
use crate::peer::link::{Tape, TapeEvent};

/// How late a late body is.
pub(super) const LATE: Duration = Duration::from_millis(15);

/// What becomes of a request.
pub(super) enum ServerTurn<'a> {
    /// It is answered as its exchange says.
    Answer(&'a ScriptedExchange),
    /// The exchange ends without an answer.
    Reset,
    /// The servers of the upstream are named.
    Registered,
    /// With these fields and no body of the exchange: a copy, a question, or what no client has asked.
    Plain(Vec<(String, String)>),
}

/// Tells requests apart, by the fields that `field` finds.
pub(super) fn turn<'a>(shared: &'a ServerShared, field: impl Fn(&str) -> Option<String>) -> ServerTurn<'a> {
    let exchange = field("x-id").and_then(|id| shared.script.exchange(&id));
    let user = field("x-user").unwrap_or_default();
    match (shared.role, exchange) {
        (ServerRole::App(name), Some(exchange)) => {
            let before = shared.script.arrive(exchange.id, name);
            if exchange.fate == Fate::Reset && before == 0 {
                ServerTurn::Reset
            } else {
                ServerTurn::Answer(exchange)
            }
        }
        (ServerRole::Registry, _) => ServerTurn::Registered,
        (ServerRole::Judge, _) => ServerTurn::Plain(vec![("remote-user".to_owned(), user)]),
        _ => ServerTurn::Plain(vec![("x-echo".to_owned(), "unknown".to_owned())]),
    }
}

/// The fields of the response to an exchange, beside those of framing.
pub(super) fn fields(shared: &ServerShared, exchange: &ScriptedExchange) -> Vec<(String, String)> {
    let content_type = if exchange.is_grpc { "application/grpc+proto" } else { "text/plain" };
    let mut fields = vec![
        ("x-echo", exchange.id),
        ("x-served-by", shared.role.name()),
        ("x-for", exchange.user),
        (REMOVED, "1"),
        ("content-type", content_type),
    ];
    fields.extend(FOR_PROXY);
    if exchange.method != Method::Post {
        fields.push(("cache-control", "max-age=60"));
    }
    if exchange.response == Body::BehindNotModified {
        fields.push(("etag", "\"1\""));
    }
    if shared.script.case.has(Feature::CodedServers) {
        fields.push(("vary", "accept-encoding"));
    }
    if is_coded(&shared.script.case, exchange) {
        fields.push(("content-encoding", "gzip"));
    }
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The bytes of the response's body, complete, in the coding that the fields name.
pub(super) fn body(shared: &ServerShared, exchange: &ScriptedExchange) -> Vec<u8> {
    let body = exchange.response_body();
    if is_coded(&shared.script.case, exchange) { gzip(&body) } else { body }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    use zlib_rs::{Deflate, DeflateFlush};
    const GZIP: u8 = 16 + 15;
    // Patterns shrink to a fraction; a body that does not has a few bytes more.
    let mut coded = vec![0; body.len() + 1_024];
    let mut deflate = Deflate::new(1, true, GZIP);
    deflate.compress(body, &mut coded, DeflateFlush::Finish).expect("there is room for all of it");
    coded.truncate(usize::try_from(deflate.total_out()).expect("it fits into memory"));
    coded
}

/// Waits for the event of the case where it happens before the response, and notes it.
pub(super) fn hold(shared: &ServerShared, exchange: &ScriptedExchange, tape: &Tape) {
    if exchange.is_held {
        shared.script.wait_for_event();
        tape.note(TapeEvent::Event(shared.script.case.event.text()));
    }
}
