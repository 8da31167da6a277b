//! `cache`: what a response says of itself counts (RFC 9111), its client gets the whole of it, and hosts are compared as RFC 9110 section 4.2.3 says.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{counting, get, start, status};
use crate::harness::{Client, Origin, Weir};

const TTL: &str = ", ttl = [{ status = 200, time = \"1m\" }]";

#[test]
fn a_ttl_makes_nothing_fresh_that_has_to_be_confirmed() {
    for (fields, keys, second) in [
        ("Cache-Control: no-cache\r\n", TTL, "2"),
        ("Cache-Control: no-cache\r\nETag: \"a\"\r\n", TTL, "2"),
        (
            "Cache-Control: no-cache\r\n",
            ", override_ttl = true, ttl = [{ status = 200, time = \"1m\" }]",
            "1",
        ),
        // A field of requests (RFC 9111 section 5.4).
        ("Pragma: no-cache\r\n", TTL, "1"),
        ("", TTL, "1"),
    ] {
        let origin = counting(fields);
        let weir = start(&origin, keys, "");
        assert_eq!(get(&weir, "/", "").text(), "1");
        assert_eq!(get(&weir, "/", "").text(), second, "{fields}{keys}");
        let asked = origin.requests().len();
        assert_eq!(asked.to_string(), second, "{fields}{keys}");
    }
}

#[test]
fn fields_that_are_not_stored_reach_the_client_of_the_fetch() {
    for (cache_control, keys) in [
        ("max-age=60, private=\"set-cookie, x-user\"", ""),
        ("max-age=60, no-cache=\"set-cookie, x-user\"", ""),
        ("max-age=60, private=\"x-user\"", ", ignore_set_cookie = true"),
    ] {
        let fields =
            format!("Cache-Control: {cache_control}\r\nSet-Cookie: a=b\r\nX-User: me\r\nX-Other: 1\r\n");
        let origin = counting(Box::leak(fields.into_boxed_str()));
        let weir = start(&origin, keys, "");
        let shown = || {
            let response = get(&weir, "/", "");
            ["set-cookie", "x-user", "x-other"].map(|name| response.field(name).unwrap_or("-").to_owned())
        };
        assert_eq!(shown(), ["a=b", "me", "1"], "{cache_control}");
        assert_eq!(shown(), ["-", "-", "1"], "{cache_control}");
        assert_eq!(origin.requests().len(), 1);
    }
}

/// A response to a request with two lines is for no request with one of them.
#[test]
fn every_line_of_a_header_is_part_of_a_key() {
    for key in ["{path} {header.x-tenant}", "{path} {cookie.t}"] {
        let origin = counting("Cache-Control: max-age=60\r\n");
        let weir = start(&origin, &format!(", key = \"{key}\""), "");
        let fields = |tenants: &[&str]| -> String {
            let line = |tenant: &&str| format!("X-Tenant: {tenant}\r\nCookie: t={tenant}\r\n");
            tenants.iter().map(line).collect()
        };
        assert_eq!(get(&weir, "/", &fields(&["a", "b"])).text(), "1", "{key}");
        assert_eq!(get(&weir, "/", &fields(&["a"])).text(), "2", "{key}");
        assert_eq!(get(&weir, "/", &fields(&["b"])).text(), "3", "{key}");
        assert_eq!(get(&weir, "/", &fields(&["a", "b"])).text(), "1", "{key}");
    }
}

fn get_of(weir: &Weir, host: &str) -> String {
    Client::exchange(weir.web(), &format!("GET /o/D HTTP/1.1\r\nHost: {host}\r\n\r\n")).text()
}

#[test]
fn case_and_default_port_of_a_host_make_no_other_response() {
    for keys in ["", ", key = \"{host} {path}\""] {
        let origin = counting("Cache-Control: max-age=60\r\n");
        let weir = start(&origin, keys, "");
        for host in ["a.test", "A.Test", "a.test:80", "A.TEST:80"] {
            assert_eq!(get_of(&weir, host), "1", "{host}");
        }
    }
    let origin = counting("Cache-Control: max-age=60\r\n");
    let weir = start(&origin, "", "admin.socket = \"unix:{dir}/weir.sock\"");
    assert_eq!(get_of(&weir, "a.test"), "1");
    assert_eq!(get_of(&weir, "a.test:8080"), "2", "another port is another origin");
    let purge =
        |words: [&str; 2]| weir.run_over_socket(&["ctl", "purge", "pages", words[0], words[1]]).stdout;
    assert_eq!(
        purge(["--key", "http://A.test/O/D"]),
        "pages: 0 responses removed\n",
        "paths have their case"
    );
    assert_eq!(purge(["--key", "http://A.test:80/o/D"]), "pages: 1 responses removed\n");
    assert_eq!(get_of(&weir, "a.test"), "3");
    assert_eq!(purge(["--prefix", "http://A.test/o/"]), "pages: 1 responses removed\n");
    assert_eq!(get_of(&weir, "a.test"), "4");
    // What changes it may name the host in another way.
    Client::exchange(weir.web(), "POST /o/D HTTP/1.1\r\nHost: A.test:80\r\nContent-Length: 0\r\n\r\n");
    assert_ne!(get_of(&weir, "a.test"), "4");
}

#[test]
fn what_a_response_names_as_changed_is_found_whatever_the_case_of_the_host() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            if conn.request()?.method() == "POST" {
                conn.send(
                    "HTTP/1.1 201 Created\r\nLocation: http://a.TEST:80/o/D\r\nContent-Length: 0\r\n\r\n",
                )?;
                continue;
            }
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\n{number}"
            ))?;
        }
    });
    let weir = start(&origin, "", "");
    assert_eq!(get_of(&weir, "a.test"), "1");
    Client::exchange(weir.web(), "POST /form HTTP/1.1\r\nHost: A.test:80\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(get_of(&weir, "a.test"), "2");
}

/// RFC 9111 section 4.3.4.
#[test]
fn a_304_about_another_version_is_answered_with_another_request() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            if conn.request()?.field("if-none-match").is_some() {
                conn.send("HTTP/1.1 304 Not Modified\r\nETag: \"other\"\r\n\r\n")?;
                continue;
            }
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"{number}\"\r\nContent-Length: 1\r\n\r\n{number}"
            ))?;
        }
    });
    let weir = start(
        &origin,
        "",
        "access_log = { output = \"file:{dir}/access.log\", format = \"{status} {cache} {attempts}\" }",
    );
    assert_eq!(get(&weir, "/", "").text(), "1");
    let second = get(&weir, "/", "If-None-Match: \"1\"\r\n");
    let conditions: Vec<bool> =
        origin.requests().iter().map(|request| request.field("if-none-match").is_some()).collect();
    assert_eq!(conditions, [false, true, false], "the second request went again, without conditions");
    assert_eq!((second.status, second.text()), (200, "2".to_owned()));
    assert!(status(&second).starts_with("weir; fwd=stale; ttl="), "{}", status(&second));
    assert!(status(&second).ends_with("; stored"), "{}", status(&second));
    let mut log = weir.access_log(2);
    log.sort();
    assert_eq!(log, ["200 miss 1", "200 miss 2"]);
}
