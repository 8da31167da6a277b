//! The last change of the state of a server, with its time and reason, as it is shown beside the state.
//!
//! The code that changes a state gives the reason, in the words of its log line.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use crate::net::clock;

/// The last change of the state of a server.
#[derive(Debug)]
pub struct LastChange(Mutex<StateChange>);

/// A moment, and what happened then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// In milliseconds since 1970.
    pub at_ms: u64,
    pub why: Cow<'static, str>,
}

impl Default for LastChange {
    fn default() -> Self {
        Self(Mutex::new(StateChange::now("the config names it")))
    }
}

impl StateChange {
    fn now(why: impl Into<Cow<'static, str>>) -> Self {
        let at_ms = u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX);
        Self { at_ms, why: why.into() }
    }
}

impl LastChange {
    /// Records a change that has just happened.
    pub fn record(&self, why: impl Into<Cow<'static, str>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = StateChange::now(why);
    }

    /// The last change.
    pub fn get(&self) -> StateChange {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
