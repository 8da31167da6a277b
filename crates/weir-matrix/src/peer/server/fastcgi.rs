//! A server of FastCGI: one request on a connection, which it closes behind the response.

use std::time::Duration;

use weir_wire::fastcgi::{self, CgiRequest};

use super::ServerShared;
use super::answer::{self, LATE, ServerTurn};
use crate::array::{Body, Method};
use crate::clock::pause;
use crate::exchange::{EVIL_RESPONSE, FIRST_PART, ScriptedExchange, pieces};
use crate::peer::link::{LinkEnd, RecordedLink};

const END: u8 = 3;
const STDOUT: u8 = 6;

/// Answers the request of the connection.
pub(super) fn serve(mut link: RecordedLink, shared: &ServerShared) -> Result<(), LinkEnd> {
    let request = loop {
        let reading = fastcgi::requests(link.received());
        if reading.fault.is_some() {
            return Err(LinkEnd::Malformed);
        }
        match reading.requests.into_iter().next().filter(|request| request.is_complete) {
            Some(request) => break request,
            None => link.receive()?,
        }
    };
    let turn = answer::turn(shared, |name| param_of_field(&request, name));
    match turn {
        ServerTurn::Answer(exchange) => {
            answer::hold(shared, exchange, link.tape());
            respond(&mut link, shared, exchange)?;
        }
        ServerTurn::Reset => {
            link.abort();
            return Ok(());
        }
        // It speaks HTTP/1.
        ServerTurn::Registered => {}
        ServerTurn::Plain(fields) => {
            let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            link.send(&[record(STDOUT, format!("{lines}\r\n").as_bytes()), end()].concat())?;
        }
    }
    link.finish();
    link.drain(Duration::from_secs(5));
    Ok(())
}

/// The field `name` of the request, as CGI names it.
pub(crate) fn param_of_field(request: &CgiRequest, name: &str) -> Option<String> {
    let name = format!("HTTP_{}", name.replace('-', "_").to_ascii_uppercase());
    request.param(&name).map(str::to_owned)
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).expect("pieces are small").to_be_bytes();
    [&[1, kind, 0, 1, len[0], len[1], 0, 0], content].concat()
}

fn end() -> Vec<u8> {
    [record(STDOUT, b""), record(END, &[0; 8])].concat()
}

fn respond(
    link: &mut RecordedLink,
    shared: &ServerShared,
    exchange: &ScriptedExchange,
) -> Result<(), LinkEnd> {
    let body = answer::body(shared, exchange);
    let mut head = format!("Status: {} X\r\n", exchange.status());
    for (name, value) in answer::fields(shared, exchange) {
        head += &format!("{name}: {value}\r\n");
    }
    let has_length = matches!(
        exchange.response,
        Body::Zero | Body::One | Body::Late | Body::Cut | Body::BeyondWindow | Body::Large | Body::BehindZero
    );
    if has_length {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    head += "\r\n";
    let out =
        |bytes: &[u8]| bytes.chunks(60_000).flat_map(|chunk| record(STDOUT, chunk)).collect::<Vec<u8>>();
    if exchange.method == Method::Head {
        return link.send(&[out(head.as_bytes()), end()].concat());
    }
    match exchange.response {
        Body::Late => {
            link.send(&out(head.as_bytes()))?;
            pause(LATE);
            link.send(&[out(&body), end()].concat())
        }
        Body::Many => {
            link.send(&out(head.as_bytes()))?;
            for piece in pieces(&body) {
                link.send(&out(piece))?;
            }
            link.send(&end())
        }
        Body::EmptyLast => {
            link.send(&[out(head.as_bytes()), out(&body)].concat())?;
            link.send(&end())
        }
        Body::Cut => link.send(&[out(head.as_bytes()), out(&body[..FIRST_PART])].concat()),
        Body::BehindZero | Body::BehindNoContent | Body::BehindNotModified => {
            link.send(&[out(head.as_bytes()), out(EVIL_RESPONSE), end()].concat())
        }
        _ => link.send(&[out(head.as_bytes()), out(&body), end()].concat()),
    }
}
