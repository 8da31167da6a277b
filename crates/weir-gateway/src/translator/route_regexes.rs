//! What the regular expressions of the routes of each namespace take together, so that the author of many routes has no more than a share.

use std::collections::{BTreeMap, HashMap};

use weir_traffic::route::{HeldRegexes, RegexCache, RouteRegex};

use crate::api::SharedText;
use crate::assembly::RouteKey;
use crate::compile::RouteKind;
use crate::store::ObjectKey;

/// A route in the order of age, then of names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteAge {
    pub(super) created: SharedText,
    pub(super) key: ObjectKey,
    pub(super) kind: RouteKind,
}

impl RouteAge {
    pub(super) fn route(&self) -> RouteKey {
        RouteKey { kind: self.kind, key: self.key.clone() }
    }
}

/// What became of the regular expressions of a route.
#[derive(Debug)]
pub(super) enum RegexState {
    /// It has them.
    Held(Box<[RouteRegex]>),
    /// It is refused, since they found no room where there was so much, in bytes.
    Short { room: usize },
}

/// The routes of a namespace that have regular expressions.
#[derive(Debug, Default)]
pub(super) struct NamespaceRegexes {
    routes: BTreeMap<RouteAge, RegexState>,
    held: HeldRegexes,
    short: usize,
}

impl NamespaceRegexes {
    /// What those routes hold that have them.
    pub(super) fn held(&self) -> &HeldRegexes {
        &self.held
    }

    /// Whether one of them found no room.
    pub(super) fn is_short(&self) -> bool {
        self.short > 0
    }

    pub(super) fn into_routes(self) -> BTreeMap<RouteAge, RegexState> {
        self.routes
    }

    fn remove(&mut self, age: &RouteAge) -> Option<Box<[RouteRegex]>> {
        match self.routes.remove(age)? {
            RegexState::Held(regexes) => {
                self.held.remove(&regexes);
                Some(regexes)
            }
            RegexState::Short { .. } => {
                self.short -= 1;
                None
            }
        }
    }
}

impl Extend<(RouteAge, RegexState)> for NamespaceRegexes {
    fn extend<T: IntoIterator<Item = (RouteAge, RegexState)>>(&mut self, routes: T) {
        for (age, state) in routes {
            match &state {
                RegexState::Held(regexes) => self.held.add(regexes),
                RegexState::Short { .. } => self.short += 1,
            }
            self.routes.insert(age, state);
        }
    }
}

/// The regular expressions of all routes.
#[derive(Debug, Default)]
pub(super) struct RouteRegexes {
    pub(super) cache: RegexCache,
    /// Namespaces with at least one.
    namespaces: HashMap<SharedText, NamespaceRegexes>,
}

impl RouteRegexes {
    /// Forgets a route; what it had.
    pub(super) fn forget(&mut self, age: &RouteAge) -> Option<Box<[RouteRegex]>> {
        self.namespaces.get_mut(&age.key.namespace)?.remove(age)
    }

    /// The routes of a namespace, to be put back.
    pub(super) fn take(&mut self, namespace: &str) -> NamespaceRegexes {
        self.namespaces.remove(namespace).unwrap_or_default()
    }

    pub(super) fn put(&mut self, namespace: SharedText, known: NamespaceRegexes) {
        if !known.routes.is_empty() {
            self.namespaces.insert(namespace, known);
        }
    }
}
