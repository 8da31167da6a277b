//! `when` of routes: conditions on the request, its connection and its client, over both versions of HTTP, beside the cache, over a reload.

use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Origin, Response, Weir, WrittenConfig, config_with, run};

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// A config of one route with a condition that answers 299, before one for everything else.
fn config(origin: &Origin, condition: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "listener.web.trusted_proxies = [\"127.0.0.1\"]
             listener.web.http2.prior_knowledge = \"allowed\"
             listener.web.route = [
               {{ path = \"/\", upstream = \"app\" }},
               {{ path = \"/\", when = '''{condition}''', respond = {{ status = 299 }} }},
             ]"
        ),
    )
}

#[test]
fn a_route_is_taken_when_its_condition_holds() {
    let origin = echo();
    for (condition, target, fields, holds) in [
        ("method == 'GET'", "/", "", true),
        ("method in ['POST', 'PUT']", "/", "", false),
        ("path.startsWith('/api/') && path.endsWith('.json')", "/api/a.json?x=1", "", true),
        ("path.startsWith('/api/')", "/%61pi/../api/x", "", true),
        ("path.matches(r'^/user/[0-9]+$')", "/user/42", "", true),
        ("path.matches(r'^/user/[0-9]+$')", "/user/4a", "", false),
        ("host == 'a.test' && scheme == 'http'", "/", "", true),
        ("has(header['x-debug'])", "/", "X-Debug:\r\n", true),
        ("has(header['x-debug'])", "/", "", false),
        ("header['x-debug'] == '1'", "/", "X-Debug: 0\r\nX-Debug: 1\r\n", true),
        (
            "referer == 'https://b.test/'",
            "/",
            "Referer: https://a.test/\r\nReferer: https://b.test/\r\n",
            true,
        ),
        ("header['user-agent'].lowerAscii().contains('bot')", "/", "User-Agent: BadBot/1\r\n", true),
        ("cookie.theme == 'dark'", "/", "Cookie: a=1; theme=dark\r\n", true),
        ("cookie.theme == 'dark'", "/", "Cookie: theme=darker\r\n", false),
        ("query.debug == '1'", "/?%64ebug=%31", "", true),
        ("header['x-csrf'] == cookie.csrf", "/", "X-Csrf: abc\r\nCookie: csrf=abc\r\n", true),
        ("header['x-csrf'] == cookie.csrf", "/", "X-Csrf: abc\r\nCookie: csrf=abd\r\n", false),
        ("header['x-csrf'] == cookie.csrf", "/", "", false),
        ("header['x-csrf'] == cookie.csrf", "/", "X-Csrf: abc\r\nCookie: csrf=abc; csrf=abd\r\n", false),
        ("client_address in ['10.0.0.0/8']", "/", "X-Forwarded-For: 10.1.2.3\r\n", true),
        ("client_address in ['10.0.0.0/8']", "/", "X-Forwarded-For: 192.0.2.1\r\n", false),
        ("peer_address == '127.0.0.1' && peer_port > 1023", "/", "", true),
        ("ip(header['x-real-ip']) in ['192.0.2.0/24']", "/", "X-Real-IP: 192.0.2.9\r\n", true),
        ("ip(header['x-real-ip']) in ['192.0.2.0/24']", "/", "X-Real-IP: nonsense\r\n", false),
        ("int(header['x-size']) > 100 || size(query) > 20", "/", "X-Size: 101\r\n", true),
        ("listener == 'web' && connection_requests == 1", "/", "", true),
        ("tls.version == ''", "/", "", true),
    ] {
        let weir = Weir::start(&config(&origin, condition));
        let expected = if holds { 299 } else { 200 };
        assert_eq!(get(&weir, target, fields).status, expected, "{condition} {target} {fields}");
        let names: Vec<(String, &str)> = fields
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
            .collect();
        let names: Vec<(&str, &str)> = names.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        // HTTP/2 names the host as HTTP/1 does in `Host`.
        if !condition.contains("host ==") {
            let mut client = Http2Client::connect(weir.web());
            let stream = client.get_with(target, &names);
            assert_eq!(client.response(stream).status, expected, "HTTP/2: {condition} {target} {fields}");
        }
    }
}

#[test]
fn of_different_conditions_the_first_that_holds_is_taken_and_a_reload_changes_them() {
    let origin = echo();
    let routes = |first: &str, second: &str| {
        config_with(
            &[origin.named("a")],
            &format!(
                "listener.web.route = [
                   {{ path = \"/\", when = \"{first}\", respond = {{ status = 291 }} }},
                   {{ path = \"/\", when = \"{second}\", respond = {{ status = 292 }} }},
                   {{ path = \"/\", upstream = \"app\" }},
                 ]"
            ),
        )
    };
    let weir = Weir::start(&routes("header.a == '1'", "header.b == '1'"));
    let status = |fields: &str| get(&weir, "/", fields).status;
    assert_eq!(
        (status("A: 1\r\n"), status("B: 1\r\n"), status("A: 1\r\nB: 1\r\n"), status("")),
        (291, 292, 291, 200)
    );
    weir.reload(&routes("header.b == '1'", "header.a == '1'"));
    assert_eq!(
        (status("A: 1\r\n"), status("B: 1\r\n"), status("A: 1\r\nB: 1\r\n"), status("")),
        (292, 291, 291, 200)
    );
}

/// Headers are found once for all routes: more of them than are remembered, names too long to be, lines that are missing or several.
#[test]
fn many_routes_ask_for_many_headers() {
    const LONG: &str = "x-a-name-that-is-longer-than-thirty-bytes";
    let origin = echo();
    let names: Vec<String> = (0..7).map(|number| format!("x-h{number}")).chain([LONG.to_owned()]).collect();
    let mut routes = String::new();
    for (status, name) in (210..).zip(&names) {
        for value in ["a", "b"] {
            let status = if value == "a" { status } else { status + 10 };
            routes += &format!(
                "{{ path = \"/\", when = \"header['{name}'] == '{value}'\", \
                 respond = {{ status = {status} }} }},\n"
            );
        }
    }
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!("listener.web.route = [\n{routes}{{ path = \"/\", upstream = \"app\" }}]"),
    ));
    assert_eq!(get(&weir, "/", "").status, 200);
    for (status, name) in (210..).zip(&names) {
        assert_eq!(get(&weir, "/", &format!("{name}: a\r\n")).status, status, "{name}");
        assert_eq!(get(&weir, "/", &format!("{name}: x\r\n{name}: b\r\n")).status, status + 10, "{name}");
        assert_eq!(get(&weir, "/", &format!("{name}: x\r\nx-h9: a\r\n")).status, 200, "{name}");
    }
}

/// Of many routes those are tried whose conditions need what the request has; which of them wins is as without that.
#[test]
fn many_conditions_keep_their_order() {
    const ROUTES: usize = 30;
    let origin = echo();
    let kinds: [fn(usize) -> String; 6] = [
        |n| format!("header['x-t'] == 't{n}' && path.startsWith('/a/')"),
        |n| format!("path.matches(r'^/a/{n}/.*[.]php$')"),
        |n| format!("query.t == '{n}' && !(header['x-t'] == 't1')"),
        |n| format!("cookie.c in ['{n}', 'all'] || path == '/or/{n}'"),
        |n| format!("path.startsWith('/b/{n}') && method != 'POST'"),
        |n| format!("header['x-t'] == '' && query.empty == '{n}'"),
    ];
    let mut routes = String::new();
    for n in 0..ROUTES {
        for (kind, condition) in kinds.iter().enumerate() {
            let body = format!("{kind} {n}");
            routes += &format!(
                "{{ path = \"/\", when = \"{}\", respond = {{ body = \"{body}\" }} }},\n",
                condition(n)
            );
        }
    }
    for order in ["most-specific", "file"] {
        let weir = Weir::start(&config_with(
            &[origin.named("a")],
            &format!(
                "listener.web.http2.prior_knowledge = \"allowed\"
                 listener.web.route_order = \"{order}\"
                 listener.web.route = [\n{routes}{{ path = \"/\", respond = {{ body = \"rest\" }} }}]"
            ),
        ));
        for (target, fields, expected) in [
            ("/a/x", &[("x-t", "t0")][..], "0 0"),
            ("/a/x", &[("x-t", "t29")], "0 29"),
            ("/a/x", &[("x-t", "none"), ("x-t", "t17"), ("x-t", "t9")], "0 9"),
            ("/x", &[("x-t", "t29")], "rest"),
            ("/a/7/b.php", &[], "1 7"),
            ("/a/7/b.php", &[("x-t", "t8")], "1 7"),
            ("/a/7/b.php", &[("x-t", "t7")], "0 7"),
            ("/a/29/b.phpx", &[], "rest"),
            ("/a/x?t=3&t=2", &[("x-t", "t4")], "2 2"),
            ("/x?t=2", &[("x-t", "t1")], "rest"),
            ("/x?t=5", &[("cookie", "c=4")], "3 4"),
            ("/or/3?t=3", &[], "2 3"),
            ("/or/3?t=4", &[], "3 3"),
            ("/x", &[("cookie", "c=all; c=5")], "3 0"),
            ("/b/12/x", &[], "4 1"),
            ("/x?empty=11", &[], "5 11"),
            ("/x?empty=11", &[("x-t", "t0")], "rest"),
            ("/x?empty=11", &[("x-t", "t0"), ("x-t", "")], "5 11"),
            ("/", &[], "rest"),
        ] {
            let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let found = get(&weir, target, &lines);
            assert_eq!(found.text(), expected, "{order} {target} {fields:?}");
            let mut client = Http2Client::connect(weir.web());
            let stream = client.get_with(target, fields);
            assert_eq!(client.response(stream).text(), expected, "HTTP/2: {order} {target} {fields:?}");
        }
        // A line for each route, many times over: the answer is that of the first.
        let lines: String = (0..90).rev().map(|n| format!("x-t: t{}\r\n", n % 30)).collect();
        assert_eq!(get(&weir, "/a/x", &lines).text(), "0 0", "{order}");
    }
}

#[test]
fn explain_says_what_decided() {
    let origin = echo();
    let file = WrittenConfig::new(&config(&origin, "path == '/a' && (header.x == '1' || client_port > 1)"));
    let explained = |arguments: &[&str]| {
        let done = run(&[&["explain", file.path()], arguments].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout
    };
    let taken = explained(&["http://a.test/a", "-H", "X: 1"]);
    assert!(taken.contains("when path == '/a' && (header.x == '1' || client_port > 1)"), "{taken}");
    let refused = explained(&["http://a.test/a"]);
    assert!(
        refused.contains(
            "its condition does not hold: `path == '/a'` is true (path is \"/a\"), `header.x == '1'` is false (there is no header.x); \
             `client_port` is known of connections only, and missing here"
        ),
        "{refused}"
    );
}
