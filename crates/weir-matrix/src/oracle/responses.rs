//! What clients got: responses one behind the other, each its own, as its server sent it and no server's but one that may be shared.

use std::collections::BTreeSet;

use weir_wire::http2::{self, FRAME_MAX, FrameSender, RecordedStream};
use weir_wire::http3::{self, AnnouncedByClient, NO_ERROR};
use weir_wire::{RecordedFields, http1};

use super::allowed::{Allowed, delivered_min};
use super::{Broken, OracleFinding, content, ending};
use crate::array::{Body, Case, Client, Feature, Method};
use crate::exchange::{
    FOR_PROXY, REMOVED, SAME_TARGET, SAME_TARGET_AGAIN, ScriptedExchange, TRAILER, TRIED, exchanges,
    may_be_shared,
};
use crate::peer::http3::table_bytes_max;
use crate::peer::{AskedRequest, ConnectionTape, Speaks};

/// What a client got for a request.
struct Got {
    status: u16,
    fields: RecordedFields,
    body: Vec<u8>,
    trailers: RecordedFields,
    is_complete: bool,
}

/// Judges all connections of clients.
pub(super) fn judge<'a>(
    case: &Case,
    records: impl Iterator<Item = &'a ConnectionTape>,
) -> Vec<OracleFinding> {
    let exchanges = exchanges(case);
    let mut findings = Vec::new();
    for record in records {
        let (got, fault) = match record.speaks {
            Speaks::Http2 => of_http2(record),
            Speaks::Http3 => of_http3(case, record),
            Speaks::Http1 | Speaks::Fastcgi => of_http1(record),
        };
        findings.extend(fault.map(|fault| OracleFinding::new(Broken::Wire, format!("to a client: {fault}"))));
        for (asked, got) in record.asked.iter().zip(&got) {
            let Some(exchange) = exchanges.iter().find(|exchange| exchange.id == asked.id) else { continue };
            let judged = one(case, &exchanges, exchange, got.as_ref());
            findings.extend(judged.err().map(|OracleFinding { broken, what }| {
                OracleFinding::new(broken, format!("response to `{}`: {what}", exchange.id))
            }));
        }
    }
    findings
}

fn of_http1(record: &ConnectionTape) -> (Vec<Option<Got>>, Option<String>) {
    let methods: Vec<&str> = record.asked.iter().map(|asked| asked.method.text()).collect();
    let reading = http1::responses(&record.received(), &methods, ending(record));
    let mut finals = reading.messages.into_iter().filter(|message| !message.is_interim());
    let got = record.asked.iter().map(|_| {
        finals.next().map(|message| Got {
            status: message.status(),
            fields: message.fields,
            body: message.body,
            trailers: message.trailers,
            is_complete: message.is_complete,
        })
    });
    (got.collect(), reading.fault.map(|fault| fault.to_string()))
}

fn of_http2(record: &ConnectionTape) -> (Vec<Option<Got>>, Option<String>) {
    let is_head = |asked: &&AskedRequest| asked.method == Method::Head;
    let heads: BTreeSet<u32> = record.asked.iter().filter(is_head).map(|asked| asked.stream).collect();
    let mut reading = http2::read(&record.received(), FrameSender::Server, &heads, FRAME_MAX);
    let got = record.asked.iter().map(|asked| reading.streams.remove(&asked.stream).and_then(of_stream));
    let got: Vec<Option<Got>> = got.collect();
    let strange =
        reading.streams.keys().find(|stream| !record.asked.iter().any(|asked| asked.stream == **stream));
    let strange = strange.map(|stream| format!("stream {stream}, which no client has opened"));
    (got, reading.fault.map(|fault| fault.to_string()).or(strange))
}

/// The response on a stream, if it has begun.
fn of_stream(stream: RecordedStream) -> Option<Got> {
    (stream.status() != 0).then(|| Got {
        status: stream.status(),
        fields: stream.head,
        body: stream.body,
        trailers: stream.trailers.unwrap_or_default(),
        is_complete: stream.has_ended,
    })
}

