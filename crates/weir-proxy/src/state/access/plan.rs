//! What a route asks of its clients, ready for use.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use weir_access::Users;
use weir_config::{BasicAuth, Route};

/// What a route asks of its clients.
#[derive(Debug)]
pub struct AccessPlan {
    /// The users of `basic`.
    pub users: Option<Arc<LiveUsers>>,
}

/// Users, replaced when their file changes.
#[derive(Debug)]
pub struct LiveUsers {
    /// The file, and how often it is checked.
    pub watched: Option<(Arc<Path>, Duration)>,
    users: ArcSwap<Users>,
}

impl LiveUsers {
    fn new(basic: &BasicAuth) -> Self {
        Self { watched: basic.file.clone().zip(basic.reload), users: ArcSwap::new(Arc::clone(&basic.users)) }
    }

    /// The users now.
    pub fn now(&self) -> Arc<Users> {
        self.users.load_full()
    }

    /// Uses others from now on.
    pub fn replace(&self, users: Arc<Users>) {
        self.users.store(users);
    }
}

/// Makes the plans of the routes of one listener: those with the same file share its users.
#[derive(Default)]
pub(crate) struct AccessPlans {
    users: HashMap<(usize, Option<Duration>), Arc<LiveUsers>>,
}

impl AccessPlans {
    /// The plan of a route; `None` where nothing is asked.
    pub(crate) fn of(&mut self, route: &Route) -> Option<Box<AccessPlan>> {
        let access = route.access.as_ref()?;
        let users = access.basic.as_ref().map(|basic| {
            let key = (Arc::as_ptr(&basic.users).addr(), basic.reload.filter(|_| basic.file.is_some()));
            Arc::clone(self.users.entry(key).or_insert_with(|| Arc::new(LiveUsers::new(basic))))
        });
        Some(Box::new(AccessPlan { users }))
    }
}
