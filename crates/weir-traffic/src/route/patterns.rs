//! The regexes of one host's routes, most specific first, arranged so that a request meets few of them.
//!
//! Patterns that begin with a literal (`^/users/`) are listed under it, and only the literals that a path begins with are tried: found by binary
//! search and then upwards from literal to shorter literal, as prefixes are. Of many under one literal, one automaton for a batch says
//! whether any of them matches, before each is tried.

use regex_automata::dfa::Automaton;
use regex_automata::{Anchored, Input};
use weir_sort::CompactSort as _;

use super::entry::RouteEntry;
use super::literal::LiteralEnds;
use super::pattern::{Dense, RouteRegex, build_any};

/// Patterns that share one automaton.
const BATCH_LEN: usize = if cfg!(test) { 2 } else { 32 };

/// Patterns under one literal that are tried one by one without an automaton before them.
const UNBATCHED_MAX: usize = if cfg!(test) { 1 } else { 4 };

#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// Most specific first, once arranged.
    list: Vec<Ranked>,
    /// Sorted by their literals.
    nodes: Vec<LiteralNode>,
    /// Whether a prefix of the host goes before them.
    pub(super) yield_to_prefixes: bool,
}

#[derive(Debug)]
pub(super) struct Ranked {
    pub(super) pattern: RouteRegex,
    pub(super) ends: LiteralEnds,
    pub(super) entry: RouteEntry,
}

/// The patterns that begin with one literal.
#[derive(Debug)]
struct LiteralNode {
    literal: Box<[u8]>,
    /// The longest other literal that this one begins with.
    parent: Option<usize>,
    /// Places in `Patterns::list`, ascending.
    members: Vec<usize>,
    /// Of each batch of members, the automaton that finds any of them; built when first needed, `None` where it would be too large.
    filters: Vec<Option<Dense>>,
}

impl Patterns {
    pub(super) fn push(&mut self, pattern: &RouteRegex, entry: RouteEntry) {
        self.list.push(Ranked { pattern: pattern.clone(), ends: LiteralEnds::new(pattern.as_str()), entry });
    }

    pub(super) fn arrange(&mut self) {
        self.list.sort_compact_by_key(|ranked| std::cmp::Reverse(ranked.entry.specificity));
        let mut by_literal: Vec<usize> = (0..self.list.len()).collect();
        by_literal.sort_compact_by(|a, b| self.list[*a].ends.prefix.cmp(&self.list[*b].ends.prefix));
        self.nodes.clear();
        for member in by_literal {
            let literal = &self.list[member].ends.prefix;
            match self.nodes.last_mut() {
                Some(node) if node.literal == *literal => node.members.push(member),
                _ => {
                    let mut parent = self.nodes.len().checked_sub(1);
                    while let Some(above) = parent
                        && !literal.starts_with(&self.nodes[above].literal)
                    {
                        parent = self.nodes[above].parent;
                    }
                    let (literal, members) = (literal.clone(), vec![member]);
                    self.nodes.push(LiteralNode { literal, parent, members, filters: Vec::new() });
                }
            }
        }
    }

    /// Builds the automata of the batches: worth it for a table that requests are looked up in.
    pub(super) fn build_filters(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.members.len() > UNBATCHED_MAX) {
            let texts = |batch: &[usize]| -> Vec<&str> {
                batch.iter().map(|member| self.list[*member].pattern.as_str()).collect()
            };
            node.filters = node.members.chunks(BATCH_LEN).map(|batch| build_any(&texts(batch))).collect();
        }
    }

    /// The most specific pattern that is found in `path` and whose entry is accepted.
    #[inline]
    pub(super) fn lookup(&self, path: &[u8], accepts: impl Fn(&RouteEntry) -> bool) -> Option<&RouteEntry> {
        if self.list.is_empty() {
            return None;
        }
        let mut best: Option<usize> = None;
        // The last literal that does not sort behind the path: every literal that the path begins with is this one or among its parents.
        let mut next = self.nodes.partition_point(|node| &*node.literal <= path).checked_sub(1);
        while let Some(at) = next {
            let node = &self.nodes[at];
            if path.starts_with(&node.literal) {
                best = node.first(&self.list, path, best, &accepts).or(best);
            }
            next = node.parent;
        }
        best.map(|at| &self.list[at].entry)
    }

    /// Equally specific patterns that could be found in one path according to their literals, in pairs, until `visit` says that it is
    /// enough.
    pub(super) fn pairs(&self, mut visit: impl FnMut(&Ranked, &Ranked) -> bool) {
        let rank = |member: usize| self.list[member].entry.specificity;
        for node in &self.nodes {
            for (position, &member) in node.members.iter().enumerate() {
                let mut above = node.parent;
                let mut others = &node.members[position + 1..];
                loop {
                    // Sorted by rank, so those of the same are neighbours.
                    let from = others.partition_point(|other| rank(*other) > rank(member));
                    let same = others[from..].iter().take_while(|other| rank(**other) == rank(member));
                    for &other in same {
                        let (first, second) = (&self.list[member.min(other)], &self.list[member.max(other)]);
                        if first.ends.meet(&second.ends) && !visit(first, second) {
                            return;
                        }
                    }
                    let Some(at) = above else { break };
                    others = &self.nodes[at].members;
                    above = self.nodes[at].parent;
                }
            }
        }
    }
}

impl LiteralNode {
    /// The first member that matches and is before `best`.
    fn first(
        &self,
        list: &[Ranked],
        path: &[u8],
        best: Option<usize>,
        accepts: &impl Fn(&RouteEntry) -> bool,
    ) -> Option<usize> {
        for (batch, members) in self.members.chunks(BATCH_LEN).enumerate() {
            if best.is_some_and(|best| best < members[0]) {
                return None;
            }
            if let Some(Some(filter)) = self.filters.get(batch)
                && !finds_any(filter, path)
            {
                continue;
            }
            let mut earlier =
                members.iter().copied().take_while(|member| best.is_none_or(|best| *member < best));
            let matching = |member: &usize| {
                let ranked = &list[*member];
                accepts(&ranked.entry) && ranked.pattern.is_match(path)
            };
            if let Some(found) = earlier.find(matching) {
                return Some(found);
            }
        }
        None
    }
}

/// Whether one of the patterns of the automaton is found; also where it cannot tell.
fn finds_any(filter: &Dense, path: &[u8]) -> bool {
    let input = Input::new(path).anchored(Anchored::No).earliest(true);
    filter.try_search_fwd(&input).map_or(true, |found| found.is_some())
}
