//! Which name makes room for a new one: found after a few steps, however many names there are.
//!
//! Three queues. First go names that lead nowhere, in the order in which that was found. Then those that one request has used, the oldest first: a flood of
//! names is of these. Names that several requests have used are apart (a segmented LRU): as long as they are few enough, they go only when they were not used
//! for a while. A queue learns of a use when it comes to the name (second chance), since requests use names without the table.
//!
//! Names that are gone leave their place behind, which is passed over and cleared away in time. Must not know addresses, nor who waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::NameUse;

/// Names that are looked at for one that makes room.
const STEPS_MAX: usize = 64;

/// The time after a search through all names until the next one: only then are more than a few looked at.
const WHOLE_SEARCH_MS: u64 = 100;

/// How long a name is kept that several requests have used, where there is room for new names besides.
const RECENT_MS: u64 = 10_000;

/// Uses of a name that more than one request wants.
pub(super) const USES_PROVEN: u32 = 2;

/// What there is to say of a name that a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameStanding {
    /// It is not in the table any more.
    Gone,
    /// A request holds it or waits for it, or it is being looked up.
    InUse,
    /// Nothing uses it, and it has no addresses.
    Nowhere,
    /// Nothing uses it.
    Unused,
}

/// A name in a queue.
#[derive(Debug)]
pub(super) struct QueuedName {
    pub(super) name: Box<str>,
    pub(super) used: Arc<NameUse>,
    /// When it had been used last, when the queue came to it.
    seen_ms: u64,
}

/// The queues.
#[derive(Debug, Default)]
pub(super) struct NameOrder {
    nowhere: VecDeque<QueuedName>,
    tried: VecDeque<QueuedName>,
    proven: VecDeque<QueuedName>,
    next_whole_search_ms: u64,
}

impl NameOrder {
    /// A name has come.
    pub(super) fn add(&mut self, name: &str, used: &Arc<NameUse>) {
        self.tried.push_back(QueuedName { name: name.into(), used: Arc::clone(used), seen_ms: 0 });
    }

    /// A name was found to lead nowhere, for the first time.
    pub(super) fn add_nowhere(&mut self, name: &str, used: &Arc<NameUse>) {
        self.nowhere.push_back(QueuedName { name: name.into(), used: Arc::clone(used), seen_ms: 0 });
    }

    /// Clears away what names that are gone have left behind, once that is more than the names that there are.
    pub(super) fn clear(&mut self, names: usize, is_gone: impl Fn(&QueuedName) -> bool) {
        // Each name is in one of two queues, and may be in the first one besides.
        if self.nowhere.len() + self.tried.len() + self.proven.len() > 3 * names + STEPS_MAX {
            for queue in [&mut self.nowhere, &mut self.tried, &mut self.proven] {
                queue.retain(|queued| !is_gone(queued));
            }
        }
    }

    /// The name that makes room, of at most `names_max`; `None`: none may.
    pub(super) fn find_victim(
        &mut self,
        (now_ms, names_max): (u64, usize),
        standing: impl Fn(&QueuedName) -> NameStanding,
    ) -> Option<Box<str>> {
        let is_whole = now_ms >= self.next_whole_search_ms;
        let mut steps = SearchSteps { taken: 0, max: if is_whole { usize::MAX } else { STEPS_MAX } };
        let victim = self.search((now_ms, names_max), &mut steps, standing);
        if steps.taken > STEPS_MAX {
            self.next_whole_search_ms = now_ms + WHOLE_SEARCH_MS;
        }
        victim.map(|queued| queued.name)
    }

    fn search(
        &mut self,
        (now_ms, names_max): (u64, usize),
        steps: &mut SearchSteps,
        standing: impl Fn(&QueuedName) -> NameStanding,
    ) -> Option<QueuedName> {
        for _ in 0..self.nowhere.len() {
            let queued = steps.next(&mut self.nowhere)?;
            match standing(&queued) {
                NameStanding::Nowhere => return Some(queued),
                NameStanding::InUse => self.nowhere.push_back(queued),
                // It leads somewhere by now, and is in another queue as well.
                NameStanding::Unused | NameStanding::Gone => {}
            }
        }
        // At least a fifth of the names may be new ones.
        let proven_max = names_max * 4 / 5;
        let mut left = self.tried.len();
        while left > 0 {
            let mut queued = steps.next(&mut self.tried)?;
            left -= 1;
            let standing = standing(&queued);
            if standing == NameStanding::Gone {
                continue;
            }
            if proven_max > 0 && queued.used.uses.load(Ordering::Relaxed) >= USES_PROVEN {
                queued.seen_ms = queued.used.last_ms();
                self.proven.push_back(queued);
                if self.proven.len() > proven_max {
                    left += self.demote(steps);
                }
            } else if standing == NameStanding::InUse {
                self.tried.push_back(queued);
            } else {
                return Some(queued);
            }
        }
        for _ in 0..self.proven.len() {
            let queued = steps.next(&mut self.proven)?;
            let is_recent = queued.used.last_ms().saturating_add(RECENT_MS) > now_ms;
            match standing(&queued) {
                NameStanding::Gone => {}
                NameStanding::Nowhere => return Some(queued),
                NameStanding::Unused if !is_recent => return Some(queued),
                NameStanding::Unused | NameStanding::InUse => self.proven.push_back(queued),
            }
        }
        None
    }

    /// Puts one of the names that several requests have used back among the others; how many.
    fn demote(&mut self, steps: &mut SearchSteps) -> usize {
        for _ in 0..self.proven.len() {
            let Some(mut queued) = steps.next(&mut self.proven) else { return 0 };
            let last_ms = queued.used.last_ms();
            if last_ms > queued.seen_ms {
                queued.seen_ms = last_ms;
                self.proven.push_back(queued);
                continue;
            }
            queued.used.uses.store(0, Ordering::Relaxed);
            self.tried.push_back(queued);
            return 1;
        }
        0
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nowhere.len() + self.tried.len() + self.proven.len()
    }
}

/// Names that were looked at.
#[derive(Debug)]
struct SearchSteps {
    taken: usize,
    max: usize,
}

impl SearchSteps {
    fn next(&mut self, queue: &mut VecDeque<QueuedName>) -> Option<QueuedName> {
        self.taken += 1;
        if self.taken > self.max { None } else { queue.pop_front() }
    }
}
