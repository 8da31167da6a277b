//! The servers behind both programs: each says who it is, keeps what it saw, and answers as the request asks it to.
//!
//! `X-Answer: 302 | Location: /a | =text` is an answer with this status, field and body; `close` ends the connection instead.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::script::Script;
use crate::harness::foreign_program::free_address;
use crate::harness::{Connection, Origin, Request};

/// What a server saw of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) server: String,
    pub(super) line: String,
    /// Names in lower case, and values, sorted.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body_len: usize,
}

type Record = Arc<Mutex<Vec<Seen>>>;
/// Statuses of the answers to probes, by node and path.
type Statuses = Arc<Mutex<HashMap<(String, String), u16>>>;

/// All servers of a site.
pub(super) struct Servers {
    all: Vec<Server>,
    /// Texts of the configs, and what they are here.
    pub(super) replacements: Vec<(String, String)>,
    record: Record,
    statuses: Statuses,
}

/// One of them.
struct Server {
    name: String,
    kind: Kind,
    address: SocketAddr,
    origin: Option<Origin>,
    is_down: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Answers requests as they want it.
    Http,
    /// Says its name on each connection, and repeats what comes.
    Tcp,
    /// Answers probes.
    Health,
}

impl Servers {
    pub(super) fn start(script: &Script) -> Servers {
        let (record, statuses) = (Record::default(), Statuses::default());
        let mut servers = Servers { all: Vec::new(), replacements: Vec::new(), record, statuses };
        for (kind, list) in [(Kind::Http, &script.servers), (Kind::Tcp, &script.tcp_servers)] {
            for (name, placeholder) in list {
                let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
                let address = servers.add(name, kind, listener);
                servers.replacements.push((placeholder.clone(), address.to_string()));
            }
        }
        servers.start_nodes(script);
        servers
    }

    /// Starts nodes: servers that have the same ports on addresses of their own.
    fn start_nodes(&mut self, script: &Script) {
        let addresses: Vec<_> = script.nodes.iter().map(|_| free_address()).collect();
        for ((_, placeholder), address) in script.nodes.iter().zip(&addresses) {
            self.replacements.push((placeholder.clone(), address.ip().to_string()));
        }
        for (index, (placeholder, kind)) in script.services.iter().enumerate() {
            let Some(first) = addresses.get(index) else { panic!("more services than nodes") };
            let kind = if kind == "health" { Kind::Health } else { Kind::Tcp };
            self.replacements.push((placeholder.clone(), first.port().to_string()));
            for ((name, _), address) in script.nodes.iter().zip(&addresses) {
                let address = SocketAddr::new(address.ip(), first.port());
                let listener = TcpListener::bind(address).expect("nothing else is at these addresses");
                self.add(name, kind, listener);
            }
        }
    }

    fn add(&mut self, name: &str, kind: Kind, listener: TcpListener) -> SocketAddr {
        let address = listener.local_addr().expect("a bound socket has an address");
        let is_down = Arc::new(AtomicBool::new(false));
        let mut server = Server { name: name.to_owned(), kind, address, origin: None, is_down };
        server.origin = Some(self.origin(&server, listener));
        self.all.push(server);
        address
    }

    fn origin(&self, server: &Server, listener: TcpListener) -> Origin {
        let (name, kind, is_down) = (server.name.clone(), server.kind, Arc::clone(&server.is_down));
        let (record, statuses) = (Arc::clone(&self.record), Arc::clone(&self.statuses));
        Origin::listen(listener, move |conn| {
            conn.exempt("both programs are clients, and both are compared");
            match kind {
                Kind::Http => serve(conn, &name, &record, &is_down),
                Kind::Tcp => repeat(conn, &name),
                Kind::Health => answer_probes(conn, &name, &statuses),
            }
        })
    }

