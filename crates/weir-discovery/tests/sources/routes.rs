//! Keys that hold routes: of the real etcd, and of a scripted Consul.

use data_encoding::BASE64;
use serde_json::json;
use weir_config::{RouteStore, SourceUrl};

use super::consul::{Asked, RealConsul, agent, next};
use super::etcd::Etcd;
use super::{FollowedSource, PATIENCE};

fn url(port: u16) -> SourceUrl {
    SourceUrl::new(false, format!("127.0.0.1:{port}"))
}

fn answer(asked: Asked, index: u64, keys: &[(&str, &[u8])]) {
    let entries: Vec<_> =
        keys.iter().map(|(key, value)| json!({ "Key": key, "Value": BASE64.encode(value) })).collect();
    asked.respond("200 OK", &format!("X-Consul-Index: {index}\r\n"), &json!(entries).to_string());
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn keys_of_consul_are_waited_for() {
    let (port, mut requests) = agent().await;
    let store = RouteStore::Consul { prefix: "weir/routes/".into(), datacenter: Some("dc1".into()) };
    let mut followed = FollowedSource::start_routes(store, |config| {
        config.settings.consul.url = url(port);
        config.settings.empty_grace = std::time::Duration::from_millis(50);
    });
    let first = next(&mut requests).await;
    assert!(first.head.starts_with("GET /v1/kv/weir/routes/?recurse&dc=dc1 HTTP/1.1\r\n"), "{}", first.head);
    answer(first, 5, &[("weir/routes/", b""), ("weir/routes/a", b"a = 1"), ("weir/routes/b", b"\xff")]);
    let said = followed.next_fragments().await;
    assert_eq!(said[0], ("weir/routes/a".to_owned(), "a = 1".to_owned()));
    assert!(said.len() == 2 && said[1].1.contains("not UTF-8"), "{said:?}");

    let second = next(&mut requests).await;
    assert!(second.head.contains("recurse&index=5&wait=60s&dc=dc1 "), "{}", second.head);
    answer(second, 6, &[("weir/routes/a", b"a = 2")]);
    assert_eq!(followed.next_fragments().await, pairs(&[("weir/routes/a", "a = 2")]));

    // A page that is not Consul's is no empty store, and a broken answer is none.
    next(&mut requests).await.respond("404 Not Found", "", "no such page");
    followed.until_route_problem("answered 404").await;
    next(&mut requests).await.respond("200 OK", "X-Consul-Index: 7\r\n", "{}");
    followed.until_route_problem("without a list of keys").await;
    next(&mut requests).await.respond("403 Forbidden", "", "Permission denied");
    followed.until_route_problem("a token: `discovery.consul.token_file`").await;
    // An empty store is believed after the grace.
    next(&mut requests).await.respond("404 Not Found", "X-Consul-Index: 8\r\n", "");
    followed.until_route_problem("no key any more").await;
    assert_eq!(followed.next_fragments().await, Vec::new());
    followed.stop().await;
}

#[tokio::test]
async fn keys_of_etcd_are_watched() {
    let etcd = Etcd::start().await;
    etcd.put("/weir/routes/a", "a = 1", None).await;
    etcd.put("/weir/routed", "x = 1", None).await;
    let mut followed = FollowedSource::start_routes(RouteStore::Etcd("/weir/routes/".into()), |config| {
        config.settings.etcd.urls = vec![url(etcd.port)];
    });
    assert_eq!(followed.next_fragments().await, pairs(&[("/weir/routes/a", "a = 1")]));
    etcd.put("/weir/routes/b", "b = 1", None).await;
    let both = [("/weir/routes/a", "a = 1"), ("/weir/routes/b", "b = 1")];
    assert_eq!(followed.next_fragments().await, pairs(&both));
    let key = BASE64.encode(b"/weir/routes/a");
    etcd.ask("/v3/kv/deleterange", &json!({ "key": key })).await.expect("it deletes the key");
    assert_eq!(followed.next_fragments().await, pairs(&[("/weir/routes/b", "b = 1")]));
    followed.stop().await;
}

#[tokio::test]
#[ignore = "the real Consul takes minutes to build: `cargo xtask consul`"]
async fn keys_of_the_real_consul_are_waited_for() {
    let consul = RealConsul::start();
    let stored = async {
        while consul.put("/v1/kv/weir/routes/a", "a = 1").await.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, stored).await.expect("it takes the key");
    let store = RouteStore::Consul { prefix: "weir/routes/".into(), datacenter: None };
    let mut followed = FollowedSource::start_routes(store, |config| {
        config.settings.consul.url = url(consul.port);
        config.settings.empty_grace = std::time::Duration::from_millis(50);
    });
    assert_eq!(followed.next_fragments().await, pairs(&[("weir/routes/a", "a = 1")]));
    consul.put("/v1/kv/weir/routes/b", "b = 1").await.expect("it takes the key");
    let both = [("weir/routes/a", "a = 1"), ("weir/routes/b", "b = 1")];
    assert_eq!(followed.next_fragments().await, pairs(&both));
    for key in ["a", "b"] {
        consul.ask("DELETE", &format!("/v1/kv/weir/routes/{key}"), "").await.expect("it deletes the key");
    }
    while !followed.next_fragments().await.is_empty() {}
    followed.stop().await;
}
