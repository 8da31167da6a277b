//! `tcp`: routers by server name, with TLS that passes through or ends here.

use super::entry_points::EntryPoint;
use super::rule::RuleTree;
use super::transports;
use super::tree::{self, child, is_true, key, number, refuse, value, value_of, values};
use crate::document::{Draft, DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// The dynamic config of TCP.
#[derive(Default)]
pub(super) struct TcpConfig<'s> {
    pub(super) routers: Vec<(&'s str, &'s Statement)>,
    services: Vec<(&'s str, &'s Statement)>,
    middlewares: Vec<(&'s str, &'s Statement)>,
    transports: Vec<(&'s str, &'s Statement)>,
    /// The names of services of HTTP.
    pub(super) taken: Vec<&'s str>,
}

/// A route of a TCP listener.
pub(super) struct TcpRouterRoute<'s> {
    pub(super) keys: Vec<(&'static str, TomlValue)>,
    pub(super) table: DraftTable,
    pub(super) statement: &'s Statement,
    /// Whether TLS ends at the listener.
    pub(super) ends_tls: bool,
    pub(super) has_tls: bool,
    pub(super) resolver: Option<(&'s str, &'s Statement)>,
    pub(super) hosts: Vec<String>,
}

impl<'s> TcpConfig<'s> {
    pub(super) fn read(&mut self, statement: &'s Statement, ledger: &Ledger) {
        for part in statement.children() {
            let list = match key(part).as_str() {
                "routers" => &mut self.routers,
                "services" => &mut self.services,
                "middlewares" => &mut self.middlewares,
                "serverstransports" => &mut self.transports,
                _ => continue,
            };
            list.extend(part.children().iter().map(|own| (own.name(), own)));
            ledger.exact(part);
        }
        ledger.exact(statement);
    }

