//! The table of a listener's routes, arranged so that a lookup meets the most specific routes first and stops
//! at the first match.
//!
//! Hosts and exact paths are found by hash; prefixes by binary search and then upwards from prefix to shorter
//! prefix; only regexes are tried one by one. A lookup allocates nothing and its time does not depend on what
//! a client sends, beyond the length of host and path.

use ipnet::IpNet;

use super::host::{self, HostPattern};
use super::overlap;
use super::path::{self, PathMatch};
use super::pattern::Pattern;
use super::specificity::Specificity;
use super::text_map::TextMap;
use super::tie::{self, Tie};
use super::{FieldMatch, QueryMatch, RouteId, RouteMatch, RouteRequest, query_value};

/// The routes of a listener.
#[derive(Debug)]
pub struct RouteTable {
    routes: Vec<(RouteMatch, RouteId)>,
    exact_hosts: TextMap<Paths>,
    /// Wildcards, by what follows `*.`.
    below_hosts: TextMap<Paths>,
    /// The lengths of the keys of `below_hosts`, longest first.
    below_lens: Vec<usize>,
    any_host: Paths,
}

/// The routes of one host, by path.
#[derive(Debug, Default)]
struct Paths {
    exact: TextMap<Bucket>,
    /// Most specific first.
    patterns: Vec<(Pattern, Entry)>,
    prefixes: Vec<Prefix>,
    any: Bucket,
}

/// A prefix among its sorted peers.
#[derive(Debug)]
struct Prefix {
    text: Box<[u8]>,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
    bucket: Bucket,
}

/// Routes of one host and one path, most specific first.
type Bucket = Vec<Entry>;

/// A route for one of its hosts and one of its source networks.
#[derive(Debug, Clone)]
struct Entry {
    route: RouteId,
    /// Index into `RouteTable::routes`.
    rules: usize,
    source: Option<IpNet>,
    specificity: Specificity,
    /// Whether host, path and source say it all, which is so for most routes.
    is_plain: bool,
}

impl RouteTable {
    /// Arranges `routes`, each under the name the caller gives it. Entries with one name are alternatives of
    /// one route.
    ///
    /// # Errors
    /// Every pair of routes that are equally specific and that one request could both match.
    pub fn new(routes: Vec<(RouteMatch, RouteId)>) -> Result<RouteTable, Vec<Tie>> {
        let mut table = RouteTable {
            routes,
            exact_hosts: TextMap::ignoring_case(),
            below_hosts: TextMap::ignoring_case(),
            below_lens: Vec::new(),
            any_host: Paths::default(),
        };
        for rules in 0..table.routes.len() {
            table.insert(rules);
        }
        table.below_lens = table.below_hosts.keys().map(|name| name.len()).collect();
        table.below_lens.sort_unstable_by(|a, b| b.cmp(a));
        table.below_lens.dedup();

        let RouteTable { routes, exact_hosts, below_hosts, any_host, .. } = &mut table;
        let mut ties = Vec::new();
        for paths in exact_hosts.values_mut().chain(below_hosts.values_mut()).chain([any_host]) {
            paths.arrange();
            paths.find_ties(routes, &mut ties);
        }
        ties.sort_unstable_by_key(|tie| (tie.first, tie.second));
        ties.dedup();
        if ties.is_empty() { Ok(table) } else { Err(ties) }
    }

    /// The route that `request` takes; `None` when no route matches.
    #[inline]
    pub fn lookup(&self, request: &impl RouteRequest) -> Option<RouteId> {
        if !(self.exact_hosts.is_empty() && self.below_hosts.is_empty()) {
            let found = self.lookup_by_host(request);
            if found.is_some() {
                return found;
            }
        }
        self.any_host.lookup(&self.routes, request)
    }

    /// The routes as they were given.
    pub fn routes(&self) -> &[(RouteMatch, RouteId)] {
        &self.routes
    }

    fn lookup_by_host(&self, request: &impl RouteRequest) -> Option<RouteId> {
        let host = request.host();
        let host = host.strip_suffix(b".").unwrap_or(host);
        if let Some(paths) = self.exact_hosts.get(host)
            && let Some(found) = paths.lookup(&self.routes, request)
        {
            return Some(found);
        }
        self.below_lens.iter().find_map(|&len| {
            let dot = host.len().checked_sub(len + 1)?;
            if dot == 0 || host[dot] != b'.' {
                return None;
            }
            self.below_hosts.get(&host[dot + 1..])?.lookup(&self.routes, request)
        })
    }

    fn insert(&mut self, rules: usize) {
        let (route, name) = &self.routes[rules];
        let any = [HostPattern::ANY];
        let hosts = if route.hosts.is_empty() { &any } else { &route.hosts[..] };
        for host in hosts {
            let paths = match host.kind() {
                host::Kind::Any => &mut self.any_host,
                host::Kind::Exact(name) => self.exact_hosts.entry(name.as_bytes()),
                host::Kind::Below(name) => self.below_hosts.entry(name.as_bytes()),
            };
            let sources = route.sources.iter().map(|net| Some(net.trunc()));
            for source in sources.chain(route.sources.is_empty().then_some(None)) {
                paths.insert(
                    &route.path,
                    Entry {
                        route: *name,
                        rules,
                        source,
                        specificity: Specificity::new(route, source),
                        is_plain: route.methods.is_empty()
                            && route.headers.is_empty()
                            && route.query.is_empty(),
                    },
                );
            }
        }
    }
}

