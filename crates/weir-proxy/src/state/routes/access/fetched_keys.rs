//! Keys of tokens that are fetched from a server: what workers read and ask for, and what the control plane notes.
//!
//! One for all workers and all routes with the same settings, which goes on over reloads. Must not know how they are fetched.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, oneshot, watch};
use weir_access::KeySet;
use weir_config::{Config, RemoteKeys, TokenKeys};
use weir_observe::Failure;

use crate::net::clock::{self, Instant};

/// While a fetch runs, in place of the moment from which an early one may begin.
const FETCHING: u64 = u64::MAX;

/// Keys that are fetched.
#[derive(Debug)]
pub struct FetchedKeys {
    /// Where from, and when. The place of the upstream is that in the config that they were first in.
    pub settings: RemoteKeys,
    /// `None` until the first fetch has succeeded.
    keys: ArcSwapOption<KeySet>,
    /// Milliseconds since `epoch` from which a token with an unknown key may have them fetched; [`FETCHING`] while they are.
    early_from: AtomicU64,
    epoch: Instant,
    /// Heard by what fetches them.
    wanted: Notify,
    /// How many fetches have ended.
    ended: watch::Sender<u64>,
    figures: Mutex<KeyFetchFigures>,
    /// Of the document that the keys are from: the server is asked whether it has another one.
    validators: Mutex<KeyValidators>,
}

/// What tells the versions of a document apart (RFC 9110 section 8.8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyValidators {
    /// `ETag`.
    pub etag: Option<Box<[u8]>>,
    /// `Last-Modified`.
    pub last_modified: Option<Box<[u8]>>,
}

/// What is known of the fetches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyFetchFigures {
    /// Fetches that have ended.
    pub fetches: u64,
    /// Those that have brought no keys that can be used.
    pub failures: u64,
    /// Those that were answered 304: the server has no other document.
    pub unchanged: u64,
    /// When the last one that succeeded did, since 1970.
    pub fetched: Option<Duration>,
    /// Why the last one has failed, if it has.
    pub last_failure: Option<Box<str>>,
}

impl FetchedKeys {
    fn new(settings: &RemoteKeys) -> Self {
        Self {
            settings: settings.clone(),
            keys: ArcSwapOption::empty(),
            early_from: AtomicU64::new(0),
            epoch: clock::now(),
            wanted: Notify::new(),
            ended: watch::Sender::new(0),
            figures: Mutex::default(),
            validators: Mutex::default(),
        }
    }

    /// The validators of the document that the keys are from; none before there are any.
    pub(crate) fn validators(&self) -> KeyValidators {
        self.validators.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The keys now; `None` before there are any.
    pub fn now(&self) -> Option<Arc<KeySet>> {
        self.keys.load_full()
    }

    /// Asks for a fetch, since a token names a key that is not here. `None` when the last one was lately; else the end of it can be waited for.
    pub(crate) fn ask(&self, now: Instant) -> Option<watch::Receiver<u64>> {
        // Before the look, so that the end of a fetch that is seen to run is not missed.
        let ended = self.ended.subscribe();
        let may_begin = |from: u64| (from != FETCHING && self.millis(now) >= from).then_some(FETCHING);
        match self.early_from.fetch_update(Ordering::AcqRel, Ordering::Acquire, may_begin) {
            Ok(_) => {
                self.wanted.notify_one();
                Some(ended)
            }
            Err(FETCHING) => Some(ended),
            Err(_) => None,
        }
    }

    /// Comes to its end when a fetch has been asked for.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// A fetch begins.
    pub fn begin_fetch(&self) {
        self.early_from.store(FETCHING, Ordering::Release);
    }

    /// A fetch has ended; whether there are other keys than before.
    pub fn end_fetch(&self, outcome: Result<KeysFetched, &dyn fmt::Display>) -> bool {
        let new = match &outcome {
            Ok(KeysFetched::New(keys, _)) => Some(keys),
            Ok(KeysFetched::Unchanged) | Err(_) => None,
        };
        let is_new = new.is_some_and(|keys| self.now().is_none_or(|before| *before != **keys));
        {
            let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
            figures.fetches += 1;
            match outcome {
                Ok(fetched) => {
                    figures.fetched = Some(clock::unix_now());
                    figures.last_failure = None;
                    match fetched {
                        KeysFetched::Unchanged => figures.unchanged += 1,
                        KeysFetched::New(keys, validators) => {
                            // Only of a document whose keys are in use: one that was no good is fetched again as a whole.
                            *self.validators.lock().unwrap_or_else(PoisonError::into_inner) = validators;
                            if is_new {
                                self.keys.store(Some(keys));
                            }
                        }
                    }
                }
                Err(why) => {
                    figures.failures += 1;
                    figures.last_failure = Some(why.to_string().into());
                }
            }
        }
        let early_from = self.millis(clock::now() + self.settings.cooldown);
        self.early_from.store(early_from, Ordering::Release);
        self.ended.send_modify(|ended| *ended += 1);
        is_new
    }

    /// What is known of the fetches.
    pub fn figures(&self) -> KeyFetchFigures {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn millis(&self, at: Instant) -> u64 {
        at.nanos_since(self.epoch) / 1_000_000
    }
}

/// All that routes of a config want, each once; those of `before` go on.
pub(crate) fn all_of(config: &Config, before: &[Arc<FetchedKeys>]) -> Vec<Arc<FetchedKeys>> {
    let mut all: Vec<Arc<FetchedKeys>> = Vec::new();
    for route in config.listeners.iter().flat_map(|listener| &listener.routes) {
        let jwt = route.access.as_ref().and_then(|access| access.jwt.as_ref());
        let Some(TokenKeys::Remote(wanted)) = jwt.map(|jwt| &jwt.keys) else { continue };
        if of_settings(&all, wanted).is_none() {
            let known = of_settings(before, wanted).cloned();
            all.push(known.unwrap_or_else(|| Arc::new(FetchedKeys::new(wanted))));
        }
    }
    all
}

/// Those with these settings.
pub(super) fn of_settings<'a>(
    all: &'a [Arc<FetchedKeys>],
    settings: &RemoteKeys,
) -> Option<&'a Arc<FetchedKeys>> {
    all.iter().find(|keys| keys.settings.is_same(settings))
}

