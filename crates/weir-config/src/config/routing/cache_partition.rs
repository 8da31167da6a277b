//! What keeps the responses that a cache has for one route apart from those for another.

use sha2::{Digest as _, Sha256};
use weir_traffic::route::{PathMatch, RouteMatch};

use crate::config::{IgnoredVaryField, PartitionName, Route, RouteAction, RouteCache, SplitTarget};
use crate::value::{TemplateValue, WhenCondition};

/// What a route keeps its responses apart by, without regard to `share`, for each target of its split. `upstream` has the names of upstreams.
///
/// Not in it: what decides about a request before the cache is asked (lists, limits, proofs), and settings that only a reload changes.
pub(crate) fn own_partitions(
    listener: &str,
    route: &Route,
    cache: &RouteCache,
    upstream: impl Fn(usize) -> String,
) -> Vec<PartitionName> {
    let names = |wanted: &[TemplateValue]| cache.key.values().any(|value| wanted.contains(value));
    let RouteMatch {
        hosts,
        path,
        methods,
        headers,
        query,
        sources,
        condition,
        before_regex: _,
        priority: _,
        precedence: _,
    } = &*route.matches;
    // The path in a key is that after rewrites: what routes match says nothing of it where there are any, or where a route is reached from inside.
    let has_other_path = !route.rewrites.is_empty() || route.internal;
    let rules = RouteMatch {
        hosts: match names(&[TemplateValue::Host, TemplateValue::Authority]) {
            true => Vec::new(),
            false => hosts.clone(),
        },
        path: match names(&[TemplateValue::Path, TemplateValue::Target]) && !has_other_path {
            true => PathMatch::ANY,
            false => path.clone(),
        },
        methods: methods.clone(),
        headers: headers.clone(),
        query: query.clone(),
        sources: sources.clone(),
        condition: condition.clone(),
        priority: 0,
        before_regex: false,
        precedence: 0,
    };
    let (mut rules, key) = (rules.to_string(), cache.key.to_string());
    if has_other_path {
        rules.push_str(&route.name);
    }
    if !route.forward_headers {
        rules.push_str("without the fields of clients");
    }
    push_definitions(route, cache, &mut rules);
    // What is stored without regard to a field is for no route that goes by it.
    rules.push_str(&ignored_vary(cache));
    let of = |target: &str, own: &str| digest(&["route", listener, &key, &rules, target, own]);
    let of_target = |target: &SplitTarget| {
        let own = target
            .settings
            .as_ref()
            .map(|own| format!("{:?} {:?} {:?}", own.request_headers, own.forward_host, own.rewrite));
        of(&target.upstream().map_or_else(String::new, |index| upstream(index.0)), &own.unwrap_or_default())
    };
    match &route.action {
        RouteAction::Split(targets) => targets.iter().map(of_target).collect(),
        other => vec![of(&other.upstreams().next().map_or_else(String::new, |index| upstream(index.0)), "")],
    }
}

/// What maps and variables mean is as much a part of the rules as what is written there.
fn push_definitions(route: &Route, cache: &RouteCache, rules: &mut String) {
    for value in route.condition.iter().flat_map(WhenCondition::values).chain(cache.key.values()) {
        match value {
            TemplateValue::Map(own) | TemplateValue::Counter(own, _) => {
                rules.push_str(own.definition_text());
            }
            TemplateValue::Variable(variable) => {
                let text = route.vars.iter().find(|(name, _)| **name == *variable.name());
                rules.extend(text.map(|(_, text)| format!("{text}\n{}", variable.definition_text())));
            }
            _ => {}
        }
    }
}

/// What keeps the responses for requests that have come by way of a route apart from those that came by another, where what the route matches decided who
/// gets there; `None` for one that goes by host and path alone, since anyone can ask for those.
pub fn trail_name(listener: &str, route: &Route) -> Option<PartitionName> {
    let RouteMatch { methods, headers, query, sources, condition, .. } = &*route.matches;
    let is_for_all = methods.is_empty() && headers.is_empty() && query.is_empty() && sources.is_empty();
    if is_for_all && condition.is_none() && route.condition.is_none() {
        return None;
    }
    let mut rules = route.matches.to_string();
    for value in route.condition.iter().flat_map(WhenCondition::values) {
        match value {
            TemplateValue::Map(map) => rules.push_str(map.definition_text()),
            TemplateValue::Variable(variable) => rules.push_str(variable.definition_text()),
            _ => {}
        }
    }
    Some(digest(&["trail", listener, &rules]))
}

/// The partitions of a route: those of its own, or the one that it shares.
pub(crate) fn partitions(cache: &RouteCache, own: Vec<PartitionName>) -> Box<[PartitionName]> {
    match &cache.share {
        Some(name) => {
            let key = cache.key.to_string() + &ignored_vary(cache);
            vec![digest(&["share", name, &key]); own.len()].into()
        }
        None => own.into(),
    }
}

/// The fields of `Vary` that make no variants; empty without any.
fn ignored_vary(cache: &RouteCache) -> String {
    let mut names: Vec<&str> = cache.ignore_vary.iter().map(IgnoredVaryField::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().flat_map(|name| ["\nwithout vary ", name]).collect()
}

fn digest(texts: &[&str]) -> PartitionName {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    let whole: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|index| whole[index])
}
