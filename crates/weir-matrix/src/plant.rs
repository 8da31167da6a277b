//! Faults that are planted into records of sound runs: what Weir would have written, had it this fault. The oracle has to find each of them in
//! each case that can show it, so that a run in which it finds nothing says something.

use std::collections::BTreeSet;

use weir_wire::http1::{self, SenderEnding};
use weir_wire::http2::{PREFACE, RecordedFrameHeader, frame};
use weir_wire::http3::{RecordedPiece, StreamPiece};

use crate::array::{Body, Case, Client, Event, Feature, Method};
use crate::exchange::{
    EVIL_REQUEST, EVIL_RESPONSE, FIRST, FIRST_PART, FOR_PROXY, REMOVED, SAME_TARGET, TRAILER, TRIED,
    exchanges,
};
use crate::oracle::{Broken, OracleFinding, has_asked, judge};
use crate::peer::http3::{data_frame, head_frame};
use crate::peer::{ConnectionTape, Label, LinkEnd, Speaks, TapeEvent, block};
use crate::run::Observation;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// One fault.
pub(crate) struct PlantedFault {
    pub(crate) name: &'static str,
    /// Which cases can show it.
    applies: fn(&Case) -> bool,
    /// Breaks the records; false where these have nothing to break.
    plant: fn(&mut Observation) -> bool,
    /// What the oracle may call it.
    found_as: &'static [Broken],
}

/// All faults that are planted.
pub(crate) const FAULTS: &[PlantedFault] = &[
    PlantedFault {
        name: "smuggling: DATA behind `content-length: 0` goes to the server",
        applies: |case| case.body == Body::BehindZero && case.method == Method::Post,
        plant: smuggle,
        found_as: &[Broken::Wire, Broken::Request, Broken::Body],
    },
    PlantedFault {
        name: "splitting: DATA behind length 0, 204, 304 or HEAD goes to the client",
        applies: |case| {
            let is_behind =
                matches!(case.body, Body::BehindZero | Body::BehindNoContent | Body::BehindNotModified);
            is_behind && case.method != Method::Post
        },
        plant: split,
        found_as: &[Broken::Wire, Broken::Foreign, Broken::Body],
    },
    PlantedFault {
        name: "hang: a response by way of the cache from a server of HTTP/2 never comes",
        applies: |case| case.has(Feature::Cache) && case.server.is_h2(),
        plant: hang,
        found_as: &[Broken::Hang],
    },
    PlantedFault {
        name: "a stream that was reset is repeated on the same server",
        applies: |case| case.event == Event::ServerResets && case.server.is_h2(),
        plant: repeat,
        found_as: &[Broken::Repeated],
    },
    PlantedFault {
        name: "a POST is sent twice",
        applies: |case| case.method == Method::Post,
        plant: repeat,
        found_as: &[Broken::Repeated],
    },
    PlantedFault {
        name: "a stored response is given to another user",
        applies: |case| case.has(Feature::Cache) && case.has_users() && case.method == Method::Get,
        plant: exchange_responses,
        found_as: &[Broken::Foreign],
    },
    PlantedFault {
        name: "a body that was cut ends in order",
        applies: |case| {
            let is_of_server = case.method != Method::Post && case.client != Client::GrpcWeb;
            case.body == Body::Cut
                && is_of_server
                && matches!(case.event, Event::None | Event::Reload | Event::Upgrade)
        },
        plant: end_in_order,
        found_as: &[Broken::CleanEnd],
    },
    PlantedFault {
        name: "a field for the proxy goes to the client",
        applies: |case| {
            let is_plain = case.method == Method::Get && case.body == Body::One && case.event == Event::None;
            is_plain && case.client != Client::GrpcWeb
        },
        plant: show_field_for_proxy,
        found_as: &[Broken::Rule],
    },
    PlantedFault {
        name: "a trailer is lost where rules change fields",
        applies: |case| case.has(Feature::HeaderRules) && case.body == Body::Trailers,
        plant: lose_trailer,
        found_as: &[Broken::Trailer],
    },
    PlantedFault {
        name: "a rule for fields is not followed",
        applies: |case| case.has(Feature::HeaderRules),
        plant: |observation| drop_line(observation, "x-rule: 1\r\n"),
        found_as: &[Broken::Rule],
    },
    PlantedFault {
        name: "bytes are left over behind a response",
        applies: |_| true,
        plant: leave_over,
        found_as: &[Broken::Wire],
    },
];

