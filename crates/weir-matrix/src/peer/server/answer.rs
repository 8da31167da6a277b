//! What a server says to a request, whatever the protocol: the exchange it is of, the fields of its response.

use std::time::Duration;

use super::{Role, Shared};
use crate::array::{Body, Method};
use crate::exchange::{Exchange, Fate, REMOVED};
use crate::peer::link::{Tape, TapeEvent};

/// How late a late body is.
pub(super) const LATE: Duration = Duration::from_millis(15);

/// What becomes of a request.
pub(super) enum Turn<'a> {
    /// It is answered as its exchange says.
    Answer(&'a Exchange),
    /// The exchange ends without an answer.
    Reset,
    /// With these fields and no body of the exchange: a copy, a question, or what no client has asked.
    Plain(Vec<(String, String)>),
}

/// Tells requests apart, by the fields that `field` finds.
pub(super) fn turn<'a>(shared: &'a Shared, field: impl Fn(&str) -> Option<String>) -> Turn<'a> {
    let exchange = field("x-id").and_then(|id| shared.script.exchange(&id));
    let user = field("x-user").unwrap_or_default();
    match (shared.role, exchange) {
        (Role::App(name), Some(exchange)) => {
            let before = shared.script.arrive(exchange.id, name);
            if exchange.fate == Fate::Reset && before == 0 { Turn::Reset } else { Turn::Answer(exchange) }
        }
        (Role::Judge, _) => Turn::Plain(vec![("remote-user".to_owned(), user)]),
        _ => Turn::Plain(vec![("x-echo".to_owned(), "unknown".to_owned())]),
    }
}

/// The fields of the response to an exchange, beside those of framing.
pub(super) fn fields(shared: &Shared, exchange: &Exchange) -> Vec<(String, String)> {
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
pub(super) fn hold(shared: &Shared, exchange: &Exchange, tape: &Tape) {
    if exchange.is_held {
        shared.script.wait_for_event();
        tape.note(TapeEvent::Event(shared.script.case.event.text()));
    }
}
