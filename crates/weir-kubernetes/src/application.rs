//! Has a configuration applied; where that fails, all of it that can be: what one owner of listeners has written holds back only that owner.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_config::Config;
use weir_gateway::{ListenerOwner, Refusals, changed_owners, has_same_listeners, hold_back};

use crate::completed_upstreams::CompletedUpstreams;
use crate::update::{ChangeRefusal, KubernetesChange, UpdateSender};

/// When what was refused is tried again: a port may be free by then.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// How many owners that are held back are tried again at a time: each costs the application of a configuration.
const RETRIES_MAX: usize = 8;

/// What was applied, and what was not.
#[derive(Debug, Default)]
pub(crate) struct ConfigApplication {
    /// The configuration in use, without the servers of its upstreams.
    in_use: Option<Config>,
    /// What was declared last; forgotten when what is beside its listeners and upstreams changes.
    declared: Option<Config>,
    /// The listeners of it that belong to sets of Gateways alone.
    of_sets: BTreeSet<Box<str>>,
    refusals: Refusals,
    /// The last one that was tried again.
    retried: Option<ListenerOwner>,
    /// When it is tried again, if some of it was refused.
    retry_at: Option<Instant>,
}

type Held = BTreeMap<ListenerOwner, Box<str>>;

impl ConfigApplication {
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// The next configuration is applied even if its listeners and upstreams are the same.
    pub(crate) fn forget(&mut self) {
        self.declared = None;
    }

    /// What has to be applied now: a configuration that is not the one of before, as it is after the echo of a status, or the one of before
    /// when it is time to try that again.
    pub(crate) fn next(&mut self, config: Option<Config>) -> Option<Config> {
        // Without a time, none is still held back: all get another try.
        let is_due = self.retry_at.take_if(|at| *at <= Instant::now()).is_some();
        let is_new = |config: &Config| self.declared.as_ref().is_none_or(|known| !are_same(known, config));
        match config.filter(is_new) {
            None if is_due => self.declared.clone(),
            config => config,
        }
    }

    /// Has it applied as far as that can be; what is refused, and why. `None`: there is no owner of the proxy any more.
    pub(crate) async fn apply(
        &mut self,
        (declared, of_sets): (Config, BTreeSet<Box<str>>),
        servers: &mut CompletedUpstreams,
        updates: &UpdateSender,
    ) -> Option<Refusals> {
        self.of_sets = of_sets;
        let mut held = self.still_held(&declared);
        let whole = loop {
            let Err(refusal) = self.attempt(&declared, &held, servers, updates).await? else { break None };
            match self.culprit(&declared, &held, &refusal) {
                Some(owner) => drop(held.insert(owner, refusal.why.into())),
                None => match self.search(&declared, &held, &refusal, servers, updates).await? {
                    Some(found) => {
                        held = found;
                        break None;
                    }
                    None => break Some(refusal.why.into()),
                },
            }
        };
        for (owner, why) in &held {
            if self.refusals.held_back.get(owner) != Some(why) {
                tracing::error!(%owner, %why, "routes of Kubernetes are held back: what their owner had last stays in use, others go on");
            }
        }
        if let Some(why) = &whole
            && self.refusals.whole.as_ref() != Some(why)
        {
            tracing::error!(%why, "the routes of Kubernetes could not be applied: those of before stay in use");
        }
        self.refusals = Refusals { whole, held_back: held };
        // Changes of others do not put it off.
        let is_refused = self.refusals != Refusals::default();
        self.retry_at = is_refused.then(|| self.retry_at.unwrap_or_else(|| Instant::now() + RETRY_PAUSE));
        self.declared = Some(declared);
        Some(self.refusals.clone())
    }

    /// Owners that were held back and declare the same as then: they are not tried with every change of others, and some of them when it is time.
    fn still_held(&mut self, declared: &Config) -> Held {
        let Some(before) = &self.declared else { return Held::new() };
        let held = self.refusals.held_back.iter();
        let mut held: Held = held
            .filter(|(owner, _)| has_same_listeners(owner, before, declared))
            .map(|(owner, why)| (owner.clone(), why.clone()))
            .collect();
        if self.retry_at.is_none() {
            let retried = next_retries(&held, self.retried.as_ref());
            retried.iter().for_each(|owner| drop(held.remove(owner)));
            self.retried = retried.last().cloned();
        }
        held
    }

