//! `weir explain` says what `weir serve` does: the same config, the same requests, the same route and server.

use serde_json::Value;

use super::THREE_ROUTES;
use crate::harness::{Client, Origin, Response, Weir, WrittenConfig, run, temporary_folder};

/// A config whose servers are these origins; each answers with its name.
fn config(origins: &[Origin; 3]) -> String {
    let [one, two, three] = origins.each_ref().map(Origin::address);
    format!(
        r#"
[listener.web]
address = "127.0.0.1:0"
trusted_proxies = ["127.0.0.1"]
limits = {{ body_size = "1KiB" }}

[[listener.web.route]]
path = "/hash/"
strip_prefix = true
upstream = "hashed"

[[listener.web.route]]
path = "/hash/"
method = "PUT"
respond = {{ status = 405, body = "no" }}

[[listener.web.route]]
host = "old.test"
redirect = {{ to = "http://new.test{{path}}{{query}}" }}

[[listener.web.route]]
path_exact = "/three"
header = {{ x-three = "yes" }}
upstream = "single"

[upstream.hashed]
balance = "consistent-hash"
hash_key = "client-address"
servers = [{{ name = "one", address = "{one}" }}, {{ name = "two", address = "{two}" }}]

[upstream.single]
servers = [{{ name = "three", address = "{three}" }}]
"#
    )
}

/// A request as both sides get it.
struct Asked {
    method: &'static str,
    host: &'static str,
    target: String,
    headers: Vec<String>,
}

impl Asked {
    fn explained(&self, file: &str) -> Value {
        let url = format!("http://{}{}", self.host, self.target);
        let mut arguments = vec!["explain", file, &url, "-X", self.method, "--format", "json"];
        arguments.extend(self.headers.iter().flat_map(|header| ["-H", header]));
        let done = run(&arguments);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
        serde_json::from_str(&done.stdout).expect("the explanation is JSON")
    }

    fn sent(&self, weir: &Weir) -> Response {
        let headers: String = self.headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request =
            format!("{} {} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.method, self.target, self.host);
        Client::exchange(weir.web(), &request)
    }
}

#[test]
fn it_says_what_serve_does() {
    let origins = ["one", "two", "three"].map(Origin::serving);
    let text = config(&origins);
    let file = WrittenConfig::new(&text);
    let weir = Weir::start_in(temporary_folder(), &text);
    let ask = |method, host, target: &str, headers: &[&str]| Asked {
        method,
        host,
        target: target.to_owned(),
        headers: headers.iter().map(|&header| header.to_owned()).collect(),
    };
    let mut asked = vec![
        ask("PUT", "any.test", "/hash/x", &[]),
        ask("GET", "old.test", "/a/b?c=d", &[]),
        ask("GET", "any.test", "/three", &["X-Three: yes"]),
        ask("GET", "any.test", "/three", &["X-Three: no"]),
        ask("GET", "any.test", "/a|b%zz", &[]),
        ask("GET", "any.test", "/hash/x", &["Expect: miracles"]),
        ask("POST", "any.test", "/hash/x", &["Content-Length: 4000"]),
        ask("OPTIONS", "any.test", "/hash/x", &["Max-Forwards: 0"]),
    ];
    asked.extend((1..20).map(|last| {
        let client = format!("X-Forwarded-For: 192.0.2.{last}");
        ask("GET", "any.test", &format!("/hash/{last}?q"), &[&client])
    }));
    let mut servers = Vec::new();
    for one in &asked {
        let explained = one.explained(file.path());
        let response = one.sent(&weir);
        let case = format!("{} {} {:?}\n{explained:#}\n{response:?}", one.method, one.target, one.headers);
        if let Some(forward) = explained.get("forward") {
            let server = &forward["upstreams"][0]["servers"][0];
            assert_eq!(
                (response.status, Some(response.text().as_str())),
                (200, server["name"].as_str()),
                "{case}"
            );
            servers.push(response.text());
        } else if let Some(refused) = explained.get("refused") {
            assert_eq!(Some(u64::from(response.status)), refused["status"].as_u64(), "{case}");
            assert_eq!(response.reason(), refused["reason"].as_str(), "{case}");
        } else {
            let ending = ["redirect", "respond", "last_hop"]
                .iter()
                .find_map(|way| explained.get(way))
                .expect("there are five ways to end");
            assert_eq!(Some(u64::from(response.status)), ending["status"].as_u64(), "{case}");
            assert_eq!(response.field("location"), ending.get("location").and_then(Value::as_str), "{case}");
        }
    }
    servers.sort();
    servers.dedup();
    assert_eq!(servers, ["one", "three", "two"], "the cases reach every server");
}

#[test]
fn what_is_not_clear_is_asked_back() {
    let file = WrittenConfig::new(
        "listener.one = { address = \":1\", upstream = \"a\" }\nlistener.two = { address = \":2\", upstream = \"a\" }\nupstream.a.servers = [\"10.0.0.1:80\"]\n",
    );
    let done = run(&["explain", file.path(), "/x"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{done:?}");
    assert!(done.stderr.contains("--listener one of one (:1), two (:2)"), "{done:?}");
    assert_eq!(run(&["explain", file.path(), "/x", "--listener", "two"]).code, Some(0));
    let bad = run(&["explain", WrittenConfig::new("listener = 1\n").path(), "/x"]);
    assert!(bad.code == Some(2) && bad.stderr.contains("listener"), "{bad:?}");
}

#[test]
fn it_names_route_upstream_and_servers() {
    let file = WrittenConfig::new(THREE_ROUTES);
    let explain = |arguments: &[&str]| run(&[&["explain", file.path()], arguments].concat());
    let api = explain(&["http://any.test/api/users?x=1"]);
    assert_eq!(api.code, Some(0), "{}", api.stdout);
    for expected in ["/api/", "api", "10.0.0.1:80", "10.0.0.2:80"] {
        assert!(api.stdout.contains(expected), "{expected} is missing in:\n{}", api.stdout);
    }
    assert!(!api.stdout.contains("10.0.0.3:80"), "not a candidate:\n{}", api.stdout);
    let moved = explain(&["http://old.test/x"]);
    assert!(
        moved.stdout.contains("https://new.test/x") || moved.stdout.contains("https://new.test{path}"),
        "{}",
        moved.stdout
    );
    let rest = explain(&["http://any.test/apix", "-X", "POST", "-H", "X-A: b"]);
    assert!(rest.stdout.contains("rest") && rest.stdout.contains("10.0.0.3:80"), "{}", rest.stdout);
}
