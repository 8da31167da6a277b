//! What servers got: requests one behind the other, each as its client sent it, and none more often than it may be.

use std::collections::BTreeSet;

use weir_wire::http1::{self, StartLine};
use weir_wire::http2::{self, FRAME_MAX, FrameSender};
use weir_wire::{RecordedFields, fastcgi, proxy_header};

use super::allowed::{arrivals_max, client_cuts};
use super::{Broken, OracleFinding};
use crate::array::{Body, Case, Client, Event, Feature, Method};
use crate::config::NAMED_CLIENT;
use crate::exchange::{REMOVED, REWRITTEN, ScriptedExchange, TRAILER, TRIED, exchanges};
use crate::peer::server::param_of_field;
use crate::peer::{ConnectionTape, Label, Speaks};

/// A request as a server got it, whatever the protocol.
struct Arrived {
    method: String,
    target: String,
    /// Of FastCGI only those that are asked for here.
    fields: RecordedFields,
    body: Vec<u8>,
    trailers: Option<RecordedFields>,
    is_complete: bool,
}

/// Judges all connections of servers.
pub(super) fn judge<'a>(
    case: &Case,
    records: impl Iterator<Item = &'a ConnectionTape>,
) -> Vec<OracleFinding> {
    let exchanges = exchanges(case);
    let mut findings = Vec::new();
    let mut arrivals: Vec<(String, &'static str)> = Vec::new();
    for record in records {
        let Label::Server(name) = record.label else { continue };
        let (arrived, fault) = read(record);
        findings.extend(
            fault.map(|fault| OracleFinding::new(Broken::Wire, format!("to server {name}: {fault}"))),
        );
        for request in &arrived {
            let judged = match name {
                "judge" => question(request),
                "registry" => registry_question(request),
                "copies" => copy(&exchanges, request),
                _ => {
                    arrivals.push((request.fields.first("x-id").unwrap_or("-").to_owned(), name));
                    one(case, &exchanges, record.speaks, request)
                }
            };
            findings.extend(judged.err().map(|OracleFinding { broken, what }| {
                OracleFinding::new(
                    broken,
                    format!("{} {} at server {name}: {what}", request.method, request.target),
                )
            }));
        }
    }
    findings.extend(counts(case, &exchanges, &arrivals));
    findings
}

/// Whether a server has had the request `id` on this connection.
pub(crate) fn has_asked(record: &ConnectionTape, id: &str) -> bool {
    read(record).0.iter().any(|request| request.fields.first("x-id") == Some(id))
}

fn read(record: &ConnectionTape) -> (Vec<Arrived>, Option<String>) {
    let bytes = record.received();
    let len = match proxy_header::len(&bytes) {
        Ok(len) => len,
        Err(what) => return (Vec::new(), Some(what)),
    };
    match record.speaks {
        Speaks::Http1 => of_http1(&bytes[len..]),
        // No server is asked by HTTP/3.
        Speaks::Http2 | Speaks::Http3 => of_http2(&bytes[len..]),
        Speaks::Fastcgi => of_fastcgi(&bytes),
    }
}

fn of_http1(bytes: &[u8]) -> (Vec<Arrived>, Option<String>) {
    let reading = http1::requests(bytes);
    let arrived = reading.messages.into_iter().filter_map(|message| {
        let StartLine::Request { method, target } = message.start else { return None };
        Some(Arrived {
            method,
            target,
            fields: message.fields,
            body: message.body,
            trailers: Some(message.trailers),
            is_complete: message.is_complete,
        })
    });
    (arrived.collect(), reading.fault.map(|fault| fault.to_string()))
}

fn of_http2(bytes: &[u8]) -> (Vec<Arrived>, Option<String>) {
    let reading = http2::read(bytes, FrameSender::Client, &BTreeSet::new(), FRAME_MAX);
    let arrived =
        reading.streams.into_values().filter(|stream| !stream.head.0.is_empty()).map(|stream| Arrived {
            method: stream.head.first(":method").unwrap_or_default().to_owned(),
            target: stream.head.first(":path").unwrap_or_default().to_owned(),
            fields: stream.head,
            body: stream.body,
            trailers: Some(stream.trailers.unwrap_or_default()),
            is_complete: stream.has_ended,
        });
    (arrived.collect(), reading.fault.map(|fault| fault.to_string()))
}

/// Programs of FastCGI see what the client has asked for, before rewrites.
fn target_of_script(uri: &str) -> String {
    uri.strip_prefix(REWRITTEN).unwrap_or(uri).to_owned()
}

fn of_fastcgi(bytes: &[u8]) -> (Vec<Arrived>, Option<String>) {
    let reading = fastcgi::requests(bytes);
    let arrived = reading.requests.into_iter().filter(|request| !request.params.is_empty()).map(|request| {
        let names = ["x-id", "x-user", "x-rule", REMOVED, "remote-user"];
        let field = |name: &&str| param_of_field(&request, name).map(|value| ((*name).to_owned(), value));
        Arrived {
            method: request.param("REQUEST_METHOD").unwrap_or_default().to_owned(),
            target: target_of_script(request.param("REQUEST_URI").unwrap_or_default()),
            fields: RecordedFields(names.iter().filter_map(field).collect()),
            body: request.body.clone(),
            trailers: None,
            is_complete: request.is_complete,
        }
    });
    (arrived.collect(), reading.fault.map(|fault| fault.to_string()))
}

fn request_fault(what: impl Into<String>) -> OracleFinding {
    OracleFinding::new(Broken::Request, what)
}

fn known<'a>(
    exchanges: &'a [ScriptedExchange],
    request: &Arrived,
) -> Result<&'a ScriptedExchange, OracleFinding> {
    let id = request.fields.first("x-id").unwrap_or("-");
    let exchange = exchanges.iter().find(|exchange| exchange.id == id);
    exchange.ok_or_else(|| request_fault(format!("no client has asked this: id {id}, {:?}", request.fields)))
}