    /// Applies what is left when some are held back. A configuration that is in use already is not applied again.
    async fn attempt(
        &mut self,
        declared: &Config,
        held: &Held,
        servers: &mut CompletedUpstreams,
        updates: &UpdateSender,
    ) -> Option<Result<(), ChangeRefusal>> {
        let left = match held.is_empty() {
            true => declared.clone(),
            false => {
                hold_back(declared, self.in_use.as_ref(), &self.of_sets, |owner| held.contains_key(owner))
            }
        };
        let is_in_use = self.in_use.as_ref().is_some_and(|known| are_same(known, &left));
        if is_in_use && !held.is_empty() && self.declared.is_some() {
            return Some(Ok(()));
        }
        let mut config = left.clone();
        servers.complete(&mut config);
        let change = KubernetesChange::Config { config: Box::new(config), is_whole: held.is_empty() };
        let outcome = updates.carry_out(change).await?;
        if outcome.is_ok() {
            self.in_use = Some(left);
        }
        Some(outcome)
    }

    /// The owner of the listener that a refusal names, or the only one with something new.
    fn culprit(&self, declared: &Config, held: &Held, refusal: &ChangeRefusal) -> Option<ListenerOwner> {
        let named = refusal.listener.as_deref().map(ListenerOwner::of_name);
        let suspects = || {
            let mut suspects = self.suspects(declared, held);
            let first = suspects.next();
            first.filter(|_| suspects.next().is_none())
        };
        named.filter(|owner| !held.contains_key(owner)).or_else(suspects)
    }

    fn suspects(&self, declared: &Config, held: &Held) -> impl Iterator<Item = ListenerOwner> {
        let changed = changed_owners(declared, self.in_use.as_ref());
        changed.into_iter().filter(|owner| !held.contains_key(owner))
    }

    /// Finds out which of several owners a refusal is about: each is tried without those behind it. `None`: it is about none of them.
    async fn search(
        &mut self,
        declared: &Config,
        held: &Held,
        refusal: &ChangeRefusal,
        servers: &mut CompletedUpstreams,
        updates: &UpdateSender,
    ) -> Option<Option<Held>> {
        let suspects: Vec<ListenerOwner> = self.suspects(declared, held).collect();
        let mut found = held.clone();
        found.extend(suspects.iter().map(|owner| (owner.clone(), refusal.why.as_str().into())));
        if suspects.is_empty() || self.attempt(declared, &found, servers, updates).await?.is_err() {
            return Some(None);
        }
        for owner in suspects {
            found.remove(&owner);
            if let Err(refusal) = self.attempt(declared, &found, servers, updates).await? {
                found.insert(owner, refusal.why.into());
            }
        }
        Some(Some(found))
    }
}

fn are_same(one: &Config, other: &Config) -> bool {
    are_all_same(&one.listeners, &other.listeners) && are_all_same(&one.upstreams, &other.upstreams)
}

fn are_all_same<T>(some: &[Arc<T>], others: &[Arc<T>]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| Arc::ptr_eq(one, other))
}

/// Those that are tried next, in turn.
fn next_retries(held: &Held, last: Option<&ListenerOwner>) -> Vec<ListenerOwner> {
    let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
    let later = held.range((behind, Bound::Unbounded));
    let all = later.chain(held).map(|(owner, _)| owner.clone());
    all.take(RETRIES_MAX.min(held.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_are_held_back_are_tried_in_turn() {
        let owners: Vec<_> = (1..=20).map(|port| ListenerOwner::of_name(&format!("a.b.{port}"))).collect();
        let held: Held = owners.iter().map(|owner| (owner.clone(), "taken".into())).collect();
        let mut last = None;
        let mut tried = Vec::new();
        for _ in 0..5 {
            let next = next_retries(&held, last.as_ref());
            assert_eq!(next.len(), RETRIES_MAX);
            last = next.last().cloned();
            tried.extend(next);
        }
        assert_eq!(tried, [&owners[..], &owners[..]].concat());
        let few: Held = held.into_iter().take(2).collect();
        assert_eq!(next_retries(&few, owners.first()), [owners[1].clone(), owners[0].clone()]);
        assert!(next_retries(&Held::new(), None).is_empty());
    }
}