impl Paths {
    fn insert(&mut self, path: &PathMatch, entry: Entry) {
        match path.kind() {
            path::Kind::Any => self.any.push(entry),
            path::Kind::Exact(text) => self.exact.entry(text.as_bytes()).push(entry),
            path::Kind::Regex(pattern) => self.patterns.push((pattern.clone(), entry)),
            path::Kind::Prefix(text) => {
                let text = text.as_bytes();
                let at = self.prefixes.partition_point(|prefix| &*prefix.text < text);
                if self.prefixes.get(at).is_none_or(|prefix| &*prefix.text != text) {
                    self.prefixes
                        .insert(at, Prefix { text: text.into(), parent: None, bucket: Bucket::new() });
                }
                self.prefixes[at].bucket.push(entry);
            }
        }
    }

    /// Sorts the buckets and links each prefix to the next shorter one, once all routes are in.
    fn arrange(&mut self) {
        self.patterns.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.specificity));
        for at in 0..self.prefixes.len() {
            let mut parent = at.checked_sub(1);
            while let Some(above) = parent
                && !self.prefixes[at].text.starts_with(&self.prefixes[above].text)
            {
                parent = self.prefixes[above].parent;
            }
            self.prefixes[at].parent = parent;
        }
        for bucket in self.buckets_mut() {
            bucket.sort_by_key(|entry| std::cmp::Reverse(entry.specificity));
        }
    }

    fn buckets_mut(&mut self) -> impl Iterator<Item = &mut Bucket> {
        let prefixes = self.prefixes.iter_mut().map(|prefix| &mut prefix.bucket);
        self.exact.values_mut().chain(prefixes).chain([&mut self.any])
    }

    fn find_ties(&mut self, routes: &[(RouteMatch, RouteId)], ties: &mut Vec<Tie>) {
        for bucket in self.buckets_mut() {
            for (at, a) in bucket.iter().enumerate() {
                let rest = bucket[at + 1..].iter().take_while(|b| b.specificity == a.specificity);
                ties.extend(rest.filter_map(|b| a.tie_with(b, routes)));
            }
        }
        for (at, (pattern_a, a)) in self.patterns.iter().enumerate() {
            let rest = self.patterns[at + 1..].iter().take_while(|(_, b)| b.specificity == a.specificity);
            for (pattern_b, b) in rest {
                if let Some(tie) = a.tie_with(b, routes)
                    && overlap::in_paths(pattern_a, pattern_b)
                {
                    ties.push(tie);
                }
            }
        }
    }

    #[inline]
    fn lookup(&self, routes: &[(RouteMatch, RouteId)], request: &impl RouteRequest) -> Option<RouteId> {
        let path = request.path();
        let in_bucket = |bucket: &Bucket| {
            bucket.iter().find(|entry| entry.matches(routes, request)).map(|entry| entry.route)
        };
        if !self.exact.is_empty()
            && let Some(route) = self.exact.get(path).and_then(in_bucket)
        {
            return Some(route);
        }
        let by_pattern =
            |(pattern, entry): &&(Pattern, Entry)| entry.matches(routes, request) && pattern.is_match(path);
        if let Some((_, entry)) = self.patterns.iter().find(by_pattern) {
            return Some(entry.route);
        }
        // The last prefix that does not sort behind the path: every prefix of the path is this one or among
        // its parents.
        let mut next = self.prefixes.partition_point(|prefix| &*prefix.text <= path).checked_sub(1);
        while let Some(at) = next {
            let prefix = &self.prefixes[at];
            if path::has_prefix(path, &prefix.text)
                && let Some(route) = in_bucket(&prefix.bucket)
            {
                return Some(route);
            }
            next = prefix.parent;
        }
        in_bucket(&self.any)
    }
}

impl Entry {
    #[inline]
    fn matches(&self, routes: &[(RouteMatch, RouteId)], request: &impl RouteRequest) -> bool {
        let source_matches = self.source.is_none_or(|net| net.contains(&request.source().to_canonical()));
        source_matches && (self.is_plain || routes[self.rules].0.matches_rest(request))
    }

    fn tie_with(&self, other: &Entry, routes: &[(RouteMatch, RouteId)]) -> Option<Tie> {
        let tied = self.route != other.route
            && self.source == other.source
            && tie::can_meet(&routes[self.rules].0, &routes[other.rules].0);
        let (first, second) = if self.rules < other.rules { (self, other) } else { (other, self) };
        tied.then_some(Tie { first: first.route, second: second.route })
    }
}

impl RouteMatch {
    /// Whether method, fields and parameters match.
    fn matches_rest(&self, request: &impl RouteRequest) -> bool {
        self.matches_method(request)
            && self.headers.iter().all(|rule| rule.matches(request))
            && self.query.iter().all(|rule| rule.matches(request))
    }

    pub(super) fn matches_method(&self, request: &impl RouteRequest) -> bool {
        let method = request.method();
        self.methods.is_empty() || self.methods.iter().any(|one| one.as_str().as_bytes() == method)
    }
}

impl FieldMatch {
    pub(super) fn matches(&self, request: &impl RouteRequest) -> bool {
        self.value().matches(request.header(self.name()))
    }
}

impl QueryMatch {
    pub(super) fn matches(&self, request: &impl RouteRequest) -> bool {
        self.value().matches(query_value(request.query(), self.name().as_bytes()))
    }
}
