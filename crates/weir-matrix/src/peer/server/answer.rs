//! What a server says to a request, whatever the protocol: the exchange it is of, the fields of its response.

use std::time::Duration;

use super::{ServerRole, ServerShared};
use crate::array::{Body, Method};
use crate::exchange::{Fate, REMOVED, ScriptedExchange};
use crate::peer::link::{Tape, TapeEvent};

/// How late a late body is.
pub(super) const LATE: Duration = Duration::from_millis(15);

/// What becomes of a request.
pub(super) enum ServerTurn<'a> {
    /// It is answered as its exchange says.
    Answer(&'a ScriptedExchange),
    /// The exchange ends without an answer.
    Reset,
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
    if exchange.method != Method::Post {
        fields.push(("cache-control", "max-age=60"));
    }
    if exchange.response == Body::BehindNotModified {
        fields.push(("etag", "\"1\""));
    }
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Waits for the event of the case where it happens before the response, and notes it.
pub(super) fn hold(shared: &ServerShared, exchange: &ScriptedExchange, tape: &Tape) {
    if exchange.is_held {
        shared.script.wait_for_event();
        tape.note(TapeEvent::Event(shared.script.case.event.text()));
    }
}
