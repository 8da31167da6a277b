//! The client of a case: it asks as the exchanges say, over the protocol of the case, and waits until each is over.
//!
//! It judges nothing: what came is on the tape.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{Dir, StreamId, VarInt};
use weir_wire::http1::{self, SenderEnding};

use super::http2::Http2;
use super::http3::{Http3, QuicCut};
use super::link::{self, AskedRequest, Label, LinkEnd, LinkStream, RecordedLink, Speaks, Tape, Tapes};
use super::tls::PeerCertificates;
use crate::array::{Body, Case, Client, Feature, Method, Server};
use crate::clock::pause;
use crate::config::{HOST, NAMED_CLIENT, basic_credentials, token};
use crate::exchange::{
    EVIL_REQUEST, FIRST_PART, REMOVED, ScriptedExchange, TRAILER, TRIED, accepted_codings, is_of_other_route,
    pieces,
};

/// The code with which a client gives a stream up.
const CANCEL: u32 = 8;
/// How late a late body is.
const LATE: Duration = Duration::from_millis(15);

enum SpokenProtocol {
    Http1(RecordedLink),
    Http2(Box<Http2>),
    Http3(Box<Http3>),
}

/// One connection to Weir.
pub(crate) struct Conversation {
    case: Case,
    protocol: SpokenProtocol,
    next_stream: u32,
    /// The cookie of session affinity, once there is one.
    pub(crate) cookie: Option<String>,
}

impl Conversation {
    /// Connects as the client of the case does.
    pub(crate) fn connect(
        case: Case,
        to: SocketAddr,
        certificates: &PeerCertificates,
        tapes: &Tapes,
    ) -> Result<Self, LinkEnd> {
        if case.client.is_h3() {
            let tls = certificates.of_client(case.client);
            let http3 = Http3::connect(to, tls, tapes, case.client == Client::H3)?;
            return Ok(Self {
                case,
                protocol: SpokenProtocol::Http3(Box::new(http3)),
                next_stream: 1,
                cookie: None,
            });
        }
        let tcp = link::connect(to)?;
        let speaks = if case.client.is_h2() { Speaks::Http2 } else { Speaks::Http1 };
        let stream = match case.client {
            Client::H2 | Client::H2Certificate => {
                certificates.connect(tcp, case.client).ok_or(LinkEnd::Malformed)?
            }
            _ => LinkStream::Tcp(tcp),
        };
        let mut link = RecordedLink::new(stream, tapes, Label::Client, speaks);
        if case.client == Client::Proxy {
            link.send(format!("PROXY TCP4 {NAMED_CLIENT} 192.0.2.8 4711 80\r\n").as_bytes())?;
        }
        let protocol = match speaks {
            Speaks::Http2 => SpokenProtocol::Http2(Box::new(Http2::client(link)?)),
            _ => SpokenProtocol::Http1(link),
        };
        Ok(Self { case, protocol, next_stream: 1, cookie: None })
    }

    fn tape(&self) -> &Arc<Tape> {
        match &self.protocol {
            SpokenProtocol::Http1(link) => link.tape(),
            SpokenProtocol::Http2(http2) => http2.link.tape(),
            SpokenProtocol::Http3(http3) => http3.link.tape(),
        }
    }

    /// What ends the connection from outside.
    pub(crate) fn handle(&mut self) -> Option<ClientHandle> {
        match &self.protocol {
            SpokenProtocol::Http1(link) => link.handle().map(ClientHandle::Tcp),
            SpokenProtocol::Http2(http2) => http2.link.handle().map(ClientHandle::Tcp),
            SpokenProtocol::Http3(http3) => http3.link.cutter().map(ClientHandle::Quic),
        }
    }

    /// Asks for all of `exchanges` before it waits for any of them; whatever ends earlier is on the tape.
    pub(crate) fn ask_together(&mut self, exchanges: &[&ScriptedExchange]) -> Result<(), LinkEnd> {
        let mut streams = Vec::new();
        for exchange in exchanges {
            streams.push(self.ask(exchange)?);
        }
        for (exchange, stream) in exchanges.iter().zip(streams) {
            self.wait(exchange, stream)?;
        }
        Ok(())
    }

