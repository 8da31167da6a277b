//! Routes of one host and one path, most specific first.
//!
//! Many routes are indexed by the value that they require of a field or a parameter,
//! so that ten thousand tenants cost a request as little as ten.

use weir_sort::CompactSort as _;

use super::entry::{RouteEntry, RouteRules};
use super::field::ValueMatch;
use super::needed_texts::{NeededText, NeededTexts};
use super::text_map::TextMap;
use super::{RouteId, RouteRequest, decoded_parameter, query_values};

/// Routes that are tried one after the other without an index.
const UNINDEXED_MAX: usize = if cfg!(test) { 1 } else { 8 };

/// Routes that have to ask for one value of a field, or of a parameter, for it to be worth an index.
const ASKING_MIN: usize = if cfg!(test) { 1 } else { 4 };

/// Fields and parameters with an index: each is looked up in every request that reaches this bucket.
const KEYS_MAX: usize = if cfg!(test) { 2 } else { 8 };

#[derive(Debug, Default)]
pub(super) struct RouteBucket {
    pub(super) entries: Vec<RouteEntry>,
    index: Option<Box<Index>>,
}

/// Places of entries by the values that they ask for; each entry is in one place.
#[derive(Debug, Default)]
struct Index {
    by_value: Vec<ByValue>,
    /// Routes by what their conditions need.
    by_condition: Option<NeededTexts>,
    /// Routes that require no value of an indexed field or parameter, ascending.
    rest: Vec<usize>,
}

#[derive(Debug)]
struct ByValue {
    part: RequestPart,
    name: Box<str>,
    /// Ascending.
    values: TextMap<Vec<usize>>,
}

/// Which part of a request has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RequestPart {
    Header,
    Query,
}

/// The values that a route asks for: part, name and the one value that it may be.
pub(super) fn exact_values<'a>(
    rules: &'a RouteRules,
    entry: &RouteEntry,
) -> impl Iterator<Item = (RequestPart, &'a str, &'a [u8])> + use<'a> {
    let rules = rules.of(entry);
    let headers = rules.headers.iter().filter_map(|rule| match rule.value() {
        ValueMatch::Exact(value) => Some((RequestPart::Header, rule.name(), value.as_bytes())),
        _ => None,
    });
    let query = rules.query.iter().filter_map(|rule| match rule.value() {
        ValueMatch::Exact(_) => Some((RequestPart::Query, rule.name(), rule.decoded())),
        _ => None,
    });
    headers.chain(query)
}

impl RouteBucket {
    pub(super) fn push(&mut self, entry: RouteEntry) {
        self.entries.push(entry);
    }

    pub(super) fn arrange(&mut self, rules: &RouteRules) {
        self.entries.sort_compact_by_key(|entry| std::cmp::Reverse(entry.specificity));
        self.entries.shrink_to_fit();
        if self.entries.len() > UNINDEXED_MAX {
            self.index = Index::new(&self.entries, rules).map(Box::new);
        }
    }

    /// Files entries under what their conditions need.
    pub(super) fn index_conditions<'a>(&mut self, needs: &impl Fn(RouteId) -> Vec<NeededText<'a>>) {
        let entries = &self.entries;
        let rest = match &self.index {
            None => (0..entries.len()).collect(),
            Some(index) => index.rest.clone(),
        };
        let conditioned = rest.into_iter().map(|place| (place, entries[place].route));
        if let Some((by_condition, rest)) = NeededTexts::new(conditioned, needs) {
            let index = self.index.get_or_insert_default();
            (index.by_condition, index.rest) = (Some(by_condition), rest);
        }
    }

    /// The most specific entry that `request` matches.
    #[inline(always)]
    pub(super) fn lookup(&self, rules: &RouteRules, request: &impl RouteRequest) -> Option<&RouteEntry> {
        match &self.index {
            None => self.entries.iter().find(|entry| entry.matches(rules, request)),
            Some(index) => index.lookup(&self.entries, rules, request),
        }
    }
}

impl Index {
    /// `None` when it would not help.
    fn new(entries: &[RouteEntry], rules: &RouteRules) -> Option<Index> {
        let mut counts: Vec<((RequestPart, &str), usize)> = Vec::new();
        let mut asked: Vec<(RequestPart, &str)> = entries
            .iter()
            .flat_map(|entry| exact_values(rules, entry).map(|(part, name, _)| (part, name)))
            .collect();
        asked.sort_compact();
        for key in asked {
            match counts.last_mut() {
                Some((known, count)) if *known == key => *count += 1,
                _ => counts.push((key, 1)),
            }
        }
        counts.sort_compact_by_key(|(_, count)| std::cmp::Reverse(*count));
        let keys: Vec<(RequestPart, &str)> = counts
            .into_iter()
            .filter(|(_, count)| *count >= ASKING_MIN)
            .map(|(key, _)| key)
            .take(KEYS_MAX)
            .collect();
        if keys.is_empty() {
            return None;
        }
        let by_value = |(part, name): &(RequestPart, &str)| ByValue {
            part: *part,
            name: (*name).into(),
            values: TextMap::default(),
        };
        let mut index = Index { by_value: keys.iter().map(by_value).collect(), ..Index::default() };
        for (place, entry) in entries.iter().enumerate() {
            // The key that most ask for comes first.
            let found = keys.iter().enumerate().find_map(|(at, key)| {
                let mut values = exact_values(rules, entry);
                values.find(|(part, name, _)| (*part, *name) == *key).map(|(.., value)| (at, value))
            });
            match found {
                Some((at, value)) => index.by_value[at].values.entry(value).push(place),
                None => index.rest.push(place),
            }
        }
        Some(index)
    }

    #[inline(never)]
    fn lookup<'a>(
        &self,
        entries: &'a [RouteEntry],
        rules: &RouteRules,
        request: &impl RouteRequest,
    ) -> Option<&'a RouteEntry> {
        let mut best: Option<usize> = None;
        let mut try_all = |places: &[usize]| {
            let mut earlier =
                places.iter().copied().take_while(|place| best.is_none_or(|best| *place < best));
            best = earlier.find(|place| entries[*place].matches(rules, request)).or(best);
        };
        for ByValue { part, name, values } in &self.by_value {
            match part {
                RequestPart::Header => {
                    let lines = request.header_lines(name).filter_map(|value| values.get(value));
                    lines.for_each(|places| try_all(places));
                }
                RequestPart::Query => {
                    let sent = query_values(request.query(), name.as_bytes());
                    let found = sent.filter_map(|value| values.get(&decoded_parameter(value)));
                    found.for_each(|places| try_all(places));
                }
            }
        }
        try_all(&self.rest);
        if let Some(by_condition) = &self.by_condition {
            by_condition.candidates(request, try_all);
        }
        best.map(|place| &entries[place])
    }
}
