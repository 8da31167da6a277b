//! Whole explanations of requests with one config, in text and in JSON.

use clap::Parser as _;
use serde_json::{Value, json};
use weir_traffic::ServerId;
use weir_traffic::affinity::RequestAffinity;

use super::*;

/// Parsed as clap parses it, so that defaults and flags are those of the program.
#[derive(clap::Parser)]
struct Typed {
    #[command(flatten)]
    arguments: ExplainArguments,
}

const CONFIG: &str = r#"
[listener.web]
address = "127.0.0.1:8080"
trusted_proxies = ["10.0.0.0/8"]
limits = { body_size = "1KiB" }

[[listener.web.route]]
name = "api"
path = "/api"
strip_prefix = true
request_headers = { set = { x-env = "test" }, remove = ["x-debug"] }
forward_host = "api.internal"
upstream = "api"

[[listener.web.route]]
name = "canary"
header = { x-canary = "yes" }
split = [{ upstream = "site", weight = 95 }, { upstream = "api", weight = 5, mirror = { upstream = "site", share = "10%" } }]

[[listener.web.route]]
name = "moved"
host = "old.test"
redirect = { to = "https://{host}.new.test{path}{query}", status = 301 }

[[listener.web.route]]
name = "robots"
path_exact = "/robots.txt"
limits = { body_size = "off" }
respond = { status = 200, body = "none" }

[[listener.web.route]]
name = "writes"
method = ["POST", "PUT"]
query = { draft = "1" }
source = "192.0.2.0/24"
upstream = "site"

[[listener.web.route]]
name = "rest"
host = ["any.test", "other.test"]
upstream = "site"

[upstream.api]
protocol = "h2c"
http2.streams_max = 50
balance = "consistent-hash"
hash_key = "client-address"
when_full = "backup"
servers = [
  { name = "one", address = "10.0.0.1:80" },
  { name = "two", address = "10.0.0.2:80", weight = 2, max_requests = 10, source_address = "10.0.0.7" },
  { name = "spare", address = "10.0.0.9:80", backup = true },
]

[upstream.site]
servers = ["10.0.0.3:80", { address = "10.0.0.4:80", weight = 0 }]
affinity = {}
health = { path = "/healthz", interval = "1s" }
"#;

fn explained(arguments: &[&str]) -> Result<String, CommandError> {
    let config = Config::parse(CONFIG, "weir.toml").unwrap();
    let typed = Typed::parse_from([&["explain", "weir.toml"], arguments].concat());
    explain(&config, &typed.arguments)
}

fn text(arguments: &[&str]) -> String {
    explained(arguments).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&explained(&[arguments, &["--format", "json"]].concat()).unwrap()).unwrap()
}

#[test]
fn a_forwarded_request_is_explained_from_listener_to_servers() {
    let explained = text(&["http://plain.test:8080/api/users?x=1", "--from", "192.0.2.7"]);
    let mut lines = explained.lines();
    for expected in [
        "request    GET /api/users?x=1 for plain.test",
        "client     192.0.2.7",
        "listener   web (127.0.0.1:8080): has the port of the URL",
        "route      api: takes the request: path prefix /api",
    ] {
        assert_eq!(lines.next(), Some(expected), "{explained}");
    }
    for expected in [
        "\n           not rest: is for another host: any.test or other.test\n",
        "\n           not canary: requires header x-canary exactly \"yes\", and the request has none\n",
        "\n           not moved: is for another host: old.test\n",
        "\n           not robots: is for another path: exactly /robots.txt\n",
        "\n           not writes: is for another method: POST or PUT\n",
        "\ntarget     /users?x=1, rewritten\nheader     host: api.internal\nheader     without x-debug\nheader     x-env: test\n",
        "\nupstream   api\nprotocol   HTTP/2 without TLS",
        "\nbalance    consistent-hash: the server that the key belongs to",
        "\nkey        client address \"192.0.2.7\" belongs to ",
        "weight 2    66.7 %  at most 10 requests  from 10.0.0.7  can take the request\n",
        "spare  10.0.0.9:80  weight 1       0 %  backup, also when others are full  is a backup, and a primary server is eligible\n",
    ] {
        assert!(explained.contains(expected), "{expected:?} is missing in:\n{explained}");
    }
}