    /// Sends a request; gives its stream.
    fn ask(&mut self, exchange: &ScriptedExchange) -> Result<u32, LinkEnd> {
        let fields = request_fields(&self.case, exchange, self.cookie.as_deref());
        let stream = match &mut self.protocol {
            SpokenProtocol::Http1(_) => 0,
            SpokenProtocol::Http2(_) => self.next_stream,
            SpokenProtocol::Http3(http3) => {
                http3.link.open(Dir::Bi).map(|stream| u64::from(stream) as u32)?
            }
        };
        self.next_stream += 2;
        let asked = AskedRequest { id: exchange.id, method: exchange.method, stream };
        self.tape().record().asked.push(asked);
        match &mut self.protocol {
            SpokenProtocol::Http1(link) => ask_http1(link, &self.case, exchange, &fields)?,
            SpokenProtocol::Http2(http2) => ask_http2(http2, &self.case, exchange, &fields, stream)?,
            SpokenProtocol::Http3(http3) => ask_http3(http3, &self.case, exchange, &fields, stream)?,
        }
        Ok(stream)
    }

    /// Waits until the response is complete, or the connection or stream has ended.
    fn wait(&mut self, exchange: &ScriptedExchange, stream: u32) -> Result<(), LinkEnd> {
        match &mut self.protocol {
            // The client itself has ended the stream.
            SpokenProtocol::Http2(_) | SpokenProtocol::Http3(_) if exchange.request == Body::Cut => Ok(()),
            SpokenProtocol::Http3(http3) => http3.wait(stream_id(stream)),
            SpokenProtocol::Http2(http2) => {
                // What is to be waited for may have come while another stream was.
                http2.has_news = true;
                wait_http2(http2, stream)
            }
            SpokenProtocol::Http1(link) => wait_http1(link, exchange.id, false),
        }
    }

    /// The cookie that the responses so far have set.
    pub(crate) fn take_cookie(&mut self) {
        let fields = match &mut self.protocol {
            SpokenProtocol::Http1(link) => {
                let reading = http1::responses(link.received(), &["GET"; 9], SenderEnding::Open);
                reading.messages.first().map(|message| message.fields.clone())
            }
            SpokenProtocol::Http2(http2) => {
                http2.reading().streams.into_values().next().map(|stream| stream.head)
            }
            SpokenProtocol::Http3(http3) => {
                http3.reading().streams.into_values().next().map(|stream| stream.head)
            }
        };
        let set = fields.as_ref().and_then(|fields| fields.first("set-cookie"));
        self.cookie = set.and_then(|set| set.split(';').next()).map(str::to_owned);
    }

    /// Ends the connection in order, and records what still comes.
    pub(crate) fn end(self) {
        let mut link = match self.protocol {
            SpokenProtocol::Http1(link) => link,
            SpokenProtocol::Http2(http2) => http2.link,
            SpokenProtocol::Http3(http3) => return http3.end(),
        };
        link.finish();
        link.drain(Duration::from_millis(1_500));
    }
}

/// What ends a connection from outside.
pub(crate) enum ClientHandle {
    Tcp(TcpStream),
    Quic(QuicCut),
}

impl ClientHandle {
    /// Ends it, for both directions.
    pub(crate) fn cut(&self) {
        match self {
            Self::Tcp(tcp) => {
                // It may have ended meanwhile.
                let _ = tcp.shutdown(Shutdown::Both);
            }
            Self::Quic(cut) => cut.cut(),
        }
    }
}

/// The stream of HTTP/3 with this number, which a client has opened.
fn stream_id(number: u32) -> StreamId {
    VarInt::from_u32(number).into()
}

/// Waits until a stream is over.
fn wait_http2(http2: &mut Http2, stream: u32) -> Result<(), LinkEnd> {
    loop {
        if http2.has_news {
            let reading = http2.reading();
            if reading.fault.is_some() {
                return Err(LinkEnd::Malformed);
            }
            if reading.streams.get(&stream).is_some_and(|sent| sent.has_ended || sent.reset.is_some()) {
                return Ok(());
            }
        }
        http2.read_frame()?;
    }
}

