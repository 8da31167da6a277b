//! The names that requests give of servers of one upstream (`dynamic`): asked for by workers, looked up and put into use by the control plane.
//!
//! A name that is in use is found in the plan of the upstream, without a lock; the table is asked for all others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use weir_config::{DynamicServers, ServerAddress, Upstream};
use weir_traffic::ServerId;
use weir_traffic::names::{
    Asked, HeldName, NameAnswer, NameCounts, NameFailure, NameLimits, NameTable, NameUse, NamedAddresses,
};

use super::plan_inputs::millis_between;
use crate::net::clock::{self, Instant};

/// Lookups of one upstream at once.
const LOOKUPS_MAX: usize = 64;

/// What a request is told that has waited for a name: that it is in use, or why not.
pub(crate) type NameOutcome = Result<(), NameFailure>;

type NameWaiter = oneshot::Sender<Option<NameOutcome>>;

/// What becomes of a request that asks for a name.
#[derive(Debug)]
pub(crate) enum NameQuestion {
    /// It is in use.
    Known,
    /// It is told.
    Waits(oneshot::Receiver<Option<NameOutcome>>),
    Refused(NameFailure),
}

/// The names of one upstream, over all its configs.
#[derive(Debug)]
pub struct RequestedNames {
    table: Mutex<NameTable<NameWaiter>>,
    /// Told when there is something to look up, or to put into use.
    work: Notify,
    epoch: Instant,
}

impl RequestedNames {
    fn new(settings: &DynamicServers) -> Self {
        let table = NameTable::new(limits(settings, Duration::ZERO, Duration::ZERO), NameWaiter::is_closed);
        Self { table: Mutex::new(table), work: Notify::new(), epoch: clock::now() }
    }

    fn lock(&self) -> MutexGuard<'_, NameTable<NameWaiter>> {
        // A panic inside leaves a table that is whole: its operations do not call out while they change it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        millis_between(self.epoch, clock::now())
    }

    /// A request asks for a server that is not in use by the plan that it has; `is_busy` says on which requests run.
    pub(crate) fn ask(
        &self,
        name: &str,
        address: &ServerAddress,
        is_busy: impl Fn(&str) -> bool,
    ) -> NameQuestion {
        let literal = match address {
            ServerAddress::Ip(addr) => Some(addr.ip()),
            ServerAddress::Name { .. } | ServerAddress::Unix(_) => None,
        };
        let (waiter, told) = oneshot::channel();
        let asked = self.lock().ask(name, literal, waiter, self.now_ms(), is_busy);
        match asked {
            Asked::Known => NameQuestion::Known,
            Asked::Waits => {
                self.work.notify_one();
                NameQuestion::Waits(told)
            }
            Asked::Refused(failure, _) => NameQuestion::Refused(failure),
        }
    }

    /// Begins anew the lookups that were under way.
    pub fn begin_again(&self) {
        self.lock().begin_again();
    }

    /// The names that are to be looked up now, by these times of the config, and how long until there may be others.
    pub fn due(
        &self,
        (settings, empty_grace, ttl_min): (&DynamicServers, Duration, Duration),
        is_busy: impl Fn(&str) -> bool,
    ) -> (Vec<Box<str>>, Option<Duration>) {
        let (mut table, now_ms) = (self.lock(), self.now_ms());
        table.set_limits(limits(settings, empty_grace, ttl_min));
        let next_ms = table.advance(now_ms, is_busy);
        let due = std::iter::from_fn(|| table.next_lookup()).collect();
        (due, next_ms.map(|next_ms| Duration::from_millis(next_ms.saturating_sub(now_ms))))
    }

    /// What the lookup of one has found.
    pub fn answered(&self, name: &str, answer: NameAnswer) {
        let in_vain = self.lock().answered(name, answer, self.now_ms());
        tell(in_vain);
    }

    /// Waits until there may be something to do.
    pub async fn work(&self) {
        self.work.notified().await;
    }

    /// Whether names or addresses are to be put into use.
    pub fn has_changed(&self) -> bool {
        self.lock().has_changed()
    }

    /// Those that are to be in use, if that is a change.
    pub fn take_change(&self) -> Option<Vec<NamedAddresses>> {
        self.lock().take_change()
    }

    /// They are in use by all workers.
    pub fn published(&self, names: &[NamedAddresses]) {
        let heard = self.lock().published(names);
        for waiter in heard {
            let _gone = waiter.send(Some(Ok(())));
        }
        self.work.notify_one();
    }

    /// How many there are.
    pub fn counts(&self) -> NameCounts {
        self.lock().counts()
    }

    /// Keeps what a config allows.
    pub fn keep_allowed(&self, settings: &DynamicServers) {
        let allowed = |name: &str, addresses: &[IpAddr]| {
            let port = settings.allow.find(name.as_bytes())?.port()?;
            let is_allowed = |ip: &IpAddr| settings.allow.allows_address(*ip, port);
            Some(addresses.iter().copied().filter(is_allowed).collect())
        };
        let refused = self.lock().keep_allowed(allowed);
        tell(refused);
        self.work.notify_one();
    }

    fn uses(&self) -> HashMap<Box<str>, Arc<NameUse>> {
        self.lock().usable().into_iter().map(|one| (one.name, one.used)).collect()
    }
}

