//! A server of HTTP/2: one connection with its streams, answered in their order.

use std::collections::HashSet;

use super::ServerShared;
use super::answer::{self, LATE, ServerTurn};
use crate::array::{Body, Feature, Method};
use crate::clock::pause;
use crate::exchange::{EVIL_RESPONSE, FIRST_PART, REMOVED, ScriptedExchange, TRAILER, pieces};
use crate::peer::http2::Http2;
use crate::peer::link::{LinkEnd, RecordedLink};

const INTERNAL_ERROR: u32 = 2;

/// Answers requests until the connection ends.
pub(super) fn serve(link: RecordedLink, shared: &ServerShared) -> Result<(), LinkEnd> {
    let mut http2 = Http2::server(link)?;
    let mut answered = HashSet::new();
    let mut turns: Vec<(u32, ServerTurn<'_>)> = Vec::new();
    loop {
        let reading = http2.reading();
        if reading.fault.is_some() {
            return Err(LinkEnd::Malformed);
        }
        for (stream, asked) in &reading.streams {
            let is_known = answered.contains(stream) || turns.iter().any(|(known, _)| known == stream);
            if !is_known && !asked.head.0.is_empty() {
                turns.push((*stream, answer::turn(shared, |name| asked.head.first(name).map(str::to_owned))));
            }
        }
        let is_ready = |(stream, turn): &(u32, ServerTurn<'_>)| {
            let is_early = matches!(turn, ServerTurn::Answer(exchange) if exchange.request == Body::Early);
            reading
                .streams
                .get(stream)
                .is_some_and(|asked| asked.has_ended || asked.reset.is_some() || is_early)
        };
        while let Some(index) = turns.iter().position(is_ready) {
            let (stream, turn) = turns.remove(index);
            answered.insert(stream);
            if reading.streams.get(&stream).is_none_or(|asked| asked.reset.is_none()) {
                take(&mut http2, shared, stream, turn)?;
            }
        }
        while !http2.has_news {
            http2.read_frame()?;
        }
    }
}

fn take(http2: &mut Http2, shared: &ServerShared, stream: u32, turn: ServerTurn<'_>) -> Result<(), LinkEnd> {
    match turn {
        ServerTurn::Answer(exchange) => {
            answer::hold(shared, exchange, http2.link.tape());
            respond(http2, shared, exchange, stream)
        }
        ServerTurn::Reset => http2.send_reset(stream, INTERNAL_ERROR),
        // It speaks HTTP/1.
        ServerTurn::Registered => Ok(()),
        ServerTurn::Plain(fields) => {
            let head = [&[(":status".to_owned(), "200".to_owned())][..], &fields].concat();
            http2.send_head(stream, &head, true)
        }
    }
}

fn respond(
    http2: &mut Http2,
    shared: &ServerShared,
    exchange: &ScriptedExchange,
    stream: u32,
) -> Result<(), LinkEnd> {
    let body = answer::body(shared, exchange);
    let mut head = vec![(":status".to_owned(), exchange.status().to_string())];
    head.extend(answer::fields(shared, exchange));
    let has_length = !exchange.is_grpc
        && matches!(
            exchange.response,
            Body::Zero
                | Body::One
                | Body::Late
                | Body::BeyondWindow
                | Body::Large
                | Body::BehindZero
                | Body::Early
        );
    if has_length {
        head.push(("content-length".to_owned(), body.len().to_string()));
    }
    let status = exchange.is_grpc.then_some(("grpc-status", "0"));
    let trailers = status.into_iter().chain([(TRAILER, exchange.id), (REMOVED, "1")]);
    let trailers: Vec<(String, String)> =
        trailers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if exchange.is_grpc && exchange.response == Body::None {
        // A response that is a status and nothing else.
        return http2.send_head(stream, &[head, trailers].concat(), true);
    }
    let misbehaves =
        matches!(exchange.response, Body::BehindZero | Body::BehindNoContent | Body::BehindNotModified);
    if misbehaves {
        http2.send_head(stream, &head, false)?;
        return http2.send_frame(stream, EVIL_RESPONSE, true);
    }
    let has_none = exchange.method == Method::Head || matches!(exchange.response, Body::None | Body::Zero);
    http2.send_head(stream, &head, has_none)?;
    if has_none {
        return Ok(());
    }
    let has_trailers = exchange.is_grpc || exchange.response == Body::Trailers;
    if exchange.response == Body::Cut {
        return send_cut(http2, shared, stream, &body);
    }
    match exchange.response {
        Body::Late => {
            pause(LATE);
            http2.send_data(stream, &body, !has_trailers)?;
        }
        Body::Many => {
            for piece in pieces(&body) {
                http2.send_data(stream, piece, false)?;
            }
            http2.send_data(stream, b"", !has_trailers)?;
        }
        Body::EmptyLast => {
            http2.send_data(stream, &body, false)?;
            http2.send_data(stream, b"", !has_trailers)?;
        }
        _ => http2.send_data(stream, &body, !has_trailers)?,
    }
    if has_trailers { http2.send_head(stream, &trailers, true) } else { Ok(()) }
}

/// The first part of a body, then a reset.
fn send_cut(http2: &mut Http2, shared: &ServerShared, stream: u32, body: &[u8]) -> Result<(), LinkEnd> {
    if shared.script.case.has(Feature::BufferResponses) {
        return http2.send_data_and_reset(stream, &body[..FIRST_PART], INTERNAL_ERROR);
    }
    http2.send_data(stream, &body[..FIRST_PART], false)?;
    // What was sent is to arrive before the reset.
    pause(LATE);
    http2.send_reset(stream, INTERNAL_ERROR)
}
