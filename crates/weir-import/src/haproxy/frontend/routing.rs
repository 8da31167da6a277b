//! `use_backend`, `default_backend`, and what rules answer by themselves: the routes of a listener, in order.

use super::{BackendFacts, FrontendParts, list};
use crate::document::{Draft, TomlValue};
use crate::haproxy::acl::{AclCondition, AclConditions, AclSubject, Atom, AtomTest, ListenerFacts};
use crate::haproxy::format::{FormatUse, template};
use crate::haproxy::output::Keys;
use crate::haproxy::proxy::{ProxySection, name_of};
use crate::haproxy::rules::{
    CLOSED, CLOSED_CONNECTIONS, ChangesBefore, ListRule, SectionRules, write_headers,
};
use crate::source::Statement;

/// What HAProxy answers for `monitor-uri`.
const MONITOR_PAGE: &str = "<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n";

/// What becomes of a redirect that leads to itself.
const CIRCLE: &str = "all requests are redirected to here, for ever: they are answered 508";

/// Where requests go for which a condition holds.
pub(in crate::haproxy) struct BackendTarget<'s> {
    condition: AclCondition,
    /// The name of a backend, or a text with placeholders that comes to one.
    pub(in crate::haproxy) backend: String,
    is_template: bool,
    /// Whether the rule cannot be said: what it may be for goes nowhere.
    is_closed: bool,
    statement: &'s Statement,
}

/// A route: what it matches, and what it has.
pub(super) struct FrontendRoute<'s> {
    pub(super) condition: AclCondition,
    pub(super) keys: Keys<'s>,
    pub(super) statement: &'s Statement,
}

/// Reads `use_backend` and `default_backend`; a `listen` leads to itself.
pub(in crate::haproxy) fn targets<'s>(
    proxy: &ProxySection<'s>,
    conditions: &AclConditions<'s, '_>,
    has_servers: bool,
    before: &ChangesBefore,
) -> Vec<BackendTarget<'s>> {
    let ledger = proxy.ledger;
    let mut targets = Vec::new();
    for statement in proxy.all(&["use_backend"]) {
        let mut words = ledger.words(statement);
        let written = words.text().unwrap_or_default();
        let condition = conditions.behind(&mut words);
        let mut close = |reason: &str| {
            ledger.unsupported(statement, reason);
            ledger.unsupported(statement, if proxy.is_tcp() { CLOSED_CONNECTIONS } else { CLOSED });
            let condition = before.known_of(&condition);
            let backend = String::new();
            targets.push(BackendTarget {
                condition,
                backend,
                is_template: false,
                is_closed: true,
                statement,
            });
        };
        if let Some(reason) = condition.unknown().or_else(|| before.forbid(&condition)) {
            close(reason);
            continue;
        }
        if condition.asks(&|atom| matches!(atom.subject, AclSubject::User(_))) {
            close("who the user is, `basic` of a route asks: no other rule knows it");
            continue;
        }
        condition.notes().iter().for_each(|note| ledger.approximated(statement, note));
        if condition.counts() {
            ledger.approximated(statement, "the counts are those without the request itself");
        }
        let (backend, is_template) = match written.contains('%') {
            false => (written.to_owned(), false),
            true => match template(written, FormatUse::Header, &conditions.around) {
                Ok(made) => {
                    made.notes.iter().for_each(|note| ledger.approximated(statement, note));
                    ledger.approximated(statement, "a name that is no backend is answered 502, where HAProxy takes `default_backend`: list the names in a map");
                    (made.text, true)
                }
                Err(reason) => {
                    close(&reason);
                    continue;
                }
            },
        };
        ledger.exact(statement);
        targets.push(BackendTarget { condition, backend, is_template, is_closed: false, statement });
    }
    if let Some((name, statement)) = proxy.value("default_backend") {
        ledger.exact(statement);
        targets.push(BackendTarget {
            condition: AclCondition::Constant(true),
            backend: name.to_owned(),
            is_template: false,
            is_closed: false,
            statement,
        });
    } else if has_servers {
        targets.push(BackendTarget {
            condition: AclCondition::Constant(true),
            backend: proxy.name.to_owned(),
            is_template: false,
            is_closed: false,
            statement: proxy.header,
        });
    }
    targets
}

