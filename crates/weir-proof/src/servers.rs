//! The servers behind both programs: they speak what is spoken to them (HTTP/1, TLS, FastCGI, bytes), keep what they saw, and answer as the
//! request asks them to in `x-proof-answer`.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::names::KnownNames;
use crate::wire::{WireMessage, WireReader};

/// What a server saw of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeenRequest {
    /// Host and port, or the path of a socket.
    pub(crate) server: String,
    /// `http`, `https`, `fastcgi`, `tcp`.
    pub(crate) protocol: &'static str,
    pub(crate) line: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// All servers.
#[derive(Clone)]
pub(crate) struct ProofServers {
    pub(crate) names: KnownNames,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    /// Messages of logs that came by syslog.
    messages: Arc<Mutex<Vec<String>>>,
    tls: Arc<ServerConfig>,
}

impl ProofServers {
    pub(crate) fn new(names: KnownNames, tls: ServerConfig) -> Self {
        ProofServers { names, seen: Arc::default(), messages: Arc::default(), tls: Arc::new(tls) }
    }

    /// What was seen since the last time.
    pub(crate) fn take(&self) -> Vec<SeenRequest> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The messages since the last time.
    pub(crate) fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps what comes by syslog, on the address of its protocol and on the socket of the system.
    pub(crate) fn keep_messages(&self) {
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 514)) {
            let servers = self.clone();
            thread::spawn(move || servers.keep(|into| socket.recv(into)));
        }
        if let Ok(socket) = UnixDatagram::bind("/dev/log") {
            let servers = self.clone();
            thread::spawn(move || servers.keep(|into| socket.recv(into)));
        }
    }

    fn keep(&self, receive: impl Fn(&mut [u8]) -> std::io::Result<usize>) {
        let mut packet = [0; 65536];
        while let Ok(len) = receive(&mut packet) {
            let text = String::from_utf8_lossy(&packet[..len]).trim_end().to_owned();
            self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    }

    /// Serves on a port of an address of the calling thread's network.
    pub(crate) fn listen(&self, address: SocketAddr) {
        let Ok(listener) = TcpListener::bind(address) else { return };
        let servers = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let servers = servers.clone();
                thread::spawn(move || servers.serve_tcp(stream));
            }
        });
    }

    /// Serves on a socket in the file system.
    pub(crate) fn listen_unix(&self, path: &str) {
        let Ok(listener) = UnixListener::bind(path) else { return };
        let (servers, name) = (self.clone(), path.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (servers, name) = (servers.clone(), name.clone());
                thread::spawn(move || servers.serve(stream, &name, "http"));
            }
        });
    }

    fn serve_tcp(&self, stream: TcpStream) {
        let Ok(at) = stream.local_addr() else { return };
        let ip = match at.ip() {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
            ip @ IpAddr::V4(_) => ip,
        };
        let name = format!("{}:{}", self.names.name_of(ip), at.port());
        // A connection that nothing comes on, such as a probe, is not held for ever.
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        let mut first = [0; 1];
        if !matches!(stream.peek(&mut first), Ok(1)) {
            return;
        }
        if first[0] == 0x16 {
            let Ok(session) = ServerConnection::new(Arc::clone(&self.tls)) else { return };
            self.serve(StreamOwned::new(session, stream), &name, "https");
        } else {
            self.serve(stream, &name, "http");
        }
    }

    /// Speaks what the first bytes are.
    fn serve(&self, mut stream: impl Read + Write, name: &str, protocol: &'static str) {
        let mut first = [0; 1];
        if !matches!(stream.read(&mut first), Ok(1)) {
            return;
        }
        let mut stream = Prefixed { first: Some(first[0]), stream };
        match first[0] {
            1 => self.serve_fastcgi(stream, name),
            b'A'..=b'Z' => self.serve_http(stream, name, protocol),
            _ => {
                let (mut piece, mut text) = ([0; 4096], Vec::new());
                while let Ok(len @ 1..) = stream.read(&mut piece) {
                    text.extend_from_slice(&piece[..len]);
                    if text.last() != Some(&b'\n') {
                        continue;
                    }
                    let line = String::from_utf8_lossy(&text).trim_end().to_owned();
                    self.note(SeenRequest {
                        server: name.to_owned(),
                        protocol: "tcp",
                        line,
                        fields: Vec::new(),
                        body: Vec::new(),
                    });
                    if stream.write_all(&text).is_err() {
                        return;
                    }
                    text.clear();
                }
            }
        }
    }

    fn note(&self, seen: SeenRequest) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    }

    fn serve_http(&self, stream: impl Read + Write, name: &str, protocol: &'static str) {
        let mut reader = WireReader::new(stream);
        while let Some(request) = reader.request() {
            if request.start.starts_with("PROXY ") {
                continue;
            }
            // Probes have no number.
            if request.field("x-proof").is_some() {
                self.note(SeenRequest {
                    server: name.to_owned(),
                    protocol,
                    line: request.start.clone(),
                    fields: request.fields.clone(),
                    body: request.body.clone(),
                });
            }
            let wish = request.field("x-proof-answer").unwrap_or("200").to_owned();
            let Some(response) = response_to(&wish, &request.start, name) else { return };
            let is_head = request.start.starts_with("HEAD ");
            let end = response.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
            let sent = if is_head { &response[..end] } else { &response[..] };
            if reader.stream.write_all(sent).is_err() || reader.stream.flush().is_err() {
                return;
            }
        }
    }

    /// One request of FastCGI for each connection, as programs send them that do not keep them.
    fn serve_fastcgi(&self, mut stream: impl Read + Write, name: &str) {
        let (mut params, mut body) = (Vec::new(), Vec::new());
        loop {
            let mut head = [0; 8];
            if stream.read_exact(&mut head).is_err() {
                return;
            }
            let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
            let mut content = vec![0; len + usize::from(head[6])];
            if stream.read_exact(&mut content).is_err() {
                return;
            }
            content.truncate(len);
            match head[1] {
                4 => params.extend(content),
                5 if content.is_empty() => {
                    let id = [head[2], head[3]];
                    self.answer_fastcgi(&mut stream, name, id, &params, std::mem::take(&mut body));
                    params.clear();
                    // Which ends are kept open differs; both programs cope with a closed one.
                    return;
                }
                5 => body.extend(content),
                _ => {}
            }
        }
    }

    fn answer_fastcgi(&self, stream: &mut impl Write, name: &str, id: [u8; 2], params: &[u8], body: Vec<u8>) {
        let fields = fastcgi_params(params);
        let of = |wanted: &str| {
            let found = fields.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let line = format!("{} {}", of("REQUEST_METHOD"), of("REQUEST_URI"));
        let wish = of("HTTP_X_PROOF_ANSWER");
        self.note(SeenRequest {
            server: name.to_owned(),
            protocol: "fastcgi",
            line: format!("{line} {}", of("SCRIPT_FILENAME")),
            fields,
            body,
        });
        let wish = if wish.is_empty() { "200" } else { &wish };
        let Some(response) = response_to(wish, &line, name) else { return };
        let text = String::from_utf8_lossy(&response).into_owned();
        let (first, rest) = text.split_once("\r\n").unwrap_or((&text, ""));
        let status = first.strip_prefix("HTTP/1.1 ").unwrap_or("200 OK");
        let answer = format!("Status: {status}\r\n{rest}");
        let mut out = Vec::new();
        for piece in answer.as_bytes().chunks(60_000) {
            let [high, low] = u16::try_from(piece.len()).unwrap_or_default().to_be_bytes();
            out.extend([1, 6, id[0], id[1], high, low, 0, 0]);
            out.extend(piece);
        }
        out.extend([1, 6, id[0], id[1], 0, 0, 0, 0, 1, 3, id[0], id[1], 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        // The other end may be gone.
        let _ = stream.write_all(&out).and_then(|()| stream.flush());
    }
}

/// The pairs of a stream of parameters.
fn fastcgi_params(mut bytes: &[u8]) -> Vec<(String, String)> {
    fn length(bytes: &mut &[u8]) -> Option<usize> {
        let first = *bytes.first()?;
        if first < 128 {
            *bytes = &bytes[1..];
            return Some(usize::from(first));
        }
        let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        *bytes = &bytes[4..];
        usize::try_from(u32::from_be_bytes(four) & 0x7fff_ffff).ok()
    }
    let mut found = Vec::new();
    while let (Some(name), Some(value)) = (length(&mut bytes), length(&mut bytes)) {
        if bytes.len() < name + value {
            break;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.push((text(&bytes[..name]), text(&bytes[name..name + value])));
        bytes = &bytes[name + value..];
    }
    found
}

/// The response that a request wishes for; none where the connection is to end without one.
fn response_to(wish: &str, line: &str, name: &str) -> Option<Vec<u8>> {
    // Which version of HTTP/1 is spoken to a server is its connection's.
    let asked = line.trim_end_matches(" HTTP/1.0").trim_end_matches(" HTTP/1.1");
    let text = format!("<html><head><title>proof</title></head><body>answer to {asked}</body></html>\n");
    let plain = "content-type: text/html; charset=utf-8\r\n";
    let (status, fields, body) = match wish {
        "close" => return None,
        "301" => ("301 Moved Permanently", format!("location: http://{name}/moved?a=b\r\n{plain}"), text),
        "302" => ("302 Found", format!("location: /elsewhere\r\n{plain}"), text),
        "cookie" => (
            "200 OK",
            format!(
                "set-cookie: session=abc; Path=/; Domain=backend.example\r\nset-cookie: b=c; Path=/app; HttpOnly\r\n{plain}"
            ),
            text,
        ),
        "fields" => (
            "200 OK",
            format!(
                "cache-control: no-cache\r\nx-powered-by: proof\r\nserver: origin\r\nx-frame-options: DENY\r\nx-content-type-options: nosniff\r\nstrict-transport-security: max-age=1\r\naccess-control-allow-origin: *\r\nexpires: Thu, 01 Jan 1970 00:00:01 GMT\r\nx-accel-buffering: no\r\n{plain}"
            ),
            text,
        ),
        "long" => ("200 OK", plain.to_owned(), text.repeat(60)),
        "cached" => (
            "200 OK",
            format!(
                "cache-control: max-age=60\r\netag: \"one\"\r\nlast-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n{plain}"
            ),
            text,
        ),
        "json" => ("200 OK", "content-type: application/json\r\n".to_owned(), "{\"proof\":true}".repeat(100)),
        "201" => ("201 Created", plain.to_owned(), text),
        "401" => ("401 Unauthorized", format!("www-authenticate: Basic realm=\"origin\"\r\n{plain}"), text),
        "403" => ("403 Forbidden", plain.to_owned(), text),
        "404" => ("404 Not Found", plain.to_owned(), text),
        "413" => ("413 Content Too Large", plain.to_owned(), text),
        "500" => ("500 Internal Server Error", plain.to_owned(), text),
        "502" => ("502 Bad Gateway", plain.to_owned(), text),
        "503" => ("503 Service Unavailable", format!("retry-after: 7\r\n{plain}"), text),
        "504" => ("504 Gateway Timeout", plain.to_owned(), text),
        _ => ("200 OK", plain.to_owned(), text),
    };
    Some(format!("HTTP/1.1 {status}\r\n{fields}content-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

/// A stream whose first byte was read already.
struct Prefixed<S> {
    first: Option<u8>,
    stream: S,
}

impl<S: Read> Read for Prefixed<S> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match (self.first.take(), into.first_mut()) {
            (Some(first), Some(place)) => {
                *place = first;
                Ok(1)
            }
            _ => self.stream.read(into),
        }
    }
}

impl<S: Write> Write for Prefixed<S> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

impl SeenRequest {
    /// The number of the request that it comes from.
    pub(crate) fn number(&self) -> Option<usize> {
        let field = self.fields.iter().find(|(name, _)| name == "x-proof" || name == "HTTP_X_PROOF");
        match field {
            Some((_, number)) => number.parse().ok(),
            None => self.line.strip_prefix("proof ")?.split(' ').next()?.parse().ok(),
        }
    }
}

/// A message in which nothing came, for requests that get no answer.
pub(crate) fn nothing() -> WireMessage {
    WireMessage::default()
}
