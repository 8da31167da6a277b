//! Since when what holds of a server holds, and why: what is shown beside its state.
//!
//! Whoever changes a state says why, in the words of the log line about it.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use crate::clock;

/// The last change of a server.
#[derive(Debug)]
pub(crate) struct Standing(Mutex<Since>);

/// A moment, and what happened then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Since {
    /// In milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) why: Cow<'static, str>,
}

impl Default for Standing {
    fn default() -> Self {
        Self(Mutex::new(Since::now("the config names it")))
    }
}

impl Since {
    fn now(why: impl Into<Cow<'static, str>>) -> Self {
        let at_ms = u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX);
        Self { at_ms, why: why.into() }
    }
}

impl Standing {
    /// Takes note of a change that has just happened.
    pub(crate) fn note(&self, why: impl Into<Cow<'static, str>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Since::now(why);
    }

    /// The last change.
    pub(crate) fn since(&self) -> Since {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
