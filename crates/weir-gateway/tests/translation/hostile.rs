//! What a tenant writes to hurt others is refused by the status of its object, and nothing else changes.

use std::collections::{BTreeMap, BTreeSet};

use weir_gateway::{KubernetesObject, ListenerOwner, ObjectKind, ObjectStatus, Refusals, hold_back};

use crate::objects::{NOW, translated};
use crate::rendering::render;

const APP: &str = "kind: GatewayClass
metadata: {name: weir}
spec: {controllerName: weir.dev/gateway}
---
kind: Gateway
metadata: {namespace: app, name: edge}
spec: {gatewayClassName: weir, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Service
metadata: {namespace: app, name: web}
spec: {ports: [{port: 80}]}
---
kind: HTTPRoute
metadata: {namespace: app, name: honest, generation: 1}
spec: {parentRefs: [{name: edge}], hostnames: [a.test], rules: [{backendRefs: [{name: web, port: 80}]}]}
";

/// A regular expression of a megabyte, and short ones that become large when they are compiled.
#[test]
fn large_regular_expressions_are_refused_before_they_are_compiled() {
    let megabyte = "a|".repeat(512 * 1024);
    for (value, cause) in [
        (megabyte.as_str(), "4096"),
        ("(a{1000}){1000}", "too large"),
        (r"(\\w{1000}){1000}", "too large"),
        ("((((a{50}){50}){50}){50}){50}", "too large"),
    ] {
        let (mut translator, before) = translated(APP);
        let route = format!(
            r#"{{"metadata":{{"namespace":"app","name":"hostile","generation":1}},"spec":{{"parentRefs":[{{"name":"edge"}}],"hostnames":["a.test"],
            "rules":[{{"matches":[{{"path":{{"type":"RegularExpression","value":"{value}"}}}}],"backendRefs":[{{"name":"web","port":80}}]}}]}}}}"#
        );
        let route = KubernetesObject::from_json(ObjectKind::HttpRoute, route.as_bytes()).unwrap();
        translator.upsert(&route);
        let translation = translator.translate(NOW);
        let statuses: Vec<_> =
            translation.statuses.iter().filter(|update| *update.key.name == *"hostile").collect();
        let [update] = statuses[..] else { panic!("it is told once: {statuses:?}") };
        let ObjectStatus::Route(status) = &update.status else { panic!("it is a route") };
        let accepted = &status.parents[0].conditions[0];
        let said = (&*accepted.r#type, &*accepted.status, &*accepted.reason);
        assert_eq!(said, ("Accepted", "False", "UnsupportedValue"), "{cause} {}", accepted.message);
        assert!(accepted.message.contains(cause) && accepted.message.len() <= 512, "{}", accepted.message);
        // The route of others is the same as before.
        let (before, after) = (before.config.unwrap(), translation.config.unwrap());
        assert_eq!(before.listeners, after.listeners);
    }
}

/// A number beyond all bounds, which the definitions of some fields let pass: the object alone is refused, as far as it can be read.
#[test]
fn an_object_that_cannot_be_read_is_refused_alone() {
    let huge = "5000000000";
    for (what, object, told) in [
        (
            "a route",
            format!("kind: HTTPRoute\nmetadata: {{namespace: app, name: hostile}}\nspec: {{parentRefs: [{{name: edge}}], rules: [{{retry: {{attempts: {huge}}}}}]}}\n"),
            Some(["Accepted", "False", "UnsupportedValue"]),
        ),
        (
            "a Gateway",
            format!("kind: Gateway\nmetadata: {{namespace: app, name: hostile}}\nspec: {{gatewayClassName: weir, listeners: [{{name: one, port: {huge}, protocol: HTTP}}]}}\n"),
            Some(["Accepted", "False", "Invalid"]),
        ),
        (
            "a policy",
            "kind: BackendTLSPolicy\nmetadata: {namespace: app, name: hostile}\nspec: {targetRefs: [{group: '', kind: Service, name: web}], validation: 1}\n".to_owned(),
            Some(["Accepted", "False", "Invalid"]),
        ),
        (
            "a Service, which stays as it was",
            format!("kind: Service\nmetadata: {{namespace: app, name: web}}\nspec: {{ports: [{{port: {huge}}}]}}\n"),
            None,
        ),
    ] {
        let (mut translator, before) = translated(APP);
        crate::objects::read(&object).iter().for_each(|object| translator.upsert(object));
        let translation = translator.translate(NOW);
        let of_it = translation.statuses.iter().filter(|update| *update.key.name == *"hostile");
        let found: Vec<_> = of_it.flat_map(|update| conditions(&update.status)).collect();
        match told {
            Some(told) => assert!(found.contains(&told.map(str::to_owned).into()), "{what}: {found:?}"),
            None => assert!(found.is_empty(), "{what}: {found:?}"),
        }
        if what != "a policy" {
            let before = before.config.unwrap();
            assert_eq!(translation.config.unwrap_or_else(|| before.clone()).listeners, before.listeners, "{what}");
        }
    }
}

