//! Limits by key: each one for itself, and where they are used.

use std::cell::Cell;
use std::sync::Arc;

use weir_traffic::balance::AddressPrefixes;
use weir_traffic::limit::{BandwidthLimit, RateError};

use super::store::StoreLookup;
use crate::check::conditions;
use crate::check::conditions::ConditionPlace;
use crate::check::files::Files;
use crate::check::names::check_name;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::config::LimitStore;
use crate::config::{
    ConfigFault, KeyLimit, KeyLimitParts, LimitBandwidth, LimitRate, LimitUse, Route, RouteAction, RuleFault,
    UpstreamIndex, ValueFault,
};
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::key::{OneOrMany, Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{Document, LimitText};
use crate::value::{Size, Template, TemplateValue, WhenCondition};

/// Limits that one listener, route or upstream may name: each is looked up for every request.
const NAMED_MAX: usize = 16;

/// The names in `limited_by`.
pub(in crate::check) type LimitNames = Option<OneOrMany<Spanned<Box<str>>>>;

/// The same as plain text.
pub(in crate::check) fn names(names: &LimitNames) -> Vec<Box<str>> {
    names.iter().flat_map(|names| &names.0).map(|name| name.value.clone()).collect()
}

/// The limits by their names, which of them are used, and those of each upstream.
pub(in crate::check) struct LimitLookup {
    limits: Vec<Arc<KeyLimit>>,
    used: Vec<Cell<bool>>,
    of_upstreams: Vec<Vec<Arc<KeyLimit>>>,
    affinity_stores: StoresByName,
    table_stores: StoresByName,
}

/// The stores in which nodes share affinity or tables, by the upstreams or tables that name them.
pub(in crate::check) type StoresByName = Vec<(Box<str>, Arc<LimitStore>)>;

fn stores_of<'a>(
    shared: impl Iterator<Item = (&'a Spanned<Box<str>>, Option<&'a Spanned<Box<str>>>)>,
    stores: &StoreLookup,
    diagnostics: &mut Vec<Diagnostic>,
) -> StoresByName {
    let named = shared.filter_map(|(of, store)| Some((of, store?)));
    named.filter_map(|(of, store)| Some((of.value.clone(), stores.find(store, diagnostics)?))).collect()
}

impl LimitLookup {
    pub(in crate::check) fn new(
        document: &Document,
        files: &Files<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut limits = Vec::new();
        let stores = StoreLookup::new(document, files, diagnostics);
        let affinities = document.upstream.0.iter().map(|(name, text)| {
            (name, text.value.affinity.as_ref().and_then(|affinity| affinity.value.shared.as_ref()))
        });
        let affinity_stores = stores_of(affinities, &stores, diagnostics);
        let tables = document.table.0.iter().map(|(name, text)| (name, text.value.shared.as_ref()));
        let table_stores = stores_of(tables, &stores, diagnostics);
        for (name, text) in &document.limit.0 {
            check_name(name, "limit", diagnostics);
            limits.push(Arc::new(check(name, text, &stores, diagnostics)));
        }
        stores.warn_unused(diagnostics);
        let used = vec![Cell::new(false); limits.len()];
        let mut lookup = Self { limits, used, of_upstreams: Vec::new(), affinity_stores, table_stores };
        let upstreams = document.upstream.0.iter();
        lookup.of_upstreams =
            upstreams.map(|(_, text)| lookup.named(&text.value.limited_by, diagnostics)).collect();
        lookup
    }

    /// The stores in which nodes share affinity.
    pub(in crate::check) fn affinity_stores(&self) -> StoresByName {
        self.affinity_stores.clone()
    }

    /// The store in which nodes share a table.
    pub(in crate::check) fn table_store(&self, table: &str) -> Option<Arc<LimitStore>> {
        self.table_stores.iter().find(|(name, _)| **name == *table).map(|(_, store)| Arc::clone(store))
    }

