//! Names that requests ask for: which of them are known, which are being looked up, and who waits for what.
//!
//! A table of bounded size. A thousand requests for one new name are one lookup; a name that no request uses makes room for another one (`order` says which),
//! never one that a request holds. Pure: the caller looks names up, tells the time in milliseconds and wakes those who wait.

mod order;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use order::{NameOrder, NameStanding, QueuedName, USES_PROVEN};

/// The most addresses of a name that are used: an answer has room for thousands, and each is held for each name.
const ADDRESSES_MAX: usize = 64;

/// Bounds of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameLimits {
    /// Names at once, those that lead nowhere included.
    pub names_max: usize,
    /// Lookups at once.
    pub lookups_max: usize,
    /// How long a name is kept that no request asks for.
    pub idle_ms: u64,
    /// How long a name has to have no addresses before those that it had are given up.
    pub empty_grace_ms: u64,
    /// The shortest time from one lookup of a name to the next.
    pub ttl_min_ms: u64,
}

/// Why there is no server of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameFailure {
    /// The name has no address.
    NotFound,
    /// No answer came, or one that says nothing about the name.
    NoAnswer,
    /// It has addresses, and none of them is allowed.
    NotAllowed,
    /// The table is full of names that are in use.
    TooMany,
}

/// What a lookup has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameAnswer {
    /// Addresses that are allowed, and how many milliseconds they count. None: it has others alone.
    Addresses(Vec<IpAddr>, u64),
    /// There are none.
    NotFound,
    /// It has failed.
    NoAnswer,
}

/// What becomes of a request that asks for a name; `W` is how it is told.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked<W> {
    /// It is in use by now: look again.
    Known,
    /// It is told.
    Waits,
    /// There is no server, for a reason that is known already.
    Refused(NameFailure, W),
}

/// That a table has dropped a name.
const DROPPED: u32 = u32::MAX;

/// Who uses a name, readable and changed without the table.
#[derive(Debug, Default)]
pub struct NameUse {
    holders: AtomicU32,
    last_ms: AtomicU64,
    /// Requests that have held it, as far as that matters.
    uses: AtomicU32,
}

impl NameUse {
    /// Holds the name, unless the table has dropped it: it is not dropped until this is.
    pub fn hold(self: &Arc<Self>, now_ms: u64) -> Option<HeldName> {
        let more = |held: u32| (held < DROPPED - 1).then(|| held + 1);
        self.holders.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        self.last_ms.fetch_max(now_ms, Ordering::Relaxed);
        if self.uses.load(Ordering::Relaxed) < USES_PROVEN {
            self.uses.fetch_add(1, Ordering::Relaxed);
        }
        Some(HeldName(Arc::clone(self)))
    }

    /// Marks it as dropped, if nothing holds it.
    fn drop_unheld(&self) -> bool {
        self.holders.compare_exchange(0, DROPPED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Marks it as dropped, whatever holds it.
    fn drop_held(&self) {
        self.holders.store(DROPPED, Ordering::Release);
    }

    fn is_unheld(&self) -> bool {
        self.holders.load(Ordering::Acquire) == 0
    }

    fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Relaxed)
    }
}

/// A name that is held until this is dropped.
#[derive(Debug)]
pub struct HeldName(Arc<NameUse>);

