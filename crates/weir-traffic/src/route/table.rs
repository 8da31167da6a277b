//! The table of a listener's routes, arranged so that a lookup meets the most specific routes first and stops
//! at the first match.
//!
//! Hosts and exact paths are found by hash; prefixes by binary search and then upwards from prefix to shorter
//! prefix; regexes by their leading literal; conditions of many routes on a field or a parameter by its value. A lookup
//! allocates nothing and its time does not depend on what a client sends, beyond the length of host and path.

use std::sync::Arc;

use weir_sort::CompactSort as _;

use super::bucket::RouteBucket;
use super::entry::{RouteEntry, RouteRules};
use super::host::{self, HostPattern};
use super::needed_texts::{NeededText, NeededTexts};
use super::path::{self, PathMatch};
use super::patterns::Patterns;
use super::text_map::TextMap;
use super::tie::Tie;
use super::ties::TieSearch;
use super::{RouteId, RouteMatch, RouteRequest};

/// The routes of a listener.
#[derive(Debug)]
pub struct RouteTable {
    rules: RouteRules,
    exact_hosts: TextMap<HostPaths>,
    /// Wildcards, by the part after `*.`.
    below_hosts: TextMap<HostPaths>,
    /// The lengths of the keys of `below_hosts`, longest first.
    below_lens: Vec<usize>,
    any_host: HostPaths,
    /// The entries in the order of their routes, where that decides; then nothing else has any.
    in_order: Option<Box<InOrder>>,
}

/// The entries in the order of their routes.
#[derive(Debug)]
struct InOrder {
    entries: Box<[(HostPattern, RouteEntry)]>,
    /// Entries by what their conditions need, and the places of those that are not in it.
    by_condition: Option<(NeededTexts, Vec<usize>)>,
}

/// The routes of one host, by path. Of ten thousand hosts most have a prefix and nothing else: what few have is behind a pointer.
#[derive(Debug, Default)]
struct HostPaths {
    exact: Option<Box<TextMap<RouteBucket>>>,
    patterns: Option<Box<Patterns>>,
    /// Prefixes to come, until they are arranged.
    unsorted: Option<Box<TextMap<RouteBucket>>>,
    /// The same of those that need not end where a segment does.
    unsorted_beginnings: Option<Box<TextMap<RouteBucket>>>,
    prefixes: Vec<Prefix>,
    any: RouteBucket,
}

/// A prefix among its sorted peers.
#[derive(Debug)]
struct Prefix {
    text: Box<[u8]>,
    /// The longest other prefix that this one begins with.
    parent: Option<u32>,
    /// Whether what follows is of no matter: the text ends with a slash, or need not end where a segment does.
    ends_anywhere: bool,
    bucket: RouteBucket,
}

impl RouteTable {
    /// Arranges `routes`, each under the name the caller gives it. Entries with one name are alternatives of
    /// one route.
    ///
    /// # Errors
    /// Pairs of routes that are equally specific and that one request could both match: all of them, or the first hundred that are found.
    pub fn new<M: Into<Arc<RouteMatch>>>(routes: Vec<(M, RouteId)>) -> Result<RouteTable, Vec<Tie>> {
        let mut table = RouteTable {
            rules: RouteRules(routes.into_iter().map(|(rules, route)| (rules.into(), route)).collect()),
            exact_hosts: TextMap::ignoring_case(),
            below_hosts: TextMap::ignoring_case(),
            below_lens: Vec::new(),
            any_host: HostPaths::default(),
            in_order: None,
        };
        for rules in 0..table.rules.0.len() {
            table.insert(rules);
        }
        table.below_lens = table.below_hosts.keys().map(|name| name.len()).collect();
        table.below_lens.sort_unstable_by(|a, b| b.cmp(a));
        table.below_lens.dedup();

        let RouteTable { rules, exact_hosts, below_hosts, any_host, .. } = &mut table;
        let rules = &*rules;
        let mut search = TieSearch::new(rules);
        for paths in exact_hosts.values_mut().chain(below_hosts.values_mut()).chain([any_host]) {
            paths.arrange(rules);
            paths.find_ties(&mut search);
        }
        let mut ties = search.ties;
        ties.sort_compact_by_key(|tie| (tie.first, tie.second));
        ties.dedup();
        if ties.is_empty() { Ok(table) } else { Err(ties) }
    }

