//! What a change costs: what it does not concern is shared, and comes to the same as if all had been translated at once.

use std::sync::Arc;

use weir_config::Config;
use weir_gateway::{KubernetesObject, ObjectKey, ObjectKind, ObjectStatus, Translator};

use crate::objects::{NOW, read, settings, translated};
use crate::rendering::render;

const BASE: &str = "kind: GatewayClass
metadata: {name: weir}
spec: {controllerName: weir.dev/gateway}
---
kind: Gateway
metadata: {namespace: app, name: edge}
spec: {gatewayClassName: weir, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
";

/// A service with an endpoint, and a route to it.
fn app(number: usize, path: &str) -> String {
    format!(
        "kind: Service
metadata: {{namespace: app, name: s{number}}}
spec: {{ports: [{{port: 80}}]}}
---
{}
---
kind: HTTPRoute
metadata: {{namespace: app, name: r{number}, generation: 1}}
spec: {{parentRefs: [{{name: edge}}], hostnames: [h{number}.test], rules: [{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{name: s{number}, port: 80}}]}}]}}
---
",
        slice(number, 1)
    )
}

fn slice(number: usize, last: u8) -> String {
    format!(
        "kind: EndpointSlice
metadata: {{namespace: app, name: e{number}, labels: {{kubernetes.io/service-name: s{number}}}}}
addressType: IPv4
ports: [{{port: 8080}}]
endpoints: [{{addresses: [10.0.0.{last}]}}]"
    )
}

fn many(count: usize) -> (Translator, Config) {
    let apps: String = (0..count).map(|number| app(number, "/")).collect();
    let (translator, translation) = translated(&format!("{BASE}{apps}"));
    assert_eq!(translation.routes_translated, count);
    (translator, translation.config.unwrap())
}

fn shared(one: &Config, other: &Config) -> usize {
    let of = |config: &Config| config.listeners[0].routes.clone();
    let before = of(one);
    of(other).iter().filter(|route| before.iter().any(|known| Arc::ptr_eq(known, route))).count()
}

/// As the API server writes the slice of a Service without pods: it leaves these lists out of no object.
#[test]
fn lists_of_a_slice_may_be_null() {
    let slice = |lists: &str| {
        let text = format!(
            "kind: EndpointSlice\nmetadata: {{namespace: app, name: e0}}\naddressType: IPv4\n{lists}"
        );
        format!("{:?}", read(&text))
    };
    assert_eq!(slice("ports: null\nendpoints: null"), slice("ports: []\nendpoints: []"));
    assert_eq!(slice("ports: []\nendpoints: [{addresses: null}]"), slice("ports: []\nendpoints: [{}]"));
}

#[test]
fn routes_with_equal_settings_share_them() {
    let (mut translator, config) = many(20);
    let of_route = |config: &Config, number: usize| {
        let name = format!("httproute/app/r{number}/0");
        let route = config.listeners[0].routes.iter().find(|route| *route.name == *name);
        Arc::clone(&route.expect("each object has a route").settings)
    };
    let first = of_route(&config, 0);
    assert!((1..20).all(|number| Arc::ptr_eq(&first, &of_route(&config, number))));
    // Another timeout makes another one, and is not that of the others.
    let changed = app(7, "/").replace("matches:", "timeouts: {request: 3s}, matches:");
    for object in read(&changed) {
        translator.upsert(&object);
    }
    let config = translator.translate(NOW).config.unwrap();
    let own = of_route(&config, 7);
    assert_eq!(own.timeouts.exchange, Some(std::time::Duration::from_secs(3)));
    assert_eq!(first.timeouts.exchange, None);
    assert!(Arc::ptr_eq(&first, &of_route(&config, 8)));
}

#[test]
fn a_change_of_one_route_leaves_all_others_as_they_are() {
    let (mut translator, before) = many(50);
    for object in read(&app(7, "/other")) {
        translator.upsert(&object);
    }
    let translation = translator.translate(NOW);
    let after = translation.config.unwrap();
    assert_eq!(translation.routes_translated, 1);
    // The route that answers what none takes is made anew, and so is the one that has changed.
    assert_eq!(shared(&before, &after), 49);
    let same = before.upstreams.iter().zip(&after.upstreams).all(|(one, other)| Arc::ptr_eq(one, other));
    assert!(same && before.upstreams.len() == after.upstreams.len());
    assert!(translation.servers.is_empty(), "{:?}", translation.servers);
}