/// Waits for the response to `id`, or with `head_only` until its head is here.
fn wait_http1(link: &mut RecordedLink, id: &str, head_only: bool) -> Result<(), LinkEnd> {
    loop {
        let asked = link.tape().record().asked.clone();
        let methods: Vec<&str> = asked.iter().map(|asked| asked.method.text()).collect();
        let wanted = asked.iter().position(|asked| asked.id == id).unwrap_or(0);
        let reading = http1::responses(link.received(), &methods, SenderEnding::Open);
        if reading.fault.is_some() {
            return Err(LinkEnd::Malformed);
        }
        let finals = reading.messages.iter().filter(|message| !message.is_interim());
        if finals.skip(wanted).any(|message| message.is_complete || head_only) {
            return Ok(());
        }
        link.receive()?;
    }
}

/// The fields of a request beside those of framing and of the host.
fn request_fields(case: &Case, exchange: &ScriptedExchange, cookie: Option<&str>) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
    add("x-id", exchange.id);
    add("x-user", exchange.user);
    add(REMOVED, "1");
    if let Some(codings) = accepted_codings(case, exchange) {
        add("accept-encoding", codings);
    }
    if is_of_other_route(case, exchange) {
        add("x-route", "other");
    }
    if case.has(Feature::Basic) {
        add("authorization", &basic_credentials(exchange.user));
    }
    if case.has(Feature::Jwt) {
        add("x-token", &token(exchange.user));
    }
    if exchange.is_limited {
        add("x-counted", "yes");
    }
    if exchange.is_grpc {
        add("content-type", "application/grpc-web+proto");
    } else if exchange.method == Method::Post {
        add("content-type", "text/plain");
    }
    if let Some(cookie) = cookie.filter(|_| exchange.id == TRIED) {
        add("cookie", cookie);
    }
    fields
}

/// Whether the rest of a request is sent before its early response is here: nothing goes to the server before the request is complete.
fn is_taken_in(case: &Case) -> bool {
    case.has(Feature::BufferRequests) || case.server == Server::Fastcgi
}

