//! TLS with servers: where it begins, which policy counts, and what their authorities cost.

use std::sync::Arc;

use weir_config::Upstream;
use weir_gateway::{ObjectStatus, Translation};

use crate::objects::{NOW, read, translated};

const BASE: &str = "kind: GatewayClass
metadata: {name: weir}
spec: {controllerName: weir.dev/gateway}
---
kind: Secret
type: kubernetes.io/tls
metadata: {namespace: app, name: cert}
data: {certificate: b.term.test}
---
kind: ConfigMap
metadata: {namespace: app, name: ca}
data: {certificate: authority}
---
kind: Service
metadata: {namespace: app, name: web}
spec: {ports: [{name: https, port: 443}, {name: other, port: 444}]}
---
kind: BackendTLSPolicy
metadata: {namespace: app, name: policy}
spec: {targetRefs: [{group: '', kind: Service, name: web}], validation: {hostname: web.test, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}
---
";

fn gateway(listeners: &str) -> String {
    format!(
        "kind: Gateway\nmetadata: {{namespace: app, name: edge}}\nspec: {{gatewayClassName: weir, listeners: [{listeners}]}}\n---\n"
    )
}

fn route(kind: &str, host: &str, port: u16) -> String {
    format!(
        "kind: {kind}\nmetadata: {{namespace: app, name: r-{host}}}\n\
         spec: {{parentRefs: [{{name: edge}}], hostnames: [{host}], rules: [{{backendRefs: [{{name: web, port: {port}}}]}}]}}\n---\n"
    )
}

/// The upstreams by name, and whether Weir begins TLS with their servers.
fn upstreams(translation: &Translation) -> Vec<(String, bool)> {
    let config = translation.config.as_ref().unwrap();
    let known = |upstream: &&Arc<Upstream>| *upstream.name != *"unresolved";
    let mut found: Vec<_> = (config.upstreams.iter().filter(known))
        .map(|upstream| (upstream.name.to_string(), upstream.tls.is_some()))
        .collect();
    found.sort();
    found
}

const PASSES: &str =
    "{name: pass, port: 8443, protocol: TLS, hostname: '*.pass.test', tls: {mode: Passthrough}}";
const ENDS: &str = "{name: term, port: 8443, protocol: TLS, hostname: '*.term.test', tls: {certificateRefs: [{name: cert}]}}";

/// What passes through is TLS already: a policy for the Service does not put it into TLS of Weir's.
#[test]
fn tls_that_passes_through_is_not_put_into_tls() {
    let (passed, ended) = (route("TLSRoute", "a.pass.test", 443), route("TLSRoute", "b.term.test", 443));
    for (what, listeners, routes, expected) in [
        ("alone on its port", PASSES.to_owned(), passed.clone(), &[("app.web.443-passed", false)][..]),
        ("what ends here alone", ENDS.to_owned(), ended.clone(), &[("app.web.443", true)]),
        (
            "both on one port",
            format!("{PASSES}, {ENDS}"),
            format!("{passed}{ended}"),
            &[("app.web.443", true), ("app.web.443-passed", false)],
        ),
    ] {
        let (_, translation) = translated(&format!("{BASE}{}{routes}", gateway(&listeners)));
        let found = upstreams(&translation);
        let found: Vec<_> = found.iter().map(|(name, tls)| (name.as_str(), *tls)).collect();
        assert_eq!(found, expected, "{what}");
        let servers: Vec<_> = translation.servers.iter().map(|one| &*one.upstream).collect();
        assert_eq!(servers.len(), expected.len(), "{what}: {servers:?}");
    }
}

/// What a policy was told about a Gateway: `Accepted` and its reason.
fn told(translation: &Translation, name: &str) -> Vec<(String, String)> {
    let of_policy = translation.statuses.iter().filter(|update| *update.key.name == *name);
    let ancestors = of_policy.flat_map(|update| match &update.status {
        ObjectStatus::Policy(status) => status.ancestors.to_vec(),
        _ => Vec::new(),
    });
    let conditions = ancestors.flat_map(|ancestor| ancestor.conditions.to_vec());
    conditions
        .filter(|condition| *condition.r#type == *"Accepted")
        .map(|condition| (condition.status.to_string(), condition.reason.to_string()))
        .collect()
}

/// A policy for a port that the Service does not have takes effect nowhere, and says so.
#[test]
fn a_policy_without_a_target_is_not_accepted() {
    let http = "{name: http, port: 8080, protocol: HTTP}";
    for (section, expected) in [
        ("https", ("True", "Accepted")),
        ("none", ("False", "TargetNotFound")),
        // The port has no route, the policy counts for it.
        ("other", ("True", "Accepted")),
    ] {
        let base = BASE.replace("name: web}]", &format!("name: web, sectionName: {section}}}]"));
        let text = format!("{base}{}{}", gateway(http), route("HTTPRoute", "a.test", 443));
        let (_, translation) = translated(&text);
        let found = told(&translation, "policy");
        assert_eq!(found, [(expected.0.to_owned(), expected.1.to_owned())], "{section}");
    }
}

/// A change of a ConfigMap of anyone plans all listeners anew, and reads no certificate.
#[test]
fn certificates_are_read_once() {
    let listener = ENDS.replace("*.term.test", "b.term.test");
    let text = format!("{BASE}{}{}", gateway(&listener), route("TLSRoute", "b.term.test", 443));
    let (mut translator, first) = translated(&text);
    let other = "kind: ConfigMap\nmetadata: {namespace: other, name: lock}\ndata: {holder: me}\n";
    read(other).iter().for_each(|object| translator.upsert(object));
    let second = translator.translate(NOW);
    let certificate = |translation: &Translation| {
        let config = translation.config.as_ref().unwrap();
        let tls = config.listeners[0].tls.as_ref().unwrap();
        Arc::clone(&tls.certificates().next().unwrap().certificate)
    };
    assert!(Arc::ptr_eq(&certificate(&first), &certificate(&second)));
    assert!(Arc::ptr_eq(&first.config.unwrap().listeners[0], &second.config.unwrap().listeners[0]));
}

/// A ConfigMap is read once, whatever the number of policies and routes that refer to it.
#[test]
fn authorities_are_read_once() {
    let mut text = format!("{BASE}{}", gateway("{name: http, port: 8080, protocol: HTTP}"));
    text.push_str(&route("HTTPRoute", "a.test", 443));
    text.push_str(&route("HTTPRoute", "b.test", 444));
    for name in ["https", "other"] {
        text.push_str(&format!(
            "kind: BackendTLSPolicy\nmetadata: {{namespace: app, name: of-{name}}}\n\
             spec: {{targetRefs: [{{group: '', kind: Service, name: web, sectionName: {name}}}], validation: {{hostname: web.test, caCertificateRefs: [{{group: '', kind: ConfigMap, name: ca}}]}}}}\n---\n"
        ));
    }
    let (_, translation) = translated(&text);
    let config = translation.config.unwrap();
    let authorities: Vec<_> =
        config.upstreams.iter().filter_map(|one| one.tls.as_ref()?.authorities.clone()).collect();
    assert_eq!(authorities.len(), 2);
    assert!(Arc::ptr_eq(&authorities[0], &authorities[1]));
}
