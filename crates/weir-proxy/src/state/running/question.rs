//! What somebody asks about running sessions, and what one worker answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Activity, Running, SessionId};
use crate::net::clock;
use crate::net::deadline::Cut;
use crate::downstream::session::Session;
use crate::exchange::Exchange;

/// Which sessions are meant, and what is to become of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Question {
    pub(crate) session: Option<SessionId>,
    /// The id of the request that it carries.
    pub(crate) request_id: Option<Box<[u8]>>,
    pub(crate) listener: Option<Box<str>>,
    pub(crate) upstream: Option<Box<str>>,
    pub(crate) server: Option<Box<str>>,
    pub(crate) age_min: Duration,
    /// So many are told, the oldest of all.
    pub(crate) count_max: usize,
    /// Why those that are meant have to end, told or not; `None`: they go on.
    pub(crate) ends: Option<Cut>,
}

impl Question {
    /// Whether it means this session, which carries `exchange` if any.
    pub(super) fn takes(&self, session: &Session, doing: Activity, exchange: Option<&Exchange>) -> bool {
        // One that waits in the queue may have been on a server before, on which an attempt has failed.
        let exchange = exchange.filter(|_| self.server.is_none() || doing != Activity::Queue);
        let is_id = |id: &[u8]| exchange.is_some_and(|exchange| exchange.record.request_id == id);
        let is_listener = |name: &str| *session.listener.plan().config.name == *name;
        self.session.is_none_or(|id| id.number == session.number)
            && self.request_id.as_deref().is_none_or(is_id)
            && self.listener.as_deref().is_none_or(is_listener)
            && self.takes_place(exchange)
            && (self.age_min.is_zero()
                || clock::now().saturating_duration_since(session.opened_at()) >= self.age_min)
    }

    fn takes_place(&self, exchange: Option<&Exchange>) -> bool {
        if self.upstream.is_none() && self.server.is_none() {
            return true;
        }
        let Some(record) = exchange.map(|exchange| &exchange.record) else { return false };
        let (Some(view), Some(upstream)) = (record.served(), record.upstream) else { return false };
        let plan = &view.snapshot.upstreams[upstream].config;
        let is_server = |name: &str| {
            let server = record.server.and_then(|server| plan.servers.get(server));
            server.is_some_and(|server| *server.name == *name)
        };
        self.upstream.as_deref().is_none_or(|name| *plan.name == *name)
            && self.server.as_deref().is_none_or(is_server)
    }
}

/// A question to one worker.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) question: Arc<Question>,
    pub(crate) answer: oneshot::Sender<Ran>,
}

/// What one worker answers.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// Those that are told, the oldest first.
    pub(crate) sessions: Vec<Running>,
    /// Sessions that the question means.
    pub(crate) matching: usize,
    /// Sessions that were asked, and of these, those that did not answer.
    pub(crate) asked: usize,
    pub(crate) silent: usize,
}
