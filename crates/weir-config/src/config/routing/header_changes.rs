//! Changes to the headers of a message: those that every message gets, and those that some get, by condition, status and origin.

use super::expires::Expires;
use crate::config::RouteFault;
use crate::key::choice;
use crate::order::Stage;
use crate::value::{HeaderName, HeaderTemplate, StatusRange, TemplateValue, WhenCondition};

/// Rules for the same message at most, those of its listener included: one bit says of each whether it applies.
pub(crate) const RULES_MAX: usize = 32;

/// Rules about requests on a route with a cache at most: each combination of them has stored responses of its own.
pub(crate) const CACHED_RULES_MAX: usize = 4;

choice! {
    /// Where a response comes from.
    pub enum ResponseOrigin {
        /// a server, as it has just sent it
        #[default]
        Server = "server",
        /// a file of `files`
        File = "file",
        /// the cache
        Cache = "cache",
        /// Weir itself: `redirect`, `respond`, error pages, failures, and what `forward_auth` has answered
        Weir = "weir",
    }
}

/// Changes to headers, in this order: remove, set, add; then the rules, in their order.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HeaderChanges {
    /// Headers that are removed.
    pub remove: Vec<HeaderName>,
    /// Headers that get this value, replacing any received value and any of Weir's own.
    pub set: Vec<(HeaderName, HeaderTemplate)>,
    /// Headers that are added to those present.
    pub add: Vec<(HeaderName, HeaderTemplate)>,
    /// Further changes, of which each is for some messages.
    pub rules: Vec<HeaderRule>,
}

/// The spelling of what is given counts, unlike that of names otherwise: HTTP/1 sends it.
impl PartialEq for HeaderChanges {
    fn eq(&self, other: &Self) -> bool {
        let Self { remove, set, add, rules } = self;
        let is_same = (remove, set, add, rules) == (&other.remove, &other.set, &other.add, &other.rules);
        let written = |(name, _): &'_ (HeaderName, HeaderTemplate)| name.as_written().to_owned();
        is_same && self.given().map(written).eq(other.given().map(written))
    }
}

impl Eq for HeaderChanges {}

/// Changes for some messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HeaderRule {
    /// The condition; `None`: it always holds.
    pub when: Option<WhenCondition>,
    /// The statuses of responses; empty: all, and requests.
    pub status: Vec<StatusRange>,
    /// The origins of responses; empty: all, and requests.
    pub from: Vec<ResponseOrigin>,
    /// Headers that are removed.
    pub remove: Vec<HeaderName>,
    /// Headers that get this value.
    pub set: Vec<(HeaderName, HeaderTemplate)>,
    /// Headers that are added.
    pub add: Vec<(HeaderName, HeaderTemplate)>,
    /// How long clients may keep the response; such a rule has no other changes.
    pub expires: Option<Expires>,
}

impl HeaderRule {
    /// Whether it is for responses with this status and origin, whatever its condition says. Status 0 is that of requests.
    pub fn is_for(&self, status: u16, origin: ResponseOrigin) -> bool {
        let has_status = self.status.is_empty() || self.status.iter().any(|range| range.contains(status));
        has_status && (self.from.is_empty() || self.from.contains(&origin))
    }

    /// Whether it is for every message.
    pub(crate) fn is_for_all(&self) -> bool {
        self.when.is_none() && self.status.is_empty() && self.from.is_empty()
    }

    /// Whether it takes a header of this name away, or gives it another value.
    pub fn replaces(&self, name: &[u8]) -> bool {
        let is_named = |other: &HeaderName| name.eq_ignore_ascii_case(other.as_bytes());
        self.remove.iter().any(is_named) || self.set.iter().any(|(other, _)| is_named(other))
    }

    /// What it sets and adds.
    pub fn given(&self) -> impl Iterator<Item = &(HeaderName, HeaderTemplate)> {
        self.set.iter().chain(&self.add)
    }

    fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        let templates = self.given().flat_map(|(_, template)| template.values());
        templates.chain(self.when.iter().flat_map(WhenCondition::values))
    }
}

impl HeaderChanges {
    /// What may not hold of them.
    pub(crate) fn faults(&self) -> impl Iterator<Item = RouteFault> {
        let names = self.removed().chain(self.given().map(|(name, _)| name));
        names.filter_map(RouteFault::of_changed_header)
    }

    /// These changes, and `later` ones on top: what is removed or set later counts.
    #[must_use]
    pub fn followed_by(&self, later: &HeaderChanges) -> Self {
        if !self.rules.is_empty() {
            // What every message gets comes behind rules, too.
            let mut all = self.clone();
            if !later.remove.is_empty() || !later.set.is_empty() || !later.add.is_empty() {
                all.rules.push(HeaderRule {
                    remove: later.remove.clone(),
                    set: later.set.clone(),
                    add: later.add.clone(),
                    ..HeaderRule::default()
                });
            }
            all.rules.extend_from_slice(&later.rules);
            return all;
        }
        let stays = |(name, _): &&(HeaderName, HeaderTemplate)| {
            !later.remove.contains(name) && later.set.iter().all(|(other, _)| other != name)
        };
        let kept = |headers: &[(HeaderName, HeaderTemplate)]| -> Vec<_> {
            headers.iter().filter(stays).cloned().collect()
        };
        Self {
            remove: self.remove.iter().chain(&later.remove).cloned().collect(),
            set: [kept(&self.set), later.set.clone()].concat(),
            add: [kept(&self.add), later.add.clone()].concat(),
            rules: later.rules.clone(),
        }
    }

    /// The headers that are removed, from some messages at least.
    pub fn removed(&self) -> impl Iterator<Item = &HeaderName> {
        self.remove.iter().chain(self.rules.iter().flat_map(|rule| &rule.remove))
    }

    /// What is set and added, in some messages at least.
    pub fn given(&self) -> impl Iterator<Item = &(HeaderName, HeaderTemplate)> {
        self.set.iter().chain(&self.add).chain(self.rules.iter().flat_map(HeaderRule::given))
    }

    /// The headers that have no received value behind these changes, in some messages at least.
    pub fn replaced(&self) -> impl Iterator<Item = &HeaderName> {
        let set = self.set.iter().chain(self.rules.iter().flat_map(|rule| &rule.set));
        self.removed().chain(set.map(|(name, _)| name))
    }

    /// Values of the exchange that headers get, or conditions ask for.
    pub fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        let always = self.set.iter().chain(&self.add).flat_map(|(_, template)| template.values());
        always.chain(self.rules.iter().flat_map(HeaderRule::values))
    }

    /// The rules that depend on the request, its connection or its client: responses to requests that differ in them may differ.
    pub fn rules_by_request(&self) -> impl Iterator<Item = (usize, &HeaderRule)> {
        let rules = self.rules.iter().enumerate();
        rules.filter(|(_, rule)| rule.when.as_ref().is_some_and(|when| when.stage() < Stage::Upstream))
    }

    /// Whether the condition of a rule asks for what is known before there is an upstream, and for what is known later.
    pub(crate) fn mixes_stages(&self) -> bool {
        let is_early = |value: &TemplateValue| value.stage() < Stage::Upstream;
        let conditions = self.rules.iter().filter_map(|rule| rule.when.as_ref());
        let mut mixed = conditions.filter(|when| when.values().any(is_early) && !when.values().all(is_early));
        mixed.next().is_some()
    }

    /// Whether there is nothing to change.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty() && self.rules.is_empty()
    }
}
