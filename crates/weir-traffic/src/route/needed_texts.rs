//! Routes by texts that their conditions need: of a thousand routes with `header["x-tenant"] == "t17" && ...`, a request tries those that need its own
//! tenant.
//!
//! Which route wins stays as it is: what is found here is tried as without an index, and what a condition needs beside the text is asked then. Where a
//! request cannot say which texts it has, or has so many that they lead to more routes than there are, all are tried.

use std::collections::HashMap;

use weir_sort::CompactSort as _;

use super::text_map::TextMap;
use super::{RouteId, RouteRequest};

/// Routes whose conditions need a text of one value, for it to be worth an index.
const NEEDING_MIN: usize = if cfg!(test) { 2 } else { 16 };

/// Values with an index: each is looked up in every request that gets here.
const VALUES_MAX: usize = if cfg!(test) { 2 } else { 8 };

/// What a value has to be for the condition of a route to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededText<'a> {
    /// Which comparison of the condition asks for it: [`RouteRequest::any_condition_text`].
    pub term: usize,
    /// The name of the value. All conditions that name it see the same texts in one request.
    pub value: String,
    /// What one of its texts has to be.
    pub test: NeededTest<'a>,
}

/// What a text has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeededTest<'a> {
    /// One of these.
    OneOf(Vec<&'a [u8]>),
    /// It begins with this, which is not empty.
    Prefix(&'a [u8]),
}

/// Entries of a list of routes, by the texts that their conditions need; each is in one group.
#[derive(Debug)]
pub(super) struct NeededTexts {
    groups: Vec<ValueGroup>,
}

/// Entries that need a text of one value.
#[derive(Debug)]
struct ValueGroup {
    /// A route and a comparison of it that name the value.
    asked: (RouteId, usize),
    /// The places of all of them, ascending, and so are the others.
    all: Vec<usize>,
    equal: TextMap<Vec<usize>>,
    /// Sorted.
    prefixes: Vec<NeededPrefix>,
}

/// The beginning of a text.
#[derive(Debug)]
struct NeededPrefix {
    text: Box<[u8]>,
    /// The longest other one that this one begins with.
    parent: Option<usize>,
    places: Vec<usize>,
}

impl NeededTexts {
    /// Files the entries at `places`, each with its route, and returns those that are left, ascending; `None` when it would not help.
    pub(super) fn new<'a>(
        places: impl Iterator<Item = (usize, RouteId)>,
        needs: &impl Fn(RouteId) -> Vec<NeededText<'a>>,
    ) -> Option<(NeededTexts, Vec<usize>)> {
        let entries: Vec<_> = places.map(|(place, route)| (place, route, needs(route))).collect();
        let uses = TextUses::new(&entries);
        let mut groups: Vec<ValueGroup> = Vec::new();
        let (mut numbers, mut rest) = (HashMap::new(), Vec::new());
        for (place, route, needed) in &entries {
            let Some(NeededText { term, value, test }) = uses.rarest(needed) else {
                rest.push(*place);
                continue;
            };
            let number = *numbers.entry(value).or_insert(groups.len());
            if number == groups.len() {
                groups.push(ValueGroup::new((*route, *term)));
            }
            groups[number].push(*place, test);
        }
        groups.iter_mut().for_each(ValueGroup::arrange);
        (!groups.is_empty()).then_some((NeededTexts { groups }, rest))
    }

    /// Calls `visit` with places, ascending in each call: among them are those of all entries here whose condition holds.
    pub(super) fn candidates(&self, request: &impl RouteRequest, mut visit: impl FnMut(&[usize])) {
        self.groups.iter().for_each(|group| group.candidates(request, &mut visit));
    }
}

/// How often texts and values are needed.
struct TextUses<'e> {
    texts: HashMap<(&'e str, &'e [u8]), usize>,
    /// The names of the values that are worth an index.
    names: Vec<&'e str>,
}

