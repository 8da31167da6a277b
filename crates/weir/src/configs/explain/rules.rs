//! The order in which the features of its route act on a request, the lists and limits that it comes under, the cache that it is looked up in, whether it
//! is copied, and what to consider.

use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::{
    AccessList, LimitUse, ListAction, ListEntries, Mirror, PageText, Route, RouteAction, RowSet, RuleOrder,
    Satisfy, Stage, Template, TemplateValue, TrackedTable, WhenCondition, print_duration,
};
use weir_traffic::route::RouteRequest as _;

use super::asked;
use super::conditions;
use super::explanation::{Disposition, RequestExplanation, UpstreamDestination};

/// Those of the route, or of the listener where no route takes the request.
fn of_request<'a>(explanation: &'a RequestExplanation<'_>) -> (&'a [Arc<AccessList>], &'a [LimitUse]) {
    match explanation.route {
        Some(route) => (&route.lists, &route.limited_by),
        None => (&explanation.listener.lists, &explanation.listener.limited_by),
    }
}

/// The tables that count the request.
fn tracked_by<'a>(explanation: &'a RequestExplanation<'_>) -> &'a [Arc<TrackedTable>] {
    explanation.route.map_or(&explanation.listener.tracked, |route| &route.tracked)
}

/// The features that act on the request, by the stages at which they do: those of the route, and of the upstreams that it can go to.
fn stages_of(explanation: &RequestExplanation<'_>) -> Vec<(Stage, Vec<&'static str>)> {
    let destinations = match &explanation.disposition {
        Disposition::Forward(forwarded) => &forwarded.destinations[..],
        _ => &[],
    };
    let of_route = explanation.route.map_or(RowSet::EMPTY, Route::rows);
    let rows = destinations.iter().fold(of_route, |rows, to| rows.or(to.upstream.rows()));
    let names = |stage: &Stage| rows.and(RowSet::at(*stage)).rows().map(|row| row.feature.name()).collect();
    let stages = Stage::ALL.iter().map(|stage| (*stage, names(stage)));
    stages.filter(|(_, names): &(Stage, Vec<&str>)| !names.is_empty()).collect()
}

/// Whether the client is in a list; `None` for a list of other keys.
fn has_client(list: &AccessList, explanation: &RequestExplanation<'_>) -> Option<bool> {
    list.is_of_networks().then(|| list.find_address(explanation.request.source()).is_some())
}

/// When a list, a limit or a table acts that does at this stage.
fn when(stage: Stage) -> &'static str {
    if stage < Stage::Identity { "" } else { ", after authentication" }
}

fn table_line(table: &TrackedTable) -> (&'static str, String) {
    let definition = &table.definition;
    let counters: Vec<String> = definition.stored.iter().map(ToString::to_string).collect();
    let counters = counters.join(", ");
    ("table", format!("{}: {counters} by {}{}", definition.name, definition.key, when(table.stage())))
}

/// How answers of the server of `forward_auth` are kept.
fn kept_answers(explanation: &RequestExplanation<'_>) -> Option<(&'static str, String)> {
    let access = explanation.route?.access.as_deref()?;
    let cache = access.forward.as_ref()?.cache.as_deref()?;
    let has_path =
        cache.key.values().any(|value| matches!(value, TemplateValue::Path | TemplateValue::Target));
    let of_path = if has_path { "" } else { ", for any path of the route" };
    let time = print_duration(cache.time);
    Some(("forward_auth", format!("answers are kept for {time} by {}{of_path}", cache.key)))
}

/// By what responses are stored, and with which other routes.
fn cache_line(explanation: &RequestExplanation<'_>) -> Option<(&'static str, String)> {
    let cache = explanation.route?.cache.as_deref()?;
    let apart = match &cache.share {
        Some(share) => format!("in common with other routes with `share = \"{share}\"`"),
        None => "apart from what other listeners, rules and upstreams have".to_owned(),
    };
    Some(("cache", format!("{}: by {}, {apart}", cache.store.name, cache.key)))
}

/// A line for each: its label and its text.
pub(super) fn lines(explanation: &RequestExplanation<'_>) -> Vec<(&'static str, String)> {
    let (lists, limits) = of_request(explanation);
    let order = RuleOrder::new(lists);
    let list = |list: &Arc<AccessList>| {
        let what = match has_client(list, explanation) {
            Some(true) => "the client is in it".to_owned(),
            Some(false) => "the client is not in it".to_owned(),
            None if list.entries == ListEntries::All => {
                format!("by its condition{}", when(order.of_list(list)))
            }
            None => format!("by {}{}", list.key, when(order.of_list(list))),
        };
        ("list", format!("{} ({}): {what}", list.name, list.action.name()))
    };
    let limit = |one: &LimitUse| {
        let limit = &one.limit;
        let dry = if limit.dry_run { ", as a dry run" } else { "" };
        let shared = limit.shared.as_ref();
        let shared = shared.map_or_else(String::new, |store| format!(", shared in {}", store.name));
        (
            "limit",
            format!(
                "{}: {} by {}{}{shared}{dry}",
                limit.name,
                limit.rule(),
                limit.key,
                when(order.of_limit(limit))
            ),
        )
    };
    let mirror = |mirror: &Mirror, to: &str| {
        let methods: Vec<&str> = mirror.methods.iter().map(|method| method.as_str()).collect();
        ("mirror", format!("{} of the requests{to} with {} are copied", mirror.share, methods.join(", ")))
    };
    let of_route = explanation.route.map_or(&[][..], |route| &route.mirrors);
    let destinations = match &explanation.disposition {
        Disposition::Forward(forwarded) => &forwarded.destinations[..],
        _ => &[],
    };
    let of_target = |destination: &UpstreamDestination<'_>| {
        let own = destination.settings.and_then(|own| own.mirrors.get(of_route.len()..)).unwrap_or_default();
        let to = format!(" to {}", destination.upstream.name);
        own.iter().map(|own| mirror(own, &to)).collect::<Vec<_>>()
    };
    let mirrors = of_route.iter().map(|one| mirror(one, ""));
    let mirrors = mirrors.chain(destinations.iter().flat_map(of_target));
    let advice = explanation.advice.clone().map(|advice| ("advice", advice));
    let stages = stages_of(explanation).into_iter().enumerate();
    let stages = stages.map(|(at, (stage, features))| {
        let label = if at == 0 { "order" } else { "" };
        (label, format!("{}: {}", stage.name(), features.join(", ")))
    });
    let own = own_values(explanation).into_iter();
    let own = own.map(|(name, text)| {
        let label = ["map", "table"].into_iter().find(|kind| name.split('.').next() == Some(kind));
        (label.unwrap_or("vars"), format!("{name} is {text}"))
    });
    let satisfy = satisfy(explanation).map(|text| ("satisfy", text));
    let rules =
        stages.chain(own).chain(lists.iter().map(list)).chain(satisfy).chain(limits.iter().map(limit));
    let rules = rules.chain(tracked_by(explanation).iter().map(|table| table_line(table)));
    let asked = asked::lines(explanation).into_iter();
    let kept = kept_answers(explanation);
    rules.chain(kept).chain(cache_line(explanation)).chain(mirrors).chain(asked).chain(advice).collect()
}