    /// The same in the order of `routes`, in which the first that matches takes a request: no two are tied.
    pub fn in_order<M: Into<Arc<RouteMatch>>>(routes: Vec<(M, RouteId)>) -> RouteTable {
        let routes = routes.into_iter().map(|(rules, route)| (rules.into(), route)).collect();
        let mut table = RouteTable {
            rules: RouteRules(routes),
            exact_hosts: TextMap::ignoring_case(),
            below_hosts: TextMap::ignoring_case(),
            below_lens: Vec::new(),
            any_host: HostPaths::default(),
            in_order: None,
        };
        let mut entries = Vec::new();
        for (rules, (route, name)) in table.rules.0.iter().enumerate() {
            let any = [HostPattern::ANY];
            for host in if route.hosts.is_empty() { &any } else { &route.hosts[..] } {
                let sources = route.sources.iter().map(|net| Some(net.trunc()));
                let sources = sources.chain(route.sources.is_empty().then_some(None));
                let entry = |source| (host.clone(), RouteEntry::new(*name, rules, route, source));
                entries.extend(sources.map(entry));
            }
        }
        table.in_order = Some(Box::new(InOrder { entries: entries.into(), by_condition: None }));
        table
    }

    /// Whether the order of the routes decides.
    pub const fn is_in_order(&self) -> bool {
        self.in_order.is_some()
    }

    /// The same with indexes that make many regexes quicker to look up and take time to build: for a table that requests are looked up in.
    #[must_use]
    pub fn with_filters(mut self) -> RouteTable {
        let hosts = self.exact_hosts.values_mut().chain(self.below_hosts.values_mut());
        let patterns = hosts.chain([&mut self.any_host]).filter_map(|paths| paths.patterns.as_mut());
        patterns.for_each(|patterns| patterns.build_filters());
        self
    }