    /// The routers in the order in which Traefik asks them: the longer rule goes first, unless a number says otherwise.
    pub(super) fn by_priority(&self, ledger: &Ledger) -> Vec<&'s Statement> {
        let mut routers: Vec<&'s Statement> = self.routers.iter().map(|(_, router)| *router).collect();
        routers.sort_by_key(|router| {
            let written = value_of(ledger, router, "priority").and_then(|text| text.parse::<i64>().ok());
            let of_rule = || i64::try_from(value_of(ledger, router, "rule").unwrap_or_default().len());
            let priority = written.filter(|priority| *priority != 0).or_else(|| of_rule().ok());
            std::cmp::Reverse(priority)
        });
        routers
    }

    /// The entry points that a router names.
    pub(super) fn entry_points_of(router: &'s Statement, ledger: &Ledger) -> Vec<&'s str> {
        child(router, "entrypoints").map(|part| tree::names(ledger, part)).unwrap_or_default()
    }

    /// The route of a router, and its upstream.
    pub(super) fn route(
        &self,
        router: &'s Statement,
        point: &EntryPoint<'s>,
        draft: &mut Draft,
        ledger: &Ledger,
    ) -> Option<TcpRouterRoute<'s>> {
        let tls = child(router, "tls");
        let passes = tls.and_then(|tls| child(tls, "passthrough")).is_some_and(|own| is_true(ledger, own));
        let mut route = TcpRouterRoute {
            keys: Vec::new(),
            table: DraftTable::of(router),
            statement: router,
            ends_tls: tls.is_some() && !passes,
            has_tls: tls.is_some(),
            resolver: None,
            hosts: Vec::new(),
        };
        let rule = child(router, "rule");
        let text = rule.map(|rule| value(ledger, rule)).unwrap_or_default();
        match names_of(text, point.client()) {
            Ok((names, networks)) => {
                route.hosts.clone_from(&names);
                if !names.is_empty() {
                    route.keys.push(("sni", one_or_list(&names)));
                }
                if !networks.is_empty() {
                    route.keys.push(("source", one_or_list(&networks)));
                }
            }
            Err(why) => {
                ledger.unsupported(rule.unwrap_or(router), &why);
                return None;
            }
        }
        for part in router.children() {
            match key(part).as_str() {
                "rule" | "entrypoints" => ledger.exact(part),
                "priority" => {
                    number(ledger, part);
                    ledger.exact(part);
                }
                "service" => self.service(part, &mut route, draft, ledger)?,
                "middlewares" => self.middlewares(part, point, &mut route, draft, ledger)?,
                "tls" => {
                    values(ledger, part);
                    for own in part.children() {
                        match key(own).as_str() {
                            "passthrough" => {}
                            "certresolver" => route.resolver = Some((value(ledger, own), own)),
                            "domains" => {
                                refuse(ledger, own, "name the hosts in `tls.acme.hosts` of the listener");
                                continue;
                            }
                            _ => {
                                refuse(ledger, own, "see `tls` of the listener");
                                return None;
                            }
                        }
                        ledger.exact(own);
                    }
                    ledger.exact(part);
                }
                _ => {}
            }
        }
        ledger.exact(router);
        route.table.has("upstream").then_some(route)
    }

    fn service(
        &self,
        from: &'s Statement,
        route: &mut TcpRouterRoute<'s>,
        draft: &mut Draft,
        ledger: &Ledger,
    ) -> Option<()> {
        let name = value(ledger, from);
        let plain = name.strip_suffix("@file").unwrap_or(name);
        let found = self.services.iter().find(|(known, _)| *known == plain);
        let balancer = found.and_then(|(_, service)| Some((*service, child(service, "loadbalancer")?)));
        let Some((service, balancer)) = balancer else {
            ledger.unsupported(from, "there is no service with servers of this name in these files");
            return None;
        };
        let mut table = DraftTable::of(service);
        self.upstream(balancer, &mut table, ledger);
        // Services of HTTP have names of their own, and come later.
        let is_taken = self.taken.contains(&plain);
        let wanted = if is_taken { format!("{plain}-tcp") } else { plain.to_owned() };
        let own = draft.add_named("upstream", &tree::name(&wanted), table);
        ledger.exact(service);
        ledger.exact(from);
        route.table.set_beside("upstream", own, from);
        Some(())
    }

    fn upstream(&self, balancer: &'s Statement, table: &mut DraftTable, ledger: &Ledger) {
        let mut servers = Vec::new();
        let mut has_tls = false;
        for item in child(balancer, "servers").map_or(&[][..], Statement::children) {
            servers.push(value_of(ledger, item, "address").unwrap_or_default());
            for own in item.children() {
                match key(own).as_str() {
                    "address" => ledger.exact(own),
                    "tls" => {
                        has_tls |= is_true(ledger, own);
                        ledger.exact(own);
                    }
                    _ => {}
                }
            }
            ledger.exact(item);
        }
        let is_group = servers.len() > 1;
        table.set_beside("servers", servers, balancer);
        if is_group {
            table.set_plain("balance", "round-robin");
            table.set_plain("ejection", "off");
        }
        // Traefik closes no connection that is silent.
        table.set_plain("timeouts", TomlValue::inline([("tunnel", "off".into())]));
        let mut tls = Vec::new();
        for part in balancer.children() {
            match key(part).as_str() {
                "servers" => ledger.exact(part),
                "proxyprotocol" => {
                    let version = value_of(ledger, part, "version").unwrap_or("2");
                    table.set("proxy_protocol", if version == "1" { "v1" } else { "v2" }, part);
                    part.children().iter().for_each(|own| ledger.exact(own));
                    ledger.exact(part);
                }
                "terminationdelay" => {
                    value(ledger, part);
                    ledger.approximated(
                        part,
                        "a half-closed connection stays open until the other side closes it",
                    );
                }
                "serverstransport" => {
                    let name = value(ledger, part);
                    let found =
                        self.transports.iter().find(|(known, _)| *known == name.trim_end_matches("@file"));
                    match found.and_then(|(_, own)| Some((own, child(own, "tls")?))) {
                        Some((own, inner)) => {
                            tls = transports::read(inner, ledger).tls;
                            ledger.exact(own);
                            ledger.exact(part);
                        }
                        None => ledger.unsupported(part, "see the upstream in docs/configuration.md"),
                    }
                }
                _ => {}
            }
        }
        if has_tls {
            let tls = tls.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            table.set_plain("tls", TomlValue::Inline(tls));
        }
        ledger.exact(balancer);
    }

    fn middlewares(
        &self,
        from: &'s Statement,
        point: &EntryPoint<'s>,
        route: &mut TcpRouterRoute<'s>,
        draft: &mut Draft,
        ledger: &Ledger,
    ) -> Option<()> {
        for name in tree::names(ledger, from) {
            let plain = name.strip_suffix("@file").unwrap_or(name);
            let kind = self.middlewares.iter().find(|(known, _)| *known == plain);
            let kind = kind.and_then(|(_, definition)| Some((*definition, definition.children().first()?)));
            let Some((definition, kind)) = kind else {
                ledger.unsupported(from, &format!("there is no middleware `{name}` in these files"));
                return None;
            };
            let own = tree::name(plain);
            match key(kind).as_str() {
                "ipallowlist" | "ipwhitelist" => {
                    let networks =
                        child(kind, "sourcerange").map(|part| tree::names(ledger, part)).unwrap_or_default();
                    if networks.is_empty() {
                        refuse(ledger, kind, "a list of networks is needed: the router is left out");
                        return None;
                    }
                    let networks: Vec<String> =
                        networks.iter().map(|network| format!("\"{network}\"")).collect();
                    let when = format!("!({} in [{}])", point.client(), networks.join(", "));
                    let mut table = DraftTable::of(kind);
                    table.set_plain("action", "deny");
                    table.set_beside("when", when, kind);
                    let own = draft.add_named("list", &own, table);
                    route.table.push("lists", own, from);
                }
                "inflightconn" => {
                    let amount = child(kind, "amount").and_then(|part| number(ledger, part)).unwrap_or(1);
                    let mut table = DraftTable::of(kind);
                    table.set_beside("concurrent", amount, kind);
                    let own = draft.add_named("limit", &own, table);
                    route.table.push("limited_by", own, from);
                }
                _ => {
                    refuse(ledger, kind, "Weir has no counterpart for TCP");
                    return None;
                }
            }
            kind.children().iter().chain([kind, definition]).for_each(|part| ledger.exact(part));
        }
        ledger.exact(from);
        Some(())
    }

    /// Services and middlewares that no router uses have no meaning.
    pub(super) fn settle_unused(&self, ledger: &Ledger) {
        for (_, statement) in self.services.iter().chain(&self.middlewares).chain(&self.transports) {
            tree::ignore_unused(ledger, statement, "no router uses it");
        }
    }
}

