//! What the servers of a case know together: its exchanges, which requests have arrived where, and whether the event has happened.

use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::array::{Case, Server};
use crate::clock::WATCHDOG;
use crate::exchange::{ScriptedExchange, exchanges};

#[derive(Default)]
struct ScriptState {
    /// Id and server of every request whose head has come, in order.
    arrived: Vec<(&'static str, &'static str)>,
    /// Whether the event has happened, or will not.
    is_released: bool,
    /// Whether the client has got what it asked for.
    is_answered: bool,
}

/// The script of a case.
pub(crate) struct CaseScript {
    pub(crate) case: Case,
    pub(crate) exchanges: Vec<ScriptedExchange>,
    /// The servers of the upstream, once they listen.
    servers: OnceLock<[(&'static str, SocketAddr); 2]>,
    state: Mutex<ScriptState>,
    changed: Condvar,
}

impl CaseScript {
    pub(crate) fn new(case: Case) -> Self {
        Self {
            case,
            exchanges: exchanges(&case),
            servers: OnceLock::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The servers of the upstream listen there.
    pub(crate) fn set_servers(&self, servers: [(&'static str, SocketAddr); 2]) {
        // They are told once.
        let _ = self.servers.set(servers);
    }

    /// The servers of the upstream, by name.
    pub(super) fn servers(&self) -> &[(&'static str, SocketAddr)] {
        self.servers.get().map_or(&[], |servers| &servers[..])
    }

    pub(crate) fn exchange(&self, id: &str) -> Option<&ScriptedExchange> {
        self.exchanges.iter().find(|exchange| exchange.id == id)
    }

    pub(super) fn speaks(&self) -> Server {
        self.case.server
    }

    fn state(&self) -> MutexGuard<'_, ScriptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request is at a server; gives how many of it have been there before.
    pub(super) fn arrive(&self, id: &'static str, server: &'static str) -> usize {
        let mut state = self.state();
        let before = state.arrived.iter().filter(|(known, _)| *known == id).count();
        state.arrived.push((id, server));
        self.changed.notify_all();
        before
    }

    /// The server that has the request `id`; `None` when the client was answered without one, or nothing happens.
    pub(crate) fn wait_for_arrival(&self, id: &str) -> Option<&'static str> {
        let found = |state: &ScriptState| {
            state.arrived.iter().find(|(known, _)| *known == id).map(|(_, server)| *server)
        };
        let waits = |state: &mut ScriptState| found(state).is_none() && !state.is_answered;
        let waited = self.changed.wait_timeout_while(self.state(), WATCHDOG, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        found(&state)
    }

    /// Lets held requests be answered.
    pub(crate) fn release(&self) {
        self.state().is_released = true;
        self.changed.notify_all();
    }

    /// The client waits for nothing any more.
    pub(crate) fn answered(&self) {
        self.state().is_answered = true;
        self.changed.notify_all();
    }

    /// Waits until the event has happened.
    pub(super) fn wait_for_event(&self) {
        let waits = |state: &mut ScriptState| !state.is_released;
        let waited = self.changed.wait_timeout_while(self.state(), WATCHDOG, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
