//! Requests that the admin listener refuses: wrong credentials, pages of other sites, requests too large, too slow or too many. Each refusal is
//! counted, and none of it reaches a server.

use std::os::unix::fs::PermissionsExt;

use crate::harness::{Client, Origin, Response, Weir, config_with, eventually, temporary_folder};

const PASSWORD: &str = "correct horse battery";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// `ops:correct horse battery` in Base64.
const BASIC: &str = "Basic b3BzOmNvcnJlY3QgaG9yc2UgYmF0dGVyeQ==";

/// Weir in front of `origin`, with more settings of `[admin]` in the form of dotted keys, and files with secrets in its folder.
fn weir(origin: &Origin, admin: &str) -> Weir {
    let folder = temporary_folder();
    for (file, secret) in [("password", PASSWORD), ("token", TOKEN)] {
        let path = folder.path().join(file);
        std::fs::write(&path, format!("{secret}\n")).expect("the folder takes a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("it is our own");
    }
    Weir::start_in(folder, &config(origin, admin))
}

fn config(origin: &Origin, admin: &str) -> String {
    config_with(&[origin.named("s0")], admin)
}

const BOTH: &str = "admin.user = \"ops\"\nadmin.password_file = \"password\"\nadmin.token_file = \"token\"";

/// Sends a request with these lines between the first and the empty one.
fn ask(weir: &Weir, start: &str, lines: &[&str]) -> Response {
    let fields: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    Client::exchange(weir.address("admin"), &format!("{start} HTTP/1.1\r\n{fields}\r\n"))
}

/// How often the admin listener refused for a reason, read with `authorization`.
fn refusals(weir: &Weir, reason: &str, authorization: &str) -> f64 {
    let page = ask(weir, "GET /metrics", &["Host: localhost", &format!("Authorization: {authorization}")]);
    let text = page.text();
    let sample = format!("weir_admin_refusals_total{{reason=\"{reason}\"}} ");
    let value = text.split(&sample).nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {sample} in {text}"))
}

#[test]
fn requests_without_credentials_are_refused() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin, BOTH);
    let wrong = [
        None,
        Some("Basic b3BzOndyb25n"),
        Some("Basic not base64"),
        Some("Bearer 0123456789abcdef0123456789abcdeF"),
        Some("Bearer "),
        Some("Digest x"),
        Some("Bearer"),
    ];
    for authorization in wrong {
        let field = authorization.map(|value| format!("Authorization: {value}"));
        let lines: Vec<&str> = ["Host: localhost"].into_iter().chain(field.as_deref()).collect();
        for start in ["GET /metrics", "GET /", "GET /servers", "GET /nothing", "POST /servers?upstream=app"] {
            let response = ask(&weir, start, &lines);
            assert_eq!(response.status, 401, "{start} with {lines:?}");
            assert!(
                response.field("www-authenticate").is_some_and(|value| value.starts_with("Basic realm="))
            );
            if authorization.is_some() {
                break;
            }
        }
    }
    for right in
        [BASIC, &format!("Bearer {TOKEN}"), "Basic YW55Ym9keTowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg=="]
    {
        let response = ask(&weir, "GET /metrics", &["Host: localhost", &format!("Authorization: {right}")]);
        assert_eq!(response.status, 200, "{right}");
    }
    assert_eq!(refusals(&weir, "credentials", BASIC), 11.0);
    weir.line(&["the admin listener refused a request", "reason=\"credentials\"", "peer=127.0.0.1:"]);
    let said = weir.stderr().lines().filter(|line| line.contains("refused a request")).count();
    assert!(said < 11, "{said} lines");
    assert!(!weir.stderr().contains(PASSWORD) && !weir.stderr().contains(TOKEN));
    assert_eq!(origin.requests().len(), 0, "no request reached the server");
}

#[test]
fn a_reload_changes_the_secrets() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin, BOTH);
    let old = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(ask(&weir, "GET /metrics", &["Host: a", &old]).status, 200);
    std::fs::write(weir.folder().join("token"), "another token of some length").expect("it is there");
    weir.reload(&config(&origin, BOTH));
    assert_eq!(ask(&weir, "GET /metrics", &["Host: a", &old]).status, 401);
    let new = "Authorization: Bearer another token of some length";
    assert_eq!(ask(&weir, "GET /metrics", &["Host: a", new]).status, 200);
    std::fs::remove_file(weir.folder().join("token")).expect("it is there");
    weir.reload_in_vain(&config(&origin, BOTH));
    assert_eq!(ask(&weir, "GET /metrics", &["Host: a", new]).status, 200, "the old config holds");
}

#[test]
fn a_name_that_leads_here_is_not_enough() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin, "admin.allowed_hosts = [\"weir.internal\"]");
    let admin = weir.address("admin");
    for host in [format!("{admin}"), "localhost:1".into(), "weir.internal".into(), "weir:9000".into()] {
        assert_eq!(ask(&weir, "GET /metrics", &[&format!("Host: {host}")]).status, 200, "{host}");
    }
    for host in ["evil.test", "127.0.0.1.evil.test:9000"] {
        let refused = ask(&weir, "GET /metrics", &[&format!("Host: {host}")]);
        assert_eq!(refused.status, 421, "{host}");
        for way in ["admin.allowed_hosts = [", "admin.token_file", "scrape by address"] {
            assert!(refused.text().contains(way), "{way}: {}", refused.text());
        }
    }
    assert_eq!(refusals(&weir, "host", "none"), 2.0);
}