    /// What they saw since this was asked.
    pub(super) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.record.lock().expect("no script panics with the lock"))
    }

    /// Sets the status with which a node answers probes of a path.
    pub(super) fn set_status(&self, name: &str, path: &str, status: u16) {
        let mut statuses = self.statuses.lock().expect("no script panics with the lock");
        statuses.insert((name.to_owned(), path.to_owned()), status);
    }

    /// Stops or starts the server `name`: one of HTTP ends every connection without an answer, others refuse them.
    pub(super) fn set_down(&mut self, name: &str, is_down: bool) {
        let indices: Vec<usize> = (0..self.all.len()).filter(|&index| self.all[index].name == name).collect();
        assert!(!indices.is_empty(), "no server {name}");
        for index in indices {
            self.all[index].is_down.store(is_down, Ordering::SeqCst);
            if self.all[index].kind == Kind::Http {
                continue;
            }
            self.all[index].origin = None;
            if !is_down {
                let listener = bind_again(self.all[index].address);
                self.all[index].origin = Some(self.origin(&self.all[index], listener));
            }
        }
    }
}

/// Binds an address whose last listener may still be closing.
fn bind_again(address: SocketAddr) -> TcpListener {
    let mut listener = None;
    crate::harness::eventually("the address is free again", || {
        listener = TcpListener::bind(address).ok();
        listener.is_some()
    });
    listener.expect("it was just bound")
}

fn repeat(conn: &mut Connection, name: &str) -> Option<()> {
    let first = conn.take(1)?;
    conn.send(format!("{name}\n"))?;
    conn.send(first)?;
    loop {
        let next = conn.take(1)?;
        conn.send(next)?;
    }
}

fn answer_probes(conn: &mut Connection, name: &str, statuses: &Statuses) -> Option<()> {
    loop {
        let request = conn.request()?;
        let key = (name.to_owned(), request.target().to_owned());
        let status = *statuses.lock().expect("no script panics with the lock").get(&key).unwrap_or(&200);
        conn.send(format!("HTTP/1.1 {status} Scripted\r\nContent-Length: 0\r\n\r\n"))?;
    }
}

fn serve(conn: &mut Connection, name: &str, record: &Record, is_down: &AtomicBool) -> Option<()> {
    loop {
        if is_down.load(Ordering::SeqCst) {
            return None;
        }
        let request = conn.request()?;
        if is_down.load(Ordering::SeqCst) {
            return None;
        }
        let mut fields: Vec<_> = request.fields().0.clone();
        fields.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
        fields.sort();
        let line = format!("{} {}", request.method(), request.target());
        let seen = Seen { server: name.to_owned(), line, fields, body_len: request.body.bytes.len() };
        record.lock().expect("no script panics with the lock").push(seen);
        let order = request.fields().all("x-answer").first().map_or("200", |text| *text).to_owned();
        if order == "close" {
            return None;
        }
        answer(conn, name, &request, &order)?;
        if order.starts_with("101") {
            loop {
                let byte = conn.take(1)?;
                conn.send(byte)?;
            }
        }
    }
}

fn answer(conn: &mut Connection, name: &str, request: &Request, order: &str) -> Option<()> {
    let mut parts = order.split(" | ");
    let status: u16 = parts.next()?.parse().ok()?;
    let mut body = format!("seen by {name}: {} {}\n", request.method(), request.target());
    let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
    for part in parts {
        match part.strip_prefix('=') {
            Some(text) => text.clone_into(&mut body),
            None => head.push_str(&format!("{part}\r\n")),
        }
    }
    if status == 101 {
        head.push_str("Connection: upgrade\r\nUpgrade: websocket\r\n");
        body.clear();
    } else if status != 204 && status != 304 {
        if !head.contains("Content-Type") {
            head.push_str("Content-Type: text/plain\r\n");
        }
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    if request.method() == "HEAD" || status == 204 || status == 304 {
        body.clear();
    }
    conn.send(format!("{head}\r\n{body}"))
}