#[test]
fn a_request_with_a_body_to_few_slots_gets_advice() {
    let config = |route: &str| {
        let text = format!(
            "listener.web = {{ address = \":80\", route = [{{ path = \"/\", upstream = \"app\"{route} }}] }}
             upstream.app = {{ servers = [\"10.0.0.1:80\"], max_requests = 2 }}"
        );
        Config::parse(&text, "weir.toml").unwrap()
    };
    let explained = |route: &str, method: &str, format: &str| {
        let typed = Typed::parse_from([
            "explain",
            "weir.toml",
            "http://a.test/",
            "--method",
            method,
            "--format",
            format,
        ]);
        explain(&config(route), &typed.arguments).unwrap()
    };
    let advice = "\nadvice     a server of the upstream `app` takes 2 requests at a time";
    assert!(explained("", "POST", "text").contains(advice), "{}", explained("", "POST", "text"));
    assert!(explained("", "PUT", "json").contains("\"advice\": \"a server of the upstream"));
    for (route, method) in [("", "GET"), (", buffer_requests = {}", "POST")] {
        for format in ["text", "json"] {
            assert!(!explained(route, method, format).contains("advice"), "{route} {method} {format}");
        }
    }
}

#[test]
fn the_protocol_of_the_servers_is_told() {
    let explained = text(&["/api"]);
    let line = "\nprotocol   HTTP/2 without TLS; up to 50 requests at once on a connection, or fewer if the server says so\n";
    assert!(explained.contains(line), "{explained}");
    assert_eq!(json(&["/api"])["forward"]["upstreams"][0]["protocol"], "h2c");
    assert!(!text(&["http://any.test/"]).contains("\nprotocol "), "HTTP/1.1 goes without saying");
}

#[test]
fn what_servers_may_ask_for_is_told() {
    let text = "listener.web = { address = \":80\", route = [
         { path = \"/\", upstream = \"app\", x_accel = [\"redirect\", \"limit_rate\"], x_sendfile = \"files\" },
         { name = \"files\", internal = true, files = { root = \"/srv\" } },
         ] }
         upstream.app = { servers = [\"10.0.0.1:80\"] }";
    let config = Config::parse(text, "weir.toml").unwrap();
    let typed = Typed::parse_from(["explain", "weir.toml", "http://a.test/x"]);
    let explained = explain(&config, &typed.arguments).unwrap();
    let expected = "\nobeyed     X-Accel-Redirect, X-Accel-Limit-Rate, X-Sendfile (a file of the route files) of servers\n";
    assert!(explained.contains(expected), "{explained}");
}

#[test]
fn the_key_decides_on_the_first_server() {
    let first = |from: &str| {
        let explained = json(&["/api", "--from", from]);
        let upstream = &explained["forward"]["upstreams"][0];
        assert_eq!(upstream["key"], json!({ "of": "client address", "value": from, "present": true }));
        upstream["servers"][0]["name"].as_str().unwrap().to_owned()
    };
    let names: Vec<String> = (1..40).map(|last| first(&format!("192.0.2.{last}"))).collect();
    assert!(names.iter().all(|name| name == "one" || name == "two"), "{names:?}");
    assert!(names.contains(&"one".to_owned()) && names.contains(&"two".to_owned()), "{names:?}");
    assert_eq!(first("192.0.2.1"), names[0], "the same client goes to the same server");
}

#[test]
fn the_cookie_of_a_request_is_read() {
    let bound = Config::parse(CONFIG, "weir.toml").unwrap();
    let site = bound.upstreams.iter().find(|upstream| &*upstream.name == "site").unwrap();
    let affinity = site.affinity([0, 0]).unwrap();
    let set = affinity.set_cookie(RequestAffinity::default(), ServerId(1)).unwrap();
    let cookie = format!("Cookie: a=b; {}", set.split(';').next().unwrap());
    let explained = text(&["http://any.test/", "-H", &cookie]);
    let expected = "\ncookie     weir-server-site belongs to 10.0.0.4:80, which gets the request as long as it takes any\n\
                    health     GET /healthz every 1s; down after 3 in a row that fail, up after 2 that pass\n";
    assert!(explained.contains(expected), "{explained}");
    let explained = json(&["http://any.test/"]);
    let upstream = &explained["forward"]["upstreams"][0];
    assert_eq!(upstream["cookie"], json!({ "name": "weir-server-site", "mode": "insert", "server": null }));
    let explained = text(&["/api"]);
    assert!(explained.contains("\nhealth     no probes: every server counts as up\n"), "{explained}");
}

#[test]
fn a_split_tells_the_parts_and_the_servers_of_each() {
    let explained = json(&["http://any.test/", "-H", "X-Canary: yes", "--listener", "web"]);
    assert_eq!(explained["route"], "rest", "a host is more specific than a header");
    let explained = json(&["http://third.test/", "-H", "X-Canary: yes"]);
    assert_eq!(explained["route"], "canary");
    let parts: Vec<(&str, f64)> = explained["forward"]["upstreams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["name"].as_str().unwrap(), part["percent"].as_f64().unwrap()))
        .collect();
    assert_eq!(parts, [("site", 95.0), ("api", 5.0)]);
    let text = text(&["http://third.test/", "-H", "X-Canary: yes"]);
    assert!(text.contains("upstream   site, 95 % of the requests, drawn for each\n"), "{text}");
    assert!(text.contains("10.0.0.4:80  weight 0       0 %  the weight is 0\n"), "{text}");
    let copied = "mirror     10% of the requests to api with GET, HEAD, OPTIONS are copied\n";
    assert!(text.contains(copied), "{text}");
}

#[test]
fn answers_of_the_config_are_told() {
    let moved = json(&["http://old.test/a?b", "--listener", "web"]);
    assert_eq!(moved["redirect"], json!({ "status": 301, "location": "https://old.test.new.test/a?b" }));
    assert!(text(&["http://old.test/a?b"]).contains("\nlocation   https://old.test.new.test/a?b\n"));
    let robots = json(&["/robots.txt", "-X", "POST", "-H", "Content-Length: 4000"]);
    let expected = json!({ "status": 200, "content_type": "text/plain; charset=utf-8", "body": "none" });
    assert_eq!(robots["respond"], expected);
    assert!(text(&["/robots.txt"]).contains("\nanswer     200 from the config, without a server\n"));
}

#[test]
fn refusals_are_told_with_their_reason() {
    for (arguments, status, reason, phase) in [
        (&["http://third.test/"][..], 404, "no-route", "route"),
        (&["http://any.test/a b"], 400, "bad-request-line", "request"),
        (&["http://any.test/", "-H", "Content-Length: x"], 400, "bad-length", "request"),
        (&["http://any.test/", "-H", "Expect: more"], 417, "expectation-failed", "request"),
        (&["http://any.test/", "-X", "POST", "-H", "Content-Length: 1025"], 413, "body-too-large", "route"),
        (&["any.test:443", "-X", "CONNECT"], 501, "connect-not-allowed", "route"),
    ] {
        let explained = json(arguments);
        let refused = &explained["refused"];
        assert_eq!(
            (&refused["status"], &refused["reason"], &refused["phase"]),
            (&json!(status), &json!(reason), &json!(phase)),
            "{explained:#}"
        );
        let text = text(arguments);
        assert!(text.contains(&format!("\nanswer     {status} {reason} (phase {phase})\n")), "{text}");
    }
    assert!(
        text(&["http://third.test/"]).contains("\nroute      none takes the request\n           not api: ")
    );
    assert!(json(&["http://any.test/", "-X", "POST", "-H", "Content-Length: 1024"])["forward"].is_object());
}

#[test]
fn conditions_are_told_with_what_was_found() {
    let explained = text(&["http://third.test/?draft=2", "-X", "POST", "-H", "x-canary: no"]);
    assert!(
        explained
            .contains("not canary: requires header x-canary exactly \"yes\", and the request has \"no\"\n"),
        "{explained}"
    );
    assert!(
        explained.contains(
            "not writes: requires query parameter draft exactly \"1\", and the request has \"2\"\n"
        ),
        "{explained}"
    );
    let explained = text(&["http://third.test/?draft=1", "-X", "POST"]);
    assert!(
        explained.contains("not writes: is for clients from 192.0.2.0/24, not 127.0.0.1\n"),
        "{explained}"
    );
}

#[test]
fn a_trusted_proxy_is_believed_and_others_are_not() {
    for (from, client) in [("10.1.2.3", "192.0.2.9"), ("192.0.2.1", "192.0.2.1")] {
        let explained = json(&[
            "http://third.test/?draft=1",
            "-X",
            "PUT",
            "-H",
            "X-Forwarded-For: 192.0.2.9",
            "--from",
            from,
        ]);
        assert_eq!(
            (&explained["request"]["client"], &explained["route"]),
            (&json!(client), &json!("writes")),
            "{explained:#}"
        );
    }
    let explained = text(&["/api", "-H", "X-Forwarded-For: 192.0.2.9", "--from", "10.1.2.3"]);
    assert!(
        explained.contains("\nclient     192.0.2.9, as the trusted proxy 10.1.2.3 says\n"),
        "{explained}"
    );
}

#[test]
fn a_request_at_its_last_hop_is_told() {
    for (method, status) in [("OPTIONS", 200), ("TRACE", 405)] {
        let arguments = ["/api", "-X", method, "-H", "Max-Forwards: 0"];
        assert_eq!(json(&arguments)["last_hop"], json!({ "status": status }));
        assert!(text(&arguments).contains(&format!("\nanswer     {status} by Weir itself: ")));
    }
    assert!(json(&["/api", "-X", "OPTIONS", "-H", "Max-Forwards: 1"])["forward"].is_object());
    assert!(json(&["/api", "-H", "Max-Forwards: 0"])["forward"].is_object(), "it means nothing to GET");
}

#[test]
fn upgrades_are_told() {
    for (protocol, passes) in [("websocket", true), ("h2c", false)] {
        let header = format!("Upgrade: {protocol}");
        let explained = json(&["/api", "-H", "Connection: upgrade", "-H", &header]);
        assert_eq!(explained["forward"]["upgrade"], json!({ "protocol": protocol, "passes": passes }));
    }
    assert!(json(&["/api"])["forward"]["upgrade"].is_null());
}

#[test]
fn a_host_of_the_command_line_replaces_that_of_the_url() {
    let explained = json(&["http://127.0.0.1:8080/", "-H", "host: old.test"]);
    assert_eq!((&explained["request"]["host"], &explained["route"]), (&json!("old.test"), &json!("moved")));
}

#[test]
fn what_is_no_request_is_a_usage_error() {
    for arguments in [
        &["http://any.test/", "-H", "no header"][..],
        &["http://any.test/", "-H", "a: b\r\nc: d"],
        &["http://any.test/", "-X", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET"],
        &["ftp://any.test/"],
        &["/", "--listener", "none"],
    ] {
        let outcome = explained(arguments);
        assert!(matches!(outcome, Err(CommandError::Usage { .. })), "{arguments:?}: {outcome:?}");
    }
}

/// Servers that a source names are those of the state file, and the explanation says how old they are.
#[test]
fn servers_of_a_source_come_from_the_state_file() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("servers.json");
    let explained = |keys: &str| {
        let text = format!(
            "{keys}\n[listener.web]\naddress = \"127.0.0.1:8080\"\nupstream = \"app\"\n[upstream.app]\ndiscovery.consul = \"app\"\n"
        );
        let config = Config::parse(&text, "weir.toml").unwrap();
        let typed = Typed::parse_from(["explain", "weir.toml", "http://a.test:8080/"]);
        explain(&config, &typed.arguments).unwrap()
    };
    let without = explained("");
    assert!(
        without.contains("\nsource     consul app names the servers; they are not known here"),
        "{without}"
    );
    let key = format!("discovery.state_file = \"{}\"", state.display());
    assert!(explained(&key).contains("state_file` cannot be read: No such file"), "{}", explained(&key));
    let stored = |source: &str| {
        let said_at = crate::clock::unix_seconds() - 300;
        let servers =
            json!([{ "address": "10.0.0.7:80", "weight": 3 }, { "address": "10.0.0.8:80", "weight": 1 }]);
        json!({ "version": 1, "upstreams": { "app": { "source": source, "said_at": said_at, "servers": servers } } })
    };
    std::fs::write(&state, stored("consul app").to_string()).unwrap();
    let known = explained(&key);
    assert!(known.contains("\nsource     consul app names the servers; it did so last 5 min ago"), "{known}");
    assert!(known.contains("10.0.0.7:80  weight 3      75 %"), "{known}");
    std::fs::write(&state, stored("consul other").to_string()).unwrap();
    assert!(explained(&key).contains("has none of them yet"));
}

#[test]
fn rules_by_user_come_after_authentication() {
    let config = r#"
list.team = { action = "deny", key = "{user}", entries = ["ann"] }
limit.per-user = { rate = "5/s", key = "{user}" }
limit.per-client = { rate = "9/s" }
[listener.web]
address = "127.0.0.1:8080"
limited_by = ["per-client", "per-user"]
[[listener.web.route]]
path = "/"
upstream = "site"
lists = "team"
basic = { users = { ann = "$2y$05$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm" } }
[upstream.site]
servers = ["10.0.0.3:80"]
"#;
    let config = Config::parse(&config.replace('$', "$$"), "weir.toml").unwrap();
    let typed = Typed::parse_from(["explain", "weir.toml", "http://plain.test:8080/"]);
    let explained = explain(&config, &typed.arguments).unwrap();
    for expected in [
        "\nlist       team (deny): by {user}, after authentication\n",
        "\nlimit      per-client: 9/s, burst 9 by {client_address}\n",
        "\nlimit      per-user: 5/s, burst 5 by {user}, after authentication\n",
    ] {
        assert!(explained.contains(expected), "{explained}");
    }
}

/// The client is the one that the data path finds, and what has to admit it is said.
#[test]
fn a_list_or_authentication_has_to_admit_the_client() {
    let config = r#"
list.cdn.entries = ["10.0.0.0/8"]
list.office = { action = "allow", entries = ["192.0.2.0/24"] }
list.rest = { action = "deny", entries = ["0.0.0.0/0", "192.0.2.128/25"] }
[listener.web]
address = "127.0.0.1:8080"
trusted_proxies = ["list.cdn"]
client_address_header = "cf-connecting-ip"
[[listener.web.route]]
path = "/"
upstream = "site"
lists = ["office", "rest"]
satisfy = "any"
basic = { users = { ann = "$2y$05$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm" } }
[upstream.site]
servers = ["10.0.0.3:80"]
"#;
    let config = Config::parse(&config.replace('$', "$$"), "weir.toml").unwrap();
    let explained = |from: &str, fields: &[&str]| {
        let fields = fields.iter().flat_map(|field| ["-H", *field]);
        let arguments = ["explain", "weir.toml", "http://plain.test:8080/", "--from", from];
        explain(&config, &Typed::parse_from(arguments.into_iter().chain(fields)).arguments).unwrap()
    };
    let office = "CF-Connecting-IP: 192.0.2.7";
    for (from, fields, expected) in [
        (
            "10.0.0.1",
            &[office][..],
            "satisfy    any: the list office lets the client in without authentication\n",
        ),
        (
            "10.0.0.1",
            &["CF-Connecting-IP: 192.0.2.200"],
            "satisfy    any: the list rest refuses the client, unless",
        ),
        // No other peer says who the client is.
        ("203.0.113.1", &[office], "satisfy    any: the list rest refuses the client, unless"),
        (
            "2001:db8::1",
            &[],
            "satisfy    any: no list of networks has the client, so authentication has to admit it\n",
        ),
        ("10.0.0.1", &[office, "cf-connecting-ip: 192.0.2.8"], "client-address-bad"),
    ] {
        let explained = explained(from, fields);
        assert!(explained.contains(expected), "{from} {fields:?}: {explained}");
    }
}
