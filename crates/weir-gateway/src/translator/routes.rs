//! Translating routes: those of a namespace oldest first, since their regular expressions have a bound together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_traffic::route::{BoundedRegexes, HeldRegexes};

use super::Translator;
use super::route_regexes::{NamespaceRegexes, RegexState, RouteAge};
use crate::api::SharedText;
use crate::assembly::{RouteKey, RouteState};
use crate::attachment::attach;
use crate::compile::{self, CompiledRoute, RouteKind};
use crate::refusal::Refusal;
use crate::store::ObjectKey;

impl Translator {
    /// Translates routes anew; which ones were: others included whose regular expressions find room now, or no more.
    pub(super) fn retranslate_all(&mut self, pending: &BTreeSet<RouteKey>) -> BTreeSet<RouteKey> {
        let mut translated = BTreeSet::new();
        let mut namespaces: BTreeMap<SharedText, BTreeSet<RouteAge>> = BTreeMap::new();
        // What a route had it may want again: as long as it is kept, it is not compiled anew.
        let mut kept = Vec::new();
        for key in pending {
            if let Some(before) = self.routes.get(key) {
                kept.extend(self.regexes.forget(&RouteAge::new(&before.compiled)));
            }
            let ages = namespaces.entry(key.key.namespace.clone()).or_default();
            ages.insert(RouteAge { created: self.created(key), key: key.key.clone(), kind: key.kind });
        }
        for (namespace, mut waiting) in namespaces {
            let mut known = self.regexes.take(&namespace);
            while !known.is_short()
                && let Some(age) = waiting.pop_first()
            {
                let state = self.retranslate(&age, Some(known.held()));
                translated.insert(age.route());
                known.extend(state.map(|state| (age, state)));
            }
            if known.is_short() {
                self.settle(&mut known, waiting, &mut translated);
            }
            self.regexes.put(namespace, known);
        }
        translated
    }

    /// Goes through all routes of a namespace with regular expressions, oldest first: from the first one on that finds no room, none has any.
    fn settle(
        &mut self,
        known: &mut NamespaceRegexes,
        waiting: BTreeSet<RouteAge>,
        translated: &mut BTreeSet<RouteKey>,
    ) {
        let before = std::mem::take(known).into_routes();
        let mut all: BTreeMap<RouteAge, Option<RegexState>> =
            before.into_iter().map(|(age, state)| (age, Some(state))).collect();
        all.extend(waiting.into_iter().map(|age| (age, None)));
        for (age, before) in all {
            let is_full = known.is_short();
            let stays = match &before {
                Some(RegexState::Held(regexes)) => !is_full && known.held().has_room_for(regexes),
                Some(RegexState::Short { room }) => is_full || *room >= known.held().room(),
                None => false,
            };
            let state = if stays {
                before
            } else {
                translated.insert(age.route());
                self.retranslate(&age, (!is_full).then_some(known.held()))
            };
            known.extend(state.map(|state| (age, state)));
        }
    }

    /// Translates one route beside others that hold regular expressions; what becomes of those of this one, if it has any.
    fn retranslate(&mut self, age: &RouteAge, held: Option<&HeldRegexes>) -> Option<RegexState> {
        let key = &age.route();
        if let Some(before) = self.routes.remove(key) {
            for service in &before.compiled.services {
                if let Some(users) = self.users.get_mut(service) {
                    users.remove(key);
                    if users.is_empty() {
                        self.users.remove(service);
                    }
                }
            }
        }
        let (mut compiled, state) = self.compile(key, held)?;
        self.shared_parts.share(&mut compiled);
        for service in &compiled.services {
            self.users.entry(service.clone()).or_default().insert(key.clone());
        }
        let attachments = attach(&compiled, &self.plans, &self.store);
        self.routes.insert(key.clone(), RouteState { compiled: Arc::new(compiled), attachments });
        state
    }

    fn compile(
        &mut self,
        RouteKey { kind, key }: &RouteKey,
        held: Option<&HeldRegexes>,
    ) -> Option<(CompiledRoute, Option<RegexState>)> {
        let mut regexes = BoundedRegexes::new(&mut self.regexes.cache, held);
        let (store, settings) = (&self.store, &self.settings);
        macro_rules! compiled {
            ($compile:ident of $table:ident $(with $regexes:expr)?) => {{
                let route = store.$table.get(key)?;
                (&route.metadata, compile::$compile(route, store, settings $(, $regexes)?))
            }};
        }
        let (meta, mut compiled) = match kind {
            RouteKind::Http => compiled!(compile_http of http_routes with &mut regexes),
            RouteKind::Grpc => compiled!(compile_grpc of grpc_routes with &mut regexes),
            RouteKind::Tls => compiled!(compile_tls of tls_routes),
            RouteKind::Tcp => compiled!(compile_tcp of tcp_routes),
        };
        if let Err(refusal) = Refusal::unreadable(meta, "UnsupportedValue") {
            (compiled.rules, compiled.accepted) = (Vec::new(), Err(refusal));
        }
        let state = if regexes.is_short() {
            Some(RegexState::Short { room: held.map_or(0, HeldRegexes::room) })
        } else {
            let used = regexes.used();
            (compiled.accepted.is_ok() && !used.is_empty()).then(|| RegexState::Held(used.into()))
        };
        Some((compiled, state))
    }

    /// When a route was made, as its translation says it; of one that is gone, nothing.
    fn created(&self, RouteKey { kind, key }: &RouteKey) -> SharedText {
        let store = &self.store;
        let meta = match kind {
            RouteKind::Http => store.http_routes.get(key).map(|route| &route.metadata),
            RouteKind::Grpc => store.grpc_routes.get(key).map(|route| &route.metadata),
            RouteKind::Tls => store.tls_routes.get(key).map(|route| &route.metadata),
            RouteKind::Tcp => store.tcp_routes.get(key).map(|route| &route.metadata),
        };
        meta.map(compile::created).unwrap_or_default()
    }
}

impl RouteAge {
    fn new(compiled: &CompiledRoute) -> Self {
        let key: ObjectKey = compiled.key.clone();
        Self { created: compiled.created.clone(), key, kind: compiled.kind }
    }
}
