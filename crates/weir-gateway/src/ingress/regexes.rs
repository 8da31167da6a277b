//! What the regular expressions of the Ingresses of each namespace take together, so that the author of many Ingresses has no more than a share.
//!
//! Ingresses are put together anew at each change, oldest first: from the first path on that finds no room, none of its namespace is compiled.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use weir_traffic::route::{BoundedRegexError, BoundedRegexes, HeldRegexes, RegexCache, RouteRegex};

use crate::store::ObjectKey;

/// Something with the regular expressions that it takes; or why it cannot be used.
type WithRegexes<T> = Result<(T, Vec<RouteRegex>), String>;

/// The regular expressions of all Ingresses while they are put together.
#[derive(Debug)]
pub(super) struct RegexShares<'a> {
    cache: &'a mut RegexCache,
    namespaces: HashMap<&'a str, RegexShare>,
    /// Ingresses that hold what they have no room for any more.
    displaced: BTreeSet<&'a ObjectKey>,
}

/// Those of a namespace.
#[derive(Debug, Default)]
struct RegexShare {
    held: HeldRegexes,
    is_full: bool,
}

/// Those of an Ingress beside the older ones of its namespace.
#[derive(Debug)]
pub(super) struct IngressRegexes<'s> {
    cache: &'s mut RegexCache,
    share: &'s mut RegexShare,
    is_displaced: bool,
}

impl<'a> RegexShares<'a> {
    pub(super) fn new(cache: &'a mut RegexCache) -> Self {
        Self { cache, namespaces: HashMap::new(), displaced: BTreeSet::new() }
    }

    /// Has something done with those of an Ingress.
    pub(super) fn with<T>(
        &mut self,
        ingress: &'a ObjectKey,
        work: impl FnOnce(&mut IngressRegexes<'_>) -> T,
    ) -> T {
        let share = self.namespaces.entry(&ingress.namespace).or_default();
        let mut own = IngressRegexes { cache: self.cache, share, is_displaced: false };
        let done = work(&mut own);
        if own.is_displaced {
            self.displaced.insert(ingress);
        }
        done
    }

    /// Ingresses to be compiled anew, so that they hold nothing.
    pub(super) fn displaced(self) -> Vec<ObjectKey> {
        self.displaced.into_iter().cloned().collect()
    }
}

impl IngressRegexes<'_> {
    /// Makes something once, unless there is no room for its regular expressions.
    pub(super) fn hold<T>(
        &mut self,
        place: &OnceLock<WithRegexes<T>>,
        make: impl FnOnce(&mut BoundedRegexes<'_>) -> Result<T, String>,
    ) -> Result<(), String> {
        match place.get() {
            Some(Err(why)) => Err(why.clone()),
            Some(Ok((_, used))) if self.share.held.has_room_for(used) => {
                self.share.held.add(used);
                Ok(())
            }
            Some(Ok(_)) => {
                (self.share.is_full, self.is_displaced) = (true, true);
                Err(BoundedRegexError::NoRoom.to_string())
            }
            None => {
                let held = (!self.share.is_full).then_some(&self.share.held);
                let mut regexes = BoundedRegexes::new(self.cache, held);
                let made = make(&mut regexes);
                if regexes.is_short() {
                    self.share.is_full = true;
                    return made.map(drop);
                }
                let made = made.map(|made| (made, regexes.used()));
                if let Ok((_, used)) = &made {
                    self.share.held.add(used);
                }
                place.get_or_init(|| made).as_ref().map(drop).map_err(String::clone)
            }
        }
    }
}

/// A text as a part of a regular expression that matches it alone.
pub(super) fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() && !matches!(c, '_' | '-' | '/' | '<' | '>') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}
