//! The settings of the routes of an Ingress: headers, passwords, networks, limits.

use std::sync::Arc;
use std::time::Duration;

use weir_access::Users;
use weir_config::{
    AccessList, BasicAuth, HeaderName, HeaderTemplate, KeyLimit, KeyLimitParts, LimitRate, ListAction,
    RequestFrequency, RouteSettings,
};

use super::annotations::header;
use super::compilation::Compilation;
use super::networks;
use crate::store::{ObjectKey, ObjectKind};

/// The burst of a rate, in rates, as in ingress-nginx.
const BURST_MULTIPLIER: u32 = 5;

/// The clients that a limit knows at once.
const CLIENTS_MAX: usize = 100_000;

/// The realm of Ingresses that name none, as in ingress-nginx.
const REALM: &str = "Authentication Required";

/// What servers are told of the client beside `X-Forwarded-*`, as by ingress-nginx.
const OF_CLIENT: [(&str, &str); 3] =
    [("x-real-ip", "{client_address}"), ("x-scheme", "{scheme}"), ("x-forwarded-scheme", "{scheme}")];

/// Headers of ConfigMaps, and those that ingress-nginx adds; what a ConfigMap says precedes.
pub(super) fn set_headers(work: &mut Compilation<'_>, route: &mut RouteSettings) {
    let messages = &work.draft.messages;
    let (of_responses, of_requests) = (messages.response_headers.clone(), messages.request_headers.clone());
    if let Some(key) = of_responses {
        let headers = headers(work, &key, "custom-headers");
        route.response_headers.set.extend(headers);
    }
    if let Some(key) = of_requests {
        let headers = headers(work, &key, "proxy-set-headers");
        route.request_headers.set.extend(headers);
    }
    for (name, value) in OF_CLIENT {
        let (name, value): (HeaderName, HeaderTemplate) =
            (name.parse().expect("it is a name"), value.parse().expect("it is a template"));
        if route.request_headers.set.iter().all(|(known, _)| *known != name) {
            route.request_headers.set.push((name, value));
        }
    }
}

fn headers(
    work: &mut Compilation<'_>,
    key: &ObjectKey,
    annotation: &str,
) -> Vec<(HeaderName, HeaderTemplate)> {
    work.uses.insert((ObjectKind::ConfigMap, key.clone()));
    let Some(map) = work.scope.store.config_maps.get(key) else {
        work.refuse(annotation, false, format!("the ConfigMap {key} does not exist"));
        return Vec::new();
    };
    let read = |name: &str, value: &str| match header(name, value) {
        Ok((_, _)) if annotation == "proxy-set-headers" && value.contains('$') => {
            Err(format!("ConfigMap {key}: `{name}`: variables of nginx have no equivalent"))
        }
        read => read.map_err(|why| format!("ConfigMap {key}: {why}")),
    };
    let (good, bad): (Vec<_>, Vec<_>) =
        map.data.iter().map(|(name, value)| read(name, value)).partition(Result::is_ok);
    bad.into_iter().filter_map(Result::err).for_each(|why| work.refuse(annotation, false, why));
    good.into_iter().filter_map(Result::ok).collect()
}

/// Users and their passwords.
pub(super) fn set_basic(work: &mut Compilation<'_>, route: &mut RouteSettings) {
    let (true, Some(key)) = (work.draft.access.basic, work.draft.access.secret.clone()) else { return };
    work.uses.insert((ObjectKind::OpaqueSecret, key.clone()));
    let text = work.scope.secret_value(&key, "auth");
    let users = text.and_then(|text| {
        let text = text.ok_or_else(|| format!("the Secret {key} has no `auth`"))?;
        let text = String::from_utf8(text).map_err(|_| format!("the Secret {key}: `auth` is not text"))?;
        Users::parse(&text).map_err(|problems| {
            let first = problems.first().map(ToString::to_string).unwrap_or_default();
            format!("the Secret {key}: `auth`: {first}")
        })
    });
    match users {
        Ok(users) => {
            let realm = work.draft.access.realm.clone();
            let realm = realm.unwrap_or_else(|| REALM.parse().expect("it is a realm"));
            route.access.get_or_insert_default().basic = Some(BasicAuth::new(realm, Arc::new(users)));
        }
        Err(why) => work.refuse("auth-secret", true, why),
    }
}

/// Who is not served, and who has no limits.
pub(super) fn lists(work: &mut Compilation<'_>) -> Vec<Arc<AccessList>> {
    let (access, limits) = (&work.draft.access, &work.draft.limits);
    let denied = networks::denied(&access.allowed, &access.denied);
    // The longest network decides: none that is denied may be allowed by being exempt from limits.
    let exempt = networks::less(&limits.exempt, &denied);
    let mut lists = Vec::new();
    for (what, action, networks) in
        [("denied", ListAction::Deny, denied), ("exempt", ListAction::Allow, exempt)]
    {
        if networks.is_empty() {
            continue;
        }
        let name = format!("ingress/{}/{what}", work.scope.key);
        match AccessList::from_parts(networks::list(&name, action, &networks)) {
            Ok(list) => lists.push(Arc::new(list)),
            Err(faults) => work.refuse_faults("allowlist-source-range", &faults),
        }
    }
    lists
}

/// Limits of each client.
pub(super) fn limits(work: &mut Compilation<'_>) -> Vec<Arc<KeyLimit>> {
    let wanted = &work.draft.limits;
    let multiplier = wanted.burst_multiplier.unwrap_or(BURST_MULTIPLIER);
    let (per_second, per_minute, concurrent) = (wanted.per_second, wanted.per_minute, wanted.concurrent);
    let mut limits = Vec::new();
    for (what, requests, seconds) in [("limit-rps", per_second, 1), ("limit-rpm", per_minute, 60)] {
        let Some(requests) = requests else { continue };
        // The burst of nginx is beside the request that the rate lets pass.
        let burst = requests.saturating_mul(multiplier).saturating_add(1);
        let rate = RequestFrequency::new(requests, Duration::from_secs(seconds));
        match rate.and_then(|rate| LimitRate::new(rate, burst, None, None)) {
            Ok(rate) => limits.push((what, Some(rate), None)),
            Err(error) => work.refuse(what, true, error.to_string()),
        }
    }
    limits.extend(concurrent.map(|concurrent| ("limit-connections", None, Some(concurrent))));
    let limit = |(what, rate, concurrent)| {
        let mut parts = KeyLimitParts::new(&format!("ingress/{}/{what}", work.scope.key), CLIENTS_MAX);
        (parts.rate, parts.concurrent) = (rate, concurrent);
        KeyLimit::from_parts(parts).map(Arc::new).map_err(|faults| work.refuse_faults(what, &faults)).ok()
    };
    limits.into_iter().filter_map(limit).collect()
}
