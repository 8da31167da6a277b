//! What runs now: each session of a worker tells what it does, when somebody asks.
//!
//! Nothing is kept for that. A question is a roll call: the worker wakes its sessions, and each answers where it waits, from what
//! session and exchange know anyway. In the same way sessions are told to end. Must not make sentences for people of names and numbers:
//! that is for whoever asks.

mod id;
mod question;
mod roll;

use weir_config::Protocol;
use weir_observe::Phase;

use crate::net::clock::Instant;
use crate::downstream::session::Session;
use crate::net::peer::Peer;
use crate::exchange::Exchange;
use crate::state::recorder::{Flight, NONE};
use super::activity::Activity;
pub(crate) use id::SessionId;
pub(crate) use question::{Ask, Question, Ran};
pub(crate) use roll::Roll;

/// One session, as it was when it was asked.
#[derive(Debug)]
pub(crate) struct Running {
    /// Its number is the greater, the younger it is.
    pub(crate) id: SessionId,
    pub(crate) opened_at: Instant,
    /// Since when it does what it does.
    pub(crate) since: Instant,
    pub(crate) doing: Activity,
    /// The phase of its exchange or, before there is one, of the session; none between two exchanges.
    pub(crate) phase: Option<Phase>,
    pub(crate) protocol: Protocol,
    pub(crate) listener: Box<str>,
    pub(crate) peer: Peer,
    /// Who is at the other end of the connection, if that is a proxy that has named the client.
    pub(crate) sender: Option<Peer>,
    pub(crate) is_tls: bool,
    /// Requests that have come on it.
    pub(crate) requests: u64,
    /// Its exchange so far.
    pub(crate) flight: Option<Box<Flight>>,
}

impl Running {
    /// What it does in one word: the phase, unless it is idle or a tunnel.
    pub(crate) fn state(&self) -> &'static str {
        match (self.doing, self.phase) {
            (Activity::Tunnel, _) => "tunnel",
            (_, Some(phase)) => phase.name(),
            (_, None) => "idle",
        }
    }

    fn of(session: &Session, doing: Activity, exchange: Option<&Exchange>) -> Self {
        let phase = doing.phase(exchange.is_some_and(|exchange| exchange.answered));
        let flight =
            exchange.zip(phase).and_then(|(exchange, phase)| Flight::running(session, exchange, phase));
        let flight = flight.map(|mut flight| {
            if doing == Activity::Queue {
                // That of an attempt that has failed.
                flight.entry.server = NONE;
            }
            Box::new(flight)
        });
        Self {
            id: SessionId { worker: session.worker.index, number: session.number },
            opened_at: session.opened_at(),
            since: exchange.map_or(session.now, |exchange| since(exchange, doing)),
            doing,
            phase,
            protocol: session.protocol,
            listener: session.listener.plan().config.name.clone(),
            peer: session.peer,
            sender: session.proxied.as_ref().map(|proxied| proxied.sender),
            is_tls: session.client.tls.is_some(),
            requests: session.requests,
            flight,
        }
    }
}

/// The end of the phase before, or the beginning of the attempt.
fn since(exchange: &Exchange, doing: Activity) -> Instant {
    let accounted = exchange.record.accounted;
    let attempt = exchange.story.tries().last().filter(|_| doing.is_attempt());
    attempt.map_or(accounted, |attempt| attempt.began.max(accounted))
}

impl Session {
    /// Tells what it does, if that is asked and it has not told yet. To be called wherever a session waits, before it looks at its
    /// deadline: what it hears may be that it has to end.
    #[inline]
    pub(crate) fn tell(&mut self, doing: Activity, exchange: Option<&Exchange>) {
        self.worker.roll.note_wait(doing);
        if self.is_called() {
            self.answer(doing, exchange);
        }
    }

    /// Whether there is a question that it has not answered.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.called != self.worker.roll.number()
    }

    #[cold]
    fn answer(&mut self, doing: Activity, exchange: Option<&Exchange>) {
        self.called = self.worker.roll.number();
        if let Some(why) = self.worker.roll.hear(self, doing, exchange) {
            self.deadline.cut(why);
        }
    }
}
