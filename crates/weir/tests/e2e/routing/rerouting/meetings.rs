//! Where requests that go on elsewhere meet caches, limits, lists, error pages, bodies, fields that only Weir may send: what is decided about one request
//! on its way must not be undone by the next step of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::fastcgi::{FastcgiRequest, response};
use crate::harness::http2::H2C;
use crate::harness::scripts::echo;
use crate::harness::{
    CLOSED_PORT, Client, Http2Client, Origin, Response, Weir, config_with, eventually, temporary_folder,
};

/// The hash of `s3cret`.
const BASIC: &str =
    r#"basic = { users = { ann = "$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm" } }"#;
const ANN: &str = "Authorization: Basic YW5uOnMzY3JldA==\r\n";

fn start(origin: &Origin, settings: &str) -> Weir {
    let folder = temporary_folder();
    std::fs::create_dir(folder.path().join("site")).expect("the folder takes folders");
    for (path, content) in [("site/page.html", "sorry"), ("site/index.php", "<?php")] {
        std::fs::write(folder.path().join(path), content).expect("the folder takes files");
    }
    Weir::start_in(folder, &config_with(&[origin.named("a")], &format!("{H2C}{settings}")))
}

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

fn status(response: &Response) -> &str {
    response.field("cache-status").unwrap_or_default()
}

/// Answers with target, `x-role` and its number, for the cache.
fn storable() -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let number = count.fetch_add(1, Ordering::Relaxed);
            let role = request.field("x-role").unwrap_or("none").to_owned();
            let body = format!("{} {role} {number}", request.target());
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ))?;
        }
    })
}

#[test]
fn what_one_route_has_stored_is_for_no_other_that_rewrites_or_leads_to_it() {
    let origin = storable();
    let weir = start(
        &origin,
        r#"
        cache.pages.memory = "32MiB"
        list.staff = { action = "allow", key = "{header.x-key}", entries = ["sesame"] }
        list.all = { action = "deny", when = 'true' }
        [[listener.web.route]]
        path = "/"
        upstream = "app"
        cache = "pages"
        request_headers.set = { x-role = "guest" }
        [[listener.web.route]]
        path = "/staff"
        lists = ["staff", "all"]
        upstream = "app"
        cache = "pages"
        request_headers.set = { x-role = "staff" }
        rewrite = [{ pattern = '^/staff(/.*)$', replacement = "$1", flag = "break" }]
        [[listener.web.route]]
        path = "/two"
        when = 'header["x-key"] == "sesame"'
        then = "inner"
        [[listener.web.route]]
        path = "/two"
        then = "outer"
        [[listener.web.route]]
        name = "inner"
        internal = true
        upstream = "app"
        cache = "pages"
        request_headers.set = { x-role = "inner" }
        [[listener.web.route]]
        name = "outer"
        internal = true
        upstream = "app"
        cache = "pages"
        request_headers.set = { x-role = "outer" }
        [[listener.web.route]]
        path = "/three"
        header = { x-key = "sesame" }
        then = "shared"
        [[listener.web.route]]
        path = "/three"
        then = "shared"
        [[listener.web.route]]
        name = "shared"
        internal = true
        upstream = "app"
        cache = "pages"
        "#,
    );
    let key = "X-Key: sesame\r\n";
    let body = |target: &str, fields: &str| get(&weir, target, fields).text();
    assert_eq!(body("/staff/report", key), "/report staff 0");
    assert_eq!(body("/report", ""), "/report guest 1");
    assert_eq!(body("/staff/report", key), "/report staff 0");
    assert_eq!(body("/report", ""), "/report guest 1");
    assert_eq!(get(&weir, "/staff/report", "").status, 403);
    assert_eq!(body("/two/x", key), "/two/x inner 2");
    assert_eq!(body("/two/x", ""), "/two/x outer 3");
    assert_eq!(body("/two/x", key), "/two/x inner 2");
    assert_eq!(body("/three/x", key), "/three/x none 4");
    assert_eq!(body("/three/x", ""), "/three/x none 5");
    assert_eq!(body("/three/x", key), "/three/x none 4");
    // What has changed is forgotten wherever it came by.
    assert!(
        Client::exchange(weir.web(), "POST /three/x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n")
            .status
            == 200
    );
    assert_eq!(body("/three/x", key), "/three/x none 7");
    assert_eq!(body("/three/x", ""), "/three/x none 8");
}

