//! A server of HTTP/1: bodies by length, in chunks, or until it closes.

use std::time::Duration;

use weir_wire::http1::{self, Message};

use super::Shared;
use super::answer::{self, LATE, Turn};
use crate::array::{Body, Method, Server};
use crate::clock::pause;
use crate::exchange::{EVIL_RESPONSE, Exchange, FIRST_PART, TRAILER, pieces};
use crate::peer::link::{End, Link};

/// What follows a response.
#[derive(PartialEq, Eq)]
enum Behind {
    KeepAlive,
    Close,
    Abort,
}

/// Answers requests until the connection ends.
pub(super) fn serve(mut link: Link, shared: &Shared, kind: Server) -> Result<(), End> {
    for index in 0.. {
        let head = wait(&mut link, index, true)?;
        let turn = answer::turn(shared, |name| head.fields.first(name).map(str::to_owned));
        let is_early = matches!(&turn, Turn::Answer(exchange) if exchange.request == Body::Early);
        if !is_early {
            wait(&mut link, index, false)?;
        }
        let behind = match turn {
            Turn::Answer(exchange) => {
                answer::hold(shared, exchange, link.tape());
                respond(&mut link, shared, exchange, kind)?
            }
            Turn::Reset => Behind::Abort,
            Turn::Plain(fields) => {
                let lines: String =
                    fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                link.send(format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\n\r\n").as_bytes())?;
                Behind::KeepAlive
            }
        };
        match behind {
            Behind::KeepAlive if is_early => drop(wait(&mut link, index, false)?),
            Behind::KeepAlive => {}
            Behind::Close => {
                link.finish();
                link.drain(Duration::from_secs(5));
                return Ok(());
            }
            Behind::Abort => {
                link.abort();
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Waits for the request with this number, or for its head.
fn wait(link: &mut Link, index: usize, head_only: bool) -> Result<Message, End> {
    loop {
        let reading = http1::requests(link.received());
        if reading.fault.is_some() {
            return Err(End::Malformed);
        }
        if let Some(message) =
            reading.messages.into_iter().nth(index).filter(|it| head_only || it.is_complete)
        {
            return Ok(message);
        }
        link.receive()?;
    }
}

fn respond(link: &mut Link, shared: &Shared, exchange: &Exchange, kind: Server) -> Result<Behind, End> {
    let body = exchange.response_body();
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
    if exchange.method == Method::Head {
        link.send(head.as_bytes())?;
    } else {
        send_body(link, exchange, &head, &body, shape == Framed::Chunked)?;
    }
    if matches!(exchange.response, Body::BehindZero | Body::BehindNoContent | Body::BehindNotModified) {
        link.send(EVIL_RESPONSE)?;
    }
    Ok(match exchange.response {
        // Without a length, only a reset tells that it was cut.
        Body::Cut if closes => Behind::Abort,
        Body::Cut => Behind::Close,
        _ if closes => Behind::Close,
        _ => Behind::KeepAlive,
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
    link: &mut Link,
    exchange: &Exchange,
    head: &str,
    body: &[u8],
    is_chunked: bool,
) -> Result<(), End> {
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
        Body::Many | Body::Large => {
            link.send(head.as_bytes())?;
            for piece in pieces(body) {
                link.send(&framed(piece))?;
            }
            link.send(end)
        }
        Body::Trailers if is_chunked => {
            let trailers = format!("0\r\n{TRAILER}: {}\r\n\r\n", exchange.id);
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
