//! `forward_auth.cache`: answers that are kept, for whom, for how long, and which never are.

use crate::harness::{Client, Http2Client, Origin, Request, Response, Weir, config_with, eventually};

/// A server that lets `good` pass in `Authorization`, `X-Api-Key` or the cookie `session`, as the user of that name, and refuses others as `x-wish` says.
fn judge(fields: &'static str) -> Origin {
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            conn.send(verdict(&request, fields))?;
        }
    })
}

fn verdict(request: &Request, fields: &str) -> String {
    let said = ["authorization", "x-api-key"].map(|name| request.fields().all(name).join(","));
    let cookie = request.field("cookie").unwrap_or_default();
    if said.iter().any(|one| one.starts_with("good") && !one.contains(',')) || cookie.contains("session=good")
    {
        return format!("HTTP/1.1 200 OK\r\n{fields}X-User: {}\r\nContent-Length: 2\r\n\r\nok", said[0]);
    }
    match request.field("x-wish").unwrap_or_default() {
        "redirect" => {
            "HTTP/1.1 302 Found\r\nLocation: https://login.test/\r\nContent-Length: 0\r\n\r\n".to_owned()
        }
        "cookie" => "HTTP/1.1 401 No\r\nSet-Cookie: try=1\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "error" => "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "long" => format!("HTTP/1.1 403 No\r\nContent-Length: 5000\r\n\r\n{}", "x".repeat(5_000)),
        _ => format!(
            "HTTP/1.1 401 No\r\n{fields}WWW-Authenticate: Own realm=\"x\"\r\nContent-Length: 6\r\n\r\nlog in"
        ),
    }
}

fn text(origin: &Origin, judge: &Origin, (cache, auth, route): (&str, &str, &str)) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 2
             listener.web.http2.prior_knowledge = \"allowed\"
             listener.web.trusted_proxies = [\"127.0.0.1\"]
             upstream.auth.servers = [{}]
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             {route}
             forward_auth = {{ upstream = \"auth\", path = \"/verify\", response_headers = [\"X-User\"], {auth} cache = {{ {cache} }} }}",
            judge.entry()
        ),
    )
}

fn start(origin: &Origin, judge: &Origin, cache: &str, auth: &str) -> Weir {
    Weir::start(&text(origin, judge, (cache, auth, "")))
}

const BY_FIELD: &str = "key = \"{header.authorization}\", time = \"1h\"";
const GOOD: &str = "Authorization: good\r\n";

fn ask(weir: &Weir, line: &str, fields: &str) -> Response {
    let host = if fields.starts_with("Host:") { "" } else { "Host: a.test\r\n" };
    Client::exchange(weir.web(), &format!("{line} HTTP/1.1\r\n{host}{fields}\r\n"))
}

fn status(weir: &Weir, fields: &str) -> u16 {
    ask(weir, "GET /", fields).status
}

#[test]
fn a_request_with_the_same_credentials_is_not_asked_about_again() {
    let (origin, judge) = (Origin::serving("served"), judge(""));
    let weir = start(&origin, &judge, BY_FIELD, "");
    for _ in 0..3 {
        assert_eq!(status(&weir, &format!("{GOOD}X-User: root\r\n")), 200);
    }
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get_with("/other", &[("authorization", "good"), ("x-user", "root")]);
    assert_eq!(client.response(stream).status, 200);
    assert_eq!(judge.requests().len(), 1);
    for request in origin.requests() {
        let users = request.head.fields.all("x-user");
        assert_eq!(users, ["good"], "what the server has said is kept with it, and nothing of the client");
    }
    // Others are asked about, each for itself.
    assert_eq!(status(&weir, "Authorization: good2\r\n"), 200);
    assert_eq!(status(&weir, "Authorization: goo\r\n"), 401);
    assert_eq!(status(&weir, "Authorization: good\r\nAuthorization: bad\r\n"), 401);
    assert_eq!(judge.requests().len(), 4);
}

#[test]
fn without_credentials_nothing_is_kept() {
    let (origin, judge) = (Origin::serving("served"), judge(""));
    let key = "key = \"{header.x-api-key}{cookie.session} {path}\", time = \"1h\", denied_time = \"1h\"";
    let weir = start(&origin, &judge, key, "");
    for asked in 1..4 {
        assert_eq!(status(&weir, ""), 401);
        assert_eq!(status(&weir, "X-Api-Key: \r\n"), 401);
        assert_eq!(judge.requests().len(), 2 * asked);
    }
    // A part that ends elsewhere is another one.
    assert_eq!(status(&weir, "X-Api-Key: goods\r\nCookie: session=e\r\n"), 200);
    assert_eq!(status(&weir, "X-Api-Key: good\r\nCookie: session=se\r\n"), 200);
    assert_eq!(judge.requests().len(), 8);
}

