//! A server of HTTP/1 on a Unix socket: short and long responses, sums of bodies, silence, and tunnels that echo.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use aws_lc_rs::digest;
use data_encoding::BASE64;

/// Bytes of a long response.
pub(in crate::downstream::connection) const LIMITED_LEN: u64 = 9_000;

/// What a server appends to the key of a WebSocket (RFC 6455 section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// One connection of Weir.
struct OriginConn {
    socket: UnixStream,
    input: Vec<u8>,
    /// All that has come.
    received: Vec<u8>,
    output: Vec<u8>,
    is_tunnel: bool,
    has_ended: bool,
}

/// The server.
pub(in crate::downstream::connection) struct OriginPeer {
    folder: std::path::PathBuf,
    path: String,
    listener: UnixListener,
    conns: Vec<OriginConn>,
}

impl OriginPeer {
    pub(in crate::downstream::connection) fn listen() -> Self {
        let number = rand_number();
        let folder = std::env::temp_dir().join(format!("weir-simulation-{}-{number:x}", std::process::id()));
        std::fs::create_dir(&folder).expect("there is a folder for temporary files");
        let path = folder.join("server").to_str().expect("it has a plain name").to_owned();
        let listener = UnixListener::bind(&path).expect("the folder is new");
        listener.set_nonblocking(true).expect("it can be set");
        Self { folder, path, listener, conns: Vec::new() }
    }

    pub(in crate::downstream::connection) fn path(&self) -> &str {
        &self.path
    }

    /// Tunnels that Weir has not ended.
    pub(in crate::downstream::connection) fn tunnels_open(&self) -> usize {
        self.conns.iter().filter(|conn| conn.is_tunnel && !conn.has_ended).count()
    }

    /// Connections that Weir has not ended.
    pub(in crate::downstream::connection) fn connections_open(&self) -> usize {
        self.conns.iter().filter(|conn| !conn.has_ended).count()
    }

    /// All that has come on each connection.
    pub(in crate::downstream::connection) fn records(&self) -> Vec<Vec<u8>> {
        self.conns.iter().map(|conn| conn.received.clone()).collect()
    }

    /// Does what there is to do; whether there was any.
    pub(in crate::downstream::connection) fn turn(&mut self) -> bool {
        let mut moved = false;
        while let Ok((socket, _)) = self.listener.accept() {
            socket.set_nonblocking(true).expect("it can be set");
            let (input, received, output) = (Vec::new(), Vec::new(), Vec::new());
            self.conns.push(OriginConn {
                socket,
                input,
                received,
                output,
                is_tunnel: false,
                has_ended: false,
            });
            moved = true;
        }
        self.conns.iter_mut().fold(moved, |any, conn| conn.turn() | any)
    }
}

impl Drop for OriginPeer {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

impl OriginConn {
    fn turn(&mut self) -> bool {
        let mut moved = false;
        let mut buf = [0; 8 * 1024];
        while !self.has_ended {
            match self.socket.read(&mut buf) {
                Ok(0) => self.has_ended = true,
                Ok(len) => {
                    self.input.extend_from_slice(&buf[..len]);
                    self.received.extend_from_slice(&buf[..len]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.has_ended = true,
            }
            moved = true;
        }
        self.answer();
        while !self.output.is_empty() {
            match self.socket.write(&self.output) {
                Ok(len) => drop(self.output.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.output.clear(),
            }
            moved = true;
        }
        if self.has_ended && self.output.is_empty() {
            let _gone = self.socket.shutdown(std::net::Shutdown::Both);
        }
        moved
    }

    /// Answers the requests that are whole, and echoes what comes behind a switch of protocols.
    fn answer(&mut self) {
        loop {
            if self.is_tunnel {
                return self.output.append(&mut self.input);
            }
            let Some(end) = self.input.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return };
            let head = String::from_utf8(self.input[..end + 4].to_vec()).expect("heads of Weir are text");
            let body = field(&head, "content-length").map_or(0, |len| len.parse().expect("it is a number"));
            if self.input.len() < head.len() + body {
                return;
            }
            let body: Vec<u8> = self.input.drain(..head.len() + body).skip(head.len()).collect();
            let id = field(&head, "x-id").expect("each request has one");
            let response = if head.starts_with("GET /short ") {
                format!("HTTP/1.1 200 OK\r\nX-Id: {id}\r\nContent-Length: 5\r\n\r\nshort")
            } else if head.starts_with("GET /limited ") {
                let body = "x".repeat(LIMITED_LEN as usize);
                format!("HTTP/1.1 200 OK\r\nX-Id: {id}\r\nContent-Length: {LIMITED_LEN}\r\n\r\n{body}")
            } else if head.starts_with("POST /sum ") {
                let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
                let len = sum.to_string().len();
                format!("HTTP/1.1 200 OK\r\nX-Id: {id}\r\nContent-Length: {len}\r\n\r\n{sum}")
            } else if head.starts_with("GET /silent ") {
                String::new()
            } else {
                self.is_tunnel = true;
                let accept = accept(&head);
                format!(
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                     X-Id: {id}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
                )
            };
            self.output.extend_from_slice(response.as_bytes());
        }
    }
}

/// The value of a field in `head`.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The proof that belongs to the key in `head`.
fn accept(head: &str) -> String {
    let key = field(head, "sec-websocket-key").expect("Weir sends a key");
    let text = format!("{key}{GUID}");
    BASE64.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}

fn rand_number() -> u64 {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).expect("the generator has been seeded");
    u64::from_ne_bytes(bytes)
}
