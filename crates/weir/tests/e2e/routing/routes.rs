//! Which route a request takes, and what the route does with it.

use crate::harness::scripts::echo;
use crate::harness::{Client, Origin, Request, Response, Weir, origin::ok};

const WEB: &str = "listener.web.address = \"127.0.0.1:0\"\n";

fn respond(name: &str, rules: &str) -> String {
    format!("  {{ name = \"{name}\", {rules}, respond = {{ body = \"{name}\" }} }},\n")
}

fn ask(weir: &Weir, request: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("{request} HTTP/1.1\r\n{fields}\r\n"))
}

fn routes_by_every_rule() -> String {
    [
        respond("anything", "path = \"/\""),
        respond("host", "host = \"a.test\""),
        respond("wildcard", "host = \"*.a.test\""),
        respond("longer-wildcard", "host = \"*.b.a.test\""),
        respond("prefix", "host = \"a.test\", path = \"/api\""),
        respond("longer-prefix", "host = \"a.test\", path = \"/api/v1\""),
        respond("exact", "host = \"a.test\", path_exact = \"/api/v1/x\""),
        respond("regex", "host = \"a.test\", path_regex = '\\.css$'"),
        respond("method", "host = \"a.test\", path = \"/api\", method = [\"PUT\", \"PATCH\"]"),
        respond("header", "host = \"a.test\", path = \"/api\", header = { x-canary = \"yes\" }"),
        respond(
            "header-prefix",
            "host = \"a.test\", path = \"/api\", header = { user-agent = { prefix = \"curl/\" } }, priority = 1",
        ),
        respond("header-present", "host = \"h.test\", header = { x-any = true }"),
        respond("header-absent", "host = \"n.test\", header = { x-any = false }"),
        respond("query", "host = \"a.test\", path = \"/api\", query = { v = \"2\" }"),
        respond("source", "host = \"a.test\", path = \"/from\", source = \"127.0.0.2\""),
        respond("network", "host = \"a.test\", path = \"/from\", source = \"127.0.0.0/8\""),
    ]
    .concat()
}

/// Request line, fields and the route that takes them.
fn requests_for_every_rule() -> Vec<(&'static str, String, &'static str)> {
    let host = |host: &str| format!("Host: {host}\r\n");
    vec![
        ("GET /", host("z.test"), "anything"),
        ("GET /x", host("a.test"), "host"),
        ("GET /x", host("A.TEST"), "host"),
        ("GET /x", host("a.test:8080"), "host"),
        ("GET /x", host("a.test."), "host"),
        ("GET /x", host("x.a.test"), "wildcard"),
        ("GET /x", host("y.x.a.test"), "wildcard"),
        ("GET /x", host("x.b.a.test"), "longer-wildcard"),
        ("GET /x", host("xa.test"), "anything"),
        ("GET /api", host("a.test"), "prefix"),
        ("GET /api/x", host("a.test"), "prefix"),
        ("GET /apix", host("a.test"), "host"),
        ("GET /API", host("a.test"), "host"),
        ("GET /api/v1/y", host("a.test"), "longer-prefix"),
        ("GET /api/v1/x", host("a.test"), "exact"),
        ("GET /api/v1/x?q", host("a.test"), "exact"),
        ("GET /api/v1/x/", host("a.test"), "longer-prefix"),
        ("GET /api/a.css", host("a.test"), "regex"),
        ("GET /api/a.css?x", host("a.test"), "regex"),
        ("PUT /api", host("a.test"), "method"),
        ("PATCH /api", host("a.test"), "method"),
        ("GET /api", format!("{}X-Canary: yes\r\n", host("a.test")), "header"),
        ("GET /api", format!("{}X-Canary: no\r\n", host("a.test")), "prefix"),
        ("GET /api", format!("{}User-Agent: curl/8\r\n", host("a.test")), "header-prefix"),
        ("GET /", format!("{}X-Any:\r\n", host("h.test")), "header-present"),
        ("GET /", host("h.test"), "anything"),
        ("GET /", host("n.test"), "header-absent"),
        ("GET /", format!("{}X-Any: 1\r\n", host("n.test")), "anything"),
        ("GET /api?v=2", host("a.test"), "query"),
        ("GET /api?w=1&v=2&x", host("a.test"), "query"),
        ("GET /api?v=3", host("a.test"), "prefix"),
        ("GET /api?vv=2", host("a.test"), "prefix"),
        ("GET /from", host("a.test"), "network"),
        // The normal form of the path is matched.
        ("GET /api/../secret", host("a.test"), "host"),
        ("GET /%61pi", host("a.test"), "prefix"),
        ("GET /%2561pi", host("a.test"), "host"),
        // The authority of an absolute target is the host (RFC 9112 section 3.2.2).
        ("GET http://a.test/api", host("a.test"), "prefix"),
    ]
}

