//! Looks for ties among the routes of a table without comparing each route with every other: routes that ask for different values of one
//! field, or for clients from different networks, cannot be tied.

use std::collections::HashMap;

use ipnet::IpNet;
use weir_sort::CompactSort as _;

use super::bucket::{RequestPart, exact_values};
use super::entry::{RouteEntry, RouteRules};
use super::overlap;
use super::patterns::Patterns;
use super::tie::Tie;

/// Ties that are reported at most: a rule that is written a thousand times ties half a million pairs.
pub(super) const TIES_MAX: usize = 100;

/// Routes of which every pair is compared.
const PAIRED_MAX: usize = if cfg!(test) { 2 } else { 16 };

/// The result of a search so far.
pub(super) struct TieSearch<'a> {
    rules: &'a RouteRules,
    pub(super) ties: Vec<Tie>,
}

impl<'a> TieSearch<'a> {
    pub(super) fn new(rules: &'a RouteRules) -> Self {
        TieSearch { rules, ties: Vec::new() }
    }

    fn is_over(&self) -> bool {
        self.ties.len() >= TIES_MAX
    }

    /// Among routes of one path, most specific first.
    pub(super) fn in_bucket(&mut self, entries: &[RouteEntry]) {
        for same in entries.chunk_by(|a, b| a.specificity == b.specificity) {
            if same.len() <= PAIRED_MAX {
                self.in_all_pairs(&same.iter().collect::<Vec<_>>());
                continue;
            }
            let mut by_source: HashMap<Option<IpNet>, Vec<&RouteEntry>> = HashMap::new();
            for entry in same {
                by_source.entry(entry.source).or_default().push(entry);
            }
            for entries in by_source.values() {
                self.by_values(entries, &mut Vec::new());
            }
        }
    }

    /// Among routes with patterns for paths.
    pub(super) fn in_patterns(&mut self, patterns: &Patterns) {
        let rules = self.rules;
        patterns.pairs(|a, b| {
            if let Some(tie) = a.entry.tie_with(&b.entry, rules)
                && overlap::in_paths(&a.pattern, &b.pattern)
            {
                self.ties.push(tie);
            }
            !self.is_over()
        });
    }

    /// Splits `entries` by the field or parameter of which they ask for most values, `known` left aside.
    fn by_values<'e>(&mut self, entries: &[&'e RouteEntry], known: &mut Vec<(RequestPart, &'e str)>)
    where
        'a: 'e,
    {
        if self.is_over() {
            return;
        }
        let key = if entries.len() <= PAIRED_MAX { None } else { self.most_distinct(entries, known) };
        let Some(key) = key else { return self.in_all_pairs(entries) };
        let rules = self.rules;
        let mut groups: HashMap<&[u8], Vec<&RouteEntry>> = HashMap::new();
        let mut rest = Vec::new();
        for entry in entries {
            let mut values = exact_values(rules, entry);
            match values.find(|(part, name, _)| (*part, *name) == key) {
                Some((.., value)) => groups.entry(value).or_default().push(entry),
                None => rest.push(*entry),
            }
        }
        known.push(key);
        for group in groups.values() {
            self.by_values(group, known);
            for one in &rest {
                self.with_each(one, group);
            }
        }
        self.by_values(&rest, known);
        known.pop();
    }

    /// The field or parameter of which the entries ask for most values, at least two.
    fn most_distinct<'e>(
        &self,
        entries: &[&'e RouteEntry],
        known: &[(RequestPart, &'e str)],
    ) -> Option<(RequestPart, &'e str)>
    where
        'a: 'e,
    {
        let mut asked: Vec<(RequestPart, &str, &[u8])> =
            entries.iter().flat_map(|entry| exact_values(self.rules, entry)).collect();
        asked.sort_compact();
        asked.dedup();
        let by_key = asked.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
        let keys = by_key.map(|values| ((values[0].0, values[0].1), values.len()));
        let open = keys.filter(|(key, count)| *count > 1 && !known.contains(key));
        open.max_by_key(|(_, count)| *count).map(|(key, _)| key)
    }

    fn in_all_pairs(&mut self, entries: &[&RouteEntry]) {
        for (at, one) in entries.iter().enumerate() {
            self.with_each(one, &entries[at + 1..]);
        }
    }

    fn with_each(&mut self, one: &RouteEntry, others: &[&RouteEntry]) {
        for other in others {
            if self.is_over() {
                return;
            }
            self.ties.extend(one.tie_with(other, self.rules));
        }
    }
}
