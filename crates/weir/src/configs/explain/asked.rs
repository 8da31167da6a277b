//! The conditions of everything but routes that the request comes under: what each comes to, as far as the request says.

use serde_json::{Value, json};
use weir_config::{HeaderChanges, HeaderRule, RouteAccessLog, WhenCondition, print_duration};

use super::explanation::{Disposition, RequestExplanation};
use super::{conditions, sentence};

/// A condition, and what it decides about.
struct AskedCondition<'a> {
    place: String,
    condition: &'a WhenCondition,
}

/// All of them, in the order in which they are asked.
fn all<'a>(explanation: &'a RequestExplanation<'_>) -> Vec<AskedCondition<'a>> {
    let mut all = Vec::new();
    let mut add = |place: String, condition: Option<&'a WhenCondition>| {
        all.extend(condition.map(|condition| AskedCondition { place, condition }));
    };
    let (lists, limits) = match explanation.route {
        Some(route) => (&route.lists, &route.limited_by),
        None => (&explanation.listener.lists, &explanation.listener.limited_by),
    };
    lists.iter().for_each(|list| add(format!("list {}", list.name), list.when.as_ref()));
    limits.iter().for_each(|one| add(format!("limit {}", one.limit.name), one.limit.when.as_ref()));
    let tables = match explanation.route {
        Some(route) => &route.tracked,
        None => &explanation.listener.tracked,
    };
    for table in tables {
        let name = &table.definition.name;
        add(format!("table {name}"), table.when.as_ref());
        for (number, increment) in table.increments.iter().enumerate() {
            add(format!("table {name}, gpc{number}"), increment.as_ref());
        }
    }
    let log = match explanation.route.map(|route| &route.access_log) {
        Some(RouteAccessLog::Own(log)) => log,
        _ => &explanation.listener.access_log,
    };
    let Some(route) = explanation.route else {
        add("access log".to_owned(), log.when.as_ref());
        return all;
    };
    route.mirrors.iter().for_each(|mirror| add("mirror".to_owned(), mirror.when.as_ref()));
    if let Some(cache) = &route.cache {
        add("cache".to_owned(), cache.when.as_ref());
        add("cache, refresh".to_owned(), cache.refresh_when.as_ref());
    }
    if let Disposition::Forward(forwarded) = &explanation.disposition {
        for destination in &forwarded.destinations {
            let upstream = destination.upstream;
            add(format!("retries of {}", upstream.name), upstream.retry.when.as_ref());
        }
        rules_of(&route.request_headers, "request header")
            .into_iter()
            .for_each(|(place, when)| add(place, when));
    }
    if let Some(cache) = &route.cache {
        add("cache, storing".to_owned(), cache.store_when.as_ref());
    }
    for page in &route.error_pages {
        let status: Vec<String> = page.status.iter().map(ToString::to_string).collect();
        add(format!("error page for {}", status.join(", ")), page.when.as_ref());
    }
    rules_of(&route.response_headers, "response header")
        .into_iter()
        .for_each(|(place, when)| add(place, when));
    add("access log".to_owned(), log.when.as_ref());
    all
}

/// The conditions of rules for headers.
fn rules_of<'a>(changes: &'a HeaderChanges, what: &str) -> Vec<(String, Option<&'a WhenCondition>)> {
    let place = |rule: &HeaderRule| match &rule.expires {
        Some(expires) => match expires.time {
            weir_config::ExpiresTime::After(time) => format!("expires {}", print_duration(time)),
            _ => "expires".to_owned(),
        },
        None => format!("{what} {}", sentence::rule_changes(rule).join(", ")),
    };
    changes.rules.iter().map(|rule| (place(rule), rule.when.as_ref())).collect()
}

/// A line for each.
pub(super) fn lines(explanation: &RequestExplanation<'_>) -> Vec<(&'static str, String)> {
    let all = all(explanation).into_iter().enumerate();
    let line = |(at, AskedCondition { place, condition }): (usize, AskedCondition<'_>)| {
        let label = if at == 0 { "conditions" } else { "" };
        (label, format!("{place}: {}", conditions::later_sentence(condition, explanation.request)))
    };
    all.map(line).collect()
}

/// The same for programs.
pub(super) fn json(explanation: &RequestExplanation<'_>) -> Vec<Value> {
    let one = |AskedCondition { place, condition }: AskedCondition<'_>| {
        let outcome = conditions::later_sentence(condition, explanation.request);
        json!({ "of": place, "when": condition.text(), "outcome": outcome })
    };
    all(explanation).into_iter().map(one).collect()
}