impl<'e> TextUses<'e> {
    fn new(entries: &'e [(usize, RouteId, Vec<NeededText<'_>>)]) -> Self {
        let (mut texts, mut names) = (HashMap::new(), HashMap::new());
        for needed in entries.iter().flat_map(|(_, _, needed)| needed) {
            *texts.entry((&*needed.value, first_text(needed))).or_insert(0) += 1;
            *names.entry(&*needed.value).or_insert(0_usize) += 1;
        }
        let mut names: Vec<(&str, usize)> =
            names.into_iter().filter(|(_, count)| *count >= NEEDING_MIN).collect();
        names.sort_compact_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        Self { texts, names: names.into_iter().map(|(name, _)| name).take(VALUES_MAX).collect() }
    }

    /// What tells a route from most others; `None` where that is not worth an index.
    fn rarest<'n, 't>(&self, needed: &'n [NeededText<'t>]) -> Option<&'n NeededText<'t>> {
        let uses = |one: &NeededText<'_>| self.texts.get(&(&*one.value, first_text(one))).copied();
        let known = self.names.iter().flat_map(|name| needed.iter().filter(move |one| one.value == **name));
        known.min_by_key(|one| uses(one))
    }
}

/// What is counted of a needed text.
fn first_text<'t>(needed: &'t NeededText<'_>) -> &'t [u8] {
    match &needed.test {
        NeededTest::OneOf(texts) => texts.first().copied().unwrap_or_default(),
        NeededTest::Prefix(text) => text,
    }
}

impl ValueGroup {
    fn new(asked: (RouteId, usize)) -> Self {
        Self { asked, all: Vec::new(), equal: TextMap::default(), prefixes: Vec::new() }
    }

    fn push(&mut self, place: usize, test: &NeededTest<'_>) {
        self.all.push(place);
        match test {
            NeededTest::OneOf(texts) => texts.iter().for_each(|text| self.equal.entry(text).push(place)),
            NeededTest::Prefix(text) => {
                self.prefixes.push(NeededPrefix { text: (*text).into(), parent: None, places: vec![place] });
            }
        }
    }

    /// Sorts the beginnings, and links each to the next shorter one.
    fn arrange(&mut self) {
        let mut unsorted = std::mem::take(&mut self.prefixes);
        unsorted.sort_compact_by(|one, other| one.text.cmp(&other.text));
        for NeededPrefix { text, places, .. } in unsorted {
            if let Some(last) = self.prefixes.last_mut().filter(|last| last.text == text) {
                last.places.extend(places);
                continue;
            }
            let mut parent = self.prefixes.len().checked_sub(1);
            while let Some(above) = parent
                && !text.starts_with(&self.prefixes[above].text)
            {
                parent = self.prefixes[above].parent;
            }
            self.prefixes.push(NeededPrefix { text, parent, places });
        }
    }

    fn candidates(&self, request: &impl RouteRequest, visit: &mut impl FnMut(&[usize])) {
        let (route, term) = self.asked;
        // A client may send a text in many lines: then the same routes would be tried again for each.
        let mut left = self.all.len();
        let mut is_beyond = |places: &[usize]| match left.checked_sub(places.len()) {
            Some(fewer) => {
                left = fewer;
                visit(places);
                false
            }
            None => true,
        };
        let is_stopped = request.any_condition_text(route, term, |text| {
            self.equal.get(text).is_some_and(|places| is_beyond(places))
                || self.prefixes_of(text).any(&mut is_beyond)
        });
        if is_stopped != Some(false) {
            visit(&self.all);
        }
    }

    /// The places of each beginning of a text.
    fn prefixes_of<'p>(&'p self, text: &[u8]) -> impl Iterator<Item = &'p [usize]> {
        // The last one that does not sort behind the text: every one that it begins with is this one or among its parents.
        let mut next = self.prefixes.partition_point(|prefix| &*prefix.text <= text).checked_sub(1);
        std::iter::from_fn(move || {
            loop {
                let prefix = &self.prefixes[next?];
                next = prefix.parent;
                if text.starts_with(&prefix.text) {
                    return Some(&prefix.places[..]);
                }
            }
        })
    }
}
