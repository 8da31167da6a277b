//! What a route asks of its clients, ready for use.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use weir_access::{KeySet, Users};
use weir_config::{JwtAuth, Route, TokenKeys};

use super::decisions::AuthDecisions;
use super::fetched_keys::{FetchedKeys, of_settings};

/// What a route asks of its clients.
#[derive(Debug)]
pub struct AccessPlan {
    /// The users of `basic`.
    pub users: Option<Arc<LiveFile<Users>>>,
    /// The keys of `jwt`.
    pub keys: Option<LiveKeys>,
    /// Answers of the server of `forward_auth` that are kept.
    pub(crate) decisions: Option<Arc<AuthDecisions>>,
}

/// The keys of tokens.
#[derive(Debug, Clone)]
pub enum LiveKeys {
    /// Of a file.
    File(Arc<LiveFile<KeySet>>),
    /// Of a server.
    Fetched(Arc<FetchedKeys>),
}

impl LiveKeys {
    /// The keys now; `None` as long as none were fetched.
    pub(crate) fn now(&self) -> Option<Arc<KeySet>> {
        match self {
            LiveKeys::File(file) => Some(file.now()),
            LiveKeys::Fetched(fetched) => fetched.now(),
        }
    }

    /// Those that are fetched, if they are.
    pub fn fetched(&self) -> Option<&Arc<FetchedKeys>> {
        match self {
            LiveKeys::File(_) => None,
            LiveKeys::Fetched(fetched) => Some(fetched),
        }
    }
}

/// The content of a file, replaced when the file changes.
#[derive(Debug)]
pub struct LiveFile<T> {
    /// The file, and how often it is checked.
    pub watched: Option<(Arc<Path>, Duration)>,
    content: ArcSwap<T>,
}

impl<T> LiveFile<T> {
    /// The content now.
    pub fn now(&self) -> Arc<T> {
        self.content.load_full()
    }

    /// Uses another content from now on.
    pub fn replace(&self, content: Arc<T>) {
        self.content.store(content);
    }
}

/// Makes the plans of the routes of one listener: those with the same file share its content.
pub(crate) struct AccessPlans<'a> {
    users: SharedFiles<Users>,
    keys: SharedFiles<KeySet>,
    /// Keys that are fetched, of all listeners.
    fetched: &'a [Arc<FetchedKeys>],
}

/// Files by their content and how often they are checked.
struct SharedFiles<T>(HashMap<(usize, Option<Duration>), Arc<LiveFile<T>>>);

impl<T> Default for SharedFiles<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> SharedFiles<T> {
    fn of(
        &mut self,
        content: &Arc<T>,
        file: Option<&Arc<Path>>,
        reload: Option<Duration>,
    ) -> Arc<LiveFile<T>> {
        let watched = file.cloned().zip(reload);
        let key = (Arc::as_ptr(content).addr(), reload.filter(|_| file.is_some()));
        let make = || Arc::new(LiveFile { watched, content: ArcSwap::new(Arc::clone(content)) });
        Arc::clone(self.0.entry(key).or_insert_with(make))
    }
}

impl<'a> AccessPlans<'a> {
    pub(crate) fn new(fetched: &'a [Arc<FetchedKeys>]) -> Self {
        Self { users: SharedFiles::default(), keys: SharedFiles::default(), fetched }
    }

    /// The plan of a route; `None` where nothing is asked. `before` is the plan of this route in the config of before.
    pub(crate) fn of(&mut self, route: &Route, before: Option<&AccessPlan>) -> Option<Box<AccessPlan>> {
        let access = route.access.as_ref()?;
        let users =
            |basic: &weir_config::BasicAuth| self.users.of(&basic.users, basic.file.as_ref(), basic.reload);
        let users = access.basic.as_ref().map(users);
        let keys = access.jwt.as_ref().and_then(|jwt| self.keys_of(jwt));
        let decisions = AuthDecisions::of(route, before.and_then(|plan| plan.decisions.as_ref()));
        Some(Box::new(AccessPlan { users, keys, decisions }))
    }

    fn keys_of(&mut self, jwt: &JwtAuth) -> Option<LiveKeys> {
        Some(match &jwt.keys {
            TokenKeys::File { keys, file, reload } => LiveKeys::File(self.keys.of(keys, Some(file), *reload)),
            TokenKeys::Remote(remote) => LiveKeys::Fetched(Arc::clone(of_settings(self.fetched, remote)?)),
        })
    }
}