#[test]
fn what_the_server_may_go_by_is_part_of_the_key() {
    let (origin, judge) = (Origin::serving("served"), judge(""));
    let asked = |weir: &Weir, line: &str, fields: &str| {
        let before = judge.requests().len();
        ask(weir, line, fields);
        judge.requests().len() > before
    };
    let weir = start(&origin, &judge, BY_FIELD, "");
    assert!(asked(&weir, "GET /", GOOD));
    assert!(!asked(&weir, "GET /path?query", GOOD));
    assert!(asked(&weir, "DELETE /", GOOD));
    assert!(asked(&weir, "GET /", &format!("Host: b.test\r\n{GOOD}")));
    assert!(asked(&weir, "GET /", &format!("{GOOD}Cookie: other=1\r\n")));
    assert!(asked(&weir, "GET /", &format!("{GOOD}X-Forwarded-Host: b.test\r\n")));
    assert!(asked(&weir, "GET /", &format!("{GOOD}X-Forwarded-Proto: https\r\n")));
    assert!(asked(&weir, "GET /", &format!("{GOOD}X-Forwarded-Port: 8443\r\n")));
    assert!(asked(&weir, "GET /", &format!("{GOOD}Forwarded: for=127.0.0.1;host=b.test\r\n")));
    assert!(!asked(&weir, "GET /", GOOD));
    let weir = start(&origin, &judge, "key = \"{header.authorization} {path}\", time = \"1h\"", "");
    assert!(asked(&weir, "GET /", GOOD));
    assert!(asked(&weir, "GET /path?query", GOOD));
    assert!(!asked(&weir, "GET /p%61th", GOOD));
    // What is not sent to the server is not part of it.
    let weir = start(&origin, &judge, BY_FIELD, "request_headers = [\"authorization\"],");
    assert!(asked(&weir, "GET /", GOOD));
    assert!(!asked(&weir, "GET /", &format!("{GOOD}Cookie: other=1\r\n")));
    // Who can have a browser send a cookie of theirs gets nothing of what that browser proves in another way.
    let weir = start(&origin, &judge, "key = \"{cookie.session}\", time = \"1h\"", "");
    assert!(asked(&weir, "GET /", &format!("{GOOD}Cookie: session=planted\r\n")));
    assert_eq!(status(&weir, "Cookie: session=planted\r\n"), 401);
    assert!(asked(&weir, "GET /", "Cookie: session=good; a=1\r\n"));
    assert!(!asked(&weir, "GET /", "Cookie: a=2; session=good\r\n"), "the cookies that count are named");
}

#[test]
fn denials_are_kept_only_where_that_is_asked_for() {
    let (origin, judge) = (Origin::serving("served"), judge(""));
    let bad = "Authorization: bad\r\n";
    let weir = start(&origin, &judge, BY_FIELD, "");
    for _ in 0..2 {
        assert_eq!(status(&weir, bad), 401);
    }
    assert_eq!(judge.requests().len(), 2);
    let weir = start(&origin, &judge, &format!("{BY_FIELD}, denied_time = \"1h\""), "");
    for _ in 0..3 {
        let denial = ask(&weir, "GET /", bad);
        assert_eq!((denial.status, denial.text()), (401, "log in".to_owned()));
        assert_eq!(denial.field("www-authenticate"), Some("Own realm=\"x\""));
    }
    assert_eq!(judge.requests().len(), 3);
    // What sets a cookie, leads elsewhere, is a failure or is too large is for one request.
    for (wish, expected) in [("redirect", 302), ("cookie", 401), ("error", 500), ("long", 403)] {
        let before = judge.requests().len();
        for _ in 0..2 {
            assert_eq!(status(&weir, &format!("Authorization: {wish}\r\nX-Wish: {wish}\r\n")), expected);
        }
        assert_eq!(judge.requests().len(), before + 2, "{wish}");
    }
}

