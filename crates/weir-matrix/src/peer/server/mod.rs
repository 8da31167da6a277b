//! The servers of a case: they listen, tell requests apart by their ids, and answer as the exchanges say.
//!
//! `answer` is what all protocols say; `http1`, `http2` and `fastcgi` say it.

mod http1;
mod http2;
mod fastcgi;
mod answer;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::link::{self, Label, LinkStream, OpenSockets, RecordedLink, Speaks, Tapes};
use super::script::CaseScript;
use super::tls::PeerCertificates;
use crate::array::{Feature, Server};

pub(crate) use fastcgi::param_of_field;

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerRole {
    /// One of the upstream.
    App(&'static str),
    /// It gets the copies of a mirror.
    Copies,
    /// It decides about requests.
    Judge,
    /// It names the servers of the upstream.
    Registry,
}

impl ServerRole {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::App(name) => name,
            Self::Copies => "copies",
            Self::Judge => "judge",
            Self::Registry => "registry",
        }
    }
}

/// What all connections of a server share.
struct ServerShared {
    role: ServerRole,
    script: Arc<CaseScript>,
    tapes: Arc<Tapes>,
    certificates: PeerCertificates,
    is_over: AtomicBool,
    open: OpenSockets,
    accepted: AtomicU64,
}

/// A listening server.
pub(crate) struct ScriptedServer {
    pub(crate) address: SocketAddr,
    shared: Arc<ServerShared>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl ScriptedServer {
    /// Listens on a port of the system's choice.
    pub(crate) fn start(
        role: ServerRole,
        script: &Arc<CaseScript>,
        tapes: &Arc<Tapes>,
        certificates: &PeerCertificates,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServerShared {
            role,
            script: Arc::clone(script),
            tapes: Arc::clone(tapes),
            certificates: certificates.clone(),
            is_over: AtomicBool::new(false),
            open: OpenSockets::default(),
            accepted: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        let accepting = thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared, accepting: Mutex::new(Some(accepting)) })
    }

    /// Ends it: no connection is accepted any more, and all that are open are reset.
    pub(crate) fn kill(&self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts, which closes the listening socket.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        let accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(accepting) = accepting {
            // It only ends early, and never panics.
            let _ = accepting.join();
        }
        self.shared.open.reset();
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ServerShared>) {
    while let Ok((tcp, _)) = listener.accept() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        if link::guarded(&tcp).is_err() {
            continue;
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || serve(tcp, &shared));
    }
}

/// Serves one connection to its end.
fn serve(tcp: TcpStream, shared: &ServerShared) {
    let id = shared.accepted.fetch_add(1, Ordering::Relaxed);
    let open = tcp.try_clone().ok().map(|handle| shared.open.keep(id, handle));
    let kind = match shared.role {
        ServerRole::App(_) => shared.script.speaks(),
        ServerRole::Copies | ServerRole::Judge | ServerRole::Registry => Server::Length,
    };
    let has_tls = matches!(shared.role, ServerRole::App(_)) && shared.script.case.has(Feature::Tls);
    let speaks = match kind {
        Server::H2 | Server::H2c => Speaks::Http2,
        Server::Fastcgi => Speaks::Fastcgi,
        Server::Length | Server::Chunked | Server::Close => Speaks::Http1,
    };
    let protocol: &[u8] = if speaks == Speaks::Http2 { b"h2" } else { b"http/1.1" };
    let stream = if has_tls { shared.certificates.accept(tcp, protocol) } else { Some(LinkStream::Tcp(tcp)) };
    let Some(stream) = stream else { return };
    let link =
        RecordedLink::new(stream, &shared.tapes, Label::Server(shared.role.name()), speaks).among(open);
    // How it ended is on the tape.
    let _ = match speaks {
        Speaks::Http1 => http1::serve(link, shared, kind),
        // No server is asked by HTTP/3.
        Speaks::Http2 | Speaks::Http3 => http2::serve(link, shared),
        Speaks::Fastcgi => fastcgi::serve(link, shared),
    };
}