impl Drop for HeldName {
    fn drop(&mut self) {
        let fewer = |held: u32| (held != DROPPED).then(|| held.saturating_sub(1));
        let _dropped = self.0.holders.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lookup {
    None,
    Queued,
    Running,
}

#[derive(Debug)]
struct NameEntry<W> {
    used: Arc<NameUse>,
    /// Those that requests may be sent to.
    addresses: Vec<IpAddr>,
    /// Whether it is an address itself, and never looked up.
    is_literal: bool,
    failure: Option<NameFailure>,
    lookup: Lookup,
    /// When it is looked up again, or may be.
    due_ms: u64,
    /// Since when it has had no address, though it had some.
    empty_since_ms: Option<u64>,
    /// Whether the addresses are in use everywhere.
    is_published: bool,
    /// Whether it is among those that lead nowhere.
    is_nowhere: bool,
    waiting: Vec<W>,
}

impl<W> NameEntry<W> {
    /// Takes the addresses as those of the name; whether they are others.
    fn move_to(&mut self, addresses: Vec<IpAddr>) -> bool {
        let differs = self.addresses != addresses;
        self.addresses = addresses;
        differs
    }
}

/// A name with addresses, as it is to be in use.
#[derive(Debug, Clone)]
pub struct NamedAddresses {
    /// The name.
    pub name: Box<str>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Who uses it.
    pub used: Arc<NameUse>,
}

/// How many names there are, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameCounts {
    /// All of them.
    pub names: usize,
    /// Those with addresses.
    pub usable: usize,
    /// Those that are looked up now, or wait for that.
    pub looked_up: usize,
    /// Names that have made room for others.
    pub evictions: u64,
    /// Requests for a name that no other one could make room for.
    pub refusals: u64,
}

/// The names of one upstream.
#[derive(Debug)]
pub struct NameTable<W> {
    limits: NameLimits,
    /// Whether a request does not wait any more.
    is_gone: fn(&W) -> bool,
    names: HashMap<Box<str>, NameEntry<W>>,
    order: NameOrder,
    /// Names to look up; those that are gone are passed over.
    queue: VecDeque<(Box<str>, Arc<NameUse>)>,
    running: usize,
    evictions: u64,
    refusals: u64,
    /// Whether names or addresses differ from what is in use.
    has_changed: bool,
}

impl<W> NameTable<W> {
    /// An empty one; `is_gone` says of a request whether it does not wait any more.
    pub fn new(limits: NameLimits, is_gone: fn(&W) -> bool) -> NameTable<W> {
        NameTable {
            limits,
            is_gone,
            names: HashMap::new(),
            order: NameOrder::default(),
            queue: VecDeque::new(),
            running: 0,
            evictions: 0,
            refusals: 0,
            has_changed: false,
        }
    }

    /// Other bounds hold; names beyond them go when they are not used.
    pub fn set_limits(&mut self, limits: NameLimits) {
        self.limits = limits;
    }

    /// A request asks for a name; `literal`: the address that it is itself. `is_busy` says of which names requests are under way, on any worker.
    pub fn ask(
        &mut self,
        name: &str,
        literal: Option<IpAddr>,
        waiter: W,
        now_ms: u64,
        is_busy: impl Fn(&str) -> bool,
    ) -> Asked<W> {
        if let Some(entry) = self.names.get_mut(name) {
            entry.used.last_ms.fetch_max(now_ms, Ordering::Relaxed);
            if entry.is_published {
                return Asked::Known;
            }
            let is_awaited = !entry.addresses.is_empty() || entry.lookup != Lookup::None;
            match entry.failure {
                Some(failure) if !is_awaited && now_ms < entry.due_ms => {
                    return Asked::Refused(failure, waiter);
                }
                _ => {}
            }
            if entry.waiting.len() == entry.waiting.capacity() {
                entry.waiting.retain(|waiter| !(self.is_gone)(waiter));
            }
            entry.waiting.push(waiter);
            if !is_awaited {
                entry.lookup = Lookup::Queued;
                self.queue.push_back((name.into(), Arc::clone(&entry.used)));
            }
            return Asked::Waits;
        }
        if self.names.len() >= self.limits.names_max && !self.make_room(now_ms, is_busy) {
            self.refusals += 1;
            return Asked::Refused(NameFailure::TooMany, waiter);
        }
        let used = Arc::<NameUse>::default();
        used.last_ms.store(now_ms, Ordering::Relaxed);
        self.order.add(name, &used);
        let entry = NameEntry {
            used,
            addresses: literal.into_iter().collect(),
            is_literal: literal.is_some(),
            failure: None,
            lookup: if literal.is_some() { Lookup::None } else { Lookup::Queued },
            due_ms: u64::MAX,
            empty_since_ms: None,
            is_published: false,
            is_nowhere: false,
            waiting: vec![waiter],
        };
        match literal {
            Some(_) => self.has_changed = true,
            None => self.queue.push_back((name.into(), Arc::clone(&entry.used))),
        }
        self.names.insert(name.into(), entry);
        self.clear();
        Asked::Waits
    }

    /// Clears away what names that are gone have left in the queues.
    fn clear(&mut self) {
        let names = &self.names;
        let is_here = |name: &str, used: &Arc<NameUse>| {
            names.get(name).is_some_and(|entry| Arc::ptr_eq(&entry.used, used))
        };
        self.order.clear(names.len(), |queued| !is_here(&queued.name, &queued.used));
        // A name is queued once.
        if self.queue.len() > 2 * names.len() {
            self.queue.retain(|(name, used)| is_here(name, used));
        }
    }