fn of_http3(case: &Case, record: &ConnectionTape) -> (Vec<Option<Got>>, Option<String>) {
    let is_head = |asked: &&AskedRequest| asked.method == Method::Head;
    let heads: BTreeSet<u64> = record.asked.iter().filter(is_head).map(|asked| asked.stream.into()).collect();
    let announced = AnnouncedByClient {
        table_bytes_max: table_bytes_max(case.client == Client::H3),
        without_bodies: &heads,
    };
    let mut reading = http3::read_server(&record.received(), announced);
    let got =
        record.asked.iter().map(|asked| reading.streams.remove(&asked.stream.into()).and_then(of_stream));
    let got: Vec<Option<Got>> = got.collect();
    let is_asked = |stream: &u64| record.asked.iter().any(|asked| u64::from(asked.stream) == *stream);
    let strange = reading.streams.keys().find(|stream| !is_asked(stream));
    let strange = strange.map(|stream| format!("stream {stream}, which no client has opened"));
    let closed = reading.closed.filter(|code| *code != NO_ERROR);
    let closed = closed.map(|code| format!("the connection is closed with {code:#x}"));
    (got, reading.fault.map(|fault| fault.to_string()).or(strange).or(closed))
}

fn one(
    case: &Case,
    all: &[ScriptedExchange],
    exchange: &ScriptedExchange,
    got: Option<&Got>,
) -> Result<(), OracleFinding> {
    let allowed = Allowed::new(case, exchange);
    let Some(got) = got else {
        return if allowed.nothing {
            Ok(())
        } else {
            Err(OracleFinding::new(Broken::Outcome, "there is none"))
        };
    };
    let Some(echo) = got.fields.first("x-echo") else { return own(&allowed, exchange, got) };
    let is_same_target = [SAME_TARGET, SAME_TARGET_AGAIN].contains(&exchange.id);
    let shared = all.iter().find(|other| other.id == echo && other.id == TRIED);
    let meant = match shared {
        _ if echo == exchange.id => exchange,
        Some(tried) if is_same_target && may_be_shared(case) => tried,
        _ => {
            let user = got.fields.first("x-for").unwrap_or("-");
            let what = format!("that of `{echo}` by {user} was given to {}", exchange.user);
            return Err(OracleFinding::new(Broken::Foreign, what));
        }
    };
    if !allowed.relayed && !allowed.cut {
        let what = format!("{} of the server, where only {allowed:?} may come", got.status);
        return Err(OracleFinding::new(Broken::Outcome, what));
    }
    if got.status != meant.status() {
        return Err(OracleFinding::new(
            Broken::Outcome,
            format!("status {}, sent was {}", got.status, meant.status()),
        ));
    }
    rules(case, got)?;
    body(case, &allowed, exchange, meant, got)
}

/// A response of Weir's own.
fn own(allowed: &Allowed, exchange: &ScriptedExchange, got: &Got) -> Result<(), OracleFinding> {
    // Failures of calls are statuses of gRPC.
    let status = got.fields.first("grpc-status").or_else(|| got.trailers.first("grpc-status"));
    let is_failure = exchange.is_grpc && got.status == 200 && status.is_some_and(|status| status != "0");
    if !is_failure && !allowed.own.contains(&got.status) {
        let reason = got.fields.first("weir-reason").unwrap_or("-");
        let what = format!("{} of Weir itself ({reason}), where only {allowed:?} may come", got.status);
        return Err(OracleFinding::new(Broken::Outcome, what));
    }
    if is_failure && allowed.own.is_empty() {
        return Err(OracleFinding::new(Broken::Outcome, format!("a call fails: {:?}", got.fields)));
    }
    if !got.is_complete && !allowed.nothing {
        return Err(OracleFinding::new(Broken::Body, "one of Weir itself that is not complete"));
    }
    Ok(())
}

fn rules(case: &Case, got: &Got) -> Result<(), OracleFinding> {
    let is_on = case.has(Feature::HeaderRules);
    let has_set = got.fields.all("x-rule") == ["1"];
    if FOR_PROXY.iter().any(|(name, _)| got.fields.first(name).or(got.trailers.first(name)).is_some()) {
        return Err(OracleFinding::new(Broken::Rule, format!("it is for the proxy: {:?}", got.fields)));
    }
    let has_removed = got.fields.first(REMOVED).is_none();
    if has_set != is_on || has_removed != is_on {
        let what = format!("rules are {}: {:?}", if is_on { "on" } else { "off" }, got.fields);
        return Err(OracleFinding::new(Broken::Rule, what));
    }
    Ok(())
}