#[test]
fn the_most_specific_route_wins() {
    let weir = Weir::start(&format!("{WEB}listener.web.route = [\n{}]\n", routes_by_every_rule()));
    let cases = requests_for_every_rule();
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(request, fields, expected)| {
            let response = ask(&weir, request, fields);
            let got = response.text();
            (got != *expected).then(|| {
                format!("{request} {fields:?}: expected {expected}, got {} {got:?}", response.status)
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut other = Client::connect_from("127.0.0.2", weir.web());
    other.send("GET /from HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(other.response().text(), "source");
}

#[test]
fn no_route_is_404_and_no_method_405() {
    let weir = Weir::start(&format!(
        "{WEB}listener.web.route = [\n{}]\n",
        respond("only", "host = \"a.test\", path = \"/only\", method = \"GET\"")
    ));
    let elsewhere = ask(&weir, "GET /else", "Host: a.test\r\n");
    assert_eq!((elsewhere.status, elsewhere.reason()), (404, Some("no-route")));
    let method = ask(&weir, "DELETE /only", "Host: a.test\r\n");
    assert!([404, 405].contains(&method.status), "{method:?}");
    assert_eq!(ask(&weir, "GET /only", "Host: a.test\r\n").text(), "only");
}

#[test]
fn redirects() {
    let weir = Weir::start(&format!(
        "{WEB}listener.web.route = [\n\
         {{ path = \"/\", redirect = {{ to = \"https://{{host}}{{path}}{{query}}\" }} }},\n\
         {{ path = \"/old\", redirect = {{ to = \"/new\", status = 302 }} }},\n]\n"
    ));
    let secure = ask(&weir, "GET /a/b?c=d", "Host: a.test:8080\r\n");
    assert_eq!(
        (secure.status, secure.field("location")),
        (308, Some("https://a.test/a/b?c=d")),
        "{secure:?}"
    );
    let old = ask(&weir, "GET /old/x", "Host: a.test\r\n");
    assert_eq!((old.status, old.field("location")), (302, Some("/new")), "{old:?}");
    let none = ask(&weir, "GET /plain", "Host: a.test\r\n");
    assert_eq!(none.field("location"), Some("https://a.test/plain"));
}

#[test]
fn fixed_responses() {
    let weir = Weir::start(&format!(
        "{WEB}listener.web.route = [\n\
         {{ path = \"/\", respond = {{ body = \"hello\" }} }},\n\
         {{ path = \"/json\", respond = {{ status = 503, body = '{{\"a\":1}}', content_type = \"application/json\", headers = {{ retry-after = \"5\" }} }} }},\n\
         {{ path = \"/empty\", respond = {{ status = 204 }} }},\n]\n"
    ));
    let mut client = Client::connect(weir.web());
    let plain = client.fetch("/");
    assert_eq!(
        (plain.status, plain.text(), plain.field("content-type")),
        (200, "hello".to_owned(), Some("text/plain; charset=utf-8"))
    );
    let json = client.fetch("/json");
    assert_eq!(
        (json.status, json.text(), json.field("content-type")),
        (503, "{\"a\":1}".to_owned(), Some("application/json"))
    );
    assert_eq!(json.field("retry-after"), Some("5"));
    assert_eq!(client.fetch("/empty").status, 204);
    // A body that is not needed is consumed: the connection goes on.
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().text(), "hello");
    client.send("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let head = client.response_to("HEAD");
    assert_eq!((head.status, head.field("content-length")), (200, Some("5")));
    assert_eq!(client.fetch("/").text(), "hello");
}

#[test]
fn paths_are_rewritten() {
    let origin = echo();
    let weir = Weir::start(&format!(
        "{WEB}upstream.app.servers = [\"{}\"]\nlistener.web.route = [\n\
         {{ path = \"/\", upstream = \"app\" }},\n\
         {{ path = \"/strip\", strip_prefix = true, upstream = \"app\" }},\n\
         {{ path = \"/old\", replace_prefix = \"/new\", upstream = \"app\" }},\n\
         {{ path = \"/item\", replace_regex = {{ pattern = '^/item/([0-9]+)', replacement = '/items?id=$1' }}, upstream = \"app\" }},\n]\n",
        origin.address()
    ));
    for (sent, received) in [
        ("/keep?a=b", "/keep?a=b"),
        ("/strip", "/"),
        ("/strip/a?b=c", "/a?b=c"),
        ("/stripper", "/stripper"),
        ("/old/a%2Fb?c", "/new/a%2Fb?c"),
        ("/item/7?x=y", "/items?id=7&x=y"),
        ("/item/x", "/item/x"),
    ] {
        assert_eq!(Client::get(weir.web(), sent).text(), received, "{sent}");
    }
}

#[test]
fn headers_are_changed() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nServer: secret\r\nX-Keep: 1\r\nX-Set: old\r\nContent-Length: 2\r\n\r\nok",
    );
    let weir = Weir::start(&format!(
        "{WEB}upstream.app.servers = [\"{0}\"]\n\
         [[listener.web.route]]\npath = \"/\"\nupstream = \"app\"\nforward_host = \"inner.test\"\n\
         request_headers = {{ remove = [\"X-Gone\"], set = {{ X-Set = \"new\" }}, add = {{ X-Add = \"more\" }} }}\n\
         response_headers = {{ remove = [\"server\"], set = {{ X-Set = \"fresh\" }}, add = {{ X-Added = \"1\" }} }}\n\
         [[listener.web.route]]\npath = \"/server\"\nupstream = \"app\"\nforward_host = \"server\"\n",
        origin.address()
    ));
    let response = ask(
        &weir,
        "GET /",
        "Host: a.test\r\nX-Gone: 1\r\nX-Set: a\r\nX-Set: b\r\nX-Add: one\r\nX-Keep: 1\r\n",
    );
    let request = origin.last_request();
    assert_eq!(request.field("host"), Some("inner.test"));
    assert_eq!(request.fields().all("x-gone"), Vec::<&str>::new());
    assert_eq!(request.fields().all("x-set"), ["new"]);
    assert_eq!(request.fields().all("x-add"), ["one", "more"]);
    assert_eq!(request.fields().all("x-keep"), ["1"]);
    assert_eq!(response.fields().all("server"), Vec::<&str>::new());
    assert_eq!(response.fields().all("x-set"), ["fresh"]);
    assert_eq!(response.fields().all("x-added"), ["1"]);
    assert_eq!(response.fields().all("x-keep"), ["1"]);
    assert_eq!(ask(&weir, "GET /server", "Host: a.test\r\n").status, 200);
    assert_eq!(origin.last_request().field("host"), Some(origin.address().to_string().as_str()));
}

/// What Weir writes itself is no exception: removed is gone, and set stands there once.
#[test]
fn headers_of_weirs_own_are_changed() {
    const SET: [&str; 4] = ["X-Forwarded-Proto", "X-Forwarded-For", "Via", "X-Request-Id"];
    const REMOVED: [&str; 3] = ["X-Forwarded-Host", "X-Forwarded-Port", "Forwarded"];
    let origin = Origin::serving("fine");
    let set: Vec<String> = SET.iter().map(|name| format!("{name} = \"own\"")).collect();
    for trusted in ["", "listener.web.trusted_proxies = [\"127.0.0.0/8\"]\n"] {
        let weir = Weir::start(&format!(
            "{WEB}{trusted}upstream.app.servers = [\"{}\"]\n\
             listener.web.forwarded = {{ rfc7239 = true, via = true }}\nlistener.web.request_id.in_response = true\n\
             [upstream.app.affinity]\nmode = \"insert\"\n\
             [[listener.web.route]]\npath = \"/fixed\"\nrespond = {{ body = \"x\", headers = {{ x-fixed = \"1\" }} }}\n\
             response_headers = {{ remove = [\"date\"], set = {{ Content-Type = \"own\", X-Fixed = \"own\", X-Request-Id = \"own\" }} }}\n\
             [[listener.web.route]]\npath = \"/\"\nupstream = \"app\"\n\
             request_headers = {{ remove = {REMOVED:?}, set = {{ {} }} }}\n\
             response_headers = {{ set = {{ Date = \"own\", Cache-Control = \"own\" }}, remove = [\"X-Request-Id\"] }}\n",
            origin.address(),
            set.join(", ")
        ));
        let response = ask(&weir, "GET /", "Host: a.test\r\nX-Forwarded-For: 10.0.0.1\r\nVia: 1.1 b\r\n");
        let request = origin.last_request();
        for name in SET {
            assert_eq!(request.fields().all(name), ["own"], "{name}: {request:?}");
        }
        for name in REMOVED {
            assert_eq!(request.fields().all(name), Vec::<&str>::new(), "{name}: {request:?}");
        }
        assert!(response.field("set-cookie").is_some(), "{response:?}");
        for (name, values) in [("date", &["own"][..]), ("cache-control", &["own"]), ("x-request-id", &[])] {
            assert_eq!(response.fields().all(name), values, "{name}: {response:?}");
        }
        let fixed = ask(&weir, "GET /fixed", "Host: a.test\r\n");
        for (name, values) in
            [("date", &[][..]), ("content-type", &["own"]), ("x-fixed", &["own"]), ("x-request-id", &["own"])]
        {
            assert_eq!(fixed.fields().all(name), values, "{name}: {fixed:?}");
        }
    }
}

#[test]
fn a_split_follows_its_weights() {
    let origins = [Origin::serving("stable"), Origin::serving("canary"), Origin::serving("off")];
    let upstreams: Vec<String> = ["stable", "canary", "off"]
        .iter()
        .zip(&origins)
        .map(|(name, origin)| format!("upstream.{name}.servers = [\"{}\"]\n", origin.address()))
        .collect();
    let weir = Weir::start(&format!(
        "{WEB}{}listener.web.route = [{{ path = \"/\", split = [{{ upstream = \"stable\", weight = 75 }}, \
         {{ upstream = \"canary\", weight = 25 }}, {{ upstream = \"off\", weight = 0 }}] }}]\n",
        upstreams.concat()
    ));
    let mut client = Client::connect(weir.web());
    for _ in 0..400 {
        assert_eq!(client.fetch("/").status, 200);
    }
    let canary = origins[1].requests().len();
    // 100 expected; the bounds are more than six standard deviations away.
    assert!((45..155).contains(&canary), "{canary} of 400 requests went to the canary");
    assert_eq!(origins[0].requests().len() + canary, 400);
    assert_eq!(origins[2].requests().len(), 0);
}

#[test]
fn targets_of_a_split_have_changes_of_their_own_or_are_answered() {
    let origins = [Origin::serving("stable"), Origin::serving("canary")];
    let weir = Weir::start(&format!(
        "{WEB}upstream.stable.servers = [\"{}\"]\nupstream.canary.servers = [\"{}\"]\n\
         [[listener.web.route]]\npath = \"/\"\nforward_host = \"all.test\"\n\
         request_headers.set = {{ x-both = \"route\", x-route = \"1\" }}\nresponse_headers.set.x-seen = \"route\"\n\
         split = [{{ upstream = \"stable\", weight = 1 }}, {{ upstream = \"canary\", weight = 1, forward_host = \"canary.test\", \
         request_headers = {{ set = {{ x-both = \"canary {{path}}\" }}, remove = [\"x-gone\"] }}, \
         response_headers.set.x-seen = \"canary\" }}, {{ respond = 503, weight = 1 }}]\n",
        origins[0].address(),
        origins[1].address(),
    ));
    let mut client = Client::connect(weir.web());
    let mut seen = [0; 3];
    // Each of three has its turn, but with a probability of 3 * (2/3)^150.
    for _ in 0..150 {
        client.send("GET /a HTTP/1.1\r\nHost: web.test\r\nx-gone: 1\r\n\r\n");
        let response = client.response();
        let shown = response.fields().all("x-seen").join("|");
        let place = match (response.status, &*response.text()) {
            (200, "stable") => {
                assert_eq!(shown, "route");
                0
            }
            (200, "canary") => {
                assert_eq!(shown, "canary");
                1
            }
            (503, "") => 2,
            other => panic!("{other:?}"),
        };
        seen[place] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    let (stable, canary) = (origins[0].last_request(), origins[1].last_request());
    let values = |request: &Request| {
        ["host", "x-both", "x-route", "x-gone"].map(|name| request.fields().all(name).join("|"))
    };
    assert_eq!(values(&stable), ["all.test", "route", "1", "1"]);
    assert_eq!(values(&canary), ["canary.test", "canary /a", "1", ""]);
}

#[test]
fn a_redirect_can_replace_a_part_of_the_path() {
    let weir = Weir::start(&format!(
        "{WEB}listener.web.route = [\
         {{ path = \"/old\", replace_prefix = \"/new\", redirect = {{ to = \"https://b.test{{path}}{{query}}\" }} }}, \
         {{ path = \"/api\", strip_prefix = true, redirect = {{ to = \"https://b.test{{path}}\", status = 302 }} }}]\n",
    ));
    for (asked, status, location) in [
        ("/old/a%20b?c=/old", 308, "https://b.test/new/a%20b?c=/old"),
        ("/old", 308, "https://b.test/new"),
        ("/api/x", 302, "https://b.test/x"),
        ("/api", 302, "https://b.test/"),
    ] {
        let response = Client::get(weir.web(), asked);
        assert_eq!((response.status, response.fields().all("location")), (status, vec![location]), "{asked}");
    }
}

#[test]
fn several_listeners_have_their_own_routes() {
    let weir = Weir::start(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.inner.address = \"127.0.0.1:0\"\n\
         listener.web.route = [{ path = \"/\", respond = { body = \"web\" } }]\n\
         listener.inner.route = [{ path = \"/\", respond = { body = \"inner\" } }]\n",
    );
    assert_eq!(Client::get(weir.web(), "/").text(), "web");
    assert_eq!(Client::get(weir.address("inner"), "/").text(), "inner");
}

#[test]
fn connect_is_refused_unless_a_route_allows_it() {
    let origin = Origin::start(|conn| {
        let head = conn.head()?;
        if head.word(0) != "CONNECT" {
            return conn.send(ok("plain"));
        }
        conn.send("HTTP/1.1 200 OK\r\n\r\n")?;
        let bytes = conn.take(4)?;
        conn.send(bytes)?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&format!(
        "{WEB}upstream.app.servers = [\"{}\"]\nlistener.web.route = [\n\
         {{ path = \"/\", upstream = \"app\" }},\n\
         {{ host = \"tunnel.test\", method = \"CONNECT\", upstream = \"app\", allow_connect = true }},\n]\n",
        origin.address()
    ));
    let refused = ask(&weir, "CONNECT other.test:443", "Host: other.test:443\r\n");
    assert!([404, 405, 501].contains(&refused.status), "{refused:?}");
    let mut client = Client::connect(weir.web());
    client.send("CONNECT tunnel.test:443 HTTP/1.1\r\nHost: tunnel.test:443\r\n\r\n");
    assert_eq!(client.head().status(), Ok(200));
    client.send("ping");
    assert_eq!(client.take(4), b"ping");
}
