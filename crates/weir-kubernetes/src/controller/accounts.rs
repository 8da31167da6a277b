//! Which accounts have the rights of Gateways. Pure.
//!
//! An account keeps them for a while after its Gateway has left or is gone: its pods take back what they have told of routes and sets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use weir_gateway::api::SharedText;

/// How long an account keeps its rights: what is taken back takes a fraction of a second, unless the API server is busy or away.
const KEPT_TIME: Duration = Duration::from_secs(30);

/// The namespace and the name of an account.
pub(crate) type AccountPlace = (SharedText, String);

/// The accounts that have the rights.
#[derive(Debug, Default)]
pub(crate) struct BoundAccounts {
    /// Until when, for those that are to lose them.
    known: BTreeMap<AccountPlace, Option<Instant>>,
}

impl BoundAccounts {
    /// Those that are to have them now, where these are the accounts of Gateways that are served.
    pub(crate) fn wanted(&mut self, served: BTreeSet<AccountPlace>, now: Instant) -> BTreeSet<AccountPlace> {
        for (place, until) in &mut self.known {
            if !served.contains(place) {
                until.get_or_insert(now + KEPT_TIME);
            }
        }
        self.known.extend(served.into_iter().map(|place| (place, None)));
        self.known.retain(|_, until| until.is_none_or(|until| until > now));
        self.known.keys().cloned().collect()
    }

    /// Whether an account has them.
    pub(crate) fn has(&self, namespace: &str, name: &str) -> bool {
        self.known.contains_key(&(namespace.into(), name.to_owned()))
    }

    /// When the next account is to lose them.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.known.values().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_keeps_its_rights_for_a_while() {
        let place = |name: &str| (SharedText::from("app"), name.to_owned());
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut bound = BoundAccounts::default();
        let mut wanted = |served: &[&str], seconds| {
            let served = served.iter().map(|name| place(name)).collect();
            let wanted = bound.wanted(served, at(seconds));
            let names: Vec<String> = wanted.into_iter().map(|(_, name)| name).collect();
            (names.join(" "), bound.due().map(|due| (due - start).as_secs()))
        };
        assert_eq!(wanted(&["a", "b"], 0), ("a b".to_owned(), None));
        assert_eq!(wanted(&["b"], 10), ("a b".to_owned(), Some(40)));
        // It does not begin anew.
        assert_eq!(wanted(&["b"], 39), ("a b".to_owned(), Some(40)));
        assert_eq!(wanted(&["b"], 40), ("b".to_owned(), None));
        assert_eq!(wanted(&[], 50), ("b".to_owned(), Some(80)));
        assert_eq!(wanted(&["b"], 60), ("b".to_owned(), None), "it has come back");
        assert_eq!(wanted(&["b"], 90), ("b".to_owned(), None));
    }
}
