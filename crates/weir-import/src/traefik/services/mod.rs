//! Services: upstreams, and what chooses among them. The same service with other retries is another upstream.

mod load_balancer;

use std::collections::HashMap;

use super::tree::{self, child, is_true, key, number, refuse, value, value_of};
use crate::document::{DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// How deep services may be in each other.
const DEPTH_MAX: usize = 8;
/// The methods that Traefik copies: all of them.
const METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

/// All services, and the upstreams that they have become.
pub(super) struct TraefikServices<'s> {
    pub(super) ledger: &'s Ledger,
    pub(super) definitions: Vec<(&'s str, &'s Statement)>,
    pub(super) transports: Vec<(&'s str, &'s Statement)>,
    /// The transport of services that name none.
    pub(super) usual_transport: Option<&'s Statement>,
    pub(super) upstreams: Vec<(String, DraftTable)>,
    known: HashMap<(String, Option<RetrySetting>), ServiceUpstream>,
}

/// What `retry` of a router says of the upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RetrySetting {
    pub(super) attempts: i64,
    pub(super) backoff: Option<String>,
}

impl RetrySetting {
    pub(super) fn value(&self) -> TomlValue {
        let mut entries = vec![("attempts_max".to_owned(), TomlValue::from(self.attempts))];
        if let Some(backoff) = &self.backoff {
            entries.push(("backoff".to_owned(), backoff.as_str().into()));
        }
        TomlValue::Inline(entries)
    }
}

/// An upstream that a service has become.
#[derive(Clone)]
struct ServiceUpstream {
    name: String,
    /// Whether servers get their own address as `Host`.
    has_own_host: bool,
}

/// Where requests go: keys of a route.
pub(super) struct ServiceTarget {
    pub(super) keys: DraftTable,
    /// While this holds, requests go there instead.
    pub(super) spare: Option<(String, DraftTable)>,
}

