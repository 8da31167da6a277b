//! What the server of `forward_auth` has said about requests of a route, kept for a time: by a keyed digest of the credentials and of all else that the config
//! names, of which nothing can be learnt outside this process.
//!
//! One for each route and its settings, which goes on over reloads as long as these stay, and what the route matches. Must not know what the parts of a digest are.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_config::{ForwardAuth, ForwardAuthCache, Route};
use weir_traffic::route::RouteMatch;

use super::verdicts::Verdicts;
use super::{CredentialDigest, DigestKey};
use crate::net::clock::Instant;

/// Bytes of fields and body of one answer.
const BYTES_MAX: usize = 4096;

/// Bytes of one that counts as one.
const BYTES_OF_ONE: usize = 256;

/// The answers that are kept.
#[derive(Debug)]
pub(crate) struct AuthDecisions {
    /// What they are answers of.
    settings: ForwardAuth,
    /// The requests that they are about.
    matches: Arc<RouteMatch>,
    key: DigestKey,
    kept: Mutex<Verdicts<Arc<AuthDecision>>>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthDecision {
    pub(crate) status: u16,
    /// Of one with 2xx, those that the request gets; of others, those that the client gets.
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl AuthDecision {
    fn bytes(&self) -> usize {
        self.fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() + self.body.len()
    }
}

impl AuthDecisions {
    /// Those of a route, if it keeps any: the ones of `before`, if these are about the same.
    pub(super) fn of(route: &Route, before: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let settings = route.access.as_ref()?.forward.as_ref()?;
        let cache = settings.cache.as_ref()?;
        let is_same = |before: &&Arc<Self>| before.settings == *settings && before.matches == route.matches;
        if let Some(before) = before.filter(is_same) {
            return Some(Arc::clone(before));
        }
        let (settings, matches) = (settings.clone(), Arc::clone(&route.matches));
        let kept = Mutex::new(Verdicts::new(cache.entries));
        Some(Arc::new(Self { settings, matches, key: DigestKey::default(), kept }))
    }

    /// How answers are kept.
    pub(crate) fn cache(&self) -> Option<&ForwardAuthCache> {
        self.settings.cache.as_deref()
    }

    /// The digest of these parts of a request.
    pub(crate) fn digest(&self, parts: &[&[u8]]) -> CredentialDigest {
        self.key.digest(parts)
    }

    /// What was answered about a request like this, and still holds.
    pub(crate) fn get(&self, digest: CredentialDigest, now: Instant) -> Option<Arc<AuthDecision>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(digest, now).cloned()
    }

    /// Keeps an answer for so long, unless it is too large.
    pub(crate) fn keep(
        &self,
        digest: CredentialDigest,
        decision: AuthDecision,
        now: Instant,
        time: Duration,
    ) {
        let bytes = decision.bytes();
        if bytes <= BYTES_MAX {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.insert(digest, Arc::new(decision), now + time, 1 + bytes / BYTES_OF_ONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::CheckedConfig;

    fn route(cache: &str, upstream: &str) -> Arc<Route> {
        let text = format!(
            "listener.web = {{ address = \":80\", route = [{{ upstream = \"app\", forward_auth = {{ upstream = \"{upstream}\", cache = {{ key = \"{{header.authorization}}\", {cache} }} }} }}] }}\n
             upstream.app.servers = [\"10.0.0.1:80\"]\nupstream.{upstream}.servers = [\"10.0.0.2:80\"]"
        );
        let checked = CheckedConfig::parse_alone(&text, "weir.toml", &|_| None);
        let config = checked.config.unwrap_or_else(|| panic!("{}", checked.diagnostics));
        Arc::clone(&config.listeners[0].routes[0])
    }

    fn decision(len: usize) -> AuthDecision {
        AuthDecision { status: 200, fields: vec![(b"x-user".to_vec(), vec![b'a'; len])], body: Vec::new() }
    }

    #[test]
    fn they_are_kept_for_their_time_and_number_while_the_settings_stay() {
        const TWO: &str = "time = \"10s\", entries = 2";
        let at = |seconds: u64| Instant::test(Duration::from_secs(100 + seconds));
        let first = AuthDecisions::of(&route(TWO, "auth"), None).expect("the route keeps some");
        let digest = |number: u8| first.digest(&[&[number]]);
        for number in 0..3 {
            first.keep(digest(number), decision(10), at(0), Duration::from_secs(10));
        }
        let known = |decisions: &AuthDecisions, seconds| {
            (0..3).map(|number| decisions.get(digest(number), at(seconds)).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(known(&first, 9), [false, true, true]);
        assert_eq!(known(&first, 10), [false; 3]);
        first.keep(digest(0), decision(BYTES_MAX), at(0), Duration::from_secs(10));
        assert_eq!(known(&first, 1), [false, true, true], "it is too large");
        first.keep(digest(0), decision(BYTES_OF_ONE), at(0), Duration::from_secs(10));
        assert_eq!(known(&first, 1), [true, false, false], "it counts as two");
        // The same settings, another upstream in the same place, and other settings.
        let next = |cache, upstream| {
            AuthDecisions::of(&route(cache, upstream), Some(&first)).expect("it keeps some")
        };
        assert!(Arc::ptr_eq(&next(TWO, "auth"), &first));
        assert_eq!(known(&next(TWO, "other"), 1), [false; 3]);
        assert_eq!(known(&next("time = \"11s\", entries = 2", "auth"), 1), [false; 3]);
    }
}