/// Has a worker fetch keys.
#[derive(Debug)]
pub struct KeyFetch {
    /// Which ones.
    pub keys: Arc<FetchedKeys>,
    /// Where the document goes, or why there is none.
    pub answer: oneshot::Sender<Result<KeyDocument, KeyFetchError>>,
}

/// What a server has sent.
#[derive(Debug, Default)]
pub struct KeyDocument {
    /// The body of the response; `None` when it is the one that the keys are from (304).
    pub text: Option<Vec<u8>>,
    /// For how long it is fresh by its `Cache-Control`.
    pub max_age: Option<Duration>,
    /// Its validators.
    pub validators: KeyValidators,
}

/// What a fetch has brought.
#[derive(Debug)]
pub enum KeysFetched {
    /// The keys of a document.
    New(Arc<KeySet>, KeyValidators),
    /// The word that there is no other document than the one that the keys are from.
    Unchanged,
}

/// Why keys could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum KeyFetchError {
    /// There is no response.
    #[error("there is no whole response: {}", .0.reason())]
    NoResponse(Failure),
    /// It has another status than 200.
    #[error("the response has status {0}")]
    Status(u16),
    /// It is longer than it may be.
    #[error("the response is longer than `remote_keys.body_size`")]
    TooLong,
    /// It is no set of keys.
    #[error("{0}")]
    NotKeys(String),
    /// There are too many requests in the background.
    #[error("as many requests run in the background as may (`process.background_requests_max`)")]
    Busy,
    /// The worker has ended, or has another config meanwhile.
    #[error("the config has changed meanwhile")]
    Gone,
}

#[cfg(test)]
mod tests {
    use weir_config::UpstreamIndex;

    use super::*;

    const SECRET: &str = r#"{"keys": [{"kty": "oct", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;

    fn keys() -> FetchedKeys {
        FetchedKeys::new(&RemoteKeys::new(UpstreamIndex(0), "idp"))
    }

    #[test]
    fn early_fetches_are_shared_and_have_a_pause_between_them() {
        let begin = clock::now();
        clock::set(Some(begin));
        let keys = keys();
        assert!(keys.now().is_none());
        let first = keys.ask(begin).expect("there was none lately");
        let second = keys.ask(begin).expect("it waits for the same one");
        assert!(!first.has_changed().unwrap() && !second.has_changed().unwrap());
        keys.begin_fetch();
        let set = Arc::new(KeySet::parse(SECRET).expect("they are keys"));
        let new = || KeysFetched::New(Arc::clone(&set), KeyValidators::default());
        assert!(keys.end_fetch(Ok(new())));
        assert!(first.has_changed().unwrap() && second.has_changed().unwrap());
        assert!(keys.ask(begin + Duration::from_millis(29_999)).is_none());
        assert!(keys.ask(begin + Duration::from_secs(30)).is_some());
        keys.begin_fetch();
        assert!(!keys.end_fetch(Err(&"it is down")));
        assert_eq!(keys.now().as_deref(), Some(&*set), "a failure takes nothing away");
        let figures = keys.figures();
        assert_eq!((figures.fetches, figures.failures), (2, 1));
        assert_eq!(figures.last_failure.as_deref(), Some("it is down"));
        assert!(!keys.end_fetch(Ok(new())), "they are the same ones");
        assert_eq!(keys.figures().last_failure, None);
        let etag: Box<[u8]> = b"\"a\""[..].into();
        let validators = KeyValidators { etag: Some(etag), last_modified: None };
        keys.end_fetch(Ok(KeysFetched::New(Arc::clone(&set), validators.clone())));
        assert!(!keys.end_fetch(Err(&"it is no set of keys")) && !keys.end_fetch(Ok(KeysFetched::Unchanged)));
        assert_eq!((keys.validators(), keys.figures().unchanged), (validators, 1));
        assert_eq!(keys.now().as_deref(), Some(&*set));
        clock::set(None);
    }
}
