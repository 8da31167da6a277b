//! Entry points with their routers as listeners.

use super::entry_points::EntryPoint;
use super::routers::{RouterMaker, RouterRoute, TraefikRouter, domain};
use super::tcp::TcpConfig;
use super::tls::{TlsNeeds, TraefikTls};
use super::tree;
use crate::document::{Draft, DraftTable, TomlValue, order};
use crate::report::Ledger;
use crate::source::Statement;

/// The routers of all entry points.
pub(super) struct ListenerMaker<'s, 'b> {
    pub(super) ledger: &'s Ledger,
    pub(super) points: &'b [EntryPoint<'s>],
    pub(super) routers: &'b [TraefikRouter<'s>],
    pub(super) tcp: &'b TcpConfig<'s>,
    pub(super) tls: &'b TraefikTls<'s>,
}

/// What the connections of an entry point are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PointKind {
    Plain,
    Tls,
    Tcp,
}

impl<'s> ListenerMaker<'s, '_> {
    /// Writes all listeners.
    pub(super) fn write(&self, maker: &mut RouterMaker<'s, '_>) {
        let kinds: Vec<PointKind> = self.points.iter().map(|point| self.kind(point)).collect();
        let mut has_listener = vec![false; self.routers.len()];
        let mut has_routes = vec![false; self.routers.len()];
        for (point, kind) in self.points.iter().zip(&kinds) {
            if *kind == PointKind::Tcp {
                self.tcp_listener(point, maker.draft);
            } else {
                self.listener(point, *kind, maker, (&mut has_listener, &mut has_routes));
            }
        }
        for (router, _) in self.routers.iter().zip(&has_routes).filter(|(_, has_routes)| !**has_routes) {
            self.settle_redirected(router);
        }
        self.settle_routers(&kinds, &has_listener);
    }

    fn is_on(&self, router: &TraefikRouter<'s>, point: &EntryPoint<'s>) -> bool {
        if router.entry_points.is_empty() {
            point.is_default
        } else {
            router.entry_points.contains(&point.name.as_str())
        }
    }

    /// A port speaks one of these: what routers that name it need, else what all need.
    fn kind(&self, point: &EntryPoint<'s>) -> PointKind {
        let own = self.routers.iter().filter(|router| self.is_on(router, point));
        let (named, usual): (Vec<_>, Vec<_>) = own.partition(|router| !router.entry_points.is_empty());
        let names_tcp = |(_, router): &(&str, &'s Statement)| {
            TcpConfig::entry_points_of(router, self.ledger).contains(&point.name.as_str())
        };
        if named.is_empty() && point.redirect.is_none() && self.tcp.routers.iter().any(names_tcp) {
            return PointKind::Tcp;
        }
        let has_tls = |router: &&&TraefikRouter<'s>| router.has_tls || point.has_tls;
        let is_tls = if point.has_tls {
            true
        } else if point.redirect.is_some() {
            false
        } else if !named.is_empty() {
            named.iter().any(|router| has_tls(&router))
        } else {
            let with = usual.iter().filter(has_tls).count();
            with > 0 && (point.port() == "443" || with == usual.len() && point.port() != "80")
        };
        if is_tls { PointKind::Tls } else { PointKind::Plain }
    }

    fn listener(
        &self,
        point: &EntryPoint<'s>,
        kind: PointKind,
        maker: &mut RouterMaker<'s, '_>,
        (has_listener, has_routes): (&mut [bool], &mut [bool]),
    ) {
        let has_tls = kind == PointKind::Tls;
        let mut own: Vec<(usize, &TraefikRouter<'s>)> = self
            .routers
            .iter()
            .enumerate()
            .filter(|(_, router)| self.is_on(router, point) && (router.has_tls || point.has_tls) == has_tls)
            .collect();
        own.sort_by_key(|(_, router)| std::cmp::Reverse(router.priority));
        let mut routes = Vec::new();
        if let Some(from) = point.ping {
            let mut table = DraftTable::silently_of(from);
            table.set_beside("respond", TomlValue::inline([("body", "OK".into())]), from);
            routes.push(RouterRoute { keys: vec![("path_exact", "/ping".into())], table });
        }
        if let Some(rule) = &point.redirect {
            let mut table = DraftTable::silently_of(rule.from);
            table.set_beside("redirect", rule.value(), rule.from);
            let keys = rule.when.iter().map(|when| ("when", when.as_str().into())).collect();
            routes.push(RouterRoute { keys, table });
            if rule.when.is_none() {
                own.iter().for_each(|(index, _)| has_listener[*index] = true);
                own.clear();
            }
        }
        let mut needs = TlsNeeds::default();
        let shared = self.options(point, &own);
        needs.options = shared.ok().flatten();
        for (index, router) in own {
            (has_listener[index], has_routes[index]) = (true, true);
            let forbidden = self.forbidden(router, point, &needs, has_tls);
            if has_tls {
                self.need(router, point, &mut needs);
            }
            routes.extend(maker.routes(router, point, has_tls, forbidden));
        }
        if routes.is_empty() {
            if let Some(statement) = point.statement {
                self.ledger.approximated(
                    statement,
                    "no router is on it: nothing listens there, where Traefik answers 404",
                );
            }
            return;
        }
        self.finish(point, has_tls, &needs, routes, maker.draft);
    }

    /// The options of TLS of all routers, if they agree.
    fn options(
        &self,
        point: &EntryPoint<'s>,
        own: &[(usize, &TraefikRouter<'s>)],
    ) -> Result<Option<&'s str>, ()> {
        let mut all = own.iter().map(|(_, router)| router.options.map(|(name, _)| name).or(point.options));
        let first = all.next().flatten();
        if all.all(|other| other == first) { Ok(first) } else { Err(()) }
    }

    /// A router whose clients need a certificate that the listener does not ask for is open to no one.
    fn forbidden(
        &self,
        router: &TraefikRouter<'s>,
        point: &EntryPoint<'s>,
        needs: &TlsNeeds<'s>,
        has_tls: bool,
    ) -> Option<&'s Statement> {
        let of_point = point.options.zip(point.statement);
        let (name, from) = router.options.or(of_point).filter(|_| has_tls)?;
        if Some(name) == needs.options || (name == "default" && needs.options.is_none()) {
            return None;
        }
        self.ledger.unsupported(
            from,
            &format!("a listener has the options of TLS for all of its hosts: give this router a port of its own ({})", point.name),
        );
        self.tls.refuse(name, self.ledger);
        self.tls.asks_clients(name).then_some(from)
    }

    /// What the certificate of a listener needs for a router.
    fn need(&self, router: &TraefikRouter<'s>, point: &EntryPoint<'s>, needs: &mut TlsNeeds<'s>) {
        let resolver = router.resolver.or_else(|| Some((point.resolver?, point.statement?)));
        let mut hosts: Vec<String> = if router.domains.is_empty() {
            let domains = point.domains.iter().flat_map(|domains| domains.children());
            domains.flat_map(|item| domain(item, self.ledger)).collect()
        } else {
            router.domains.clone()
        };
        let has_domains = !hosts.is_empty();
        if !has_domains {
            hosts = router
                .matches(point.client(), self.ledger)
                .into_iter()
                .flat_map(|matched| matched.hosts)
                .collect();
        }
        match resolver {
            None => needs.has_others |= !hosts.is_empty(),
            Some(resolver) => {
                needs.has_others |= has_domains;
                match needs.resolver {
                    Some((known, _)) if known != resolver.0 => {
                        self.ledger.unsupported(
                            resolver.1,
                            "a listener has one `tls.acme`: give this router a port of its own",
                        );
                    }
                    _ => needs.resolver = Some(resolver),
                }
                let new: Vec<String> = hosts.into_iter().filter(|host| !needs.hosts.contains(host)).collect();
                needs.hosts.extend(new);
            }
        }
    }

    fn finish(
        &self,
        point: &EntryPoint<'s>,
        has_tls: bool,
        needs: &TlsNeeds<'s>,
        mut routes: Vec<RouterRoute>,
        draft: &mut Draft,
    ) {
        let mut table = self.head(point);
        if has_tls && let Err(why) = self.tls.write(needs, point.statement, &mut table, self.ledger) {
            // Who needs a certificate cannot be told: no one gets in.
            let mut refused = DraftTable::default();
            refused.comment(&why);
            refused.set_plain("respond", TomlValue::inline([("status", 403_i64.into())]));
            routes = vec![RouterRoute { keys: Vec::new(), table: refused }];
        }
        point.write_http3(has_tls, &mut table, self.ledger);
        let matchers: Vec<&[(&'static str, TomlValue)]> =
            routes.iter().map(|route| route.keys.as_slice()).collect();
        if order::matters(&matchers) {
            table.set_plain("route_order", "file");
        }
        for route in routes {
            let mut own = DraftTable::default();
            for (key, value) in &route.keys {
                own.set_plain(key, value.clone());
            }
            let mut whole = route.table;
            whole.prepend(own);
            table.push_table("route", whole);
        }
        *draft.table(&["listener", &tree::name(&point.name)]) = table;
    }

    /// Address and whatever else the entry point says.
    fn head(&self, point: &EntryPoint<'s>) -> DraftTable {
        let mut table = point.statement.map_or_else(DraftTable::default, DraftTable::of);
        match point.statement {
            Some(from) => table.set_beside("address", point.address.as_str(), from),
            None => table.set_plain("address", point.address.as_str()),
        }
        table.extend(point.table.clone());
        table
    }

    fn tcp_listener(&self, point: &EntryPoint<'s>, draft: &mut Draft) {
        let mut table = self.head(point);
        table.set_plain("protocol", "tcp");
        let mut needs = TlsNeeds::default();
        let mut routes = Vec::new();
        for router in self.tcp.by_priority(self.ledger) {
            if !TcpConfig::entry_points_of(router, self.ledger).contains(&point.name.as_str()) {
                continue;
            }
            routes.extend(self.tcp.route(router, point, draft, self.ledger));
        }
        if routes.is_empty() {
            return;
        }
        let ends_tls = routes.iter().any(|route| route.ends_tls);
        for route in &routes {
            if let Some(resolver) = route.resolver {
                needs.resolver = Some(resolver);
                needs.hosts.extend(route.hosts.iter().cloned());
                needs.has_others |= routes.len() > 1;
            }
            if ends_tls && !route.has_tls {
                self.ledger.unsupported(
                    route.statement,
                    "a port has TLS or none: give this router a port of its own",
                );
            }
        }
        if ends_tls && self.tls.write(&needs, point.statement, &mut table, self.ledger).is_err() {
            return;
        }
        let matchers: Vec<&[(&'static str, TomlValue)]> =
            routes.iter().map(|route| route.keys.as_slice()).collect();
        if order::matters(&matchers) {
            table.set_plain("route_order", "file");
        }
        for route in routes.into_iter().filter(|route| !ends_tls || route.has_tls) {
            let mut own = DraftTable::default();
            for (key, value) in &route.keys {
                own.set_plain(key, value.clone());
            }
            if ends_tls && !route.ends_tls {
                own.set_plain("tls_passthrough", true);
            }
            let mut whole = route.table;
            whole.prepend(own);
            table.push_table("route", whole);
        }
        *draft.table(&["listener", &tree::name(&point.name)]) = table;
    }

    /// What a router says where all of its requests are redirected.
    fn settle_redirected(&self, router: &TraefikRouter<'s>) {
        router.matches("client_address", self.ledger);
        let service = tree::child(router.statement, "service");
        if let Some(service) = service {
            tree::values(self.ledger, service);
            self.ledger.meaningless(service, "the redirect of the entry point takes all requests");
        }
    }

    /// Routers that are on no listener, or not on all that they name.
    fn settle_routers(&self, kinds: &[PointKind], has_listener: &[bool]) {
        for (router, has_listener) in self.routers.iter().zip(has_listener) {
            let from = router.entry_points_at.unwrap_or(router.statement);
            for name in &router.entry_points {
                let found = self.points.iter().zip(kinds).find(|(point, _)| point.name == *name);
                match found {
                    None => self.ledger.unsupported(
                        from,
                        &format!(
                            "there is no entry point `{name}` in these files: import the static config, too"
                        ),
                    ),
                    Some((_, PointKind::Tcp)) => {}
                    Some((point, kind)) if (router.has_tls || point.has_tls) != (*kind == PointKind::Tls) => {
                        self.ledger.unsupported(
                            from,
                            "a port has TLS or none: of the routers that name it, those without `tls` are left out here",
                        );
                    }
                    Some(_) => {}
                }
            }
            if !has_listener && router.entry_points.is_empty() {
                self.ledger.unsupported(from, "no entry point speaks what it needs: TLS, or none");
            }
            if !has_listener {
                router.settle_unused(self.ledger, "the router is on no listener");
            }
        }
    }
}