/// Server names and networks of a rule; no names are all.
fn names_of(rule: &str, client: &str) -> Result<(Vec<String>, Vec<String>), String> {
    let (mut names, mut networks) = (Vec::new(), Vec::new());
    let advice = "a rule of TCP is by `HostSNI` and `ClientIP`: see `sni` and `source` of the route";
    let tree = RuleTree::parse(rule)?;
    let parts = match &tree {
        RuleTree::All(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    for part in parts {
        let own = match part {
            RuleTree::Any(own) => own.as_slice(),
            one => std::slice::from_ref(one),
        };
        let (mut hosts, mut clients) = (Vec::new(), Vec::new());
        for one in own {
            match one {
                RuleTree::Matcher(name, texts) if name == "hostsni" => {
                    hosts.extend(texts.iter().map(|text| text.to_ascii_lowercase()));
                }
                RuleTree::Matcher(name, texts) if name == "clientip" && client == "client_address" => {
                    clients.extend(texts.iter().cloned());
                }
                _ => return Err(advice.to_owned()),
            }
        }
        if !hosts.is_empty() && !clients.is_empty()
            || !names.is_empty() && !hosts.is_empty()
            || !networks.is_empty() && !clients.is_empty()
        {
            return Err(advice.to_owned());
        }
        names.extend(hosts);
        networks.extend(clients);
    }
    if names.iter().any(|name| name == "*") {
        names.clear();
    }
    Ok((names, networks))
}

fn one_or_list(texts: &[String]) -> TomlValue {
    match texts {
        [one] => one.as_str().into(),
        several => several.to_vec().into(),
    }
}