    /// The limits of these names.
    fn named(&self, names: &LimitNames, diagnostics: &mut Vec<Diagnostic>) -> Vec<Arc<KeyLimit>> {
        let mut found: Vec<Arc<KeyLimit>> = Vec::new();
        let names = names.as_ref().map_or(&[][..], |names| &names.0);
        if let Some(name) = names.get(NAMED_MAX) {
            let message = format!("more than {NAMED_MAX} limits in one place");
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message));
        }
        for name in names {
            let Some(place) = self.limits.iter().position(|limit| limit.name == name.value) else {
                let known = self.limits.iter().map(|limit| &*limit.name);
                let help = did_you_mean(&name.value, known)
                    .unwrap_or_else(|| format!("define it as `[limit.{}]` with a `rate`", name.value));
                let message = format!("there is no limit `{}`", name.value);
                diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, name.span, message).help(help));
                continue;
            };
            self.used[place].set(true);
            let limit = &self.limits[place];
            match found.iter().any(|known| Arc::ptr_eq(known, limit)) {
                true => {
                    let message = format!("the limit `{}` is named twice", name.value);
                    diagnostics.push(Diagnostic::new(DiagnosticKind::Duplicate, name.span, message));
                }
                false => found.push(Arc::clone(limit)),
            }
        }
        found
    }

    /// The limits of a listener, for all of its requests.
    pub(in crate::check) fn of_listener(
        &self,
        names: &LimitNames,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<LimitUse> {
        let limits = self.named(names, diagnostics);
        limits.into_iter().map(LimitUse::new).collect()
    }

    /// The limits of a route, in the order in which they are asked: those of its listener, its own, those of its upstreams. Each counts a
    /// request once, wherever it is named.
    pub(in crate::check) fn of_route(
        &self,
        around: &[LimitUse],
        names: &LimitNames,
        action: &RouteAction,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<LimitUse> {
        let mut uses = around.to_vec();
        let mut add = |limit: &Arc<KeyLimit>, upstream: Option<UpstreamIndex>| {
            let covers = |known: &LimitUse| {
                Arc::ptr_eq(&known.limit, limit) && (known.upstream.is_none() || known.upstream == upstream)
            };
            if !uses.iter().any(covers) {
                uses.push(LimitUse { upstream, ..LimitUse::new(Arc::clone(limit)) });
            }
        };
        self.named(names, diagnostics).iter().for_each(|limit| add(limit, None));
        for upstream in action.upstreams() {
            for limit in self.of_upstreams.get(upstream.0).into_iter().flatten() {
                add(limit, Some(upstream));
            }
        }
        uses
    }

    /// All limits, in the order of the text; warns of those that are not used, unless a name that could not be found may have been meant
    /// for one.
    pub(in crate::check) fn into_limits(
        self,
        document: &Document,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Arc<KeyLimit>> {
        let all_found = diagnostics.iter().all(|diagnostic| diagnostic.kind != DiagnosticKind::UnknownName);
        for ((name, _), used) in document.limit.0.iter().zip(&self.used) {
            if all_found && !used.get() {
                let message = format!("the limit `{}` is not used: no `limited_by` names it", name.value);
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, name.span, message));
            }
        }
        self.limits
    }
}

/// Reports limits and lists whose keys, or whose counting, need requests, on a listener that has none.
pub(in crate::check) fn report_of_http(
    listener: &Spanned<Box<str>>,
    routes: &[Route],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut told: Vec<String> = Vec::new();
    let mut report = |what: String, why: &str| {
        if !told.contains(&what) {
            let message = format!("{what} cannot hold for the listener `{}`: {why}", listener.value);
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, listener.span, message));
            told.push(what);
        }
    };
    let of_request = |key: &Template, when: Option<&WhenCondition>| {
        let mut values = key.values().chain(when.into_iter().flat_map(WhenCondition::values));
        values.find(|value| !value.is_of_connection()).map(TemplateValue::name)
    };
    let without = |name: String| format!("a connection of TCP has no `{{{name}}}`");
    for route in routes {
        for limit in route.limited_by.iter().map(|one| &one.limit) {
            let what = format!("the limit `{}`", limit.name);
            if let Some(name) = of_request(&limit.key, limit.when.as_ref()) {
                report(what, &without(name));
            } else if limit.bandwidth.is_some() {
                report(
                    what,
                    "`bandwidth` is of responses; for connections of TCP, `limits` of the listener has `download_rate`",
                );
            } else if limit.counts_responses() {
                report(what, "a connection of TCP has no responses that `count_status` could count");
            }
        }
        for list in &route.lists {
            if let Some(name) = of_request(&list.key, list.when.as_ref()) {
                report(format!("the list `{}`", list.name), &without(name));
            }
        }
    }
}