/// Plants `fault` into an observation in which the oracle finds nothing: `None` where it cannot show, else whether it is found.
pub(crate) fn is_found(fault: &PlantedFault, observation: &Observation) -> Option<bool> {
    if !(fault.applies)(&observation.case) {
        return None;
    }
    let mut broken = observation.clone();
    if !(fault.plant)(&mut broken) {
        return None;
    }
    let is_it = |finding: &OracleFinding| fault.found_as.contains(&finding.broken);
    Some(judge(&broken).iter().any(is_it))
}

/// The connection on which a client has asked for `id`.
fn client_of<'a>(observation: &'a mut Observation, id: &str) -> Option<&'a mut ConnectionTape> {
    let mut clients = observation.records.iter_mut().filter(|record| record.label == Label::Client);
    clients.find(|record| record.asked.iter().any(|asked| asked.id == id))
}

/// The connections of the upstream's servers.
fn of_servers(observation: &mut Observation) -> impl Iterator<Item = &mut ConnectionTape> {
    observation.records.iter_mut().filter(|record| matches!(record.label, Label::Server("a" | "b")))
}

/// The responses on a connection of HTTP/1, as ranges of its bytes: the one to each request.
fn ranges(record: &ConnectionTape) -> Vec<std::ops::Range<usize>> {
    let methods: Vec<&str> = record.asked.iter().map(|asked| asked.method.text()).collect();
    let reading = http1::responses(&record.received(), &methods, SenderEnding::Closed);
    let finals = reading.messages.iter().filter(|message| !message.is_interim());
    finals.map(|message| message.bytes.clone()).collect()
}

fn position(record: &ConnectionTape, id: &str) -> Option<usize> {
    record.asked.iter().position(|asked| asked.id == id)
}

fn smuggle(observation: &mut Observation) -> bool {
    let Some(record) = of_servers(observation).find(|record| !record.received().is_empty()) else {
        return false;
    };
    let mut bytes = record.received();
    match record.speaks {
        Speaks::Http1 => bytes.extend_from_slice(EVIL_REQUEST),
        Speaks::Fastcgi => {
            let len = EVIL_REQUEST.len() as u8;
            bytes.extend([&[1, 5, 0, 1, 0, len, 0, 0], EVIL_REQUEST].concat());
        }
        // No server is asked by HTTP/3.
        Speaks::Http2 | Speaks::Http3 => {
            let fields =
                [(":method", "POST"), (":scheme", "http"), (":path", "/tried"), ("content-length", "0")];
            let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
            bytes.extend(frame(HEADERS, END_HEADERS, 1001, &block(&fields)));
            bytes.extend(frame(DATA, END_STREAM, 1001, EVIL_REQUEST));
        }
    }
    record.replace_received(bytes);
    true
}

fn split(observation: &mut Observation) -> bool {
    let event = observation.case.event;
    let Some(record) = client_of(observation, TRIED) else { return false };
    let Some(index) = position(record, TRIED) else { return false };
    let mut bytes = record.received();
    let stream = record.asked[index].stream;
    match record.speaks {
        Speaks::Http2 => bytes.extend(frame(DATA, END_STREAM, stream, EVIL_RESPONSE)),
        // The length of an answer of Weir's own is not known here.
        Speaks::Http3 if event == Event::LimitReached => return false,
        Speaks::Http3 => {
            let put = of_stream(stream, data_frame(EVIL_RESPONSE), false);
            bytes = before_end(&bytes, stream, put);
        }
        _ => {
            let Some(range) = ranges(record).get(index).cloned() else { return false };
            bytes.splice(range.end..range.end, EVIL_RESPONSE.iter().copied());
        }
    }
    record.replace_received(bytes);
    true
}

fn hang(observation: &mut Observation) -> bool {
    let Some(record) = client_of(observation, TRIED) else { return false };
    record.events.retain(|event| !matches!(event, TapeEvent::Ended(_)));
    let bytes = record.received();
    let kept = match record.speaks {
        Speaks::Http2 | Speaks::Http3 => 0,
        _ => ranges(record).first().map_or(0, |range| range.end),
    };
    record.replace_received(bytes[..kept].to_vec());
    record.events.push(TapeEvent::Ended(LinkEnd::Silence));
    true
}