    /// Drops a name that nothing uses.
    fn make_room(&mut self, now_ms: u64, is_busy: impl Fn(&str) -> bool) -> bool {
        let (names, is_gone) = (&self.names, self.is_gone);
        let standing = |queued: &QueuedName| {
            let entry = names.get(&queued.name).filter(|entry| Arc::ptr_eq(&entry.used, &queued.used));
            let Some(entry) = entry else { return NameStanding::Gone };
            let is_unused = entry.waiting.iter().all(is_gone)
                && entry.lookup != Lookup::Running
                && entry.used.is_unheld()
                && !is_busy(&queued.name);
            match (is_unused, entry.addresses.is_empty()) {
                (false, _) => NameStanding::InUse,
                (true, true) => NameStanding::Nowhere,
                (true, false) => NameStanding::Unused,
            }
        };
        let victim = self.order.find_victim((now_ms, self.limits.names_max), standing);
        let Some(victim) = victim else { return false };
        if self.drop_name(&victim) {
            self.evictions += 1;
            return true;
        }
        // A request has held it since.
        if let Some(entry) = self.names.get(&victim) {
            self.order.add(&victim, &entry.used);
        }
        false
    }

    /// Drops a name that nothing holds; whether it is gone.
    fn drop_name(&mut self, name: &str) -> bool {
        match self.names.get(name) {
            Some(entry) if entry.used.drop_unheld() => {
                self.has_changed |= !entry.addresses.is_empty();
                self.names.remove(name);
                true
            }
            _ => false,
        }
    }

    /// The next name that is to be looked up now; [`answered`](Self::answered) has to follow.
    pub fn next_lookup(&mut self) -> Option<Box<str>> {
        if self.running >= self.limits.lookups_max {
            return None;
        }
        while let Some((name, used)) = self.queue.pop_front() {
            if let Some(entry) = self.names.get_mut(&name)
                && entry.lookup == Lookup::Queued
                && Arc::ptr_eq(&entry.used, &used)
            {
                entry.lookup = Lookup::Running;
                self.running += 1;
                return Some(name);
            }
        }
        None
    }

    /// Lookups that had begun come to nothing: they begin anew.
    pub fn begin_again(&mut self) {
        self.running = 0;
        for (name, entry) in self.names.iter_mut().filter(|(_, entry)| entry.lookup == Lookup::Running) {
            entry.lookup = Lookup::Queued;
            self.queue.push_back((name.clone(), Arc::clone(&entry.used)));
        }
    }

    /// Has names looked up again whose time has come, and drops those that nothing asks for any more; when the next one is due.
    pub fn advance(&mut self, now_ms: u64, is_busy: impl Fn(&str) -> bool) -> Option<u64> {
        let idle_since = now_ms.saturating_sub(self.limits.idle_ms);
        let is_idle = |name: &str, entry: &NameEntry<W>| {
            let last_ms = entry.used.last_ms();
            last_ms < idle_since
                && entry.waiting.iter().all(self.is_gone)
                && entry.lookup == Lookup::None
                && !is_busy(name)
        };
        let idle = self.names.iter().filter(|(name, entry)| is_idle(name, entry));
        let idle: Vec<Box<str>> = idle.map(|(name, _)| name.clone()).collect();
        idle.iter().for_each(|name| _ = self.drop_name(name));
        let mut next = None;
        for (name, entry) in &mut self.names {
            if entry.is_literal || entry.lookup != Lookup::None {
                continue;
            }
            // One that leads nowhere is asked for again when a request wants it.
            if !entry.addresses.is_empty() && entry.due_ms <= now_ms {
                entry.lookup = Lookup::Queued;
                self.queue.push_back((name.clone(), Arc::clone(&entry.used)));
                continue;
            }
            let idle_ms = entry.used.last_ms().saturating_add(self.limits.idle_ms).max(now_ms) + 1;
            let due_ms = if entry.addresses.is_empty() { idle_ms } else { entry.due_ms.min(idle_ms) };
            next = Some(next.map_or(due_ms, |next: u64| next.min(due_ms)));
        }
        next
    }