#[test]
fn other_sites_change_nothing() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin, "admin.changes = true");
    let admin = weir.address("admin");
    let host = format!("Host: {admin}");
    let own = format!("Origin: http://{admin}");
    let drain = "POST /servers?upstream=app&server=s0&mode=draining";
    let mode = || {
        let table = ask(&weir, "GET /servers", &[&host]).text();
        let row = table.lines().find(|line| line.contains("\ts0\t")).expect("the server is listed");
        row.split('\t').nth(2).expect("a mode").to_owned()
    };
    for lines in [
        &["Origin: http://evil.test", "Sec-Fetch-Site: cross-site"][..],
        &["Origin: null"],
        &["Sec-Fetch-Site: same-site"],
        &["Sec-Fetch-Site: none"],
        // Another server on this machine.
        &["Origin: http://127.0.0.1:3000", "Sec-Fetch-Site: same-site"],
        // The page itself, without its token or with that of another process.
        &[&own, "Sec-Fetch-Site: same-origin"],
        &[&own, "Sec-Fetch-Site: same-origin", "Weir-Page-Token: 00000000000000000000000000000000"],
    ] {
        let lines: Vec<&str> = [&[&*host, "Content-Length: 0"], lines].concat();
        assert_eq!(ask(&weir, drain, &lines).status, 403, "{lines:?}");
        assert_eq!(mode(), "serving");
    }
    assert_eq!(refusals(&weir, "cross-site", "none"), 7.0);
    // Other pages do not get to read it either, whatever the browser thinks of it; links work.
    let embedded =
        ask(&weir, "GET /metrics", &[&host, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"]);
    assert_eq!(embedded.status, 403);
    let followed =
        ask(&weir, "GET /metrics", &[&host, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"]);
    assert_eq!(followed.status, 200);
    assert_eq!(ask(&weir, drain, &[&host, "Content-Length: 0"]).status, 200, "no browser, no page");
    assert_eq!(mode(), "draining");
}

#[test]
fn what_is_too_large_or_no_request_is_refused() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin, "admin.changes = true");
    let large_head = format!("X: {}", "x".repeat(9000));
    let target = format!("GET /{}", "x".repeat(9000));
    for (start, lines, status) in [
        ("GET /", &["Host: a", &large_head][..], 431),
        (&*target, &["Host: a"], 431),
        ("POST /servers", &["Host: a", "Content-Length: 1000000000"], 413),
        ("POST /servers", &["Host: a", "Transfer-Encoding: chunked"], 411),
        ("GET /", &["Host: a", "Content-Length: 1", "Transfer-Encoding: chunked"], 400),
    ] {
        assert_eq!(ask(&weir, start, lines).status, status, "{start:.30}");
    }
    // Endless: what is sent after the answer is due is not kept.
    let mut endless = Client::connect(weir.address("admin"));
    endless.send("GET / HTTP/1.1\r\n");
    while endless.send_what_is_taken(format!("{large_head}\r\n")).is_ok() {}
    assert_eq!(refusals(&weir, "too-large", "none"), 4.0);
    assert_eq!(refusals(&weir, "malformed", "none"), 2.0);
}

#[test]
fn one_client_cannot_take_every_place() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin, "");
    let mut held: Vec<Client> = (0..16).map(|_| Client::connect(weir.address("admin"))).collect();
    // They are counted once they are accepted, which is in order.
    let mut refused = Client::connect(weir.address("admin"));
    refused.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(refused.response().status, 503);
    // The data path has its own.
    assert_eq!(Client::get(weir.web(), "/").text(), "answer");
    held[0].send(format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", weir.address("admin")));
    assert_eq!(held[0].response().status, 200);
    // Silent clients are closed by the time limit.
    eventually("there is room again", || {
        let mut client = Client::connect(weir.address("admin"));
        client.send_what_is_taken("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").is_ok()
            && client.response().status == 200
    });
    for client in &mut held[1..] {
        assert_eq!(client.response().status, 408);
    }
    assert!(refusals(&weir, "timeout", "none") >= 15.0);
    assert!(refusals(&weir, "connection-limit", "none") >= 1.0);
}

#[test]
fn answers_say_how_they_may_be_used() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin, "");
    for target in ["/", "/metrics", "/servers", "/nothing"] {
        let response = Client::get_by_address(weir.address("admin"), target);
        let policy = response.field("content-security-policy").expect("a policy");
        assert!(
            policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(response.field(name), Some(value), "{target}: {name}");
        }
    }
}

#[test]
fn the_api_says_what_is_wrong_as_json() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin, "admin.changes = false");
    for (start, status, allow) in [
        ("POST /api/reload", 403, None),
        ("GET /api/raw?command=set%20weight%20app%2Fs0%205", 405, Some("POST")),
        ("DELETE /api/overview", 405, Some("GET, HEAD, POST")),
        ("GET /api/failures?bogus=1", 400, None),
        ("GET /api/nothing", 404, None),
    ] {
        let response = ask(&weir, start, &["Host: localhost"]);
        assert_eq!(
            (response.status, response.field("allow")),
            (status, allow),
            "{start}: {}",
            response.text()
        );
        let body: serde_json::Value = serde_json::from_str(&response.text()).expect("it is JSON");
        assert!(body["errors"][0].is_string(), "{start}: {body}");
        assert!(response.field("date").is_some_and(|date| date.ends_with(" GMT")), "{start}");
    }
    let page = ask(&weir, "GET /ready", &["Host: localhost"]);
    assert!(page.field("date").is_some(), "a whole page has it, too");
}
