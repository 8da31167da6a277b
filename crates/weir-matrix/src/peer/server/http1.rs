//! A server of HTTP/1: bodies by length, in chunks, or until it closes.

use std::time::Duration;

use weir_wire::http1::{self, Message, StartLine};

use super::ServerShared;
use super::answer::{self, LATE, ServerTurn};
use crate::array::{Body, Method, Server};
use crate::clock::pause;
use crate::exchange::{EVIL_RESPONSE, FIRST_PART, REMOVED, ScriptedExchange, TRAILER, pieces};
use crate::peer::link::{LinkEnd, RecordedLink};

/// What follows a response.
#[derive(PartialEq, Eq)]
enum AfterResponse {
    KeepAlive,
    Close,
    Abort,
}

/// Answers requests until the connection ends.
pub(super) fn serve(mut link: RecordedLink, shared: &ServerShared, kind: Server) -> Result<(), LinkEnd> {
    for index in 0.. {
        let head = wait(&mut link, index, true)?;
        let turn = answer::turn(shared, |name| head.fields.first(name).map(str::to_owned));
        let is_early = matches!(&turn, ServerTurn::Answer(exchange) if exchange.request == Body::Early);
        if !is_early {
            wait(&mut link, index, false)?;
        }
        let behind = match turn {
            ServerTurn::Answer(exchange) => {
                answer::hold(shared, exchange, link.tape());
                respond(&mut link, shared, exchange, kind)?
            }
            ServerTurn::Reset => AfterResponse::Abort,
            ServerTurn::Registered => {
                register(&mut link, shared, &head)?;
                AfterResponse::KeepAlive
            }
            ServerTurn::Plain(fields) => {
                let lines: String =
                    fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                link.send(format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\n\r\n").as_bytes())?;
                AfterResponse::KeepAlive
            }
        };
        match behind {
            AfterResponse::KeepAlive if is_early => drop(wait(&mut link, index, false)?),
            AfterResponse::KeepAlive => {}
            AfterResponse::Close => {
                link.finish();
                link.drain(Duration::from_secs(5));
                return Ok(());
            }
            AfterResponse::Abort => {
                link.abort();
                return Ok(());
            }
        }
    }
    Ok(())
}

/// How late the first answer of the registry is to each process that asks.
const REGISTRY_LATE: Duration = Duration::from_millis(300);

/// Names the servers of the upstream to a question of Consul's API; one for a change is never answered.
fn register(link: &mut RecordedLink, shared: &ServerShared, head: &Message) -> Result<(), LinkEnd> {
    let StartLine::Request { target, .. } = &head.start else { return Ok(()) };
    if target.contains("index=") && !target.contains("index=0") {
        return link.receive();
    }
    pause(REGISTRY_LATE);
    let servers = shared.script.servers().iter().map(|(name, address)| {
        let (ip, port) = (address.ip(), address.port());
        format!(
            "{{\"Node\":{{\"Node\":\"{name}\",\"Address\":\"{ip}\"}},\"Checks\":[],\
             \"Service\":{{\"ID\":\"{name}\",\"Address\":\"{ip}\",\"Port\":{port}}}}}"
        )
    });
    let body = format!("[{}]", servers.collect::<Vec<_>>().join(","));
    let fields = format!("X-Consul-Index: 1\r\nContent-Length: {}", body.len());
    link.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}").as_bytes())
}

/// Waits for the request with this number, or for its head.
fn wait(link: &mut RecordedLink, index: usize, head_only: bool) -> Result<Message, LinkEnd> {
    loop {
        let reading = http1::requests(link.received());
        if reading.fault.is_some() {
            return Err(LinkEnd::Malformed);
        }
        if let Some(message) =
            reading.messages.into_iter().nth(index).filter(|it| head_only || it.is_complete)
        {
            return Ok(message);
        }
        link.receive()?;
    }
}

fn respond(
    link: &mut RecordedLink,
    shared: &ServerShared,
    exchange: &ScriptedExchange,
    kind: Server,
) -> Result<AfterResponse, LinkEnd> {
    let body = answer::body(shared, exchange);
    let mut head = format!("HTTP/1.1 {} X\r\n", exchange.status());
    for (name, value) in answer::fields(shared, exchange) {
        head += &format!("{name}: {value}\r\n");
    }
    // What misbehaves has a length, whatever the server is like otherwise.
    let shape = match (exchange.response, kind) {
        (Body::None | Body::BehindNoContent | Body::BehindNotModified, _) => Framed::Without,
        (Body::BehindZero, _) | (_, Server::Length) => Framed::Length,
        (_, Server::Chunked) => Framed::Chunked,
        _ => Framed::UntilClose,
    };
    head += &match shape {
        Framed::Length => format!("Content-Length: {}\r\n", body.len()),
        Framed::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        Framed::Without | Framed::UntilClose => String::new(),
    };
    let closes = kind == Server::Close;
    head += if closes { "Connection: close\r\n\r\n" } else { "\r\n" };
    // In one write: bytes that come later may meet the next request on their way, and pass for its response.
    if matches!(exchange.response, Body::BehindZero | Body::BehindNoContent | Body::BehindNotModified) {
        link.send(&[head.as_bytes(), EVIL_RESPONSE].concat())?;
    } else if exchange.method == Method::Head {
        link.send(head.as_bytes())?;
    } else {
        send_body(link, exchange, &head, &body, shape == Framed::Chunked)?;
    }
    Ok(match exchange.response {
        // Without a length, only a reset tells that it was cut.
        Body::Cut if closes => AfterResponse::Abort,
        Body::Cut => AfterResponse::Close,
        _ if closes => AfterResponse::Close,
        _ => AfterResponse::KeepAlive,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framed {
    Without,
    Length,
    Chunked,
    UntilClose,
}

fn send_body(
    link: &mut RecordedLink,
    exchange: &ScriptedExchange,
    head: &str,
    body: &[u8],
    is_chunked: bool,
) -> Result<(), LinkEnd> {
    let framed = |piece: &[u8]| match is_chunked && !piece.is_empty() {
        true => [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat(),
        false => piece.to_vec(),
    };
    let end: &[u8] = if is_chunked { b"0\r\n\r\n" } else { b"" };
    match exchange.response {
        Body::Late => {
            link.send(head.as_bytes())?;
            pause(LATE);
            link.send(&[&framed(body), end].concat())
        }
        Body::Many | Body::BeyondWindow | Body::Large => {
            link.send(head.as_bytes())?;
            for piece in pieces(body) {
                link.send(&framed(piece))?;
            }
            link.send(end)
        }
        Body::Trailers if is_chunked => {
            let trailers = format!("0\r\n{TRAILER}: {}\r\n{REMOVED}: 1\r\n\r\n", exchange.id);
            link.send(&[head.as_bytes(), &framed(body), trailers.as_bytes()].concat())
        }
        Body::EmptyLast => {
            link.send(&[head.as_bytes(), &framed(body)].concat())?;
            link.send(end)
        }
        Body::Cut => {
            link.send(&[head.as_bytes(), &framed(&body[..FIRST_PART])].concat())?;
            // What was sent is to arrive before the reset.
            pause(LATE);
            Ok(())
        }
        _ => link.send(&[head.as_bytes(), &framed(body), end].concat()),
    }
}
