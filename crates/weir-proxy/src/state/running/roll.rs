//! The roll call of one worker: its sessions are woken group by group, so that nobody else has to wait for all of them, and each answers
//! where it waits.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Activity, Ask, Candidate, Question, Ran, Running};
use crate::net::deadline::Cut;
use crate::net::timers::Timers;

/// Sessions that are woken at once: a worker is through with them in some tens of microseconds.
const GROUP: usize = 128;

/// How often the worker goes round its tasks once more while answers are missing.
const ROUNDS: usize = 64;

/// Where the sessions of a worker answer.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    /// That of the last call.
    number: Cell<u32>,
    /// What the session that told last waits for.
    waits_for: Cell<Option<Activity>>,
    open: RefCell<Option<Call>>,
}

/// A question on its way round.
#[derive(Debug)]
struct Call {
    question: Arc<Question>,
    /// The oldest sessions that it means, by their numbers.
    told: BTreeMap<u64, Running>,
    matching: usize,
    /// Sessions that have answered, or ended instead.
    heard: usize,
}

impl Call {
    fn new(question: &Arc<Question>) -> Self {
        Self { question: Arc::clone(question), told: BTreeMap::new(), matching: 0, heard: 0 }
    }

    /// Whether a session belongs to the oldest ones.
    fn has_room(&self, number: u64) -> bool {
        let youngest = self.told.last_key_value().map_or(0, |(number, _)| *number);
        self.told.len() < self.question.count_max || number < youngest
    }

    fn keep(&mut self, running: Running) {
        self.told.insert(running.id.number, running);
        if self.told.len() > self.question.count_max {
            self.told.pop_last();
        }
    }
}

impl Roll {
    /// The number of the last call: who has answered that one has nothing to answer.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number.get()
    }

    /// Notes for what the session waits that runs now.
    #[inline]
    pub(crate) fn note_wait(&self, doing: Activity) {
        self.waits_for.set(Some(doing));
    }

    /// Forgets what a session waits for that has run before.
    pub(crate) fn forget_wait(&self) {
        self.waits_for.set(None);
    }

    /// Whether the session that has just told waits for a body to move on.
    pub(crate) fn is_wait_for_body(&self) -> bool {
        self.waits_for.get().is_some_and(Activity::is_body)
    }

    /// Hears of a connection, `running` if it is shown; why the connection has to end, if it has to.
    pub(crate) fn hear(&self, candidate: &Candidate<'_>, running: impl FnOnce() -> Running) -> Option<Cut> {
        let Ok(mut open) = self.open.try_borrow_mut() else { return None };
        let Some(call) = &mut *open else { return None };
        call.heard += 1;
        if !call.question.takes(candidate) {
            return None;
        }
        call.matching += 1;
        if call.has_room(candidate.number) {
            call.keep(running());
        }
        call.question.ends
    }

    /// A session ends that has answered the call `answered` last.
    pub(crate) fn leave(&self, answered: u32) {
        if answered != self.number()
            && let Ok(mut open) = self.open.try_borrow_mut()
            && let Some(call) = &mut *open
        {
            call.heard += 1;
        }
    }

    /// Asks all connections of a worker, whose timers these are.
    pub(crate) async fn call(&self, timers: &Timers, ask: Ask) {
        let (roll, asked) = (self, timers.len());
        roll.open.replace(Some(Call::new(&ask.question)));
        roll.number.set(roll.number().wrapping_add(1));
        let mut next = Some(0);
        while let Some(from) = next {
            next = timers.wake_some(from, GROUP);
            tokio::task::yield_now().await;
        }
        let heard = || roll.open.borrow().as_ref().map_or(0, |call| call.heard);
        for _ in 0..ROUNDS {
            if heard() >= asked {
                break;
            }
            tokio::task::yield_now().await;
        }
        let Some(call) = roll.open.take() else { return };
        let silent = asked.saturating_sub(call.heard);
        let sessions = call.told.into_values().collect();
        // Who has asked may be gone.
        let _gone = ask.answer.send(Ran { sessions, matching: call.matching, asked, silent });
    }
}

#[cfg(test)]
mod tests {
    use weir_config::ListenerProtocol;

    use super::*;
    use crate::net::clock;
    use crate::net::peer::Peer;
    use crate::state::running::SessionId;

    fn running(number: u64) -> Running {
        let now = clock::now();
        Running {
            id: SessionId { worker: 0, number },
            opened_at: now,
            since: now,
            doing: Activity::Idle,
            phase: None,
            protocol: ListenerProtocol::Http,
            listener: "web".into(),
            peer: Peer::Unix,
            sender: None,
            is_tls: false,
            requests: 0,
            flight: None,
        }
    }

    #[test]
    fn of_many_sessions_the_oldest_are_told_and_no_more_than_asked_for() {
        let question = Arc::new(Question { count_max: 1000, ..Question::default() });
        let mut call = Call::new(&question);
        // In an order that is none: 7919 and 10 007 are prime.
        for number in (0..10_007).map(|at| at * 7919 % 10_007 + 1) {
            if call.has_room(number) {
                call.keep(running(number));
            }
            assert!(call.told.len() <= 1000);
        }
        assert!(call.told.keys().copied().eq(1..=1000));
    }

    #[test]
    fn who_asks_for_none_gets_none() {
        let mut call = Call::new(&Arc::new(Question::default()));
        assert!(!call.has_room(1));
        call.keep(running(1));
        assert!(call.told.is_empty());
    }
}