/// The routes of a listener, as far as requests get.
pub(super) struct FrontendRoutes<'m, 'p, 's> {
    parts: &'m FrontendParts<'p, 's>,
    facts: ListenerFacts,
    draft: &'m mut Draft,
    pub(super) routes: Vec<FrontendRoute<'s>>,
    /// Lists of the listener in place of routes that connections of TCP cannot have.
    pub(super) closed: Vec<ListRule<'s>>,
}

impl<'m, 'p, 's> FrontendRoutes<'m, 'p, 's> {
    pub(super) fn new(parts: &'m FrontendParts<'p, 's>, facts: ListenerFacts, draft: &'m mut Draft) -> Self {
        let mut made = FrontendRoutes { parts, facts, draft, routes: Vec::new(), closed: Vec::new() };
        made.monitor();
        for terminal in &parts.rules.terminals {
            // What asks for a password before it does so here, too.
            let before = parts.rules.authentication_before(Some(terminal.statement));
            made.push(&terminal.condition, &terminal.keys, &before, terminal.statement);
        }
        for target in parts.targets {
            match target.is_closed {
                true => made.close(&target.condition, target.statement),
                false => made.target(target),
            }
        }
        if !facts.tcp {
            let mut keys = Keys::default();
            keys.set("respond.status", 503, parts.proxy.header);
            made.push(&AclCondition::Constant(true), &keys, &[], parts.proxy.header);
        }
        let end = made.routes.iter().position(|route| route.condition == AclCondition::Constant(true));
        made.routes.truncate(end.map_or(made.routes.len(), |end| end + 1));
        made
    }

    /// What a rule may be for that cannot be said: it goes nowhere.
    fn close(&mut self, condition: &AclCondition, statement: &'s Statement) {
        let mut keys = Keys::of(statement);
        if !self.facts.tcp {
            keys.set("respond.status", 501, statement);
            return self.push(condition, &keys, &[], statement);
        }
        keys.set("action", "deny", statement);
        let before = self.routes.iter().map(|route| route.condition.clone().negated());
        let condition = before.fold(condition.clone(), AclCondition::and).shortened();
        self.closed.push(ListRule { condition, keys, statement, name: "refused" });
    }

    fn monitor(&mut self) {
        let proxy = self.parts.proxy;
        let Some((path, statement)) = proxy.value("monitor-uri") else { return };
        proxy.ledger.exact(statement);
        let mut keys = Keys::default();
        keys.set("respond.status", 200, statement);
        keys.set("respond.content_type", "text/html", statement);
        keys.set("respond.body", MONITOR_PAGE, statement);
        keys.set("respond.headers.cache-control", "no-cache", statement);
        keys.set("access_log", false, statement);
        for terminal in
            self.parts.rules.terminals.iter().filter(|terminal| terminal.statement.name() == "monitor")
        {
            self.push(&terminal.condition, &terminal.keys, &[], terminal.statement);
        }
        self.push(&AclCondition::path_is(path), &keys, &[], statement);
    }