#[test]
fn an_answer_says_itself_whether_it_may_be_kept() {
    for (fields, asked) in [
        ("Cache-Control: no-store\r\n", 2),
        ("Cache-Control: no-cache\r\n", 2),
        ("Cache-Control: max-age=0\r\n", 2),
        ("Cache-Control: max-age=60\r\n", 1),
        ("Cache-Control: private\r\n", 1),
        ("Vary: *\r\n", 2),
        ("Vary: X-Tenant\r\n", 2),
        ("Vary: Cookie, Accept-Encoding\r\n", 1),
        ("Vary: Origin\r\n", 2),
        ("Set-Cookie: a=b\r\n", 2),
    ] {
        let (origin, judge) = (Origin::serving("served"), judge(fields));
        let weir = start(&origin, &judge, BY_FIELD, "");
        for _ in 0..2 {
            assert_eq!(status(&weir, GOOD), 200);
        }
        assert_eq!(judge.requests().len(), asked, "{fields}");
    }
}

#[test]
fn answers_end_with_their_time_and_their_definition() {
    let (origin, judge) = (Origin::serving("served"), judge(""));
    let weir = start(&origin, &judge, "key = \"{header.authorization}\", time = \"20ms\"", "");
    assert_eq!(status(&weir, GOOD), 200);
    eventually("it is asked about again", || status(&weir, GOOD) == 200 && judge.requests().len() > 1);

    let before = judge.requests().len();
    let kept = text(&origin, &judge, (BY_FIELD, "", ""));
    let weir = Weir::start(&kept);
    let asked = || {
        assert_eq!(status(&weir, GOOD), 200);
        judge.requests().len() - before
    };
    assert_eq!((asked(), asked()), (1, 1));
    weir.reload(&format!("{kept}\n[upstream.unused]\nservers = [\"127.0.0.1:1\"]"));
    assert_eq!(asked(), 1, "another config with the same definition");
    weir.reload(&kept.replace("/verify", "/verify2"));
    assert_eq!((asked(), asked()), (2, 2));
    weir.reload(&text(&origin, &judge, ("key = \"{header.authorization}\", time = \"2h\"", "", "")));
    assert_eq!((asked(), asked()), (3, 3));
}

/// Two routes that ask the same server are asked about apart, since it may know the route by the path.
#[test]
fn each_route_has_its_own() {
    let (origin, judge) = (Origin::serving("served"), judge(""));
    let one = text(&origin, &judge, (BY_FIELD, "", ""));
    let (_, route) = one.split_once("[[listener.web.route]]").expect("there is one");
    let two = format!("{one}\n[[listener.web.route]]{}", route.replace("path = \"/\"", "path = \"/two\""));
    let weir = Weir::start(&two);
    for line in ["GET /", "GET /two", "GET /", "GET /two"] {
        assert_eq!(ask(&weir, line, GOOD).status, 200);
    }
    assert_eq!(judge.requests().len(), 2);
}

/// What passes because nothing has answered, or because a list lets it in, is no answer.
#[test]
fn no_answer_is_not_kept() {
    let (origin, judge) = (Origin::serving("served"), judge(""));
    let weir = start(&origin, &judge, &format!("{BY_FIELD}, denied_time = \"1h\""), "fail_open = true,");
    for _ in 0..2 {
        assert_eq!(status(&weir, "Authorization: x\r\nX-Wish: error\r\n"), 200);
    }
    assert_eq!(status(&weir, "Authorization: x\r\n"), 401);
    assert_eq!(judge.requests().len(), 3);
    let any = "satisfy = \"any\"\nbasic = { users = { ann = \"$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm\" } }";
    let weir = Weir::start(&text(&origin, &judge, (BY_FIELD, "", any)));
    for _ in 0..3 {
        assert_eq!(status(&weir, GOOD), 200);
    }
    assert_eq!(judge.requests().len(), 4);
}

/// `Connection` keeps a field from the server that decides: what that has said without it is nothing about a request that has it.
#[test]
fn a_request_that_keeps_a_field_from_the_server_is_asked_about_each_time() {
    let origin = Origin::serving("served");
    let judge = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status = if request.field("x-tenant") == Some("b") { "403 No" } else { "200 OK" };
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let key = "key = \"{header.authorization} {header.x-tenant}\", time = \"1h\", denied_time = \"1h\"";
    let weir = start(&origin, &judge, key, "");
    let tenant = format!("{GOOD}X-Tenant: b\r\n");
    for _ in 0..2 {
        assert_eq!(status(&weir, &format!("{tenant}Connection: x-tenant\r\n")), 200);
        assert_eq!(status(&weir, &tenant), 403);
    }
    assert_eq!(judge.requests().len(), 3);
}