    /// What a lookup has found; those who waited in vain, and why.
    pub fn answered(&mut self, name: &str, answer: NameAnswer, now_ms: u64) -> Vec<(W, NameFailure)> {
        self.running = self.running.saturating_sub(1);
        let NameLimits { ttl_min_ms, empty_grace_ms, .. } = self.limits;
        let Some(entry) = self.names.get_mut(name) else { return Vec::new() };
        entry.lookup = Lookup::None;
        let failure = match answer {
            NameAnswer::Addresses(mut addresses, ttl_ms) => {
                addresses.sort_unstable();
                addresses.dedup();
                // Of an order that an answer does not change, so that the same ones stay.
                addresses.truncate(ADDRESSES_MAX);
                addresses.shrink_to_fit();
                entry.due_ms = now_ms + ttl_ms.max(ttl_min_ms);
                entry.empty_since_ms = None;
                let is_empty = addresses.is_empty();
                // At once where no address is allowed any more: no request goes there in the meantime.
                self.has_changed |= entry.move_to(addresses);
                entry.is_published &= !is_empty;
                is_empty.then_some(NameFailure::NotAllowed)
            }
            NameAnswer::NotFound => {
                let since_ms = *entry.empty_since_ms.get_or_insert(now_ms);
                if entry.addresses.is_empty() || now_ms - since_ms >= empty_grace_ms {
                    self.has_changed |= entry.move_to(Vec::new());
                    entry.is_published = false;
                }
                entry.due_ms = now_ms + ttl_min_ms;
                Some(NameFailure::NotFound)
            }
            NameAnswer::NoAnswer => {
                entry.empty_since_ms = None;
                entry.due_ms = now_ms + ttl_min_ms;
                Some(NameFailure::NoAnswer)
            }
        };
        entry.failure = failure.filter(|_| entry.addresses.is_empty());
        if entry.failure.is_some() && !entry.is_nowhere {
            entry.is_nowhere = true;
            self.order.add_nowhere(name, &entry.used);
        }
        let failure = entry.failure;
        let in_vain = failure.map(|failure| (std::mem::take(&mut entry.waiting), failure));
        in_vain.map_or_else(Vec::new, |(waiting, failure)| {
            waiting.into_iter().map(|waiter| (waiter, failure)).collect()
        })
    }

    /// The names with addresses, if they differ from what is in use since this was asked last.
    pub fn take_change(&mut self) -> Option<Vec<NamedAddresses>> {
        std::mem::take(&mut self.has_changed).then(|| self.usable())
    }

    /// Whether there is a change to take.
    pub const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// The names with addresses.
    pub fn usable(&self) -> Vec<NamedAddresses> {
        let usable = self.names.iter().filter(|(_, entry)| !entry.addresses.is_empty());
        let mut usable: Vec<NamedAddresses> = usable
            .map(|(name, entry)| NamedAddresses {
                name: name.clone(),
                addresses: entry.addresses.clone(),
                used: Arc::clone(&entry.used),
            })
            .collect();
        usable.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        usable
    }

    /// These are in use everywhere: those who have waited for them.
    pub fn published(&mut self, names: &[NamedAddresses]) -> Vec<W> {
        let mut heard = Vec::new();
        for published in names {
            let Some(entry) = self.names.get_mut(&published.name) else { continue };
            if Arc::ptr_eq(&entry.used, &published.used) && !entry.addresses.is_empty() {
                entry.is_published = true;
                heard.append(&mut entry.waiting);
            }
        }
        heard
    }

    /// Keeps the names for which `allowed` gives addresses that are still allowed, of those that it has; who waited for the others.
    pub fn keep_allowed(
        &mut self,
        allowed: impl Fn(&str, &[IpAddr]) -> Option<Vec<IpAddr>>,
    ) -> Vec<(W, NameFailure)> {
        let (mut refused, mut gone) = (Vec::new(), Vec::new());
        for (name, entry) in &mut self.names {
            let before = entry.addresses.len();
            let Some(addresses) = allowed(name, &entry.addresses) else {
                entry.used.drop_held();
                refused.extend(entry.waiting.drain(..).map(|waiter| (waiter, NameFailure::NotAllowed)));
                gone.push(name.clone());
                continue;
            };
            if addresses.len() < before {
                // Another one that is allowed may have come.
                (entry.due_ms, self.has_changed) = (0, true);
                entry.is_published &= !addresses.is_empty();
                entry.failure = addresses.is_empty().then_some(NameFailure::NotAllowed);
                entry.addresses = addresses;
            }
        }
        self.has_changed |= !gone.is_empty();
        gone.iter().for_each(|name| _ = self.names.remove(name));
        refused
    }

    /// How many names there are.
    pub fn counts(&self) -> NameCounts {
        let usable = self.names.values().filter(|entry| !entry.addresses.is_empty()).count();
        let looked_up = self.names.values().filter(|entry| entry.lookup != Lookup::None).count();
        let (evictions, refusals) = (self.evictions, self.refusals);
        NameCounts { names: self.names.len(), usable, looked_up, evictions, refusals }
    }
}

#[cfg(test)]
mod tests;
