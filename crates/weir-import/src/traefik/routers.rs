//! Routers: on which entry points they are, and the routes that they become.

use super::entry_points::EntryPoint;
use super::middlewares::{FieldSetting, PathChange, RouterPlace, RouterSettings};
use super::rule::RuleMatch;
use super::services::{ServiceTarget, TraefikServices};
use super::tree::{ignore, key, literal, names, refuse, value, values};
use crate::document::{Draft, DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// A router of HTTP.
pub(super) struct TraefikRouter<'s> {
    pub(super) name: &'s str,
    pub(super) statement: &'s Statement,
    /// The entry points that it names; none for the usual ones.
    pub(super) entry_points: Vec<&'s str>,
    pub(super) entry_points_at: Option<&'s Statement>,
    pub(super) has_tls: bool,
    pub(super) resolver: Option<(&'s str, &'s Statement)>,
    pub(super) options: Option<(&'s str, &'s Statement)>,
    pub(super) domains: Vec<String>,
    pub(super) priority: i64,
    rule: Option<&'s Statement>,
    /// The statement that lists its middlewares, with their names.
    middlewares: Option<(&'s Statement, Vec<&'s str>)>,
    service: Option<&'s Statement>,
    /// Keys of its routes that it says itself.
    access_log: Option<&'s Statement>,
}