/// The same field is the word of a trusted proxy, and nothing from any other peer.
#[test]
fn what_is_granted_to_other_peers_is_not_for_those_behind_a_trusted_proxy() {
    let origin = Origin::serving("served");
    let judge = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let host = request.field("x-forwarded-host").unwrap_or_default();
            let status = if host == "b.test" { "403 No" } else { "200 OK" };
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let text = text(&origin, &judge, (BY_FIELD, "", ""));
    let weir = Weir::start(&text.replace(
        "listener.web.trusted_proxies",
        "listener.web.proxy_protocol.from = [\"127.0.0.1\"]\nlistener.web.trusted_proxies",
    ));
    let from = |peer: &str| {
        let header = format!("PROXY TCP4 {peer} 127.0.0.1 1000 80\r\n");
        let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Host: b.test\r\n{GOOD}\r\n");
        Client::exchange(weir.web(), &(header + &head)).status
    };
    assert_eq!((from("192.0.2.7"), from("127.0.0.1")), (200, 403));
    assert_eq!((from("192.0.2.7"), from("127.0.0.1")), (200, 403));
}

/// A field that stops at Weir unless a trusted proxy has sent it proves nothing of any other peer.
#[test]
fn what_a_trusted_proxy_proves_is_granted_to_no_other_peer() {
    let origin = Origin::serving("served");
    let judge = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status = if request.field("x-client").is_some() { "200 OK" } else { "401 No" };
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let key = "key = \"{header.x-client}\", time = \"1h\", denied_time = \"1h\"";
    let text = text(&origin, &judge, (key, "", ""));
    let weir = Weir::start(&text.replace(
        "listener.web.trusted_proxies",
        "listener.web.proxy_protocol.from = [\"127.0.0.1\"]\nlistener.web.client_address_header = \"x-client\"\nlistener.web.trusted_proxies",
    ));
    let from = |peer: &str, named: &str| {
        let header = format!("PROXY TCP4 {peer} 127.0.0.1 1000 80\r\n");
        let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Client: {named}\r\n\r\n");
        Client::exchange(weir.web(), &(header + &head)).status
    };
    assert_eq!(from("127.0.0.1", "198.51.100.1"), 200);
    assert_eq!(from("192.0.2.7", "198.51.100.1"), 401);
    assert_eq!(from("192.0.2.7", "198.51.100.2"), 401);
    assert_eq!(from("127.0.0.1", "198.51.100.2"), 200);
}

/// What the server is told in further headers is of the client, too.
#[test]
fn credentials_under_another_name_are_part_of_the_key() {
    let origin = Origin::serving("served");
    let judge = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status = if request.field("x-said") == Some("good") { "200 OK" } else { "401 No" };
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let auth = "request_headers = [\"x-api-key\"], headers = { X-Said = \"{header.authorization}\" },";
    let weir = start(&origin, &judge, "key = \"{header.x-api-key}\", time = \"1h\"", auth);
    for _ in 0..2 {
        assert_eq!(status(&weir, &format!("{GOOD}X-Api-Key: 1\r\n")), 200);
        assert_eq!(status(&weir, "Authorization: bad\r\nX-Api-Key: 1\r\n"), 401);
    }
    assert_eq!(judge.requests().len(), 3);
}

/// A denial is in the form that its client has asked for.
#[test]
fn a_denial_in_another_form_is_for_one_client() {
    for (fields, asked) in [
        ("Content-Encoding: gzip\r\n", 2),
        ("Vary: Accept-Language\r\n", 2),
        ("Vary: Authorization, Accept-Encoding\r\n", 1),
    ] {
        let (origin, judge) = (Origin::serving("served"), judge(fields));
        let weir = start(&origin, &judge, &format!("{BY_FIELD}, denied_time = \"1h\""), "");
        for _ in 0..2 {
            assert_eq!(status(&weir, "Authorization: bad\r\n"), 401);
        }
        assert_eq!(judge.requests().len(), asked, "{fields}");
    }
}

/// A route of the same name that is about other requests has none of the answers.
#[test]
fn answers_end_with_what_their_route_matches() {
    let (origin, judge) = (Origin::serving("served"), judge(""));
    let one =
        text(&origin, &judge, (BY_FIELD, "", "name = \"one\"")).replace("path = \"/\"", "path = \"/a\"");
    let weir = Weir::start(&one);
    assert_eq!(ask(&weir, "GET /a", GOOD).status, 200);
    weir.reload(&one.replace("path = \"/a\"", "path = \"/b\""));
    assert_eq!(ask(&weir, "GET /b", GOOD).status, 200);
    assert_eq!(judge.requests().len(), 2);
}
