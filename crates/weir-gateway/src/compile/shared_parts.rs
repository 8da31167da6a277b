//! What equal parts of routes have in common in memory: of ten thousand routes most have the same settings, and many lead to the same backends.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use weir_config::{Interner, RouteSettings};

use super::{CompiledAction, CompiledRoute};
use crate::backends::Backend;

/// The parts that are in use, to be used again.
#[derive(Debug, Default)]
pub(crate) struct SharedParts {
    settings: Interner<RouteSettings>,
    /// By name. Those that no route has any more are removed now and then.
    backends: HashMap<Box<str>, Weak<Backend>>,
    /// With so many backends, it is looked for those that no route has any more.
    swept_at: usize,
}

/// Fewer backends are not worth a look.
const SWEPT_MIN: usize = 64;

impl SharedParts {
    /// Has a route use what others have, and gives back memory that it does not need.
    pub(crate) fn share(&mut self, route: &mut CompiledRoute) {
        route.rules.shrink_to_fit();
        for rule in &mut route.rules {
            rule.matches.shrink_to_fit();
            self.settings.share(&mut rule.settings);
            if let CompiledAction::Backends(targets) = &mut rule.action {
                targets.shrink_to_fit();
                for target in targets {
                    target.backend.iter_mut().for_each(|backend| self.share_backend(backend));
                    if let Some(own) = &mut target.own {
                        self.settings.share(&mut own.settings);
                        own.mirrors.iter_mut().for_each(|(backend, _)| self.share_backend(backend));
                    }
                }
            }
            rule.mirrors.iter_mut().for_each(|(backend, _)| self.share_backend(backend));
        }
    }

    fn share_backend(&mut self, backend: &mut Arc<Backend>) {
        if let Some(known) = self.backends.get(&backend.name).and_then(Weak::upgrade)
            && *known == **backend
        {
            *backend = known;
            return;
        }
        self.backends.insert(backend.name.clone(), Arc::downgrade(backend));
        if self.backends.len() > self.swept_at.max(SWEPT_MIN) {
            self.backends.retain(|_, backend| backend.strong_count() > 0);
            self.swept_at = 2 * self.backends.len();
        }
    }
}