/// Expressions of a few bytes that are large when they are compiled, and many that are so together: the route is refused, others are not.
#[test]
fn regular_expressions_of_a_route_are_bounded_together() {
    let route = |name: &str, value: &dyn Fn(usize) -> String| {
        let one = |number: usize| {
            format!(
                "{{path: {{value: /{number}}}, headers: [{{name: x-a, type: RegularExpression, value: '{}'}}]}}",
                value(number)
            )
        };
        let matches: Vec<String> = (0..64).map(one).collect();
        format!(
            "---\nkind: HTTPRoute\nmetadata: {{namespace: app, name: {name}}}\nspec:\n  parentRefs: [{{name: web}}]\n  rules: [{{matches: [{}], filters: [{{type: RequestRedirect, requestRedirect: {{hostname: a.test}}}}]}}]\n",
            matches.join(", ")
        )
    };
    let text = [
        "kind: GatewayClass\nmetadata: {name: weir}\nspec: {controllerName: weir.dev/gateway}\n---\n\
         kind: Gateway\nmetadata: {namespace: app, name: web}\nspec: {gatewayClassName: weir, listeners: [{name: http, port: 80, protocol: HTTP}]}\n"
            .to_owned(),
        route("large", &|number| format!("(\\w{{100}}){{60}}{number}")),
        route("many", &|number| format!("{number}(a|b)*a(a|b){{18}}")),
        route("alike", &|_| "(a|b)*a(a|b){18}".to_owned()),
        route("usual", &|number| format!("user-{number}-[a-z0-9-]{{1,40}}")),
    ]
    .concat();
    let (_, translation) = translated(&text);
    let message = |name: &str| {
        let rendered = render(&translation);
        let of_route =
            rendered.split("status of ").find(|part| part.starts_with(&format!("HttpRoute app/{name}\n")));
        of_route.unwrap_or_else(|| panic!("no status of {name} in {rendered}")).to_owned()
    };
    assert!(
        message("large").contains("Accepted False UnsupportedValue: matches.headers"),
        "{}",
        message("large")
    );
    assert!(message("large").contains("takes more than 128 KiB"), "{}", message("large"));
    assert!(message("many").contains("take more than 4 MiB together"), "{}", message("many"));
    for name in ["alike", "usual"] {
        assert!(message(name).contains("Accepted True"), "{}", message(name));
    }
}

