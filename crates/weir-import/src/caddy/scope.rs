//! Where a directive stands: for which requests, with what of those before it; and the routes that are made.

use super::fields::{self, FieldChange};
use super::matchers::CaddyMatch;
use crate::document::{DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// The upstreams of all sites: equal ones are one.
#[derive(Default)]
pub(super) struct CaddyUpstreams {
    pub(super) known: Vec<(String, DraftTable)>,
}

/// What directives add to the routes behind them.
#[derive(Clone, Default)]
pub(super) struct CaddySettings<'s> {
    /// Keys of the route.
    pub(super) keys: Vec<(&'static str, TomlValue, &'s Statement)>,
    pub(super) response: Vec<FieldChange<'s>>,
    pub(super) request: Vec<FieldChange<'s>>,
    /// The folder of files.
    pub(super) root: Option<(String, &'s Statement)>,
    pub(super) try_files: Option<(Vec<String>, &'s Statement)>,
    /// It should ask who a client is, and cannot: no one gets in.
    pub(super) is_forbidden: Option<&'s Statement>,
    /// The rewrite that takes the path of `handle_path` off.
    pub(super) stripped: Option<TomlValue>,
    /// The path that matchers see is not that of the client any more.
    pub(super) is_rewritten: bool,
}

/// Where directives stand: for which requests, and with what.
#[derive(Clone)]
pub(super) struct RouteScope<'s> {
    pub(super) matched: CaddyMatch,
    pub(super) settings: CaddySettings<'s>,
    pub(super) depth: usize,
    /// What is answered for where no directive answers: a site, or a block in it.
    pub(super) owner: &'s Statement,
}

/// Makes the routes of one site.
pub(super) struct RouteBuilder<'s, 'b> {
    pub(super) ledger: &'s Ledger,
    pub(super) upstreams: &'b mut CaddyUpstreams,
    /// What upstreams without a telling name are called after.
    pub(super) site: String,
    pub(super) routes: Vec<DraftTable>,
}

impl<'s> RouteBuilder<'s, '_> {
    /// Changes of fields for the requests of a scope. Where it rewrites their path, a condition on the one before has to be settled here: it
    /// would be compared with the new one.
    fn changes(&self, changes: &[FieldChange<'s>], scope: &RouteScope<'s>) -> Vec<FieldChange<'s>> {
        let is_rewritten = scope.settings.stripped.is_some()
            || scope.settings.keys.iter().any(|(key, ..)| *key == "rewrite");
        if !is_rewritten {
            return changes.to_vec();
        }
        let settled = changes.iter().filter_map(|change| match change.within(&scope.matched) {
            Ok(change) => change,
            Err(why) => {
                self.ledger.unsupported(change.from, why);
                None
            }
        });
        settled.collect()
    }

    /// Adds the route of a directive, with all that its scope says.
    pub(super) fn push(
        &mut self,
        scope: &RouteScope<'s>,
        statement: &'s Statement,
        action: impl FnOnce(&mut DraftTable),
    ) {
        let matched = &scope.matched;
        if matched.is_never {
            return;
        }
        let mut route = DraftTable::of(statement);
        match matched.hosts.as_slice() {
            [] => {}
            [host] => route.set_plain("host", host.as_str()),
            hosts => route.set_plain("host", hosts.to_vec()),
        }
        if let Some(path) = &matched.path {
            route.set_plain("path_regex", path.as_str());
        }
        match matched.methods.as_slice() {
            [] => {}
            [method] => route.set_plain("method", method.as_str()),
            methods => route.set_plain("method", methods.to_vec()),
        }
        if !matched.when.is_empty() {
            let only_when = CaddyMatch { when: matched.when.clone(), ..CaddyMatch::default() };
            if let Ok(Some(when)) = only_when.condition() {
                route.set_plain("when", when);
            }
        }
        for (key, value, from) in &scope.settings.keys {
            match value {
                TomlValue::Array(values) if *key == "rewrite" => {
                    values.iter().for_each(|value| route.push(key, value.clone(), from));
                }
                _ => route.set(key, value.clone(), from),
            }
        }
        if let Some(TomlValue::Array(rules)) = &scope.settings.stripped {
            route.set_plain("rewrite", rules.clone());
        }
        let response = self.changes(&scope.settings.response, scope);
        fields::set(&mut route, "response_headers", &response);
        match scope.settings.is_forbidden {
            Some(from) => route.set("respond", TomlValue::inline([("status", 403_i64.into())]), from),
            None => action(&mut route),
        }
        // What Weir answers itself has no fields on the way to a server.
        if route.has("upstream") {
            let request = self.changes(&scope.settings.request, scope);
            fields::set(&mut route, "request_headers", &request);
        }
        self.routes.push(route);
    }
}