#[test]
fn an_application_behind_a_fallback_has_one_response_for_each_url() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            let request = FastcgiRequest::read(conn)?;
            let number = count.fetch_add(1, Ordering::Relaxed);
            let uri = request.param("REQUEST_URI").unwrap_or_default();
            conn.send(response(&format!("Cache-Control: max-age=100\r\n\r\n{uri} {number}")))?;
            if !request.keeps_connection {
                return Some(());
            }
        }
    });
    let weir = start(
        &origin,
        r#"
        upstream.app.protocol = "fastcgi"
        cache.pages.memory = "32MiB"
        [[listener.web.route]]
        path = "/"
        files = { root = "site", fallback = "/index.php{query}" }
        [[listener.web.route]]
        path = "/stale"
        files = { root = "site", fallback = "stale" }
        [[listener.web.route]]
        name = "stale"
        internal = true
        rewrite = [{ pattern = '.*', replacement = "/index.php", flag = "break" }]
        upstream = "app"
        fastcgi.root = "site"
        cache = { name = "pages", override_ttl = true, ttl = [{ status = 200, time = "1s" }], stale_while_revalidate = "1h" }
        [[listener.web.route]]
        path_exact = "/index.php"
        internal = true
        upstream = "app"
        fastcgi.root = "site"
        cache = "pages"
        "#,
    );
    let body = |target: &str| get(&weir, target, "").text();
    assert_eq!(body("/account/alice"), "/account/alice 0");
    assert_eq!(body("/blog/post?a=1"), "/blog/post?a=1 1");
    assert_eq!(body("/account/alice"), "/account/alice 0");
    // The application sees the path by which lists were asked.
    assert_eq!(body("/admin/../x"), "/x 2");
    assert_eq!(body("//x"), "/x 2");
    assert_eq!(body("http://a.test/abs"), "/abs 3");
    // A refresh in the background asks for the same page.
    assert_eq!(body("/stale/page"), "/stale/page 4");
    eventually("it was refreshed", || {
        let text = body("/stale/page");
        assert!(text.starts_with("/stale/page "), "{text}");
        text != "/stale/page 4"
    });
}