/// A route in the making: what it matches by, and its table.
pub(super) struct RouterRoute {
    pub(super) keys: Vec<(&'static str, TomlValue)>,
    pub(super) table: DraftTable,
}

impl<'s> TraefikRouter<'s> {
    pub(super) fn read(statement: &'s Statement, ledger: &Ledger) -> TraefikRouter<'s> {
        let mut router = TraefikRouter {
            name: statement.name(),
            statement,
            entry_points: Vec::new(),
            entry_points_at: None,
            has_tls: false,
            resolver: None,
            options: None,
            domains: Vec::new(),
            priority: 0,
            rule: None,
            middlewares: None,
            service: None,
            access_log: None,
        };
        for part in statement.children() {
            match key(part).as_str() {
                "rule" => router.rule = Some(part),
                "entrypoints" => {
                    router.entry_points = names(ledger, part);
                    router.entry_points_at = Some(part);
                }
                "middlewares" => router.middlewares = Some((part, names(ledger, part))),
                "service" => router.service = Some(part),
                "priority" => router.priority = value(ledger, part).parse().unwrap_or(0),
                "tls" => {
                    router.has_tls = part.block.is_some() || value(ledger, part) == "true";
                    router.tls(part, ledger);
                }
                "rulesyntax" => {
                    value(ledger, part);
                }
                "observability" => router.observability(part, ledger),
                _ => continue,
            }
            ledger.exact(part);
        }
        // The longer rule goes first, unless a number says otherwise.
        if let Some(rule) = router.rule.filter(|_| router.priority == 0) {
            router.priority = i64::try_from(value(ledger, rule).len()).unwrap_or(i64::MAX);
        }
        ledger.exact(statement);
        router
    }

    fn tls(&mut self, statement: &'s Statement, ledger: &Ledger) {
        values(ledger, statement);
        for part in statement.children() {
            match key(part).as_str() {
                "certresolver" => self.resolver = Some((value(ledger, part), part)),
                "options" => self.options = Some((value(ledger, part), part)),
                "domains" => {
                    for item in part.children() {
                        self.domains.extend(domain(item, ledger));
                    }
                }
                _ => continue,
            }
            ledger.exact(part);
        }
    }

    fn observability(&mut self, statement: &'s Statement, ledger: &Ledger) {
        for part in statement.children() {
            match (key(part).as_str(), value(ledger, part)) {
                ("accesslogs", "false") => self.access_log = Some(part),
                ("accesslogs" | "metrics" | "tracing", "true") => {}
                _ => {
                    refuse(ledger, part, "see `access_log` of the route, and `[traces]`");
                    continue;
                }
            }
            ledger.exact(part);
        }
    }

    /// The names of middlewares that it lists.
    pub(super) fn middleware_names(&self) -> &[&'s str] {
        self.middlewares.as_ref().map_or(&[], |(_, names)| names)
    }

    /// What it is for, on an entry point; nothing if that cannot be said.
    pub(super) fn matches(&self, client: &str, ledger: &Ledger) -> Vec<RuleMatch> {
        let Some(rule) = self.rule else {
            ledger.unsupported(self.statement, "a router needs a rule");
            return Vec::new();
        };
        match RuleMatch::of_rule(value(ledger, rule), client) {
            Ok(matches) => {
                ledger.exact(rule);
                matches
            }
            Err(why) => {
                ledger.unsupported(rule, &why);
                Vec::new()
            }
        }
    }

    /// It is on no listener: what it names has no meaning.
    pub(super) fn settle_unused(&self, ledger: &Ledger, why: &str) {
        ignore(ledger, self.statement, why);
    }
}

/// The hosts of one entry of `domains`.
pub(super) fn domain(item: &Statement, ledger: &Ledger) -> Vec<String> {
    let mut hosts = Vec::new();
    for part in item.children() {
        if matches!(key(part).as_str(), "main" | "sans") {
            hosts.extend(names(ledger, part).into_iter().map(str::to_owned));
            ledger.exact(part);
        }
    }
    ledger.exact(item);
    hosts
}

/// What all routers are made with.
pub(super) struct RouterMaker<'s, 'b> {
    pub(super) ledger: &'s Ledger,
    pub(super) services: &'b mut TraefikServices<'s>,
    pub(super) middlewares: &'b [(&'s str, &'s Statement)],
    pub(super) draft: &'b mut Draft,
    pub(super) is_shared: &'b dyn Fn(&str) -> bool,
}

impl<'s> RouterMaker<'s, '_> {
    /// The routes of a router on an entry point.
    pub(super) fn routes(
        &mut self,
        router: &TraefikRouter<'s>,
        point: &EntryPoint<'s>,
        has_tls: bool,
        forbidden: Option<&'s Statement>,
    ) -> Vec<RouterRoute> {
        let mut routes = Vec::new();
        let matches = router.matches(point.client(), self.ledger);
        if let (true, Some(rule)) = (matches.is_empty(), router.rule) {
            // Another router would take its requests.
            self.ledger.unsupported(rule, "until then, no one gets in where it may be for");
            let matched = RuleMatch::at_most(value(self.ledger, rule), point.client());
            let settings = RouterSettings { forbidden: Some(rule), ..RouterSettings::default() };
            self.finish(&matched, DraftTable::of(router.statement), &settings, &mut routes);
        }
        for matched in matches {
            let mut place = RouterPlace {
                ledger: self.ledger,
                definitions: self.middlewares,
                services: self.services,
                draft: self.draft,
                router: router.name.to_owned(),
                matched: matched.clone(),
                has_tls,
                client: point.client(),
                trusts_peers: point.trusts_peers,
                is_shared: self.is_shared,
            };
            let mut settings = RouterSettings { forbidden, ..RouterSettings::default() };
            for (name, from) in &point.middlewares {
                place.apply(&[name], from, &mut settings);
            }
            if let Some((from, names)) = &router.middlewares {
                place.apply(names, from, &mut settings);
            }
            self.write(router, &matched, &settings, &mut routes);
        }
        routes.iter_mut().skip(1).for_each(|route| route.table.drop_comments());
        routes
    }