#[test]
fn endpoints_change_no_configuration() {
    let (mut translator, _) = many(5);
    read(&slice(3, 9)).into_iter().for_each(|object| translator.upsert(&object));
    let translation = translator.translate(NOW);
    assert!(
        translation.config.is_none() && translation.routes_translated == 0 && translation.statuses.is_empty()
    );
    assert_eq!(render(&translation), "servers of app.s3.80\n  10.0.0.9:8080 Serving\n");
    translator.delete(ObjectKind::EndpointSlice, &ObjectKey::new("app", "e3"));
    assert_eq!(render(&translator.translate(NOW)), "servers of app.s3.80\n");
}

#[test]
fn an_upstream_that_is_gone_leaves_its_place_to_the_last() {
    let (mut translator, before) = many(5);
    translator.delete(ObjectKind::HttpRoute, &ObjectKey::new("app", "r1"));
    let translation = translator.translate(NOW);
    let after = translation.config.unwrap();
    let names: Vec<&str> = after.upstreams.iter().map(|upstream| &*upstream.name).collect();
    assert_eq!(names, ["app.s0.80", "app.s4.80", "app.s2.80", "app.s3.80"]);
    // The last upstream has moved, so its route names another place.
    assert_eq!(shared(&before, &after), 3);
    let once: String = [0, 4, 2, 3].map(|number| app(number, "/")).concat();
    let (_, at_once) = translated(&format!("{BASE}{once}"));
    let rendered = |config: Config| {
        let translation = weir_gateway::Translation {
            config: Some(config),
            servers: vec![],
            ingress_reports: Vec::new(),
            default_certificate_problem: None,
            ingress_config_map_problem: None,
            statuses: vec![],
            faults: Vec::new(),
            routes_translated: 0,
        };
        render(&translation)
    };
    assert_eq!(rendered(after), rendered(at_once.config.unwrap()));
}

#[test]
fn a_service_that_comes_later_resolves_its_routes() {
    let mut translator = Translator::new(settings());
    let (service, rest): (Vec<_>, Vec<_>) = read(&format!("{BASE}{}", app(0, "/")))
        .into_iter()
        .partition(|object| object.kind() == ObjectKind::Service);
    rest.into_iter().for_each(|object| translator.upsert(&object));
    let first = render(&translator.translate(NOW));
    assert!(first.contains("respond 500") && first.contains("ResolvedRefs False BackendNotFound"), "{first}");
    service.into_iter().for_each(|object| translator.upsert(&object));
    let then = translator.translate(NOW);
    assert_eq!(then.routes_translated, 1);
    let then = render(&then);
    assert!(then.contains("to app.s0.80") && then.contains("10.0.0.1:8080 Serving"), "{then}");
}

/// Carries statuses out as the API server does: the objects come back with them.
fn write_statuses(translator: &mut Translator, objects: &[KubernetesObject], now: &str) -> usize {
    let statuses = translator.translate(now).statuses;
    for update in &statuses {
        let object = objects.iter().find(|one| one.kind() == update.kind && one.key() == update.key).unwrap();
        let with_status = match (object.clone(), update.status.clone()) {
            (KubernetesObject::HttpRoute(mut route), ObjectStatus::Route(status)) => {
                Arc::make_mut(&mut route).status = Some(status.into());
                KubernetesObject::HttpRoute(route)
            }
            (KubernetesObject::Gateway(mut gateway), ObjectStatus::Gateway(status)) => {
                Arc::make_mut(&mut gateway).status = Some(status.into());
                KubernetesObject::Gateway(gateway)
            }
            (KubernetesObject::GatewayClass(mut class), ObjectStatus::GatewayClass(status)) => {
                Arc::make_mut(&mut class).status = Some(status.into());
                KubernetesObject::GatewayClass(class)
            }
            other => panic!("{other:?}"),
        };
        translator.upsert(&with_status);
    }
    statuses.len()
}