#[test]
fn limits_of_two_routes_are_not_mixed_up() {
    let origin = echo();
    let weir = start(
        &origin,
        &format!(
            r#"
            limit.a1 = {{ key = "{{header.x-a}}", rate = "100/h" }}
            limit.a2 = {{ key = "{{header.x-b}}", rate = "100/h" }}
            limit.u = {{ key = "{{user}}", rate = "2/h" }}
            limit.conc = {{ concurrent = 1 }}
            limit.one = {{ key = "{{header.x-one}}", rate = "1/h" }}
            [[listener.web.route]]
            path = "/"
            limited_by = ["a1", "a2"]
            files = {{ root = "site", fallback = "app" }}
            [[listener.web.route]]
            name = "app"
            internal = true
            {BASIC}
            limited_by = ["u"]
            upstream = "app"
            [[listener.web.route]]
            path = "/a"
            error_pages = [{{ status = 429, then = "/c" }}]
            limited_by = ["conc"]
            files = {{ root = "site", fallback = "b" }}
            [[listener.web.route]]
            name = "b"
            internal = true
            error_pages = [{{ status = 429, then = "/c" }}]
            limited_by = ["one"]
            upstream = "app"
            [[listener.web.route]]
            path = "/c"
            limited_by = ["conc"]
            respond = {{ status = 200 }}
            "#
        ),
    );
    let fields = format!("{ANN}X-B: 1\r\n");
    let statuses: Vec<u16> = (0..3).map(|_| get(&weir, "/nope", &fields).status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(get(&weir, "/a/x", "X-One: 1\r\n").status, 200);
    // The place that the first route has taken is still taken where the page asks for it, once.
    assert_eq!(get(&weir, "/a/x", "X-One: 1\r\n").status, 429);
    // It is given back behind the response.
    eventually("the place is free again", || get(&weir, "/c", "").status == 200);
}

#[test]
fn a_limit_of_the_listener_that_an_internal_route_has_met_is_not_taken_for_one_of_its_own() {
    let origin = echo();
    let weir = start(
        &origin,
        r#"
        limit.first = { key = "{header.x-first}", rate = "100/h" }
        limit.own = { key = "{header.x-own}", rate = "1/h" }
        limit.all = { key = "{header.x-all}", rate = "2/h" }
        listener.web.limited_by = ["all"]
        listener.web.error_pages = [{ status = 404, then = "/page", status_of_target = true }]
        [[listener.web.route]]
        path = "/internal"
        internal = true
        limited_by = ["own", "first"]
        upstream = "app"
        [[listener.web.route]]
        path = "/page"
        limited_by = ["own"]
        respond = { status = 299 }
        "#,
    );
    let fields = "X-Own: 1\r\nX-All: 1\r\n";
    // The page asks its own limit, and that of the listener no second time.
    assert_eq!(get(&weir, "/internal", fields).status, 299);
    assert_eq!(get(&weir, "/internal", fields).status, 404);
    assert_eq!(get(&weir, "/internal", fields).status, 429);
}

#[test]
fn a_field_of_credentials_that_the_deciding_server_gives_is_read_before() {
    let auth =
        Origin::answering("HTTP/1.1 200 OK\r\nAuthorization: Bearer given\r\nContent-Length: 0\r\n\r\n");
    let origin = echo();
    let weir = start(
        &origin,
        &format!(
            r#"
            upstream.auth.servers = ["{}"]
            [[listener.web.route]]
            path = "/"
            upstream = "app"
            {BASIC}
            forward_auth = {{ upstream = "auth", path = "/check", response_headers = ["authorization"] }}
            request_headers.set = {{ x-echo = "{{header.authorization}}" }}
            "#,
            auth.address()
        ),
    );
    assert_eq!(get(&weir, "/x", "").status, 401);
    assert_eq!(get(&weir, "/x", ANN).status, 200);
    let seen = origin.last_request();
    assert_eq!(seen.field("x-echo"), Some("Bearer given"));
}

#[test]
fn the_status_of_a_failure_stays_whatever_stores_its_page() {
    let origin = storable();
    let weir = start(
        &origin,
        &format!(
            r#"
            cache.pages.memory = "32MiB"
            upstream.down.servers = ["{CLOSED_PORT}"]
            listener.web.error_pages = [{{ status = 502, then = "/errors/x" }}, {{ status = 503, then = "named" }}]
            [[listener.web.route]]
            path = "/down"
            upstream = "down"
            [[listener.web.route]]
            path = "/errors"
            upstream = "app"
            cache = "pages"
            [[listener.web.route]]
            path = "/busy"
            respond.status = 503
            error_pages = [{{ status = 503, then = "named" }}]
            [[listener.web.route]]
            name = "named"
            internal = true
            rewrite = [{{ pattern = '.*', replacement = "/page.html", flag = "break" }}]
            files = {{ root = "site" }}
            "#
        ),
    );
    for _ in 0..3 {
        let page = get(&weir, "/down/1", "");
        assert_eq!((page.status, page.text().as_str()), (502, "/errors/x none 0"), "{page:?}");
    }
    let own = get(&weir, "/errors/x", "");
    assert_eq!(own.status, 200);
    // The server of the page has answered well, and is not to blame.
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_server_responses_total", &["upstream=\"app\"", "class=\"5xx\""]), 0.0);
    for fields in [
        "If-Modified-Since: Fri, 01 Jan 2038 00:00:00 GMT\r\n",
        "Range: bytes=1-2\r\n",
        "If-None-Match: *\r\n",
    ] {
        let page = get(&weir, "/busy", fields);
        assert_eq!((page.status, page.text().as_str()), (503, "sorry"), "{fields}");
        assert_eq!(page.field("content-range"), None);
    }
}

