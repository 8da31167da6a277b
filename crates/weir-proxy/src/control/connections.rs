//! Sessions that are to end because somebody asks for it: which ones, and a line in the log about who it was. Must not
//! decide who may ask: that is for the doors they come in by.

use crate::control::worker_queries::{Desk, RunningFound};
use crate::net::deadline::Cut;
use crate::net::peer::Peer;
use crate::state::running::{Question, SessionId};

/// Sessions that one answer tells at most.
pub(crate) const TOLD_MAX: usize = 1000;

/// Ends one session; nothing is told if it is not there (any more).
pub(crate) async fn end(desk: &Desk, id: SessionId, who: &str) -> RunningFound {
    let question =
        Question { session: Some(id), count_max: 1, ends: Some(Cut::Asked), ..Question::default() };
    let found = desk.ask_running(question).await;
    for session in &found.sessions {
        tracing::info!(
            session = %session.id,
            listener = &*session.listener,
            client = shown(session.peer),
            state = session.state(),
            who,
            "the session was ended"
        );
    }
    found
}

/// Ends the sessions whose exchanges are on a server.
pub(crate) async fn end_all(desk: &Desk, upstream: &str, server: &str, who: &str) -> RunningFound {
    let question = Question {
        upstream: Some(upstream.into()),
        server: Some(server.into()),
        count_max: TOLD_MAX,
        ends: Some(Cut::Asked),
        ..Question::default()
    };
    let found = desk.ask_running(question).await;
    tracing::info!(upstream, server, sessions = found.matching, who, "the sessions on the server were ended");
    found
}

/// Ends what is on a server that has gone down.
pub(crate) async fn end_down(desk: &Desk, upstream: &str, server: &str) {
    let question = Question {
        upstream: Some(upstream.into()),
        server: Some(server.into()),
        ends: Some(Cut::ServerDown),
        ..Question::default()
    };
    let found = desk.ask_running(question).await;
    let (sessions, silent) = (found.matching, found.silent + found.silent_workers);
    tracing::info!(
        upstream,
        server,
        sessions,
        silent,
        "connections through the server that is down were closed"
    );
}

/// The address of a peer.
pub(crate) fn shown(peer: Peer) -> String {
    match peer {
        Peer::Inet(addr) => addr.to_string(),
        Peer::Unix => "unix".to_owned(),
    }
}