/// What others have, with a certificate, users and a host of theirs.
const OTHERS: &str = "---
kind: Namespace
metadata: {name: app}
---
kind: Namespace
metadata: {name: evil}
---
kind: Secret
type: kubernetes.io/tls
metadata: {namespace: app, name: cert}
data: {certificate: a.test}
---
kind: Secret
type: Opaque
metadata: {namespace: app, name: users}
data: {auth: dXNlcjp4Cg==}
---
kind: Service
metadata: {namespace: evil, name: own}
spec: {ports: [{port: 80}]}
---
kind: IngressClass
metadata: {name: weir, annotations: {ingressclass.kubernetes.io/is-default-class: \"true\"}}
spec: {controller: weir.dev/ingress}
---
kind: Ingress
metadata: {namespace: app, name: shop, creationTimestamp: \"2026-01-01T00:00:00Z\"}
spec: {rules: [{host: shop.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---
kind: Gateway
metadata: {namespace: app, name: open, creationTimestamp: \"2026-01-01T00:00:00Z\"}
spec: {gatewayClassName: weir, listeners: [{name: http, port: 8080, protocol: HTTP, hostname: '*.open.test', allowedRoutes: {namespaces: {from: All}}}]}
";

/// The routes of the listeners that others have, without those of a tenant.
fn of_others(config: &weir_config::Config) -> Vec<(Box<str>, Vec<std::sync::Arc<weir_config::Route>>)> {
    let is_theirs = |route: &&std::sync::Arc<weir_config::Route>| !route.name.contains("evil/");
    (config.listeners.iter())
        .filter(|listener| !listener.name.starts_with("evil."))
        .map(|listener| (listener.name.clone(), listener.routes.iter().filter(is_theirs).cloned().collect()))
        .collect()
}

/// The conditions of an object, wherever they are in its status.
fn conditions(status: &ObjectStatus) -> Vec<(String, String, String)> {
    fn gather(value: &serde_json::Value, found: &mut Vec<(String, String, String)>) {
        match value {
            serde_json::Value::Array(all) => all.iter().for_each(|one| gather(one, found)),
            serde_json::Value::Object(fields) => {
                let text = |name: &str| fields.get(name).and_then(|it| it.as_str()).unwrap_or_default();
                if fields.contains_key("lastTransitionTime") {
                    found.push((text("type").into(), text("status").into(), text("reason").into()));
                }
                fields.values().for_each(|one| gather(one, found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    gather(&serde_json::to_value(status).unwrap(), &mut found);
    found
}

/// The host of others, their Gateway, Service, certificate and ports: each is refused by the status of the object that wants it.
#[test]
fn what_belongs_to_others_is_refused_by_status() {
    let route = |spec: &str| {
        format!(
            "kind: HTTPRoute\nmetadata: {{namespace: evil, name: hostile, generation: 1}}\nspec: {{{spec}}}\n"
        )
    };
    let gateway = |listener: &str| {
        format!(
            "kind: Gateway\nmetadata: {{namespace: evil, name: hostile, creationTimestamp: \"2026-02-01T00:00:00Z\"}}\n\
             spec: {{gatewayClassName: weir, listeners: [{{name: one, {listener}}}]}}\n"
        )
    };
    let own = "rules: [{backendRefs: [{name: own, port: 80}]}]";
    let foreign = "rules: [{backendRefs: [{name: web, namespace: app, port: 80}]}]";
    for (what, object, condition) in [
        (
            "a Gateway that admits its own namespace only",
            route(&format!("parentRefs: [{{name: edge, namespace: app}}], hostnames: [a.test], {own}")),
            ["Accepted", "False", "NotAllowedByListeners"],
        ),
        (
            "a host that the listener does not have",
            route(&format!("parentRefs: [{{name: open, namespace: app}}], hostnames: [a.test], {own}")),
            ["Accepted", "False", "NoMatchingListenerHostname"],
        ),
        (
            "a Service without a grant",
            route(&format!("parentRefs: [{{name: open, namespace: app}}], hostnames: [x.open.test], {foreign}")),
            ["ResolvedRefs", "False", "RefNotPermitted"],
        ),
        (
            "a certificate without a grant",
            gateway("port: 9443, protocol: HTTPS, tls: {certificateRefs: [{name: cert, namespace: app}]}"),
            ["ResolvedRefs", "False", "RefNotPermitted"],
        ),
        (
            "the port of an older Gateway of the process",
            gateway("port: 8080, protocol: HTTP"),
            ["Accepted", "False", "PortUnavailable"],
        ),
        (
            "the port of Ingresses, whatever is older",
            gateway("port: 80, protocol: HTTP").replace("2026-02", "2019-01"),
            ["Accepted", "False", "PortUnavailable"],
        ),
        (
            "the port of Ingresses that is not open yet",
            gateway("port: 443, protocol: TLS, tls: {mode: Passthrough}"),
            ["Accepted", "False", "PortUnavailable"],
        ),
        (
            "a set of listeners for a Gateway that allows none",
            "kind: ListenerSet\nmetadata: {namespace: evil, name: hostile}\n\
             spec: {parentRef: {name: edge, namespace: app}, listeners: [{name: more, port: 8081, protocol: HTTP}]}\n"
                .to_owned(),
            ["Accepted", "False", "NotAllowed"],
        ),
    ] {
        // Ingresses have port 80.
        let app = APP.replace("port: 80, protocol", "port: 8000, protocol");
        let (mut translator, before) = translated(&format!("{app}{OTHERS}"));
        crate::objects::read(&object).iter().for_each(|object| translator.upsert(object));
        let translation = translator.translate(NOW);
        let statuses = translation.statuses.iter().filter(|update| *update.key.name == *"hostile");
        let found: Vec<_> = statuses.flat_map(|update| conditions(&update.status)).collect();
        let expected = condition.map(str::to_owned).into();
        assert!(found.contains(&expected), "{what}: {found:?}");
        let (before, after) = (before.config.unwrap(), translation.config.unwrap());
        assert_eq!(of_others(&before), of_others(&after), "{what}");
        let foreign = after.upstreams.iter().any(|upstream| upstream.name.starts_with("app.") && upstream.name.contains("evil"));
        assert!(!foreign, "{what}");
        assert!(!after.listeners.iter().any(|listener| listener.name.starts_with("evil.")), "{what}");
    }
}

/// The ports of Ingresses are theirs as long as there is a class of this process: what makes one, and no tenant, takes and leaves them.
#[test]
fn an_ingress_class_takes_the_ports_of_ingresses_from_gateways() {
    let (mut translator, before) = translated(APP);
    let names = |translation: weir_gateway::Translation| -> Vec<Box<str>> {
        let config = translation.config.unwrap();
        config.listeners.iter().map(|listener| listener.name.clone()).collect()
    };
    assert_eq!(names(before), ["app.edge.80".into()]);
    let foreign = "kind: IngressClass\nmetadata: {name: other}\nspec: {controller: other.test/ingress}\n";
    crate::objects::read(foreign).iter().for_each(|object| translator.upsert(object));
    assert_eq!(names(translator.translate(NOW)), ["app.edge.80".into()]);
    // A tenant makes an Ingress without a class: nothing.
    let ingress = "kind: Ingress\nmetadata: {namespace: evil, name: hostile}\n\
        spec: {ingressClassName: weir, rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: own, port: {number: 80}}}}]}}]}\n";
    crate::objects::read(ingress).iter().for_each(|object| translator.upsert(object));
    let unchanged = translator.translate(NOW).config;
    assert!(unchanged.is_none_or(|config| *config.listeners[0].name == *"app.edge.80"));
    let ours = "kind: IngressClass\nmetadata: {name: weir}\nspec: {controller: weir.dev/ingress}\n";
    crate::objects::read(ours).iter().for_each(|object| translator.upsert(object));
    let with_class = translator.translate(NOW);
    let told = with_class.statuses.iter().filter(|update| *update.key.name == *"edge");
    let found: Vec<_> = told.flat_map(|update| conditions(&update.status)).collect();
    assert!(found.contains(&["Accepted", "False", "PortUnavailable"].map(str::to_owned).into()), "{found:?}");
    assert_eq!(names(with_class), ["ingress-http".into()]);
    translator.delete(ObjectKind::IngressClass, &weir_gateway::ObjectKey::new("", "weir"));
    assert_eq!(names(translator.translate(NOW)), ["app.edge.80".into()]);
}

/// Ingresses have no conditions: what is refused is told by an Event, and the log.
#[test]
fn an_ingress_gets_nothing_of_others() {
    let ingress = |annotations: &str, host: &str| {
        format!(
            "kind: Ingress\nmetadata: {{namespace: evil, name: hostile, creationTimestamp: \"2026-02-01T00:00:00Z\", annotations: {{{annotations}}}}}\n\
             spec: {{rules: [{{host: {host}, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: own, port: {{number: 80}}}}}}}}]}}}}]}}\n"
        )
    };
    // Ingresses have port 80.
    let app = APP.replace("port: 80, protocol", "port: 8000, protocol");
    let megabyte = "a|".repeat(512 * 1024);
    for (what, object, said) in [
        ("the path of an older Ingress", ingress("", "shop.test"), "app/shop"),
        (
            "users of another namespace",
            ingress(
                "nginx.ingress.kubernetes.io/auth-type: basic, nginx.ingress.kubernetes.io/auth-secret: app/users",
                "own.test",
            ),
            "namespace",
        ),
        (
            "a regular expression of a megabyte",
            ingress("nginx.ingress.kubernetes.io/use-regex: 'true'", "own.test")
                .replace("path: /,", &format!("path: '/{megabyte}',")),
            "4096",
        ),
    ] {
        let (mut translator, before) = translated(&format!("{app}{OTHERS}"));
        crate::objects::read(&object).iter().for_each(|object| translator.upsert(object));
        let translation = translator.translate(NOW);
        let told: Vec<&str> = (translation.ingress_reports.iter())
            .filter(|report| *report.key.name == *"hostile")
            .flat_map(|report| report.problems.iter().map(|problem| &*problem.message))
            .collect();
        assert!(told.iter().any(|message| message.contains(said)), "{what}: {told:?}");
        assert!(told.iter().all(|message| message.len() <= 2_048), "{what}");
        let (before, after) = (before.config.unwrap(), translation.config.unwrap());
        let shop = |config: &weir_config::Config| {
            let routes = of_others(config).into_iter().flat_map(|(_, routes)| routes);
            routes.filter(|route| route.name.contains("app/shop")).collect::<Vec<_>>()
        };
        assert!(!shop(&before).is_empty());
        assert_eq!(shop(&before), shop(&after), "{what}");
        let leads = after.listeners.iter().flat_map(|listener| &listener.routes).any(|route| {
            route.name.contains("evil/hostile")
                && matches!(route.action, weir_config::RouteAction::Upstream(_))
        });
        assert!(!leads, "{what}");
    }
}

/// Places of upstreams change with the routes of all; what is held back goes on to the upstreams that it went to.
#[test]
fn what_is_held_back_goes_where_it_went() {
    let gateway = |name: &str, port: u16| {
        format!(
            "kind: Gateway\nmetadata: {{namespace: app, name: {name}.x}}\nspec: {{gatewayClassName: weir, listeners: [{{name: http, port: {port}, protocol: HTTP}}]}}\n---\n\
             kind: Service\nmetadata: {{namespace: app, name: of-{name}}}\nspec: {{ports: [{{port: 80}}]}}\n---\n\
             kind: HTTPRoute\nmetadata: {{namespace: app, name: {name}}}\nspec: {{parentRefs: [{{name: {name}.x}}], rules: [{{backendRefs: [{{name: of-{name}, port: 80}}]}}]}}\n"
        )
    };
    let class = "kind: GatewayClass\nmetadata: {name: weir}\nspec: {controllerName: weir.dev/gateway}\n";
    let objects = format!("{class}---\n{}---\n{}", gateway("one", 80), gateway("two", 81));
    let (mut translator, before) = translated(&objects);
    let before = before.config.unwrap();
    translator.delete(ObjectKind::HttpRoute, &weir_gateway::ObjectKey::new("app", "one"));
    let after = translator.translate(NOW).config.unwrap();
    assert_eq!(after.upstreams.len(), 1);
    let leads = |config: &weir_config::Config, listener: &str| -> Vec<String> {
        let listener = config.listeners.iter().find(|known| *known.name == *listener).unwrap();
        let upstreams = listener.routes.iter().flat_map(|route| route.action.upstreams());
        upstreams.map(|index| config.upstream(index).name.to_string()).collect()
    };
    let (one, two) = ("app.one.x.80", "app.two.x.81");
    for held in ["one.x", "two.x"] {
        let port = if held == "one.x" { 80 } else { 81 };
        let held = ListenerOwner::GatewayPort(weir_gateway::ObjectKey::new("app", held), port);
        assert_eq!(ListenerOwner::of_name(if port == 80 { one } else { two }), held);
        let made = hold_back(&after, Some(&before), &BTreeSet::new(), |owner| *owner == held);
        assert_eq!(leads(&made, two), ["app.of-two.80"], "{held}");
        let of_one: &[&str] = if port == 80 { &["app.of-one.80"] } else { &[] };
        assert_eq!(leads(&made, one), of_one, "{held}");
    }
    // One that was never applied has no listeners.
    let held = ListenerOwner::of_name(one);
    let made = hold_back(&after, None, &BTreeSet::new(), |owner| *owner == held);
    assert_eq!(made.listeners.len(), 1);
    assert_eq!(leads(&made, two), ["app.of-two.80"]);
    assert_eq!(ListenerOwner::of_name("ingress-https"), ListenerOwner::Ingresses);
}

/// A set of listeners with a port that cannot be had, on a Gateway with one of its own and another set: that port alone is held back.
#[test]
fn a_set_of_listeners_holds_back_its_port_alone() {
    let set = |namespace: &str, name: &str, ports: &[u16]| {
        let listeners = ports.iter().map(|port| format!("{{name: p{port}, port: {port}, protocol: HTTP}}"));
        let listeners = listeners.collect::<Vec<_>>().join(", ");
        format!(
            "kind: ListenerSet\nmetadata: {{namespace: {namespace}, name: {name}}}\n\
             spec: {{parentRef: {{name: edge, namespace: app}}, listeners: [{listeners}]}}\n"
        )
    };
    let app =
        APP.replace("{gatewayClassName", "{allowedListeners: {namespaces: {from: All}}, gatewayClassName");
    let (good, bad) = (set("app", "good", &[8080]), set("evil", "bad", &[81, 8081]));
    let (mut translator, before) = translated(&format!("{app}---\n{good}---\n{bad}"));
    let before = before.config.unwrap();
    let names = |config: &weir_config::Config| -> Vec<String> {
        config.listeners.iter().map(|listener| listener.name.to_string()).collect()
    };
    assert_eq!(names(&before), ["app.edge.80", "app.edge.8080", "app.edge.8081", "app.edge.81"]);
    let of_sets = translator.listeners_of_sets();
    assert_eq!(
        of_sets.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["app.edge.8080", "app.edge.8081", "app.edge.81"]
    );
    let held = ListenerOwner::of_name("app.edge.81");
    let refusals = Refusals { whole: None, held_back: BTreeMap::from([(held, "taken".into())]) };
    assert!(translator.set_refusals(refusals));
    let statuses = translator.translate(NOW).statuses;
    let programmed = |status: &ObjectStatus| -> Vec<String> {
        let all = conditions(status).into_iter().filter(|(kind, ..)| kind == "Programmed");
        all.map(|(_, status, reason)| format!("{status} {reason}")).collect()
    };
    let pending = "False Pending";
    for (name, wanted) in [
        ("edge", &["True Programmed"; 2][..]),
        ("good", &["True Programmed"; 2]),
        ("bad", &[pending, pending, "True Programmed"]),
    ] {
        let update = statuses.iter().find(|update| *update.key.name == *name).unwrap();
        assert_eq!(programmed(&update.status), wanted, "{name}");
    }
    // The Gateway gives up its port for another one. As long as that cannot be had, the port of before stays; a port of a set keeps none.
    let edge = app.split("\n---\n").nth(1).unwrap().replace("port: 80,", "port: 82,");
    crate::objects::read(&edge).iter().for_each(|object| translator.upsert(object));
    let after = translator.translate(NOW).config.unwrap();
    for (held, stays) in [("app.edge.82", true), ("app.edge.81", false)] {
        let last = hold_back(&before, None, &of_sets, |owner| *owner == ListenerOwner::of_name(held));
        let made = hold_back(&after, Some(&last), &translator.listeners_of_sets(), |owner| {
            *owner == ListenerOwner::of_name(held)
        });
        let made = names(&made);
        assert_eq!(made.contains(&"app.edge.80".to_owned()), stays, "{held}: {made:?}");
        assert!(!made.contains(&held.to_owned()), "{made:?}");
    }
}