    /// The same with an index of routes by what their conditions need, each according to `needs`: for a table with conditions that requests are looked up in.
    #[must_use]
    pub fn with_conditions<'a>(mut self, needs: impl Fn(RouteId) -> Vec<NeededText<'a>>) -> RouteTable {
        if self.rules.0.iter().all(|(rules, _)| rules.condition.is_none()) {
            return self;
        }
        let hosts = self.exact_hosts.values_mut().chain(self.below_hosts.values_mut());
        let buckets = hosts.chain([&mut self.any_host]).flat_map(HostPaths::buckets_mut);
        buckets.for_each(|bucket| bucket.index_conditions(&needs));
        if let Some(in_order) = &mut self.in_order {
            let places = in_order.entries.iter().map(|(_, entry)| entry.route).enumerate();
            in_order.by_condition = NeededTexts::new(places, &needs);
        }
        self
    }

    /// The route that `request` takes; `None` when no route matches.
    #[inline]
    pub fn lookup(&self, request: &impl RouteRequest) -> Option<RouteId> {
        match &self.in_order {
            None => self.lookup_most_specific(request),
            Some(in_order) => self.lookup_first(in_order, request),
        }
    }

    /// The first in the order of the routes.
    fn lookup_first(&self, in_order: &InOrder, request: &impl RouteRequest) -> Option<RouteId> {
        let path = request.path();
        let matches = |(host, entry): &(HostPattern, RouteEntry)| {
            self.rules.of(entry).path.matches(path)
                && host.matches(request.host())
                && entry.matches(&self.rules, request)
        };
        let entries = &in_order.entries;
        let Some((by_condition, rest)) = &in_order.by_condition else {
            return entries.iter().find(|entry| matches(entry)).map(|(_, entry)| entry.route);
        };
        let mut first = rest.iter().copied().find(|place| matches(&entries[*place]));
        by_condition.candidates(request, |places| {
            let mut earlier = places.iter().copied().take_while(|at| first.is_none_or(|first| *at < first));
            first = earlier.find(|place| matches(&entries[*place])).or(first);
        });
        first.map(|place| entries[place].1.route)
    }

    /// The same for a table that is not in the order of its routes, as most are.
    #[inline]
    pub fn lookup_most_specific(&self, request: &impl RouteRequest) -> Option<RouteId> {
        if !(self.exact_hosts.is_empty() && self.below_hosts.is_empty()) {
            let found = self.lookup_by_host(request);
            if found.is_some() {
                return found;
            }
        }
        self.any_host.lookup(&self.rules, request)
    }

    /// The routes as they were given.
    pub fn routes(&self) -> &[(Arc<RouteMatch>, RouteId)] {
        &self.rules.0
    }

    fn lookup_by_host(&self, request: &impl RouteRequest) -> Option<RouteId> {
        let host = request.host();
        let host = host.strip_suffix(b".").unwrap_or(host);
        if let Some(paths) = self.exact_hosts.get(host)
            && let Some(found) = paths.lookup(&self.rules, request)
        {
            return Some(found);
        }
        self.below_lens.iter().find_map(|&len| {
            let dot = host.len().checked_sub(len + 1)?;
            if dot == 0 || host[dot] != b'.' {
                return None;
            }
            self.below_hosts.get(&host[dot + 1..])?.lookup(&self.rules, request)
        })
    }

    fn insert(&mut self, rules: usize) {
        let (route, name) = &self.rules.0[rules];
        let any = [HostPattern::ANY];
        let hosts = if route.hosts.is_empty() { &any } else { &route.hosts[..] };
        for host in hosts {
            let paths = match host.kind() {
                host::HostKind::Any => &mut self.any_host,
                host::HostKind::Exact(name) => self.exact_hosts.entry(name.as_bytes()),
                host::HostKind::Below(name) => self.below_hosts.entry(name.as_bytes()),
            };
            let sources = route.sources.iter().map(|net| Some(net.trunc()));
            for source in sources.chain(route.sources.is_empty().then_some(None)) {
                paths.insert(&route.path, RouteEntry::new(*name, rules, route, source));
            }
        }
    }
}

impl Prefix {
    fn new(text: Box<[u8]>, bucket: RouteBucket, is_beginning: bool) -> Prefix {
        let ends_anywhere = is_beginning || text.ends_with(b"/");
        Prefix { text, parent: None, ends_anywhere, bucket }
    }

    /// Whether the prefix is one of this path.
    fn is_of(&self, path: &[u8]) -> bool {
        match path.strip_prefix(&*self.text) {
            None => false,
            Some(rest) => self.ends_anywhere || rest.first().is_none_or(|next| *next == b'/'),
        }
    }

    fn parent(&self) -> Option<usize> {
        self.parent.map(|parent| parent as usize)
    }
}

impl HostPaths {
    fn insert(&mut self, path: &PathMatch, entry: RouteEntry) {
        match path.kind() {
            path::PathKind::Any => self.any.push(entry),
            path::PathKind::Exact(text) => {
                self.exact.get_or_insert_default().entry(text.as_bytes()).push(entry);
            }
            path::PathKind::Regex(pattern) => self.patterns.get_or_insert_default().push(pattern, entry),
            path::PathKind::Prefix(text) => {
                self.unsorted.get_or_insert_default().entry(text.as_bytes()).push(entry);
            }
            path::PathKind::Beginning(text) => {
                self.unsorted_beginnings.get_or_insert_default().entry(text.as_bytes()).push(entry);
            }
        }
    }

