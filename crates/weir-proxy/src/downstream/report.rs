//! What a client connection reports of itself when it is asked: what it waits for, and its exchange so far.
//!
//! A question is a roll call: the worker wakes its connections, and each answers where it waits. In the same way
//! connections are told to end.

use super::session::Session;
use crate::exchange::{Exchange, recording};
use crate::net::clock::Instant;
use crate::state::activity::Activity;
use crate::state::recorder::NONE;
use crate::state::running::{Candidate, Running, SessionId};

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
        let plan = std::sync::Arc::clone(&self.listener.plan());
        let candidate = candidate(self, &plan.config.name, doing, exchange);
        let running = || running_of(self, doing, exchange);
        if let Some(why) = self.worker.roll.hear(&candidate, running) {
            self.deadline.cut(why);
        }
    }
}

/// What a question asks about.
fn candidate<'a>(
    session: &Session,
    listener: &'a str,
    doing: Activity,
    exchange: Option<&'a Exchange>,
) -> Candidate<'a> {
    let record = exchange.map(|exchange| &exchange.record);
    let plan = record.and_then(|record| Some(&record.served()?.snapshot.upstreams[record.upstream?].config));
    // An exchange that waits in the queue may have been on a server before, on which an attempt has failed.
    let server = record.filter(|_| doing != Activity::Queue).and_then(|record| record.server);
    Candidate {
        number: session.number,
        opened_at: session.opened_at(),
        listener,
        request_id: record.map(|record| &record.request_id[..]),
        upstream: plan.map(|plan| &*plan.name),
        server: plan.zip(server).and_then(|(plan, server)| Some(&*plan.servers.get(server)?.name)),
    }
}

fn running_of(session: &Session, doing: Activity, exchange: Option<&Exchange>) -> Running {
    let phase = doing.phase(exchange.is_some_and(|exchange| exchange.answered));
    let flight =
        exchange.zip(phase).and_then(|(exchange, phase)| recording::running(session, exchange, phase));
    let flight = flight.map(|mut flight| {
        if doing == Activity::Queue {
            // That of an attempt that has failed.
            flight.entry.server = NONE;
        }
        Box::new(flight)
    });
    Running {
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

/// The end of the phase before, or the beginning of the attempt.
fn since(exchange: &Exchange, doing: Activity) -> Instant {
    let accounted = exchange.record.accounted;
    let attempt = exchange.story.tries().last().filter(|_| doing.is_attempt());
    attempt.map_or(accounted, |attempt| attempt.began.max(accounted))
}
