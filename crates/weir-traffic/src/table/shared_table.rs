//! Tables that nodes share: a node asks its own table, and between two requests the control plane exchanges with a store.
//!
//! [`ToldCounts`] go there; [`SharedCounts`] come back and take the place of what the entry had, but for what was counted here meanwhile.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::counter_table::{CounterTable, add, lock};
use super::entries::{Entries, EntryPlace};
use super::sharing::{CountsMerge, SharedCounts, ToldCounts, UntoldCounts, UntoldKey, counted_at};

impl CounterTable {
    /// The same table, without entries, for several nodes together.
    #[must_use]
    pub fn shared(mut self) -> Self {
        for part in &mut self.parts {
            let part = part.get_mut().unwrap_or_else(PoisonError::into_inner);
            part.untold = Some(Box::new(UntoldCounts::new(part.entries.entries_max(), self.words)));
        }
        self
    }

    /// Begins to keep what is counted for other nodes; gives what keys have now, which they are to be told first.
    pub fn begin_sharing(&self, now_ms: u64) -> Vec<ToldCounts> {
        let mut told = Vec::new();
        for part in &self.parts {
            let mut part = lock(part);
            let part = &mut *part;
            let Some(untold) = &mut part.untold else { continue };
            (untold.is_kept, untold.keys) = (true, HashMap::default());
            for at in part.entries.places() {
                let is_counted = part.entries.words(at).iter().any(|word| *word > 0);
                if is_counted && !self.has_expired(&part.entries, at, now_ms) {
                    told.push(self.whole(CountsMerge::Least, &part.entries, at, now_ms));
                }
            }
        }
        told
    }

    /// Keeps nothing for other nodes any more: there is no way to them.
    pub fn stop_sharing(&self) {
        for part in &self.parts {
            if let Some(untold) = &mut lock(part).untold {
                (untold.is_kept, untold.keys) = (false, HashMap::default());
            }
        }
    }

    /// Forgets all keys, since from now on they have other hashes. Those with open exchanges stay until these are over, with zeros.
    pub fn forget_all(&self) {
        self.stop_sharing();
        for part in &self.parts {
            let mut part = lock(part);
            let places: Vec<u32> = part.entries.places().collect();
            for at in places {
                match part.entries.entry(at).in_use {
                    0 => part.entries.remove(at),
                    _ => part.entries.words_mut(at).fill(0),
                }
            }
        }
    }

    /// What was counted and asked for since the last time.
    pub fn take_untold(&self, now_ms: u64) -> Vec<ToldCounts> {
        let mut told = Vec::new();
        for part in &self.parts {
            let mut part = lock(part);
            let Some(keys) = part.untold.as_mut().map(|untold| std::mem::take(&mut untold.keys)) else {
                continue;
            };
            told.extend(keys.into_iter().filter_map(|(key, UntoldKey { merge, counted })| {
                let words = match (merge, part.entries.find(key)) {
                    (CountsMerge::Ask, _) => Vec::new(),
                    (CountsMerge::Add, _) => counted.into_vec(),
                    (_, Some(at)) => return Some(self.whole(merge, &part.entries, at, now_ms)),
                    (CountsMerge::Least, None) => return None,
                    (CountsMerge::Replace, None) => vec![0; self.words],
                };
                Some(ToldCounts { key, merge, idle_ms: 0, words })
            }));
        }
        told
    }

    /// Counts that other nodes do not learn of, since too many keys were used between two exchanges.
    pub fn untold_dropped(&self) -> u64 {
        self.parts.iter().filter_map(|part| Some(lock(part).untold.as_ref()?.dropped)).sum()
    }

    /// Takes over what all nodes have counted for a key, with what was counted here since they were told; `None`: the store does not know the key.
    pub fn learn(&self, key: u64, shared: Option<&SharedCounts>, now_ms: u64) {
        let mut part = self.part(key);
        let part = &mut *part;
        let (Some(untold), entries) = (&mut part.untold, &mut part.entries) else { return };
        if !untold.is_kept {
            return;
        }
        let of_key = untold.keys.get(&key);
        if of_key.is_some_and(|it| matches!(it.merge, CountsMerge::Least | CountsMerge::Replace)) {
            // The store does not have the last word on it.
            return;
        }
        let Some(shared) = shared else {
            let is_kept = |at: &u32| {
                !self.has_expired(entries, *at, now_ms) && entries.words(*at).iter().any(|word| *word > 0)
            };
            if entries.find(key).filter(is_kept).is_some() {
                untold.change(key, CountsMerge::Least, |_| ());
            }
            return;
        };
        if shared.words.len() != self.words || shared.idle_ms >= self.expire_ms {
            return;
        }
        let Some(at) = self.place_of(entries, key, shared, now_ms) else { return };
        let words = entries.words_mut(at);
        words.copy_from_slice(&shared.words);
        for (stored, start) in &self.stored {
            if stored.counter.is_rate() {
                words[*start] = now_ms.saturating_sub(words[*start]);
            }
            let since = of_key.and_then(|it| it.counted.get(counted_at(*stored, *start))).copied();
            if let Some(since) = since.filter(|since| *since > 0) {
                add(words, *stored, *start, since, now_ms);
            }
        }
        let used_ms = now_ms.saturating_sub(shared.idle_ms);
        if entries.entry(at).used_ms < used_ms {
            entries.touch(at, used_ms);
        }
    }

    /// The entry of a key that other nodes have counted.
    fn place_of(&self, entries: &mut Entries, key: u64, shared: &SharedCounts, now_ms: u64) -> Option<u32> {
        if entries.find(key).is_none() && shared.words.iter().all(|word| *word == 0) {
            return None;
        }
        // Its text is known once it is counted here.
        match entries.find_or_insert(key, now_ms.checked_sub(self.expire_ms), Box::default) {
            EntryPlace::Known(at) | EntryPlace::New(at) => Some(at),
            EntryPlace::Evicted(at) => {
                self.count_eviction();
                Some(at)
            }
            EntryPlace::Full => None,
        }
    }

    fn whole(&self, merge: CountsMerge, entries: &Entries, at: u32, now_ms: u64) -> ToldCounts {
        let (entry, mut words) = (entries.entry(at), entries.words(at).to_vec());
        for (_, start) in self.stored.iter().filter(|(stored, _)| stored.counter.is_rate()) {
            words[*start] = now_ms.saturating_sub(words[*start]);
        }
        let idle_ms = if entry.in_use > 0 { 0 } else { now_ms.saturating_sub(entry.used_ms) };
        ToldCounts { key: entry.key, merge, idle_ms, words }
    }
}
