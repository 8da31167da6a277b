//! What the records of both sides of a simulation have to be, by a reader that shares nothing with Weir: exactly the messages that were meant.

use weir_wire::http1::{self, Http1Reading, Message, SenderEnding, StartLine};

/// What a client shall have got.
#[derive(Debug, Clone)]
pub(super) struct MeantReply<'a> {
    /// What its request names itself.
    pub(super) id: String,
    pub(super) method: &'a str,
    /// Of the responses, interim ones first.
    pub(super) statuses: Vec<u16>,
    pub(super) end: MeantEnd,
    pub(super) source: MeantSource,
}

/// How much of the response has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeantEnd {
    /// All of it.
    Whole,
    /// Not all of it, and that shows.
    Cut,
    /// The client is gone, or the exchange was dropped: any part.
    Any,
}

/// Who has made the final response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MeantSource {
    /// Weir, with this body where it is known.
    Weir(Option<&'static [u8]>),
    /// A server, with this body.
    Server(Vec<u8>),
    /// Either.
    Any(Vec<u8>),
}

/// What a server shall have got.
#[derive(Debug, Clone)]
pub(super) struct MeantRequest<'a> {
    pub(super) id: String,
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) body: &'a [u8],
    /// Whether it was told that it has all of it.
    pub(super) is_whole: bool,
}

/// Judges what a client has received.
pub(super) fn reply(record: &[u8], meant: &MeantReply<'_>) -> Result<(), String> {
    let ending = if meant.end == MeantEnd::Whole { SenderEnding::Closed } else { SenderEnding::Broken };
    let reading = http1::responses(record, &[meant.method], ending);
    if let Some(fault) = &reading.fault {
        return Err(format!("no sequence of responses: {fault}"));
    }
    let statuses: Vec<u16> = reading.messages.iter().map(Message::status).collect();
    if !meant.statuses.starts_with(&statuses) {
        return Err(format!("responses {statuses:?} in place of {:?}", meant.statuses));
    }
    for message in &reading.messages {
        check_source(message, meant)?;
    }
    let last = reading.messages.last().filter(|message| !message.is_interim());
    let is_whole = last.is_some_and(|message| message.is_complete) && reading.unfinished_head.is_none();
    let has_tunnel = reading.tunnel.is_some_and(|at| at == record.len());
    match meant.end {
        MeantEnd::Whole if !is_whole || statuses != meant.statuses => {
            Err(format!("not whole: {statuses:?} of {:?}", meant.statuses))
        }
        MeantEnd::Whole if has_tunnel != meant.statuses.ends_with(&[101]) => {
            Err("bytes behind a switch, or no switch".to_owned())
        }
        MeantEnd::Cut if is_whole => Err("a response that is cut reads as whole".to_owned()),
        _ => Ok(()),
    }
}

/// Whose response it is, by its id, and its body.
fn check_source(message: &Message, meant: &MeantReply<'_>) -> Result<(), String> {
    let ids = message.fields.all("x-id");
    let is_of_server = match ids.as_slice() {
        [] => false,
        [id] if *id == meant.id => true,
        ids => return Err(format!("the response of {ids:?} in place of {}", meant.id)),
    };
    let status = message.status();
    if message.is_interim() {
        return is_of_server.then_some(()).ok_or_else(|| format!("a {status} of no server"));
    }
    let body = match (&meant.source, is_of_server) {
        (MeantSource::Server(body) | MeantSource::Any(body), true) => Some(&body[..]),
        (MeantSource::Weir(body), false) => *body,
        (MeantSource::Any(_), false) => None,
        (MeantSource::Weir(_), true) => {
            return Err(format!("a {status} of a server in place of one of Weir"));
        }
        (MeantSource::Server(_), false) => {
            return Err(format!("a {status} of Weir in place of one of a server"));
        }
    };
    body.map_or(Ok(()), |body| check_body(message, if meant.method == "HEAD" { b"" } else { body }))
}

fn check_body(message: &Message, body: &[u8]) -> Result<(), String> {
    let got = &message.body;
    let is_same = if message.is_complete { got == body } else { body.starts_with(got) };
    is_same.then_some(()).ok_or_else(|| format!("{} bytes in place of {}", got.len(), body.len()))
}

/// Judges what a server has received on one connection.
pub(super) fn requests(record: &[u8], meant: &[MeantRequest<'_>]) -> Result<(), String> {
    let Http1Reading { messages, tunnel, unfinished_head, fault } = http1::requests(record);
    if let Some(fault) = fault {
        return Err(format!("no sequence of requests: {fault}"));
    }
    if tunnel.is_some() {
        return Err("bytes of a tunnel among those of requests".to_owned());
    }
    let begun = messages.len() + usize::from(unfinished_head.is_some());
    // Of the last one, nothing may have come.
    if begun > meant.len() || begun + 1 < meant.len() {
        return Err(format!("{begun} requests in place of {}", meant.len()));
    }
    for (at, meant) in meant.iter().enumerate() {
        let Some(message) = messages.get(at) else {
            return if meant.is_whole { Err(format!("request {at} has not come whole")) } else { Ok(()) };
        };
        check_request(message, meant).map_err(|what| format!("request {at}: {what}"))?;
    }
    Ok(())
}

fn check_request(message: &Message, meant: &MeantRequest<'_>) -> Result<(), String> {
    let StartLine::Request { method, target } = &message.start else {
        return Err("no request".to_owned());
    };
    let ids = message.fields.all("x-id");
    if (&**method, &**target, ids.as_slice()) != (meant.method, meant.target, &[&*meant.id]) {
        return Err(format!("{method} {target} of {ids:?} in place of {meant:?}"));
    }
    if meant.is_whole && !message.is_complete {
        return Err("it ends before its end".to_owned());
    }
    check_body(message, meant.body)
}