impl<'s> TraefikServices<'s> {
    pub(super) fn new(ledger: &'s Ledger) -> Self {
        TraefikServices {
            ledger,
            definitions: Vec::new(),
            transports: Vec::new(),
            usual_transport: None,
            upstreams: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// What `name` is, for a router whose statement `from` names it.
    pub(super) fn target(
        &mut self,
        name: &str,
        retry: Option<&RetrySetting>,
        from: &'s Statement,
    ) -> Result<ServiceTarget, String> {
        self.target_within(name, retry, from, 0)
    }

    fn target_within(
        &mut self,
        name: &str,
        retry: Option<&RetrySetting>,
        from: &'s Statement,
        depth: usize,
    ) -> Result<ServiceTarget, String> {
        let plain = name.strip_suffix("@file").unwrap_or(name);
        if let Some(internal) = plain.strip_suffix("@internal") {
            return internal_service(internal, from);
        }
        let Some((_, service)) = self.definitions.iter().find(|(known, _)| *known == plain) else {
            return Err(format!("there is no service `{name}` in these files"));
        };
        if depth > DEPTH_MAX {
            return Err("services are too deep in each other".to_owned());
        }
        let service: &'s Statement = service;
        let Some(kind) = service.children().first() else {
            return Err(format!("the service `{name}` says nothing"));
        };
        self.ledger.exact(service);
        match key(kind).as_str() {
            "loadbalancer" => {
                let upstream = self.upstream(plain, retry, service, kind)?;
                let mut keys = DraftTable::default();
                keys.set_beside("upstream", upstream.name, from);
                if upstream.has_own_host {
                    keys.set_plain("forward_host", "server");
                }
                Ok(ServiceTarget { keys, spare: None })
            }
            "weighted" => self.weighted(kind, retry, from, depth),
            "mirroring" => self.mirroring(kind, retry, from, depth),
            "failover" => self.failover(kind, retry, from, depth),
            _ => Err(format!("Weir has no counterpart of `{}`", kind.name())),
        }
    }

    /// The name of an upstream alone: what is not one is no target of this kind.
    fn upstream_of(
        &mut self,
        name: &str,
        retry: Option<&RetrySetting>,
        from: &'s Statement,
        depth: usize,
    ) -> Result<(String, bool), String> {
        let target = self.target_within(name, retry, from, depth + 1)?;
        match (target.keys.text("upstream"), target.spare, target.keys.has("mirror")) {
            (Some(upstream), None, false) => Ok((upstream.to_owned(), target.keys.has("forward_host"))),
            _ => Err(format!("`{name}` is no service with servers of its own: write the routes by hand")),
        }
    }

    /// An upstream for what is beside services: pages of errors.
    pub(super) fn plain_upstream(
        &mut self,
        name: &str,
        from: &'s Statement,
    ) -> Result<(String, bool), String> {
        self.upstream_of(name, None, from, 0)
    }

    fn upstream(
        &mut self,
        name: &str,
        retry: Option<&RetrySetting>,
        service: &'s Statement,
        kind: &'s Statement,
    ) -> Result<ServiceUpstream, String> {
        let known_as = (name.to_owned(), retry.cloned());
        if let Some(known) = self.known.get(&known_as) {
            return Ok(known.clone());
        }
        let (mut table, has_own_host) = load_balancer::read(self, service, kind)?;
        if let Some(retry) = retry {
            table.set_beside("retry", retry.value(), kind);
        }
        let usual = if retry.is_some() && self.known.keys().any(|(known, _)| known == name) {
            format!("{name}-retry")
        } else {
            name.to_owned()
        };
        let upstream = ServiceUpstream { name: self.add(&usual, table), has_own_host };
        self.known.insert(known_as, upstream.clone());
        Ok(upstream)
    }

    /// Adds an upstream under a free name; one that says the same stays the only one.
    pub(super) fn add(&mut self, usual: &str, table: DraftTable) -> String {
        let base = tree::name(usual);
        let mut name = base.clone();
        let mut number = 2;
        while let Some((_, known)) = self.upstreams.iter().find(|(known, _)| *known == name) {
            if known.says_the_same(&table) {
                return name;
            }
            name = format!("{base}-{number}");
            number += 1;
        }
        self.upstreams.push((name.clone(), table));
        name
    }

    fn weighted(
        &mut self,
        kind: &'s Statement,
        retry: Option<&RetrySetting>,
        from: &'s Statement,
        depth: usize,
    ) -> Result<ServiceTarget, String> {
        let ledger = self.ledger;
        let mut split = Vec::new();
        for part in kind.children() {
            match key(part).as_str() {
                "services" => {}
                "sticky" => {
                    let advice =
                        "a client may get another upstream of a split with each request: `split_by` a cookie";
                    refuse(ledger, part, advice);
                    continue;
                }
                "healthcheck" => {
                    ledger.approximated(part, "an upstream without a usable server keeps its share: write a route with `upstream.NAME.usable`");
                    continue;
                }
                _ => continue,
            }
            for item in part.children() {
                let name = value_of(ledger, item, "name").unwrap_or_default();
                let weight = child(item, "weight").map_or(Some(1), |weight| number(ledger, weight));
                let weight = weight.ok_or("a weight is no number")?;
                let (upstream, has_own_host) = self.upstream_of(name, retry, from, depth)?;
                let mut entry = vec![
                    ("upstream".to_owned(), TomlValue::from(upstream)),
                    ("weight".to_owned(), weight.into()),
                ];
                if has_own_host {
                    entry.push(("forward_host".to_owned(), "server".into()));
                }
                split.push(TomlValue::Inline(entry));
                item.children().iter().chain([item]).for_each(|one| ledger.exact(one));
            }
            ledger.exact(part);
        }
        ledger.exact(kind);
        if split.is_empty() {
            return Err("a split needs services".to_owned());
        }
        let mut keys = DraftTable::default();
        keys.set_beside("split", TomlValue::Array(split), from);
        Ok(ServiceTarget { keys, spare: None })
    }

    fn mirroring(
        &mut self,
        kind: &'s Statement,
        retry: Option<&RetrySetting>,
        from: &'s Statement,
        depth: usize,
    ) -> Result<ServiceTarget, String> {
        let ledger = self.ledger;
        let main = value_of(ledger, kind, "service").unwrap_or_default();
        let mut target = self.target_within(main, retry, from, depth + 1)?;
        let mut body_max = "16MiB".to_owned();
        let mut mirrors = Vec::new();
        for part in kind.children() {
            match key(part).as_str() {
                "service" => ledger.exact(part),
                "maxbodysize" => match number(ledger, part) {
                    Some(size) if size <= 16 << 20 => {
                        body_max = format!("{size}B");
                        ledger.exact(part);
                    }
                    _ => ledger.approximated(part, "requests with a body of more than 16 MiB are not copied"),
                },
                "mirrorbody" if is_true(ledger, part) => ledger.exact(part),
                "mirrorbody" => ledger.unsupported(part, "copies have the body of the request"),
                "healthcheck" => ledger.by_default(part, "copies go to available servers only"),
                "mirrors" => {
                    for item in part.children() {
                        let name = value_of(ledger, item, "name").unwrap_or_default();
                        let percent =
                            child(item, "percent").and_then(|percent| number(ledger, percent)).unwrap_or(0);
                        let (upstream, has_own_host) = self.upstream_of(name, None, from, depth)?;
                        if (1..=100).contains(&percent) {
                            mirrors.push((upstream, percent, has_own_host));
                        }
                        item.children().iter().chain([item]).for_each(|one| ledger.exact(one));
                    }
                    ledger.exact(part);
                }
                _ => {}
            }
        }
        ledger.approximated(
            kind,
            "at most 64 copies of a route run at a time, for 30 s each, and upgrades are not copied: see `mirror`",
        );
        let tables = mirrors.into_iter().map(|(upstream, percent, has_own_host)| {
            let mut entries = vec![("upstream".to_owned(), TomlValue::from(upstream))];
            if percent < 100 {
                entries.push(("share".to_owned(), format!("{percent}%").into()));
            }
            entries.push(("methods".to_owned(), METHODS.to_vec().into()));
            entries.push(("body_max".to_owned(), body_max.as_str().into()));
            if has_own_host {
                entries.push(("forward_host".to_owned(), "server".into()));
            }
            TomlValue::Inline(entries)
        });
        let tables: Vec<TomlValue> = tables.collect();
        match tables.as_slice() {
            [] => {}
            [one] => target.keys.set_beside("mirror", one.clone(), kind),
            _ => target.keys.set_beside("mirror", TomlValue::Array(tables), kind),
        }
        Ok(target)
    }

    fn failover(
        &mut self,
        kind: &'s Statement,
        retry: Option<&RetrySetting>,
        from: &'s Statement,
        depth: usize,
    ) -> Result<ServiceTarget, String> {
        let ledger = self.ledger;
        let main = value_of(ledger, kind, "service").unwrap_or_default();
        let fallback = value_of(ledger, kind, "fallback").unwrap_or_default();
        let (upstream, _) = self.upstream_of(main, retry, from, depth)?;
        let spare = self.target_within(fallback, retry, from, depth + 1)?;
        if spare.spare.is_some() {
            return Err("a fallback of a fallback: write the routes by hand".to_owned());
        }
        for part in kind.children() {
            match key(part).as_str() {
                "service" | "fallback" => ledger.exact(part),
                "healthcheck" => ledger.by_default(part, "Weir knows which servers are usable"),
                _ => {}
            }
        }
        ledger.exact(kind);
        let target = self.target_within(main, retry, from, depth + 1)?;
        let condition = format!("upstream[\"{upstream}\"].usable < 1");
        Ok(ServiceTarget { keys: target.keys, spare: Some((condition, spare.keys)) })
    }

    /// The transport of a service.
    fn transport(&self, name: Option<&'s Statement>) -> Result<Option<&'s Statement>, String> {
        let Some(statement) = name else { return Ok(self.usual_transport) };
        let name = value(self.ledger, statement);
        let plain = name.strip_suffix("@file").unwrap_or(name);
        match self.transports.iter().find(|(known, _)| *known == plain) {
            Some((_, transport)) => Ok(Some(transport)),
            None if plain.starts_with("default@") => Ok(self.usual_transport),
            None => Err(format!("there is no `serversTransports` of the name `{name}` in these files")),
        }
    }
}

fn internal_service(name: &str, from: &Statement) -> Result<ServiceTarget, String> {
    match name {
        "noop" => {
            let mut keys = DraftTable::default();
            keys.set_beside("respond", TomlValue::inline([("status", 418_i64.into())]), from);
            Ok(ServiceTarget { keys, spare: None })
        }
        "api" | "dashboard" => {
            Err("Weir has its status page at an address of its own: see `[admin]`".to_owned())
        }
        "ping" => Err("`[admin]` has `/ready` and `/health`".to_owned()),
        "prometheus" => Err("`[admin]` has `/metrics`".to_owned()),
        _ => Err(format!("Weir has no service `{name}@internal`")),
    }
}