fn body(
    case: &Case,
    allowed: &Allowed,
    exchange: &ScriptedExchange,
    meant: &ScriptedExchange,
    got: &Got,
) -> Result<(), OracleFinding> {
    let broken = |what: String| OracleFinding::new(Broken::Body, what);
    let without = exchange.method == Method::Head || matches!(got.status, 204 | 304);
    let whole = if without { Vec::new() } else { meant.response_body() };
    let content = if without {
        got.body.clone()
    } else {
        content::decoded(&got.fields, &got.body, got.is_complete).map_err(broken)?
    };
    if exchange.is_grpc {
        return grpc(case, allowed, meant, got, (&content, &whole));
    }
    if !whole.starts_with(&content) {
        let shown = weir_wire::latin1(&content[..content.len().min(80)]);
        return Err(broken(format!("{} bytes that were not sent: {shown:?}", content.len())));
    }
    if !got.is_complete && content.len() < delivered_min(case, exchange) {
        let min = delivered_min(case, exchange);
        return Err(broken(format!("{} bytes, where {min} came before the cut", content.len())));
    }
    if !got.is_complete {
        return match allowed.cut {
            true => Ok(()),
            false => Err(broken(format!("it breaks off behind {} of {} bytes", content.len(), whole.len()))),
        };
    }
    if !allowed.relayed || content.len() < whole.len() {
        let what = format!("it ends in order behind {} of {} bytes", content.len(), whole.len());
        return Err(OracleFinding::new(Broken::CleanEnd, what));
    }
    check_removed(case, &got.trailers)?;
    // A cache need not keep them, and a response that is stored comes by way of the cache.
    let is_stored = case.has(Feature::Cache) && case.method == Method::Get;
    let has_trailers = meant.response == Body::Trailers && !without && !is_stored;
    if has_trailers && got.trailers.first(TRAILER) != Some(meant.id) {
        return Err(OracleFinding::new(Broken::Trailer, format!("its trailers are {:?}", got.trailers)));
    }
    Ok(())
}

/// What the rules remove from heads does not pass as a trailer either.
fn check_removed(case: &Case, trailers: &RecordedFields) -> Result<(), OracleFinding> {
    match case.has(Feature::HeaderRules) && trailers.first(REMOVED).is_some() {
        true => Err(OracleFinding::new(
            Broken::Rule,
            format!("a field that is removed is a trailer: {trailers:?}"),
        )),
        false => Ok(()),
    }
}

/// A call of gRPC-Web: message and trailers in the body, or a status in the head.
fn grpc(
    case: &Case,
    allowed: &Allowed,
    meant: &ScriptedExchange,
    got: &Got,
    (content, whole): (&[u8], &[u8]),
) -> Result<(), OracleFinding> {
    let broken = |what: String| OracleFinding::new(Broken::Body, what);
    let (messages, trailers) = content::grpc_web(content).map_err(broken)?;
    let trailers = trailers.unwrap_or_else(|| got.fields.clone());
    if !whole.starts_with(&messages) {
        return Err(broken(format!("{} bytes of messages that were not sent", messages.len())));
    }
    let status = trailers.first("grpc-status");
    if !got.is_complete || status.is_some_and(|status| status != "0") {
        // A call that breaks off says so in its trailers.
        return if allowed.cut { Ok(()) } else { Err(broken(format!("the call breaks off: {trailers:?}"))) };
    }
    if !allowed.relayed || messages.len() < whole.len() {
        let what = format!("it ends in order behind {} of {} bytes", messages.len(), whole.len());
        return Err(OracleFinding::new(Broken::CleanEnd, what));
    }
    check_removed(case, &trailers)?;
    if status.is_none() || trailers.first(TRAILER) != Some(meant.id) {
        return Err(OracleFinding::new(Broken::Trailer, format!("its trailers are {trailers:?}")));
    }
    Ok(())
}