#[test]
fn a_status_that_was_written_is_not_written_again() {
    let objects = read(&format!("{BASE}{}", app(0, "/")));
    let mut translator = Translator::new(settings());
    objects.iter().for_each(|object| translator.upsert(object));
    assert_eq!(write_statuses(&mut translator, &objects, NOW), 3);
    let echo = translator.translate("2026-11-27T00:00:09Z");
    assert!(echo.statuses.is_empty() && echo.routes_translated == 0, "{:?}", echo.statuses);
}

#[test]
fn a_condition_keeps_its_time_until_it_changes() {
    let objects = read(&format!("{BASE}{}", app(0, "/")));
    let mut translator = Translator::new(settings());
    objects.iter().for_each(|object| translator.upsert(object));
    write_statuses(&mut translator, &objects, NOW);
    translator.delete(ObjectKind::Service, &ObjectKey::new("app", "s0"));
    let translation = translator.translate("2026-11-28T00:00:00Z");
    let [update] = &translation.statuses[..] else { panic!("{:?}", translation.statuses) };
    let ObjectStatus::Route(status) = &update.status else { panic!("{update:?}") };
    let times: Vec<(&str, &str)> =
        status.parents[0].conditions.iter().map(|one| (&*one.r#type, &*one.last_transition_time)).collect();
    assert_eq!(times, [("Accepted", NOW), ("ResolvedRefs", "2026-11-28T00:00:00Z")]);
}

#[test]
fn a_regular_expression_of_a_megabyte_is_refused_at_once() {
    let huge = "(a|b)".repeat(200_000);
    let route = app(1, "/")
        .replace("{path: {value: /}}", &format!("{{path: {{type: RegularExpression, value: '{huge}'}}}}"));
    let (_, translation) = translated(&format!("{BASE}{}{route}", app(0, "/")));
    let text = render(&translation);
    assert!(
        text.contains("a regular expression of 1000000 bytes; 4096 are the most") && text.len() < 10_000,
        "{text}"
    );
    assert!(text.contains("to app.s0.80") && !text.contains("to app.s1.80"), "{text}");
}

#[test]
fn nested_repetitions_are_refused() {
    let route = app(1, "/").replace(
        "{path: {value: /}}",
        "{path: {type: RegularExpression, value: '((((a{99}){99}){99}){99})'}}",
    );
    let (_, translation) = translated(&format!("{BASE}{route}"));
    let text = render(&translation);
    assert!(text.contains("Accepted False UnsupportedValue"), "{text}");
}

#[test]
fn the_process_of_one_gateway_leaves_the_entries_of_others_alone() {
    let two = format!("{BASE}{}", app(0, "/"))
        .replace("parentRefs: [{name: edge}]", "parentRefs: [{name: edge}, {name: other}]")
        + "kind: Gateway
metadata: {namespace: app, name: other}
spec: {gatewayClassName: weir, listeners: [{name: http, port: 81, protocol: HTTP}]}
";
    let objects = read(&two);
    let mut all = Translator::new(settings());
    objects.iter().for_each(|object| all.upsert(object));
    let of_route = |translation: weir_gateway::Translation| {
        translation.statuses.into_iter().find(|update| update.kind == ObjectKind::HttpRoute)
    };
    let written = of_route(all.translate(NOW)).unwrap();
    let served = weir_gateway::GatewaySettings { served: Some(ObjectKey::new("app", "other")), ..settings() };
    let mut one = Translator::new(served);
    for object in objects {
        match (object, &written.status) {
            (KubernetesObject::HttpRoute(mut route), ObjectStatus::Route(status)) => {
                Arc::make_mut(&mut route).status = Some(status.clone().into());
                one.upsert(&KubernetesObject::HttpRoute(route));
            }
            (object, _) => one.upsert(&object),
        }
    }
    let translation = one.translate(NOW);
    let names: Vec<Box<str>> =
        translation.config.iter().flat_map(|config| &config.listeners).map(|one| one.name.clone()).collect();
    assert_eq!(names, ["app.other.81".into()]);
    assert_eq!(of_route(translation), None);
}