fn check(
    name: &Spanned<Box<str>>,
    text: &SpannedTable<LimitText>,
    stores: &StoreLookup,
    diagnostics: &mut Vec<Diagnostic>,
) -> KeyLimit {
    let value = &text.value;
    templates::check_shared(&value.key.value, value.key.span, &TemplatePlace::SHARED, diagnostics);
    templates::warn_of_variables(&value.key.value, value.key.span, diagnostics);
    if value.rate.is_none() {
        for key in ["burst", "delay", "block", "count_status", "shared", "fields", "fields_in_responses"] {
            if let Some(at) = text.changed(key).filter(|_| text.is_missing("rate")) {
                let message = format!("`{key}` has no effect here: the limit has no `rate`");
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
            }
        }
    }
    if let Some(burst) = value.bandwidth_burst.as_ref().filter(|_| text.is_missing("bandwidth")) {
        let message = "`bandwidth_burst` has no effect here: the limit has no `bandwidth`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, burst.span, message));
    }
    let when = conditions::check(
        value.when.as_ref(),
        &ConditionPlace::shared(Stage::Identity, "when limits are asked"),
        diagnostics,
    );
    let limit = KeyLimit::assume(KeyLimitParts {
        name: name.value.clone(),
        key: value.key.value.clone(),
        when,
        prefixes: AddressPrefixes::new(value.prefix.ipv4 as u8, value.prefix.ipv6 as u8).unwrap_or_default(),
        rate: rate(text, diagnostics),
        concurrent: value.concurrent,
        bandwidth: bandwidth(value),
        count_status: value.count_status.iter().flat_map(|ranges| ranges.0.iter().copied()).collect(),
        shared: value.shared.as_ref().and_then(|name| stores.find(name, diagnostics)),
        status: value.status,
        fields: value.fields,
        fields_in_responses: value.fields_in_responses,
        dry_run: value.dry_run,
        keys_max: value.keys_max,
    });
    report(limit.faults(), name, text, diagnostics);
    limit
}

/// Gives what does not hold of a limit its place in the text.
fn report(
    faults: Vec<ConfigFault>,
    name: &Spanned<Box<str>>,
    text: &SpannedTable<LimitText>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let is_missing = |key: &&str| text.is_missing(key);
    for fault in faults {
        let ValueFault::Rule(fault) = fault.fault else { continue };
        let conflict = |key| Diagnostic::new(DiagnosticKind::Conflict, text.key_at(key), fault.to_string());
        let labelled = |key, other, label: &str| conflict(key).label(text.key_at(other), label);
        let unshareable = |key| {
            let help = format!("put `{key}` into a limit of its own, which each node has for itself");
            let shared = text.value.shared.as_ref().map_or(text.span, |shared| shared.span);
            conflict(key).help(help).label(shared, "shared by several nodes")
        };
        diagnostics.push(match &fault {
            RuleFault::NothingLimited(_) if ["rate", "concurrent", "bandwidth"].iter().all(is_missing) => {
                Diagnostic::new(DiagnosticKind::MissingKey, name.span, fault.to_string())
                    .help("write for example `rate = \"10/s\"`")
            }
            // What could not be read has been reported.
            RuleFault::NothingLimited(_) => continue,
            RuleFault::SharedConcurrent => unshareable("concurrent"),
            RuleFault::SharedBandwidth => unshareable("bandwidth"),
            RuleFault::DelayAndStatuses => labelled("delay", "count_status", "counted by responses"),
            RuleFault::DelayAndBlock => labelled("delay", "block", "the block"),
            RuleFault::FieldsOff => labelled("fields_in_responses", "fields", "switched off"),
            RuleFault::LongBurst { .. } => {
                let at = text.value.bandwidth_burst.as_ref().map_or(text.span, |burst| burst.span);
                Diagnostic::new(DiagnosticKind::BadValue, at, fault.to_string())
            }
            RuleFault::SameKeyForAll | RuleFault::NoEntries | RuleFault::NetworksByOtherKey => continue,
        });
    }
}

fn bandwidth(text: &LimitText) -> Option<LimitBandwidth> {
    let rate = text.bandwidth?;
    let usual = Size::from_bytes(BandwidthLimit::usual_burst(rate.bytes_per_second()));
    Some(LimitBandwidth { rate, burst: text.bandwidth_burst.as_ref().map_or(usual, |burst| burst.value) })
}

fn rate(text: &SpannedTable<LimitText>, diagnostics: &mut Vec<Diagnostic>) -> Option<LimitRate> {
    let value = &text.value;
    let rate = value.rate.as_ref()?;
    let burst = value.burst.unwrap_or(rate.value.requests);
    match LimitRate::new(rate.value, burst, value.delay, value.block) {
        Ok(rate) => Some(rate),
        Err(error) => {
            let at = match error {
                RateError::Burst => text.written("burst").unwrap_or(rate.span),
                RateError::Rate | RateError::Period => rate.span,
            };
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, error.to_string()));
            None
        }
    }
}