/// Has the connection on which a server has the tried request happen twice.
fn repeat(observation: &mut Observation) -> bool {
    let Some(record) = of_servers(observation).find(|record| has_asked(record, TRIED)) else { return false };
    let again = record.clone();
    observation.records.push(again);
    true
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Gives the two clients of one target each other's responses.
fn exchange_responses(observation: &mut Observation) -> bool {
    if !matches!(observation.case.event, Event::None | Event::Reload | Event::Upgrade) {
        return false;
    }
    let Some(record) = client_of(observation, TRIED) else { return false };
    let (Some(tried), Some(same)) = (position(record, TRIED), position(record, SAME_TARGET)) else {
        return false;
    };
    if record.speaks == Speaks::Http1 && ranges(record).len() <= same {
        return false;
    }
    (record.asked[tried].id, record.asked[same].id) = (SAME_TARGET, TRIED);
    true
}

/// Puts a response that has what is for the proxy in the place of that to the tried request.
fn show_field_for_proxy(observation: &mut Observation) -> bool {
    let all = exchanges(&observation.case);
    let Some(tried) = all.iter().find(|exchange| exchange.id == TRIED) else { return false };
    let mut fields = vec![("x-echo".to_owned(), TRIED.to_owned())];
    fields.extend(FOR_PROXY.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let Some(record) = client_of(observation, TRIED) else { return false };
    put_response(record, &fields, &tried.response_body())
}

/// Puts a response of a part of the body, with an order to its end, in the place of that to the tried request.
fn end_in_order(observation: &mut Observation) -> bool {
    let case = observation.case;
    let all = exchanges(&case);
    let Some(tried) = all.iter().find(|exchange| exchange.id == TRIED) else { return false };
    let part = tried.response_body()[..FIRST_PART].to_vec();
    let mut fields = vec![("x-echo".to_owned(), TRIED.to_owned())];
    fields.push(if case.has(Feature::HeaderRules) {
        ("x-rule".to_owned(), "1".to_owned())
    } else {
        (REMOVED.to_owned(), "1".to_owned())
    });
    let Some(record) = client_of(observation, TRIED) else { return false };
    put_response(record, &fields, &part)
}

fn put_response(record: &mut ConnectionTape, fields: &[(String, String)], body: &[u8]) -> bool {
    let Some(index) = position(record, TRIED) else { return false };
    let mut bytes = record.received();
    if record.speaks == Speaks::Http2 {
        let stream = record.asked[index].stream;
        let list = [&[(":status".to_owned(), "200".to_owned())][..], fields].concat();
        let head = frame(HEADERS, END_HEADERS, stream, &block(&list));
        let put = [head, frame(DATA, END_STREAM, stream, body)].concat();
        bytes = without_stream(&bytes, stream, put);
    } else if record.speaks == Speaks::Http3 {
        let stream = record.asked[index].stream;
        let list = [&[(":status".to_owned(), "200".to_owned())][..], fields].concat();
        let put = of_stream(stream, [head_frame(&list), data_frame(body)].concat(), true);
        bytes = without_pieces(&bytes, stream, put);
    } else {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("HTTP/1.1 200 OK\r\n{lines}content-length: {}\r\n\r\n", body.len());
        let ranges = ranges(record);
        let before = index.checked_sub(1).and_then(|before| ranges.get(before)).map_or(0, |range| range.end);
        let range = ranges.get(index).cloned().unwrap_or(before..before);
        bytes.splice(range, [head.as_bytes(), body].concat());
    }
    record.replace_received(bytes);
    true
}

/// The frames of all streams but one, in whose place `put` stands.
fn without_stream(bytes: &[u8], stream: u32, put: Vec<u8>) -> Vec<u8> {
    let (mut kept, mut put, mut at) = (Vec::new(), Some(put), 0);
    while let Some(header) = RecordedFrameHeader::read(&bytes[at..]) {
        let end = (at + RecordedFrameHeader::LEN + header.len).min(bytes.len());
        if header.stream == stream {
            kept.extend(put.take().unwrap_or_default());
        } else {
            kept.extend_from_slice(&bytes[at..end]);
        }
        at = end;
    }
    kept.extend(put.unwrap_or_default());
    kept
}

/// Bytes of a stream of HTTP/3, as a record has them.
fn of_stream(stream: u32, bytes: Vec<u8>, ends: bool) -> Vec<u8> {
    let piece = |what| RecordedPiece::new(stream.into(), what).write();
    let end = if ends { piece(StreamPiece::End) } else { Vec::new() };
    [piece(StreamPiece::Bytes(bytes)), end].concat()
}

/// The pieces of a record, each with its stream and whether it ends that.
fn all_pieces(record: &[u8]) -> Vec<(RecordedPiece, Vec<u8>)> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Ok(Some((piece, len))) = RecordedPiece::read(&record[at..]) {
        pieces.push((piece, record[at..at + len].to_vec()));
        at += len;
    }
    pieces
}

/// The pieces of all streams but one, in whose place `put` stands.
fn without_pieces(record: &[u8], stream: u32, put: Vec<u8>) -> Vec<u8> {
    let kept = all_pieces(record).into_iter().filter(|(piece, _)| piece.stream != u64::from(stream));
    [kept.flat_map(|(_, bytes)| bytes).collect(), put].concat()
}

/// All pieces, and `put` before the end of a stream, however it ends.
fn before_end(record: &[u8], stream: u32, put: Vec<u8>) -> Vec<u8> {
    let mut pieces = all_pieces(record);
    let is_end = |(piece, _): &(RecordedPiece, Vec<u8>)| {
        let ends = matches!(piece.what, StreamPiece::End | StreamPiece::Reset(_));
        ends && piece.stream == u64::from(stream)
    };
    let at = pieces.iter().position(is_end).unwrap_or(pieces.len());
    pieces.insert(at, (RecordedPiece::new(stream.into(), StreamPiece::End), put));
    pieces.into_iter().flat_map(|(_, bytes)| bytes).collect()
}

fn lose_trailer(observation: &mut Observation) -> bool {
    // Trailers of gRPC-Web are in the body, whose framing would break, and those of a stored response need not be kept.
    let may_be_stored = observation.case.has(Feature::Cache) && observation.case.method == Method::Get;
    if observation.case.client == Client::GrpcWeb || may_be_stored {
        return false;
    }
    if drop_line(observation, &format!("{TRAILER}: {TRIED}\r\n")) {
        return true;
    }
    let case = observation.case;
    let is_of_response = case.event == Event::None;
    let all = exchanges(&case);
    let Some(tried) = all.iter().find(|exchange| exchange.id == TRIED) else { return false };
    if !is_of_response || tried.response != Body::Trailers {
        return false;
    }
    let fields = [("x-echo".to_owned(), TRIED.to_owned()), ("x-rule".to_owned(), "1".to_owned())];
    client_of(observation, TRIED).is_some_and(|record| put_response(record, &fields, &tried.response_body()))
}

/// Drops a line of HTTP/1 from the first connection that has it.
fn drop_line(observation: &mut Observation, line: &str) -> bool {
    for record in observation.records.iter_mut().filter(|record| record.speaks == Speaks::Http1) {
        let is_judged = matches!(record.label, Label::Client | Label::Server("a" | "b"));
        let mut bytes = record.received();
        if let Some(at) = find(&bytes, line.as_bytes()).filter(|_| is_judged) {
            bytes.drain(at..at + line.len());
            record.replace_received(bytes);
            return true;
        }
    }
    false
}

fn leave_over(observation: &mut Observation) -> bool {
    let Some(record) = client_of(observation, FIRST) else { return false };
    let mut bytes = record.received();
    match record.speaks {
        Speaks::Http2 => bytes.extend_from_slice(PREFACE),
        Speaks::Http3 => {
            let Some(stream) = record.asked.first().map(|asked| asked.stream) else { return false };
            bytes.extend(of_stream(stream, b"0\r\n\r\n".to_vec(), true));
        }
        _ => {
            let Some(range) = ranges(record).first().cloned() else { return false };
            bytes.splice(range.end..range.end, b"0\r\n\r\n".iter().copied());
        }
    }
    record.replace_received(bytes);
    true
}

/// The names of faults that no observation could show.
pub(crate) fn not_shown(shown: &BTreeSet<&'static str>) -> Vec<&'static str> {
    FAULTS.iter().map(|fault| fault.name).filter(|name| !shown.contains(name)).collect()
}