/// What has to admit the client, where lists and authentication are alternatives.
fn satisfy(explanation: &RequestExplanation<'_>) -> Option<String> {
    let route = explanation.route?;
    route.access.as_ref().filter(|access| access.satisfy == Satisfy::Any)?;
    let by_network = route
        .lists
        .iter()
        .filter(|list| list.when.is_none() && (list.action == ListAction::Allow || list.action.refuses()));
    let entry =
        |list: &Arc<AccessList>| list.find_address(explanation.request.source()).map(|(bits, _)| bits);
    let mut decides: Option<(u8, &Arc<AccessList>)> = None;
    for list in by_network {
        if let Some(bits) = entry(list).filter(|bits| decides.is_none_or(|(known, _)| *bits > known)) {
            decides = Some((bits, list));
        }
    }
    Some(match decides {
        Some((_, list)) if list.action == ListAction::Allow => {
            format!("any: the list {} lets the client in without authentication", list.name)
        }
        Some((_, list)) => {
            format!("any: the list {} refuses the client, unless authentication admits it", list.name)
        }
        None => "any: no list of networks has the client, so authentication has to admit it".to_owned(),
    })
}

/// The maps and variables that the route names, with what they come to.
fn own_values(explanation: &RequestExplanation<'_>) -> Vec<(String, String)> {
    let Some(route) = explanation.route else { return Vec::new() };
    let request = explanation.request;
    request.look_at(route);
    let mut values: Vec<&TemplateValue> = route.condition.iter().flat_map(WhenCondition::values).collect();
    values.extend(route.lists.iter().flat_map(|list| list.key.values()));
    values.extend(route.limited_by.iter().flat_map(|one| one.limit.key.values()));
    values.extend(route.cache.iter().flat_map(|cache| cache.key.values()));
    values.extend(route.request_headers.values().chain(route.response_headers.values()));
    match &route.action {
        RouteAction::Redirect(redirect) => values.extend(redirect.to.values()),
        RouteAction::Respond(fixed) => {
            values.extend(fixed.body_with_values.iter().flat_map(PageText::values));
            values.extend(fixed.headers.iter().flat_map(|(_, text)| text.values()));
        }
        RouteAction::Files(files) => values.extend(files.try_files.iter().flat_map(Template::values)),
        RouteAction::Upstream(_) | RouteAction::Split(_) | RouteAction::Then(_) => {}
    }
    conditions::own_values(values, request)
}

/// The same for programs.
pub(super) fn add_json(object: &mut Value, explanation: &RequestExplanation<'_>) {
    let (lists, limits) = of_request(explanation);
    let stage =
        |(stage, features): &(Stage, Vec<&str>)| json!({ "stage": stage.name(), "features": features });
    object["order"] = stages_of(explanation).iter().map(stage).collect();
    if !lists.is_empty() {
        let list = |list: &Arc<AccessList>| json!({ "name": list.name, "action": list.action.name(), "has_client": has_client(list, explanation) });
        object["lists"] = lists.iter().map(list).collect();
    }
    if let Some(text) = satisfy(explanation) {
        object["satisfy"] = text.into();
    }
    if !limits.is_empty() {
        let limit = |one: &LimitUse| json!({ "name": one.limit.name, "rule": one.limit.rule(), "key": one.limit.key.to_string() });
        object["limits"] = limits.iter().map(limit).collect();
    }
    let tables = tracked_by(explanation);
    if !tables.is_empty() {
        let table = |table: &Arc<TrackedTable>| json!({ "name": table.definition.name, "key": table.definition.key.to_string() });
        object["tables"] = tables.iter().map(table).collect();
    }
    let own = own_values(explanation);
    if !own.is_empty() {
        let own = own.into_iter().map(|(name, text)| json!({ "name": name, "value": text }));
        object["values"] = own.collect();
    }
    let asked = asked::json(explanation);
    if !asked.is_empty() {
        object["conditions"] = asked.into();
    }
    if let Some(advice) = &explanation.advice {
        object["advice"] = json!(advice);
    }
    if let Some(cache) = explanation.route.and_then(|route| route.cache.as_deref()) {
        object["cache"] =
            json!({ "name": cache.store.name, "key": cache.key.to_string(), "share": cache.share });
    }
}
