//! Stores whose keys hold routes: a task for each, and what is believed of it. An outage changes nothing; an answer without any key is
//! believed after the grace period, as with servers. Whether a text can be used is decided by who reads the config.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use weir_config::{DiscoverySettings, OfferedFragments, RouteSource, RouteStore};

use crate::{clock, consul, etcd};

/// The keys of one source at most: a store that has more is not believed.
const FRAGMENTS_MAX: usize = 1000;

/// One text at most, as large as a value of Consul.
const FRAGMENT_BYTES_MAX: usize = 512 << 10;

/// All texts of a source at most.
const SOURCE_BYTES_MAX: usize = 8 << 20;

/// What a store says.
#[derive(Debug, Clone, PartialEq)]
pub struct FragmentSet {
    /// The name of the source in the config.
    pub source: Box<str>,
    /// All its keys; `None`: the store does not answer, or what it says is not believed, and those of before stay.
    pub fragments: Option<OfferedFragments>,
    /// What is wrong with the store or its answer.
    pub problem: Option<Box<str>>,
    /// When it was said.
    pub at: SystemTime,
}

/// The text of a value, or why it cannot be one.
pub(crate) fn read_fragment(value: &[u8]) -> Result<Arc<str>, Box<str>> {
    if value.len() > FRAGMENT_BYTES_MAX {
        return Err(format!("the value is larger than {} KiB", FRAGMENT_BYTES_MAX >> 10).into());
    }
    let text = std::str::from_utf8(value).map_err(|error| format!("the value is not UTF-8: {error}"))?;
    Ok(text.into())
}

/// The way of one store.
#[derive(Debug, Clone)]
pub(crate) struct RouteReporter(UnboundedSender<Result<OfferedFragments, Box<str>>>);

impl RouteReporter {
    /// These are all keys now.
    pub(crate) fn said(&self, fragments: OfferedFragments) {
        let bytes: usize = fragments.values().flatten().map(|text| text.len()).sum();
        let what = if fragments.len() > FRAGMENTS_MAX {
            format!("it has {} keys; the most is {FRAGMENTS_MAX}", fragments.len())
        } else if bytes > SOURCE_BYTES_MAX {
            format!("its values are larger than {} MiB together", SOURCE_BYTES_MAX >> 20)
        } else {
            let _ended = self.0.send(Ok(fragments));
            return;
        };
        self.failed(&what);
    }

    /// There is no answer that can be used.
    pub(crate) fn failed(&self, why: &(impl Display + ?Sized)) {
        let _ended = self.0.send(Err(why.to_string().into()));
    }
}

/// All stores that are followed.
pub(crate) struct FollowedRoutes {
    output: UnboundedSender<FragmentSet>,
    settings: DiscoverySettings,
    followed: HashMap<Box<str>, (RouteStore, AbortOnDrop)>,
}

struct AbortOnDrop([AbortHandle; 2]);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl FollowedRoutes {
    pub(crate) fn new(output: UnboundedSender<FragmentSet>) -> Self {
        Self { output, settings: DiscoverySettings::default(), followed: HashMap::new() }
    }

    /// Goes over to the sources of a config; those that it does not change go on.
    pub(crate) fn follow(&mut self, sources: &[RouteSource], settings: &DiscoverySettings) {
        let mut before = std::mem::take(&mut self.followed);
        let known: Vec<Box<str>> = before.keys().cloned().collect();
        if self.settings != *settings {
            before.clear();
            self.settings = settings.clone();
        }
        for source in sources {
            let kept = before.remove(&source.name).filter(|(store, _)| *store == source.store);
            let followed = kept
                .unwrap_or_else(|| (source.store.clone(), self.start(source, known.contains(&source.name))));
            self.followed.insert(source.name.clone(), followed);
        }
    }