#[test]
fn a_page_in_place_of_what_a_server_answers_is_sent_on_routes_that_store() {
    let origin = Origin::answering(
        "HTTP/1.1 404 Not Found\r\nCache-Control: max-age=100\r\nContent-Length: 3\r\n\r\nraw",
    );
    let weir = start(
        &origin,
        r#"
        cache.pages.memory = "32MiB"
        [[listener.web.route]]
        path = "/"
        upstream = "app"
        cache = { name = "pages", ttl = [{ status = [404], time = "1m" }] }
        error_pages = [{ status = 404, then = "page", of_servers = true }]
        [[listener.web.route]]
        name = "page"
        internal = true
        respond = { status = 200, body = "page" }
        "#,
    );
    for _ in 0..2 {
        let page = get(&weir, "/x", "");
        assert_eq!((page.status, page.text().as_str()), (404, "page"), "{}", status(&page));
    }
}

#[test]
fn a_body_that_was_read_for_one_route_is_measured_for_the_next() {
    let origin = echo();
    let weir = start(
        &origin,
        &format!(
            r#"
            upstream.down.servers = ["{CLOSED_PORT}"]
            [[listener.web.route]]
            path = "/"
            upstream = "down"
            buffer_requests = {{ memory = "64KiB" }}
            error_pages = [{{ status = 502, then = "small" }}]
            [[listener.web.route]]
            name = "small"
            internal = true
            limits.body_size = "4B"
            upstream = "app"
            "#
        ),
    );
    for body in
        ["Content-Length: 6\r\n\r\nabcdef", "Transfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n"]
    {
        let answer = Client::exchange(weir.web(), &format!("POST /x HTTP/1.1\r\nHost: a.test\r\n{body}"));
        // What fails in place of a page gets the page of the first failure.
        assert_eq!((answer.status, answer.reason()), (502, Some("connect-refused")), "{answer:?}");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn requests_that_no_route_takes_are_counted_and_refused_as_all_others() {
    let origin = echo();
    let weir = start(
        &origin,
        r#"
        limit.all = { key = "{header.x-c}", rate = "2/h" }
        list.bad = { action = "deny", key = "{header.x-bad}", entries = ["1"] }
        listener.web.limited_by = ["all"]
        listener.web.lists = ["bad"]
        [[listener.web.route]]
        path = "/i"
        internal = true
        upstream = "app"
        [[listener.web.route]]
        path = "/loop"
        rewrite = [{ pattern = '^/loop', replacement = "/loop", flag = "last" }]
        upstream = "app"
        "#,
    );
    for (target, unrefused) in [("/i", 404), ("/loop", 500)] {
        let fields = format!("X-C: {target}\r\n");
        let statuses: Vec<u16> = (0..3).map(|_| get(&weir, target, &fields).status).collect();
        assert_eq!(statuses, [unrefused, unrefused, 429], "{target}");
        assert_eq!(get(&weir, target, "X-Bad: 1\r\n").status, 403, "{target}");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn requests_without_a_path_go_nowhere_else() {
    let origin = echo();
    let weir = start(
        &origin,
        &format!(
            r#"
            listener.web.error_pages = [{{ status = [405, 501], then = "/errors", status_of_target = true }}]
            [[listener.web.route]]
            path = "/"
            host = "a.test"
            rewrite = [{{ pattern = '^/(.*)$', replacement = "/gate/$1", flag = "last" }}]
            upstream = "app"
            [[listener.web.route]]
            path = "/gate"
            {BASIC}
            upstream = "app"
            [[listener.web.route]]
            path = "/errors"
            upstream = "app"
            [[listener.web.route]]
            path = "/"
            host = "files.test"
            files = {{ root = "site", fallback = "/errors" }}
            "#
        ),
    );
    for (request, host) in
        [("CONNECT a.test:443", "a.test:443"), ("OPTIONS *", "a.test"), ("OPTIONS *", "files.test")]
    {
        let answer = Client::exchange(weir.web(), &format!("{request} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!((400..=501).contains(&answer.status) && answer.status != 500, "{request}: {answer:?}");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn text_of_clients_leads_up_and_out_of_nothing() {
    let origin = echo();
    let weir = start(
        &origin,
        r#"
        [[listener.web.route]]
        path = "/"
        rewrite = [
          { pattern = '^/img(.*)$', replacement = "/pictures/$1", flag = "last" },
          { pattern = '^/by-field/(.*)$', replacement = "/pictures/{header.x-t}/$1", flag = "last" },
          { pattern = '^/show/(.*)$', replacement = "/pictures/show?name=$1&admin=no", flag = "last" },
        ]
        upstream = "app"
        [[listener.web.route]]
        path = "/pictures"
        upstream = "app"
        [[listener.web.route]]
        path = "/secret"
        internal = true
        respond = { status = 299 }
        [[listener.web.route]]
        path = "/fallback"
        files = { root = "site", fallback = "/pictures/{header.x-t}" }
        [[listener.web.route]]
        path = "/login"
        redirect = { to = "/form?from={path}", status = 302 }
        "#,
    );
    assert_eq!(get(&weir, "/img/a.png", "").status, 200);
    for (target, field) in [
        ("/img../secret/x", ""),
        ("/img%2e%2e/secret/x", ""),
        ("/by-field/x", "X-T: ../secret\r\n"),
        ("/by-field/x", "X-T: a/%2e%2E/../secret\r\n"),
        ("/fallback/x", "X-T: ../secret/x\r\n"),
    ] {
        assert_eq!(get(&weir, target, field).status, 400, "{target} {field}");
    }
    for (target, field, expected) in [
        ("/by-field/x", "X-T: a?b=1&\r\n", "/pictures/a%3Fb=1&/x"),
        ("/show/a&admin=yes", "", "/pictures/show?name=a%26admin=yes&admin=no"),
        ("/fallback/x", "X-T: a?b\r\n", "/pictures/a%3Fb"),
    ] {
        assert_eq!(get(&weir, target, field).text(), expected);
    }
    let redirect = get(&weir, "/login/x&next=/evil", "");
    assert_eq!(redirect.field("location"), Some("/form?from=/login/x%26next=/evil"));
}

#[test]
fn groups_are_of_the_path_that_chose_the_route() {
    let origin = echo();
    let weir = start(
        &origin,
        r#"
        list.evil = { action = "deny", key = "{match.t}", entries = ["evil"] }
        list.bad = { action = "deny", when = 'match.t == "bad"' }
        [[listener.web.route]]
        path_regex = '^/a/(?<t>.*)$'
        rewrite = [{ pattern = '^/a/', replacement = "/b/", flag = "break" }]
        upstream = "app"
        lists = ["evil", "bad"]
        response_headers.set = { x-t = "{match.t}" }
        "#,
    );
    assert_eq!(get(&weir, "/a/evil", "").status, 403);
    assert_eq!(get(&weir, "/a/bad", "").status, 403);
    let answer = get(&weir, "/a/good", "");
    assert_eq!((answer.text().as_str(), answer.field("x-t")), ("/b/", Some("good")));
}

#[test]
fn what_only_the_server_that_decides_says_no_client_says() {
    let auth = Origin::answering("HTTP/1.1 200 OK\r\nX-Auth-Role: user\r\nContent-Length: 0\r\n\r\n");
    let origin = echo();
    let weir = start(
        &origin,
        &format!(
            r#"
            upstream.auth.servers = ["{}"]
            list.no-admin = {{ action = "deny", when = 'header["x-auth-role"] == "admin"' }}
            list.admins = {{ action = "deny", when = 'header["x-auth-role"] != "admin"' }}
            [[listener.web.route]]
            path = "/"
            upstream = "app"
            forward_auth = {{ upstream = "auth", path = "/check", response_headers = ["x-auth-role"] }}
            request_headers = [
              {{ when = 'header["x-auth-role"] == "admin"', set = {{ x-privileged = "1" }} }},
              {{ when = 'header["x-auth-role"] == "user"', set = {{ x-known = "1" }} }},
              {{ set = {{ x-echo = "{{header.x-auth-role}}" }} }},
            ]
            [[listener.web.route]]
            path = "/admins"
            upstream = "app"
            forward_auth = {{ upstream = "auth", path = "/check", response_headers = ["x-auth-role"] }}
            lists = ["admins"]
            "#,
            auth.address()
        ),
    );
    for spelling in ["X-Auth-Role", "x_auth_role", "X-AUTH-ROLE"] {
        let spoofed = format!("{spelling}: admin\r\n");
        get(&weir, "/x", &spoofed);
        let seen = origin.last_request();
        assert_eq!(seen.field("x-privileged"), None, "{spelling}");
        assert_eq!((seen.field("x-known"), seen.field("x-echo")), (Some("1"), Some("user")), "{spelling}");
        assert_eq!(seen.field("x-auth-role"), Some("user"));
        assert_eq!(get(&weir, "/admins", &spoofed).status, 403, "{spelling}");
    }
    let mut client = Http2Client::connect(weir.web());
    let fields = [client.request("GET", "/admins"), vec![("x-auth-role", "admin")]].concat();
    let stream = client.open(&fields, true);
    assert_eq!(client.response(stream).status, 403);
}

#[test]
fn a_refresh_gets_the_fields_that_its_key_says() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let got = request.field("x-got").unwrap_or("-").to_owned();
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{got}", got.len()))?;
        }
    });
    let cache = r#"cache = { name = "pages", ttl = [{ status = [200], time = "1s" }], stale_while_revalidate = "1h" }"#;
    let weir = start(
        &origin,
        &format!(
            r#"
            cache.pages.memory = "32MiB"
            list.kinds = {{ action = "tag", key = "{{header.x-k}}", entries = ["guest guest", "vip gold"] }}
            [[listener.web.route]]
            path = "/tag"
            upstream = "app"
            lists = ["kinds"]
            {cache}
            request_headers = [{{ when = 'tag != "guest"', set = {{ x-got = "full" }} }}]
            [[listener.web.route]]
            path = "/field"
            upstream = "app"
            {cache}
            request_headers = [{{ when = 'header["x-role"] != "guest"', set = {{ x-got = "full" }} }}]
            "#
        ),
    );
    for (target, fields) in
        [("/tag", "X-K: guest\r\n"), ("/field", "X-Role: guest\r\nConnection: close, x-role\r\n")]
    {
        assert_eq!(get(&weir, target, fields).text(), "-", "{target}");
        for _ in 0..2 {
            let sent = origin.requests().len();
            eventually("it is stale, and is refreshed", || {
                assert_eq!(get(&weir, target, fields).text(), "-", "{target}");
                origin.requests().len() > sent
            });
            assert_eq!(get(&weir, target, fields).text(), "-", "{target}: refreshed");
        }
    }
}

#[test]
fn many_values_of_one_name_wear_nothing_out_and_hide_nothing() {
    let origin = storable();
    let weir = start(
        &origin,
        r#"
        cache.pages.memory = "32MiB"
        map.bad = { source = "{query.a}", exact = { evil = "yes" } }
        list.bad = { action = "deny", when = 'map.bad == "yes"' }
        list.well = { action = "allow", when = 'map.bad == "yes"' }
        list.all = { action = "deny", when = 'true' }
        [[listener.web.route]]
        path = "/key"
        vars = { v = "{query.a}{query.b}" }
        upstream = "app"
        cache = { name = "pages", key = "{path}{vars.v}" }
        [[listener.web.route]]
        path = "/deny"
        upstream = "app"
        lists = ["bad"]
        [[listener.web.route]]
        path = "/allow"
        upstream = "app"
        lists = ["well", "all"]
        "#,
    );
    let many = |count: usize, last: &str| format!("{}a={last}{}", "a=x&".repeat(count), "&a=x".repeat(9));
    // Every pair of them would be written for minutes.
    let answer = get(&weir, &format!("/key?{}{}", "a&".repeat(900), "b&".repeat(900)), "");
    assert_eq!(answer.status, 200);
    assert!(!status(&answer).contains("stored"), "{}", status(&answer));
    for count in [0, 70, 200, 2_000] {
        assert_eq!(get(&weir, &format!("/deny?{}", many(count, "evil")), "").status, 403, "{count}");
    }
    assert_eq!(get(&weir, &format!("/deny?{}", many(70, "x")), "").status, 200);
    // What cannot be looked through is refused, and allows nothing.
    assert_eq!(get(&weir, &format!("/allow?{}", many(2_000, "evil")), "").status, 403);
    assert_eq!(get(&weir, &format!("/allow?{}", many(70, "evil")), "").status, 200);
}

#[test]
fn a_tag_is_known_to_all_lists_in_whatever_order_they_stand() {
    let origin = echo();
    let weir = start(
        &origin,
        r#"
        list.marks = { action = "tag", key = "{header.x-k}", entries = ["bad bad"] }
        list.bad = { action = "deny", when = 'tag == "bad"' }
        list.key = { action = "deny", key = "{tag}", entries = ["bad"] }
        [[listener.web.route]]
        path = "/one"
        lists = ["bad", "marks"]
        upstream = "app"
        [[listener.web.route]]
        path = "/two"
        lists = ["key", "marks"]
        upstream = "app"
        "#,
    );
    for target in ["/one", "/two"] {
        assert_eq!(get(&weir, target, "X-K: bad\r\n").status, 403, "{target}");
        assert_eq!(get(&weir, target, "").status, 200, "{target}");
    }
}

#[test]
fn no_redirect_names_another_host_where_two_slashes_meet() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let to = request.field("x-to").unwrap_or_default().to_owned();
            conn.send(format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let weir = start(
        &origin,
        r#"
        map.m = { source = "{query.k}", exact = { s = "/", p = "/base" } }
        [[listener.web.route]]
        path = "/"
        upstream = "app"
        rewrite_location = [{ from = "http://b.test/", to = "/" }, { from = "/two/", to = "/" }, { from = "/cdn/", to = "//cdn.test/" }]
        [[listener.web.route]]
        path = "/evil.test"
        redirect = { to = "{map.m}{path}", status = 302 }
        "#,
    );
    for (sent, expected) in [
        ("http://b.test//evil.test/", "/evil.test/"),
        ("http://b.test/\\evil.test", "/evil.test"),
        ("/two//evil.test/x", "/evil.test/x"),
        ("/two/x", "/x"),
        ("/cdn/x", "//cdn.test/x"),
    ] {
        let answer = get(&weir, "/", &format!("X-To: {sent}\r\n"));
        assert_eq!(answer.field("location"), Some(expected), "{sent}");
    }
    for (query, expected) in [("s", "/evil.test"), ("p", "/base/evil.test"), ("none", "/evil.test")] {
        let answer = get(&weir, &format!("/evil.test?k={query}"), "");
        assert_eq!(answer.field("location"), Some(expected), "{query}");
    }
}