    /// Sorts the entries and links each prefix to the next shorter one, once all routes are in.
    fn arrange(&mut self, rules: &RouteRules) {
        self.patterns.iter_mut().for_each(|patterns| patterns.arrange());
        let unsorted = self.unsorted.take().unwrap_or_default();
        let beginnings = self.unsorted_beginnings.take().unwrap_or_default();
        // Most hosts have one: no room for more.
        self.prefixes = Vec::with_capacity(unsorted.len() + beginnings.len());
        // The sort is stable: of one text, the beginning comes first, and is the parent of the prefix.
        self.prefixes.extend(beginnings.into_iter().map(|(text, bucket)| Prefix::new(text, bucket, true)));
        self.prefixes.extend(unsorted.into_iter().map(|(text, bucket)| Prefix::new(text, bucket, false)));
        self.prefixes.sort_compact_by(|a, b| a.text.cmp(&b.text));
        for at in 0..self.prefixes.len() {
            let mut parent = at.checked_sub(1);
            while let Some(above) = parent
                && !self.prefixes[at].text.starts_with(&self.prefixes[above].text)
            {
                parent = self.prefixes[above].parent();
            }
            self.prefixes[at].parent = parent.and_then(|parent| u32::try_from(parent).ok());
        }
        if let Some(patterns) = &mut self.patterns {
            let mut entries = self.prefixes.iter().flat_map(|prefix| &prefix.bucket.entries);
            patterns.yield_to_prefixes = entries.any(|entry| entry.before_regex);
        }
        for bucket in self.buckets_mut() {
            bucket.arrange(rules);
        }
    }

    fn buckets_mut(&mut self) -> impl Iterator<Item = &mut RouteBucket> {
        let prefixes = self.prefixes.iter_mut().map(|prefix| &mut prefix.bucket);
        let exact = self.exact.iter_mut().flat_map(|exact| exact.values_mut());
        exact.chain(prefixes).chain([&mut self.any])
    }

    fn find_ties(&mut self, search: &mut TieSearch<'_>) {
        for bucket in self.buckets_mut() {
            search.in_bucket(&bucket.entries);
        }
        self.patterns.iter().for_each(|patterns| search.in_patterns(patterns));
    }

    #[inline]
    fn lookup(&self, rules: &RouteRules, request: &impl RouteRequest) -> Option<RouteId> {
        let path = request.path();
        let in_bucket = |bucket: &RouteBucket| bucket.lookup(rules, request).map(|entry| entry.route);
        if let Some(exact) = &self.exact
            && let Some(route) = exact.get(path).and_then(in_bucket)
        {
            return Some(route);
        }
        if let Some(patterns) = &self.patterns {
            if patterns.yield_to_prefixes
                && let Some(entry) = self.lookup_prefix(rules, request).filter(|entry| entry.before_regex)
            {
                return Some(entry.route);
            }
            if let Some(entry) = patterns.lookup(path, |entry| entry.matches(rules, request)) {
                return Some(entry.route);
            }
        }
        if let Some(entry) = self.lookup_prefix(rules, request) {
            return Some(entry.route);
        }
        in_bucket(&self.any)
    }

    /// The entry of the longest prefix of which one matches.
    #[inline(always)]
    fn lookup_prefix(&self, rules: &RouteRules, request: &impl RouteRequest) -> Option<&RouteEntry> {
        let path = request.path();
        // The last prefix that does not sort behind the path: every prefix of the path is this one or among
        // its parents.
        let mut next = self.prefixes.partition_point(|prefix| &*prefix.text <= path).checked_sub(1);
        while let Some(at) = next {
            let prefix = &self.prefixes[at];
            if prefix.is_of(path)
                && let Some(entry) = prefix.bucket.lookup(rules, request)
            {
                return Some(entry);
            }
            next = prefix.parent();
        }
        None
    }
}