    fn start(&self, source: &RouteSource, is_known: bool) -> AbortOnDrop {
        // What an earlier process, or an earlier task, has left counts as known.
        let had_keys = is_known || source.state_file.as_ref().is_some_and(|file| file.exists());
        let (reports, said) = unbounded_channel();
        let reporter = RouteReporter(reports);
        let asking = match source.store.clone() {
            RouteStore::Etcd(prefix) => {
                tokio::spawn(etcd::follow_routes(prefix, self.settings.etcd.clone(), reporter))
            }
            RouteStore::Consul { prefix, datacenter } => {
                let agent = self.settings.consul.clone();
                tokio::spawn(consul::follow_routes(prefix, datacenter, agent, reporter))
            }
        };
        let believed =
            believe(source.name.clone(), self.settings.empty_grace, had_keys, said, self.output.clone());
        AbortOnDrop([asking.abort_handle(), tokio::spawn(believed).abort_handle()])
    }
}

/// Passes on what a store says, an answer without any key only when it is the same after the grace period.
async fn believe(
    source: Box<str>,
    empty_grace: Duration,
    mut had_keys: bool,
    mut said: UnboundedReceiver<Result<OfferedFragments, Box<str>>>,
    output: UnboundedSender<FragmentSet>,
) {
    let (mut empty_at, mut last) = (None, None);
    loop {
        let report = tokio::select! {
            report = said.recv() => report,
            () = tokio::time::sleep_until(empty_at.unwrap_or_else(clock::now).into()), if empty_at.is_some() => {
                (empty_at, had_keys) = (None, false);
                Some(Ok(OfferedFragments::new()))
            }
        };
        let Some(report) = report else { return };
        let (fragments, problem) = match report {
            Err(problem) => {
                empty_at = None;
                (None, Some(problem))
            }
            Ok(fragments) if fragments.is_empty() && had_keys => {
                empty_at.get_or_insert(clock::now() + empty_grace);
                let seconds = empty_grace.as_secs_f64();
                (None, Some(format!("it has no key any more, which is believed after {seconds} s").into()))
            }
            Ok(fragments) => {
                empty_at = None;
                had_keys = !fragments.is_empty();
                (Some(fragments), None)
            }
        };
        let is_again = last.as_ref() == Some(&(fragments.is_some(), problem.clone())) && fragments.is_none();
        last = Some((fragments.is_some(), problem.clone()));
        let set = FragmentSet { source: source.clone(), fragments, problem, at: clock::date() };
        if !is_again && output.send(set).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_too_large_or_no_text_says_so() {
        assert_eq!(read_fragment(b"a = 1").as_deref(), Ok("a = 1"));
        assert!(read_fragment(b"\xff").unwrap_err().contains("UTF-8"));
        let large = vec![b'#'; FRAGMENT_BYTES_MAX + 1];
        assert!(read_fragment(&large).unwrap_err().contains("512 KiB"));
    }

    #[tokio::test]
    async fn an_empty_store_is_believed_after_the_grace() {
        let ((reports, said), (output, mut sets)) = (unbounded_channel(), unbounded_channel());
        let task = tokio::spawn(believe("r".into(), Duration::ZERO, false, said, output));
        let reporter = RouteReporter(reports);
        let keys = OfferedFragments::from([("/r/a".into(), read_fragment(b"x"))]);
        reporter.said(keys.clone());
        reporter.failed("away");
        reporter.failed("away");
        reporter.said(OfferedFragments::new());
        let first = sets.recv().await.unwrap();
        assert_eq!((first.fragments, first.problem), (Some(keys), None));
        let away = sets.recv().await.unwrap();
        assert_eq!((away.fragments, away.problem.as_deref()), (None, Some("away")), "said once");
        let doubted = sets.recv().await.unwrap();
        assert!(doubted.fragments.is_none() && doubted.problem.unwrap().contains("believed after"));
        assert_eq!(sets.recv().await.unwrap().fragments, Some(OfferedFragments::new()));
        task.abort();
    }
}