fn tell(in_vain: Vec<(NameWaiter, NameFailure)>) {
    for (waiter, failure) in in_vain {
        let _gone = waiter.send(Some(Err(failure)));
    }
}

fn limits(settings: &DynamicServers, empty_grace: Duration, ttl_min: Duration) -> NameLimits {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    NameLimits {
        names_max: settings.names_max,
        lookups_max: LOOKUPS_MAX,
        idle_ms: millis(settings.idle),
        empty_grace_ms: millis(empty_grace),
        ttl_min_ms: millis(ttl_min),
    }
}

/// The names of an upstream in one plan of it.
#[derive(Debug)]
pub struct NamedPlan {
    /// All that are known.
    pub names: Arc<RequestedNames>,
    /// The places of those that are in service.
    places: HashMap<Box<str>, (usize, Arc<NameUse>)>,
}

impl NamedPlan {
    /// That of an upstream whose servers requests name; the servers have these places.
    pub(super) fn new(
        config: &Upstream,
        leaves_at: &[Option<Instant>],
        before: Option<&Self>,
    ) -> Option<Box<Self>> {
        let settings = config.dynamic.as_ref()?;
        let known = before.map(|before| Arc::clone(&before.names));
        let names = known.unwrap_or_else(|| Arc::new(RequestedNames::new(settings)));
        let mut uses = names.uses();
        let servers = config.servers.iter().zip(leaves_at).enumerate();
        let in_service = servers.filter(|(_, (_, leaves_at))| leaves_at.is_none());
        let places = in_service.filter_map(|(place, (server, _))| {
            Some((server.name.clone(), (place, uses.remove(&server.name)?)))
        });
        let places = places.collect();
        Some(Box::new(Self { names, places }))
    }

    /// The place of the server of this name.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).map(|(place, _)| *place)
    }

    /// The same, held: its place stays its own until what is returned is dropped.
    pub(crate) fn hold(&self, name: &str) -> Option<(ServerId, HeldName)> {
        let (place, used) = self.places.get(name)?;
        Some((ServerId(u32::try_from(*place).ok()?), used.hold(self.names.now_ms())?))
    }

    /// Whether a name has gone and come again since: this plan cannot hold it any more, though its servers are the same.
    pub fn is_stale(&self) -> bool {
        let uses = self.names.uses();
        let mut places = self.places.iter();
        places.any(|(name, (_, used))| uses.get(name).is_some_and(|now| !Arc::ptr_eq(now, used)))
    }

    /// The places of all names.
    pub fn places(&self) -> impl Iterator<Item = (&str, usize)> {
        self.places.iter().map(|(name, (place, _))| (&**name, *place))
    }

    /// What an earlier config has allowed and this one does not is not used any more.
    pub(super) fn prepare(&self, settings: &DynamicServers) {
        self.names.keep_allowed(settings);
    }
}

#[cfg(test)]
mod tests {
    use weir_config::{Config, Server};

    use super::*;

    /// A name is dropped for another one and asked for again before the plan without it was made: the servers are the same, what holds them is not.
    #[test]
    fn a_name_that_has_gone_and_come_again_makes_a_plan_stale() {
        let text = "listener.web = { address = '127.0.0.1:0', upstream = 'apps' }\n\
                    upstream.apps.dynamic = { server = '{header.x-app}', allow = ['*.test:80', '127.0.0.0/8:80'], names_max = 1 }\n";
        let config = Config::parse(text, "weir.toml").unwrap();
        let upstream = &config.upstreams[0];
        let settings = upstream.dynamic.as_ref().unwrap();
        let address = settings.allow.find(b"a.test:80").unwrap();
        let name = address.to_string();
        let server = Server::new(address.clone());
        let names = RequestedNames::new(settings);
        names.lock().set_limits(limits(settings, Duration::ZERO, Duration::ZERO));
        let known = || NameAnswer::Addresses(vec![[127, 0, 0, 1].into()], 1000);
        let ask = |names: &RequestedNames, name: &str| drop(names.ask(name, &address, |_| false));
        ask(&names, &name);
        names.answered(&name, known());
        let before = NamedPlan { names: Arc::new(names), places: HashMap::new() };
        let plan = NamedPlan::new(&upstream.with_servers(vec![server]), &[None], Some(&before)).unwrap();
        assert!(plan.hold(&name).is_some() && !plan.is_stale());
        ask(&plan.names, "b.test:80");
        ask(&plan.names, &name);
        assert!(!plan.is_stale(), "it is not in use yet");
        plan.names.answered(&name, known());
        assert!(plan.hold(&name).is_none() && plan.is_stale());
    }
}
