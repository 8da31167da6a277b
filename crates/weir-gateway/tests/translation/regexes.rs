//! What the regular expressions of a namespace take together: the oldest objects have them, those of other namespaces are as before.

use std::fmt::Write as _;

use weir_gateway::{ObjectKey, ObjectKind, Translation, Translator};

use crate::objects::{NOW, read, settings};
use crate::rendering::render;

const BASE: &str = "kind: GatewayClass
metadata: {name: weir}
spec: {controllerName: weir.dev/gateway}
---
kind: Gateway
metadata: {namespace: app, name: web}
spec: {gatewayClassName: weir, listeners: [{name: http, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}
---
kind: IngressClass
metadata: {name: weir}
spec: {controller: weir.dev/ingress}
---
kind: Service
metadata: {namespace: evil, name: own}
spec: {ports: [{port: 80}]}
---
kind: Service
metadata: {namespace: app, name: own}
spec: {ports: [{port: 80}]}
---
";

/// One that takes a quarter of a MiB.
fn fat(text: &str) -> String {
    format!("{text}(a|b)*a(a|b){{18}}")
}

/// A route with so many of them that was made on a day of the month.
fn route(namespace: &str, day: usize, count: usize) -> String {
    let mut matches = String::new();
    for number in 0..count {
        let value = fat(&format!("/{namespace}/{day}/{number}/"));
        write!(matches, "{{path: {{type: RegularExpression, value: '{value}'}}}}, ").unwrap();
    }
    // By name, the order is another one.
    let name = format!("r{}", 99 - day);
    format!(
        "kind: HTTPRoute\nmetadata: {{namespace: {namespace}, name: {name}, generation: 1, creationTimestamp: '2026-01-{day:02}T00:00:00Z'}}\n\
         spec: {{parentRefs: [{{name: web, namespace: app}}], rules: [{{matches: [{matches}], backendRefs: [{{name: own, port: 80}}]}}]}}\n---\n"
    )
}

fn upsert(translator: &mut Translator, text: &str) {
    read(text).iter().for_each(|object| translator.upsert(object));
}

/// What routes of a namespace were told, by the days on which they were made.
fn told(translation: &Translation, namespace: &str) -> Vec<(usize, &'static str)> {
    let mut told = Vec::new();
    for part in render(translation).split("status of ") {
        let Some(rest) = part.strip_prefix(&format!("HttpRoute {namespace}/r")) else { continue };
        let number: usize = rest.split_once('\n').unwrap().0.parse().unwrap();
        let verdict = if part.contains("Accepted True") {
            "accepted"
        } else if part.contains("Accepted False UnsupportedValue: matches.path")
            && part.contains("take more than 32 MiB together")
        {
            "no room"
        } else {
            "?"
        };
        told.push((99 - number, verdict));
    }
    told.sort_unstable();
    told
}

#[test]
fn routes_of_a_namespace_are_bounded_together_oldest_first() {
    let mut translator = Translator::new(settings());
    upsert(&mut translator, BASE);
    // Each takes 2.5 MiB: twelve have room in 32.
    (1..=14).rev().for_each(|day| upsert(&mut translator, &route("evil", day, 10)));
    upsert(&mut translator, &route("app", 20, 10));
    let first = translator.translate(NOW);
    let mut expected: Vec<_> = (1..=12).map(|day| (day, "accepted")).collect();
    expected.extend([(13, "no room"), (14, "no room")]);
    assert_eq!(told(&first, "evil"), expected);
    assert_eq!(told(&first, "app"), [(20, "accepted")]);

    // One that is gone leaves its room to the oldest of those without.
    translator.delete(ObjectKind::HttpRoute, &ObjectKey::new("evil", "r97"));
    assert_eq!(told(&translator.translate(NOW), "evil"), [(13, "accepted"), (14, "no room")]);
    // An older one that comes takes it from the youngest, and one that is changed to less gives it back.
    upsert(&mut translator, &route("evil", 2, 10));
    assert_eq!(told(&translator.translate(NOW), "evil"), [(2, "accepted"), (13, "no room")]);
    upsert(&mut translator, &route("evil", 1, 1));
    assert_eq!(told(&translator.translate(NOW), "evil"), [(1, "accepted"), (13, "accepted")]);
    // The youngest of all with a small one finds none before an older one has.
    upsert(&mut translator, &route("evil", 15, 1));
    assert_eq!(told(&translator.translate(NOW), "evil"), [(15, "no room")]);
    upsert(&mut translator, &route("evil", 14, 0));
    assert_eq!(told(&translator.translate(NOW), "evil"), [(14, "accepted"), (15, "accepted")]);
    // A change of the Service translates all anew, and changes nothing.
    let service = BASE.split("---\n").nth(3).unwrap().replace("port: 80", "port: 80, name: web");
    upsert(&mut translator, &service);
    let again = translator.translate(NOW);
    assert_eq!(again.routes_translated, 15);
    assert_eq!(told(&again, "evil").iter().filter(|(_, verdict)| *verdict != "accepted").count(), 0);
}

/// An Ingress whose path takes half a MiB: for the rewrite, too.
fn ingress(namespace: &str, number: usize, text: &str) -> String {
    let name = format!("i{}", 999 - number);
    format!(
        "kind: Ingress\nmetadata: {{namespace: {namespace}, name: {name}, creationTimestamp: '2026-01-01T00:{:02}:{:02}Z', \
         annotations: {{nginx.ingress.kubernetes.io/rewrite-target: /}}}}\n\
         spec: {{ingressClassName: weir, rules: [{{host: {namespace}.test, http: {{paths: [{{path: '{}', pathType: Prefix, backend: {{service: {{name: own, port: {{number: 80}}}}}}}}]}}}}]}}\n---\n",
        number / 60,
        number % 60,
        fat(text)
    )
}

/// The Ingresses that are told that there is no room, by their numbers, and how many routes are served.
fn ingresses(translation: &Translation) -> (Vec<usize>, usize) {
    let mut short = Vec::new();
    for report in &translation.ingress_reports {
        if report.problems.iter().any(|problem| problem.message.contains("take more than 32 MiB together")) {
            short.push(999 - report.key.name.strip_prefix('i').unwrap().parse::<usize>().unwrap());
        }
    }
    short.sort_unstable();
    let config = translation.config.as_ref().unwrap();
    let listener = config.listeners.iter().find(|listener| *listener.name == *"ingress-http").unwrap();
    let of_evil = listener.routes.iter().filter(|route| route.name.starts_with("ingress/evil/"));
    (short, of_evil.count())
}

#[test]
fn ingresses_of_a_namespace_are_bounded_together_oldest_first() {
    let mut translator = Translator::new(settings());
    upsert(&mut translator, BASE);
    let path = |number: usize| format!("/{number}/");
    (0..70).rev().for_each(|number| upsert(&mut translator, &ingress("evil", number, &path(number))));
    upsert(&mut translator, &ingress("app", 500, "/app/"));
    let (short, served) = ingresses(&translator.translate(NOW));
    assert_eq!(short, (63..70).collect::<Vec<_>>());
    assert_eq!(served, 63);
    // What is gone leaves its room; what comes back takes it again, and nothing that was made for others stays.
    translator.delete(ObjectKind::Ingress, &ObjectKey::new("evil", "i999"));
    let (_, served) = ingresses(&translator.translate(NOW));
    assert_eq!(served, 63);
    upsert(&mut translator, &ingress("evil", 0, &path(0)));
    for _ in 0..2 {
        let (_, served) = ingresses(&translator.translate(NOW));
        assert_eq!(served, 63);
        upsert(&mut translator, &ingress("app", 501, "/app/"));
    }
    // Paths that are alike take their room once.
    (0..70).for_each(|number| {
        upsert(
            &mut translator,
            &ingress("evil", number, "/same/").replace("evil.test", &format!("h{number}.evil.test")),
        );
    });
    let (short, served) = ingresses(&translator.translate(NOW));
    assert_eq!((short, served), (Vec::new(), 70));
}