    fn write(
        &mut self,
        router: &TraefikRouter<'s>,
        matched: &RuleMatch,
        settings: &RouterSettings<'s>,
        routes: &mut Vec<RouterRoute>,
    ) {
        let of_router = || DraftTable::of(router.statement);
        for (rule, before) in &settings.redirects {
            let mut matched = matched.clone();
            matched.when.extend(rule.when.clone());
            let mut table = of_router();
            table.set_beside("redirect", rule.value(), rule.from);
            if rule.needs_url {
                let url = "{scheme}://{authority}{path}{query}";
                table.set_plain("vars", TomlValue::inline([("url", url.into())]));
            }
            self.finish(&matched, table, before, routes);
        }
        if settings.is_taken {
            if let Some(service) = router.service {
                values(self.ledger, service);
                self.ledger.exact(service);
            }
            return;
        }
        let target = match (settings.forbidden, router.service) {
            (Some(_), service) => {
                if let Some(service) = service {
                    values(self.ledger, service);
                    self.ledger.exact(service);
                }
                None
            }
            (None, None) => {
                self.ledger.unsupported(router.statement, "a router needs a service");
                Some(refused(404, router.statement))
            }
            (None, Some(service)) => Some(self.target(service, settings)),
        };
        let Some(target) = target else {
            return self.finish(matched, of_router(), settings, routes);
        };
        if let Some((condition, keys)) = target.spare {
            let mut matched = matched.clone();
            matched.when.push(condition);
            let mut table = of_router();
            table.extend(keys);
            self.finish(&matched, table, settings, routes);
        }
        let mut table = of_router();
        table.extend(target.keys);
        self.log(router, &mut table);
        self.finish(matched, table, settings, routes);
    }

    fn log(&self, router: &TraefikRouter<'s>, table: &mut DraftTable) {
        if let Some(from) = router.access_log {
            table.set_beside("access_log", false, from);
            self.ledger.approximated(from, "failures have a line all the same");
        }
    }

    fn target(&mut self, service: &'s Statement, settings: &RouterSettings<'s>) -> ServiceTarget {
        let name = value(self.ledger, service);
        match self.services.target(name, settings.retry.as_ref(), service) {
            Ok(target) => {
                self.ledger.exact(service);
                target
            }
            Err(why) => {
                self.ledger.unsupported(service, &why);
                let status = if name.ends_with("@internal") { 404 } else { 503 };
                refused(status, service)
            }
        }
    }

    /// Adds a route with all that the middlewares say.
    fn finish(
        &self,
        matched: &RuleMatch,
        mut table: DraftTable,
        settings: &RouterSettings<'s>,
        routes: &mut Vec<RouterRoute>,
    ) {
        let keys = matched.keys();
        let forbid = |table: &mut DraftTable, from: &'s Statement| {
            table.clear();
            table.set_beside("respond", TomlValue::inline([("status", 403_i64.into())]), from);
        };
        if let Some(from) = settings.forbidden {
            forbid(&mut table, from);
            return routes.push(RouterRoute { keys, table });
        }
        if !PathChange::write(&settings.paths, matched.prefix.as_deref(), &mut table) {
            let from = settings.paths.last().map(PathChange::from);
            if let Some(from) = from {
                refuse(
                    self.ledger,
                    from,
                    "these changes of one path, one after the other: see `rewrite` of the route; until then, no one gets in",
                );
                forbid(&mut table, from);
            }
            return routes.push(RouterRoute { keys, table });
        }
        for (key, value, from) in &settings.keys {
            table.set_beside(key, value.clone(), from);
        }
        if let Some((host, from)) = &settings.forward_host {
            table.set_beside("forward_host", literal(host), from);
        }
        match table.has("rewrite") {
            true => {
                let request = FieldSetting::behind_rewrite(&settings.request, self.ledger);
                FieldSetting::write(&mut table, "request_headers", &request);
            }
            false => FieldSetting::write(&mut table, "request_headers", &settings.request),
        }
        FieldSetting::write(&mut table, "response_headers", &settings.response);
        for (page, from) in &settings.error_pages {
            table.push("error_pages", page.clone(), from);
        }
        routes.push(RouterRoute { keys, table });
    }
}

/// What cannot be said answers, and leaves its requests to no other route.
fn refused(status: i64, from: &Statement) -> ServiceTarget {
    let mut keys = DraftTable::default();
    keys.set_beside("respond", TomlValue::inline([("status", status.into())]), from);
    ServiceTarget { keys, spare: None }
}