    /// Adds a route, and before it those for the variants that hold for some of its requests.
    fn push(
        &mut self,
        condition: &AclCondition,
        keys: &Keys<'s>,
        variants: &[(AclCondition, Keys<'s>)],
        statement: &'s Statement,
    ) {
        let is_sayable = |condition: &AclCondition| {
            condition.route_keys(self.facts).iter().all(|(key, _)| ["sni", "source"].contains(key))
        };
        let on_listener = condition.clone().on(self.facts);
        if self.facts.tcp && on_listener != AclCondition::Constant(false) && !is_sayable(&on_listener) {
            let why = "a connection of TCP takes its route by `sni` and `source`";
            self.parts.proxy.ledger.unsupported(statement, why);
            self.parts.proxy.ledger.unsupported(statement, CLOSED_CONNECTIONS);
            return self.close(condition, statement);
        }
        let certain = |holds: &AclCondition| condition.implies_prefix(holds);
        let mut sure = keys.clone();
        variants.iter().filter(|(holds, _)| certain(holds)).for_each(|(_, extra)| sure.extend(extra));
        // What asks for a password comes first: there is room for three.
        let uncertain = || variants.iter().filter(|(holds, _)| !certain(holds));
        let with_password = uncertain().filter(|(_, keys)| keys.has("basic"));
        let others = uncertain().filter(|(_, keys)| !keys.has("basic"));
        let variants: Vec<&(AclCondition, Keys<'s>)> = with_password.chain(others).collect();
        let keys = &sure;
        for (holds, _) in variants.iter().skip(3).filter(|(_, keys)| keys.has("basic")) {
            self.close(&condition.clone().and(holds.clone()), statement);
        }
        let count = variants.len().min(3);
        for mask in (0..1_usize << count).rev() {
            let (mut condition, mut own) = (condition.clone(), Keys::default());
            for (index, (holds, keys)) in variants.iter().take(count).enumerate() {
                if mask & (1 << index) != 0 {
                    condition = condition.and(holds.clone());
                    own.extend(keys);
                }
            }
            own.extend(keys);
            let condition = condition.on(self.facts);
            let is_circle = self.routes.is_empty()
                && condition == AclCondition::Constant(true)
                && matches!(own.get("redirect.to"), Some(TomlValue::Text(to)) if to.starts_with('/'));
            if is_circle {
                self.parts.proxy.ledger.approximated(statement, CIRCLE);
                own.remove("redirect");
                own.set("respond.status", 508, statement);
            }
            let is_known = self.routes.iter().any(|route| route.condition == condition);
            if condition != AclCondition::Constant(false) && !condition.is_impossible() && !is_known {
                self.routes.push(FrontendRoute { condition, keys: own, statement });
            }
        }
    }

    fn target(&mut self, target: &BackendTarget<'s>) {
        let parts = self.parts;
        if target.is_template {
            return self.by_name(target);
        }
        let Some(backend) = parts.backends.get(&target.backend) else {
            parts.proxy.ledger.unsupported(target.statement, "there is no such backend");
            return self.close(&target.condition, target.statement);
        };
        if backend.is_tcp != self.facts.tcp {
            let why = "HAProxy itself refuses it: one is of `mode tcp`, the other of `mode http`";
            parts.proxy.ledger.unsupported(target.statement, why);
            return self.close(&target.condition, target.statement);
        }
        // A `listen` has its rules once.
        let is_own = target.backend == parts.proxy.name && parts.proxy.is_backend();
        let none = SectionRules::default();
        let rules = if is_own { &none } else { &backend.rules };
        for terminal in &rules.terminals {
            let mut before = parts.rules.authentication_before(None);
            before.extend(rules.authentication_before(Some(terminal.statement)));
            let condition = target.condition.clone().and(terminal.condition.clone());
            self.push(&condition, &terminal.keys, &before, terminal.statement);
        }
        let mut keys = Keys::default();
        match &backend.upstream {
            Some(name) => keys.set("upstream", name.clone(), target.statement),
            None => keys.set("respond.status", 503, target.statement),
        }
        if backend.upstream.is_none() && self.facts.tcp {
            return;
        }
        if backend.upstream.is_some() {
            if rules.rewrites_route || parts.rules.rewrites_route {
                for change in parts.rules.requests.iter().filter(|change| change.asks_path()) {
                    parts.proxy.ledger.unsupported(change.statement, "a rule of the route changes the path, and headers see the new one: put the change beside that rule");
                }
            }
            self.rules_of_backend(&mut keys, rules);
            keys.extend(&rules.route);
            keys.extend(&parts.rules.route);
        }
        let variants: Vec<(AclCondition, Keys<'s>)> =
            rules.variants.iter().chain(&parts.rules.variants).cloned().collect();
        for (_, extra) in variants.iter().skip(3) {
            let _ = extra;
            parts.proxy.ledger.unsupported(
                target.statement,
                "more than three rules choose by conditions what its routes have: write the routes",
            );
        }
        let variants = if backend.upstream.is_some() { variants } else { Vec::new() };
        self.chosen(target, backend, &keys, &variants);
        self.push(&target.condition, &keys, &variants, target.statement);
    }

    /// `use-server`: routes to upstreams of one server, before the route to all of them.
    fn chosen(
        &mut self,
        target: &BackendTarget<'s>,
        backend: &BackendFacts<'s>,
        keys: &Keys<'s>,
        variants: &[(AclCondition, Keys<'s>)],
    ) {
        for (rule, upstream) in &backend.chosen {
            let condition = target.condition.clone().and(rule.condition.clone());
            let Some(upstream) = upstream else {
                self.parts
                    .proxy
                    .ledger
                    .unsupported(rule.statement, if self.facts.tcp { CLOSED_CONNECTIONS } else { CLOSED });
                self.close(&condition, rule.statement);
                continue;
            };
            let mut own = keys.clone();
            own.set("upstream", upstream.clone(), rule.statement);
            let usable = AclSubject::Number(format!("upstream[\"{upstream}\"].usable"));
            let is_up = AclCondition::Atom(Atom::new(usable, AtomTest::Numbers(vec![(">", 0)])));
            let condition = if self.facts.tcp { condition } else { condition.and(is_up) };
            self.push(&condition, &own, variants, rule.statement);
        }
    }

    /// Headers, tables and lists of a backend are those of the routes to it.
    fn rules_of_backend(&mut self, keys: &mut Keys<'s>, rules: &SectionRules<'s>) {
        let ledger = self.parts.proxy.ledger;
        write_headers(keys, "request_headers", &rules.requests, self.facts, ledger);
        write_headers(keys, "response_headers", &rules.responses, self.facts, ledger);
        for response in &rules.responses {
            for own in self.parts.rules.responses.iter().filter(|own| own.name == response.name) {
                ledger.unsupported(
                    own.statement,
                    "the backend changes the same header: what it says comes last here, and first in HAProxy",
                );
            }
        }
        for table in &rules.tracks {
            keys.push("track", table.clone(), None);
        }
        for rule in &rules.lists {
            if let Some(name) = list(rule, self.facts, self.draft, ledger) {
                keys.push("lists", name, rule.statement);
            }
        }
    }

    /// `use_backend %[...]`: each backend that has servers may be named.
    fn by_name(&mut self, target: &BackendTarget<'s>) {
        let parts = self.parts;
        let mut names: Vec<(&String, &BackendFacts<'s>)> =
            parts.backends.iter().filter(|(_, facts)| facts.upstream.is_some()).collect();
        names.sort_by_key(|(name, _)| name.as_str());
        if self.facts.tcp || names.is_empty() {
            let why = "`split_by` of a route chooses among the upstreams that it lists";
            parts.proxy.ledger.unsupported(target.statement, why);
            return self.close(&target.condition, target.statement);
        }
        let has_rules = |facts: &BackendFacts<'s>| {
            !facts.rules.terminals.is_empty()
                || !facts.chosen.is_empty()
                || !facts.rules.requests.is_empty()
                || !facts.rules.responses.is_empty()
                || !facts.rules.variants.is_empty()
                || !facts.rules.route.keys().is_empty()
        };
        if names.iter().any(|(name, facts)| has_rules(facts) || **name != name_of(name)) {
            let why = "rules of backends that are chosen by name: write a route for each of them";
            parts.proxy.ledger.unsupported(target.statement, why);
            parts.proxy.ledger.unsupported(target.statement, CLOSED);
            return self.close(&target.condition, target.statement);
        }
        let mut keys = Keys::default();
        keys.set("split_by", target.backend.clone(), target.statement);
        let split: Vec<TomlValue> =
            names.iter().map(|(name, _)| TomlValue::inline([("upstream", name.as_str().into())])).collect();
        keys.set("split", TomlValue::Array(split), target.statement);
        keys.extend(&parts.rules.route);
        self.push(&target.condition, &keys, &parts.rules.variants, target.statement);
    }
}