fn ask_http1(
    link: &mut RecordedLink,
    case: &Case,
    exchange: &ScriptedExchange,
    fields: &[(String, String)],
) -> Result<(), LinkEnd> {
    let body = exchange.request_body();
    let mut head =
        format!("{} {} HTTP/1.1\r\nHost: {HOST}\r\n", exchange.method.text(), exchange.sent_target());
    for (name, value) in fields {
        head += &format!("{name}: {value}\r\n");
    }
    let is_chunked = matches!(exchange.request, Body::Many | Body::Trailers | Body::EmptyLast);
    if is_chunked {
        head += "Transfer-Encoding: chunked\r\n";
    } else if exchange.request != Body::None || exchange.is_grpc {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    if exchange.request == Body::Trailers {
        head += &format!("Trailer: {TRAILER}\r\n");
    }
    head += "\r\n";
    let chunk = |piece: &[u8]| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
    match exchange.request {
        Body::Late => {
            link.send(head.as_bytes())?;
            pause(LATE);
            link.send(&body)
        }
        Body::Many => {
            link.send(head.as_bytes())?;
            for piece in pieces(&body) {
                link.send(&chunk(piece))?;
            }
            link.send(b"0\r\n\r\n")
        }
        Body::Trailers => {
            let trailers = format!("0\r\n{TRAILER}: {}\r\n{REMOVED}: 1\r\n\r\n", exchange.id);
            link.send(&[head.as_bytes(), &chunk(&body), trailers.as_bytes()].concat())
        }
        Body::EmptyLast => {
            link.send(&[head.as_bytes(), &chunk(&body)].concat())?;
            link.send(b"0\r\n\r\n")
        }
        Body::Cut => {
            link.send(&[head.as_bytes(), &body[..FIRST_PART]].concat())?;
            link.finish();
            Ok(())
        }
        Body::Early => {
            link.send(&[head.as_bytes(), &body[..FIRST_PART]].concat())?;
            if !is_taken_in(case) {
                wait_http1(link, exchange.id, true)?;
            }
            // Weir may have ended the connection behind the response, which is to be read all the same.
            let _ = link.send(&body[FIRST_PART..]);
            Ok(())
        }
        _ => {
            let sent = link.send(&[head.as_bytes(), &body].concat());
            // A response may have come before all was sent.
            if matches!(exchange.request, Body::BeyondWindow | Body::Large) { Ok(()) } else { sent }
        }
    }
}

/// The head of a request where heads are lists of fields.
fn field_list(
    case: &Case,
    exchange: &ScriptedExchange,
    fields: &[(String, String)],
) -> Vec<(String, String)> {
    let scheme = if case.client.has_tls() { "https" } else { "http" };
    let target = exchange.sent_target();
    let pseudo =
        [(":method", exchange.method.text()), (":scheme", scheme), (":authority", HOST), (":path", &target)];
    let mut list: Vec<(String, String)> =
        pseudo.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    list.extend_from_slice(fields);
    let has_length = !matches!(exchange.request, Body::None | Body::Many | Body::Trailers | Body::EmptyLast);
    if has_length {
        list.push(("content-length".to_owned(), exchange.request_body().len().to_string()));
    }
    list
}

/// The trailers of a request.
fn trailers(exchange: &ScriptedExchange) -> [(String, String); 2] {
    [(TRAILER, exchange.id), (REMOVED, "1")].map(|(name, value)| (name.to_owned(), value.to_owned()))
}

fn ask_http2(
    http2: &mut Http2,
    case: &Case,
    exchange: &ScriptedExchange,
    fields: &[(String, String)],
    stream: u32,
) -> Result<(), LinkEnd> {
    let body = exchange.request_body();
    let list = field_list(case, exchange, fields);
    if exchange.method == Method::Head {
        http2.heads.insert(stream);
    }
    http2.send_head(stream, &list, exchange.request == Body::None)?;
    match exchange.request {
        Body::None => Ok(()),
        Body::Late => {
            pause(LATE);
            http2.send_data(stream, &body, true)
        }
        Body::Many => {
            for piece in pieces(&body) {
                http2.send_data(stream, piece, false)?;
            }
            http2.send_data(stream, b"", true)
        }
        Body::Trailers => {
            http2.send_data(stream, &body, false)?;
            http2.send_head(stream, &trailers(exchange), true)
        }
        Body::EmptyLast => {
            http2.send_data(stream, &body, false)?;
            http2.send_data(stream, b"", true)
        }
        Body::Cut => {
            http2.send_data(stream, &body[..FIRST_PART], false)?;
            http2.send_reset(stream, CANCEL)
        }
        Body::Early => {
            http2.send_data(stream, &body[..FIRST_PART], false)?;
            while !is_taken_in(case)
                && http2.reading().streams.get(&stream).is_none_or(|sent| sent.status() == 0)
            {
                http2.read_frame()?;
            }
            http2.send_data(stream, &body[FIRST_PART..], true)
        }
        Body::BehindZero => http2.send_frame(stream, EVIL_REQUEST, true),
        _ => http2.send_data(stream, &body, true),
    }
}

fn ask_http3(
    http3: &mut Http3,
    case: &Case,
    exchange: &ScriptedExchange,
    fields: &[(String, String)],
    stream: u32,
) -> Result<(), LinkEnd> {
    let body = exchange.request_body();
    if exchange.method == Method::Head {
        http3.heads.insert(stream.into());
    }
    let stream = stream_id(stream);
    http3.send_head(stream, &field_list(case, exchange, fields), exchange.request == Body::None)?;
    match exchange.request {
        Body::None => Ok(()),
        Body::Late => {
            pause(LATE);
            http3.send_data(stream, &body, true)
        }
        Body::Many => http3.send_pieces(stream, &pieces(&body)),
        Body::Trailers => {
            http3.send_data(stream, &body, false)?;
            http3.send_head(stream, &trailers(exchange), true)
        }
        Body::EmptyLast => {
            http3.send_data(stream, &body, false)?;
            http3.send_data(stream, b"", true)
        }
        Body::Cut => {
            http3.send_data(stream, &body[..FIRST_PART], false)?;
            http3.cancel(stream)
        }
        Body::Early => {
            http3.send_data(stream, &body[..FIRST_PART], false)?;
            if !is_taken_in(case) {
                http3.wait_for_head(stream)?;
            }
            http3.send_data(stream, &body[FIRST_PART..], true)
        }
        Body::BehindZero => http3.send_data(stream, EVIL_REQUEST, true),
        _ => http3.send_data(stream, &body, true),
    }
}
