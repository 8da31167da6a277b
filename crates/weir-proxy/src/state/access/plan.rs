//! What a route asks of its clients, ready for use.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use weir_access::{KeySet, Users};
use weir_config::Route;

/// What a route asks of its clients.
#[derive(Debug)]
pub struct AccessPlan {
    /// The users of `basic`.
    pub users: Option<Arc<LiveFile<Users>>>,
    /// The keys of `jwt`.
    pub keys: Option<Arc<LiveFile<KeySet>>>,
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
#[derive(Default)]
pub(crate) struct AccessPlans {
    users: SharedFiles<Users>,
    keys: SharedFiles<KeySet>,
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

impl AccessPlans {
    /// The plan of a route; `None` where nothing is asked.
    pub(crate) fn of(&mut self, route: &Route) -> Option<Box<AccessPlan>> {
        let access = route.access.as_ref()?;
        let users =
            |basic: &weir_config::BasicAuth| self.users.of(&basic.users, basic.file.as_ref(), basic.reload);
        let users = access.basic.as_ref().map(users);
        let keys = |jwt: &weir_config::JwtAuth| self.keys.of(&jwt.keys, Some(&jwt.file), jwt.reload);
        Some(Box::new(AccessPlan { users, keys: access.jwt.as_ref().map(keys) }))
    }
}
