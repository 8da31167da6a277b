//! What keeps the responses that a cache has for one route apart from those for another.

use sha2::{Digest as _, Sha256};
use weir_traffic::route::{PathMatch, RouteMatch};

use crate::config::{PartitionName, Route, RouteAction, RouteCache, SplitTarget};
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
    let rules = RouteMatch {
        hosts: match names(&[TemplateValue::Host, TemplateValue::Authority]) {
            true => Vec::new(),
            false => hosts.clone(),
        },
        path: match names(&[TemplateValue::Path, TemplateValue::Target]) {
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
    // What maps and variables mean is as much a part of the rules as what is written there.
    for value in route.condition.iter().flat_map(WhenCondition::values).chain(cache.key.values()) {
        match value {
            TemplateValue::Map(map) => rules.push_str(map.definition_text()),
            TemplateValue::Variable(variable) => {
                let text = route.vars.iter().find(|(name, _)| **name == *variable.name());
                rules.extend(text.map(|(_, text)| format!("{text}\n{}", variable.definition_text())));
            }
            _ => {}
        }
    }
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

/// The partitions of a route: those of its own, or the one that it shares.
pub(crate) fn partitions(cache: &RouteCache, own: Vec<PartitionName>) -> Box<[PartitionName]> {
    match &cache.share {
        Some(name) => vec![digest(&["share", name, &cache.key.to_string()]); own.len()].into(),
        None => own.into(),
    }
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