fn one(
    case: &Case,
    exchanges: &[ScriptedExchange],
    speaks: Speaks,
    request: &Arrived,
) -> Result<(), OracleFinding> {
    let exchange = known(exchanges, request)?;
    let is_tried = exchange.id == TRIED;
    if request.method != exchange.method.text() || request.target != exchange.target {
        return Err(request_fault(format!("asked was {} {}", exchange.method.text(), exchange.target)));
    }
    if request.fields.all("x-user") != [exchange.user] {
        return Err(OracleFinding::new(
            Broken::Foreign,
            format!("by {}: {:?}", exchange.user, request.fields),
        ));
    }
    if is_tried && case.event == Event::LimitReached {
        return Err(request_fault("the limit has refused it"));
    }
    rules(case, request)?;
    let passed = request.trailers.as_ref().filter(|trailers| trailers.first(REMOVED).is_some());
    if let Some(trailers) = passed.filter(|_| case.has(Feature::HeaderRules)) {
        let what = format!("a field that is removed is a trailer: {trailers:?}");
        return Err(OracleFinding::new(Broken::Rule, what));
    }
    if case.has(Feature::ForwardAuth) && request.fields.all("remote-user") != [exchange.user] {
        return Err(OracleFinding::new(
            Broken::Foreign,
            format!("the answer was {}: {:?}", exchange.user, request.fields),
        ));
    }
    let forwarded = request.fields.first("x-forwarded-for");
    if case.client == Client::Proxy && speaks != Speaks::Fastcgi && forwarded != Some(NAMED_CLIENT) {
        return Err(request_fault(format!("x-forwarded-for is {forwarded:?}")));
    }
    let framing = ["transfer-encoding", "content-length"].map(|name| request.fields.first(name));
    if exchange.method != Method::Post && framing != [None; 2] {
        return Err(request_fault(format!("a body, where its client has none: {:?}", request.fields)));
    }
    let whole = exchange.request_body();
    if !whole.starts_with(&request.body) {
        let shown = weir_wire::latin1(&request.body[..request.body.len().min(80)]);
        return Err(OracleFinding::new(
            Broken::Body,
            format!("{} bytes that were not sent: {shown:?}", request.body.len()),
        ));
    }
    let is_cut = is_tried && client_cuts(case);
    if request.is_complete && (is_cut || request.body.len() < whole.len()) {
        let what = format!("it ends in order behind {} of {} bytes", request.body.len(), whole.len());
        return Err(OracleFinding::new(Broken::CleanEnd, what));
    }
    let sum = request.trailers.as_ref().map(|trailers| trailers.first(TRAILER));
    let has_trailer = exchange.request == Body::Trailers && !exchange.is_grpc && request.is_complete;
    if has_trailer && sum.is_some_and(|sum| sum != Some(exchange.id)) {
        return Err(OracleFinding::new(Broken::Trailer, format!("its trailers are {:?}", request.trailers)));
    }
    Ok(())
}

fn rules(case: &Case, request: &Arrived) -> Result<(), OracleFinding> {
    let is_on = case.has(Feature::HeaderRules);
    let has_set = request.fields.all("x-rule") == ["1"];
    let has_removed = request.fields.first(REMOVED).is_none();
    if has_set != is_on || has_removed != is_on {
        let what = format!("rules are {}: {:?}", if is_on { "on" } else { "off" }, request.fields);
        return Err(OracleFinding::new(Broken::Rule, what));
    }
    Ok(())
}

/// The question to the server that decides.
fn question(request: &Arrived) -> Result<(), OracleFinding> {
    let is_sound = request.method == "GET" && request.body.is_empty() && request.target == "/verify";
    is_sound.then_some(()).ok_or_else(|| request_fault("no question that is asked here"))
}

/// A question to the registry that names servers.
fn registry_question(request: &Arrived) -> Result<(), OracleFinding> {
    let is_sound = request.method == "GET" && request.target.starts_with("/v1/health/service/app");
    is_sound.then_some(()).ok_or_else(|| request_fault("no question about servers"))
}

/// A copy for the mirror.
fn copy(exchanges: &[ScriptedExchange], request: &Arrived) -> Result<(), OracleFinding> {
    let exchange = known(exchanges, request)?;
    let is_marked = request.fields.all("x-weir-mirror") == ["1"];
    let is_sound = is_marked && request.method == exchange.method.text() && exchange.method != Method::Post;
    is_sound
        .then_some(())
        .ok_or_else(|| request_fault(format!("no such request is copied: {:?}", request.fields)))
}

/// How often requests were at servers.
fn counts(
    case: &Case,
    exchanges: &[ScriptedExchange],
    arrivals: &[(String, &'static str)],
) -> Vec<OracleFinding> {
    let mut findings = Vec::new();
    for exchange in exchanges {
        let at: Vec<&str> =
            arrivals.iter().filter(|(id, _)| id == exchange.id).map(|(_, name)| *name).collect();
        let max = arrivals_max(case, exchange);
        let resets = exchange.id == TRIED && case.event == Event::ServerResets && case.server.is_h2();
        let is_at_same =
            resets && ["a", "b"].iter().any(|name| at.iter().filter(|it| *it == name).count() > 1);
        if at.len() > max || is_at_same {
            let what =
                format!("{} `{}` was at servers {at:?}; {max} may be", exchange.method.text(), exchange.id);
            findings.push(OracleFinding::new(Broken::Repeated, what));
        }
    }
    findings
}
