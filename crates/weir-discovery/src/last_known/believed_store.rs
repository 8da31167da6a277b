//! What is believed of a store whose keys hold routes: an answer without any key counts only when it is the same after the grace period. An
//! outage of the store, or a panic of the task that asks it, changes nothing of that.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use weir_config::OfferedFragments;
use weir_http::WallTime;

use crate::clock;
use crate::last_known::report::TASK_PANICKED;
use crate::last_known::route_report::RouteReporter;

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
    pub at: WallTime,
    /// Since when the store does not answer; `None`: it answers, be it with what is not believed yet.
    pub lost_at: Option<WallTime>,
}

/// One store.
pub(crate) struct BelievedStore {
    source: Box<str>,
    empty_grace: Duration,
    had_keys: bool,
    /// When an answer without any key is believed.
    empty_at: Option<Instant>,
    /// Whether keys were passed on last, and with what problem.
    last: Option<(bool, Option<Box<str>>)>,
    lost_at: Option<WallTime>,
    output: UnboundedSender<FragmentSet>,
}

impl BelievedStore {
    /// A store that was not asked yet; `had_keys`: what an earlier task has left is in use.
    pub(crate) fn new(
        source: Box<str>,
        empty_grace: Duration,
        had_keys: bool,
        output: UnboundedSender<FragmentSet>,
    ) -> Self {
        Self { source, empty_grace, had_keys, empty_at: None, last: None, lost_at: None, output }
    }

    /// Starts the task that asks by `follow`; `what` names it in the log. What is made anew after a panic asks for everything anew.
    pub(crate) fn keep<F: Future<Output = ()> + Send + 'static>(
        self,
        what: &'static str,
        mut follow: impl FnMut(RouteReporter) -> F + Send + 'static,
    ) -> JoinHandle<()> {
        let store = Mutex::new(self);
        tokio::spawn(async move {
            let make = || {
                let (reports, said) = unbounded_channel();
                let (asking, store) = (follow(RouteReporter::new(reports)), &store);
                async move {
                    tokio::select! {
                        () = asking => {}
                        () = async { store.lock().await.hear_all(said).await } => {}
                    }
                }
            };
            let tell = || {
                if let Ok(mut store) = store.try_lock() {
                    store.hear(Err(TASK_PANICKED.into()));
                }
            };
            weir_tasks::keep_telling(what, make, tell).await;
        })
    }

    /// Passes on what the store says, until it ends or there is no receiver any more.
    async fn hear_all(&mut self, mut said: UnboundedReceiver<Result<OfferedFragments, Box<str>>>) {
        loop {
            let empty_at = self.empty_at;
            let report = tokio::select! {
                report = said.recv() => report,
                () = tokio::time::sleep_until(empty_at.unwrap_or_else(clock::now).into()), if empty_at.is_some() => {
                    (self.empty_at, self.had_keys) = (None, false);
                    Some(Ok(OfferedFragments::new()))
                }
            };
            if !report.is_some_and(|report| self.hear(report)) {
                return;
            }
        }
    }

    /// Whether there is a receiver.
    fn hear(&mut self, report: Result<OfferedFragments, Box<str>>) -> bool {
        self.lost_at = report.is_err().then(|| self.lost_at.unwrap_or_else(clock::date));
        match report {
            Err(problem) => {
                self.empty_at = None;
                self.pass_on(None, Some(problem))
            }
            Ok(fragments) if fragments.is_empty() && self.had_keys => {
                self.empty_at.get_or_insert(clock::now() + self.empty_grace);
                let seconds = self.empty_grace.as_secs_f64();
                let problem = format!("it has no key any more, which is believed after {seconds} s");
                self.pass_on(None, Some(problem.into()))
            }
            Ok(fragments) => {
                self.empty_at = None;
                self.had_keys = !fragments.is_empty();
                self.pass_on(Some(fragments), None)
            }
        }
    }

    /// A problem is passed on once.
    fn pass_on(&mut self, fragments: Option<OfferedFragments>, problem: Option<Box<str>>) -> bool {
        let next = (fragments.is_some(), problem.clone());
        let is_again = fragments.is_none() && self.last.as_ref() == Some(&next);
        self.last = Some(next);
        let (source, at) = (self.source.clone(), clock::date());
        let set = FragmentSet { source, fragments, problem, at, lost_at: self.lost_at };
        is_again || self.output.send(set).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::last_known::route_report::read_fragment;

    /// A store without grace.
    fn store() -> (BelievedStore, UnboundedReceiver<FragmentSet>) {
        let (output, sets) = unbounded_channel();
        (BelievedStore::new("r".into(), Duration::ZERO, false, output), sets)
    }

    fn keys() -> OfferedFragments {
        OfferedFragments::from([("/r/a".into(), read_fragment(b"x"))])
    }

    #[tokio::test]
    async fn an_empty_store_is_believed_after_the_grace() {
        let (reports, said) = unbounded_channel();
        let (mut store, mut sets) = store();
        let task = tokio::spawn(async move { store.hear_all(said).await });
        let reporter = RouteReporter::new(reports);
        reporter.said(keys());
        reporter.failed("away");
        reporter.failed("away");
        reporter.failed("still away");
        reporter.said(OfferedFragments::new());
        let first = sets.recv().await.unwrap();
        assert_eq!((first.fragments, first.problem, first.lost_at), (Some(keys()), None, None));
        let away = sets.recv().await.unwrap();
        assert_eq!((away.fragments, away.problem.as_deref()), (None, Some("away")), "said once");
        let still_away = sets.recv().await.unwrap();
        assert_eq!(still_away.problem.as_deref(), Some("still away"));
        assert!(away.lost_at.is_some() && still_away.lost_at == away.lost_at, "since the first failure");
        let doubted = sets.recv().await.unwrap();
        assert!(doubted.fragments.is_none() && doubted.problem.unwrap().contains("believed after"));
        assert_eq!(doubted.lost_at, None, "it answers");
        assert_eq!(sets.recv().await.unwrap().fragments, Some(OfferedFragments::new()));
        task.abort();
    }

    #[tokio::test]
    async fn a_panic_of_the_task_that_asks_is_an_outage() {
        let (mut store, mut sets) = store();
        store.empty_grace = Duration::from_secs(30);
        let mut turn = 0;
        let task = store.keep("test", move |reporter| {
            turn += 1;
            async move {
                match turn {
                    1 => reporter.said(keys()),
                    // It counts as doubted: the keys of before the panic are known.
                    _ => reporter.said(OfferedFragments::new()),
                }
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                assert!(turn > 1, "a panic of the test");
                std::future::pending::<()>().await;
            }
        });
        let first = sets.recv().await.unwrap();
        assert_eq!((first.fragments, first.problem), (Some(keys()), None));
        let panicked = sets.recv().await.unwrap();
        assert_eq!((panicked.fragments, panicked.problem.as_deref()), (None, Some(TASK_PANICKED)));
        assert!(panicked.lost_at.is_some());
        let doubted = sets.recv().await.unwrap();
        assert!(doubted.fragments.is_none() && doubted.problem.unwrap().contains("believed after 30 s"));
        task.abort();
    }
}
