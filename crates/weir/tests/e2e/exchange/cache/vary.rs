//! `ignore_vary`: fields of `Vary` that make no variants, because the operator says so.

use super::{counting, get, start, status};
use crate::harness::{Http2Client, Weir, config_with};

/// What the second of two requests with other fields gets.
fn second(vary: &str, ignored: &str, fields: [&str; 2]) -> String {
    let head = format!("Cache-Control: max-age=60\r\nVary: {vary}\r\n");
    let origin = counting(Box::leak(head.into_boxed_str()));
    let weir = start(&origin, &format!(", ignore_vary = {ignored}"), "");
    assert_eq!(get(&weir, "/", fields[0]).text(), "1");
    let again = get(&weir, "/", fields[1]);
    assert_eq!(again.field("vary"), Some(vary), "clients and caches behind see what the server says");
    again.text()
}

#[test]
fn a_field_that_is_named_makes_no_variants() {
    let agents = ["User-Agent: a\r\n", "User-Agent: b\r\n"];
    assert_eq!(second("User-Agent", "[]", agents), "2");
    assert_eq!(second("User-Agent", "[\"User-Agent\"]", agents), "1");
    assert_eq!(second("User-Agent", "[\"*\"]", agents), "1");
    assert_eq!(second("User-Agent", "[\"origin\"]", agents), "2");
    assert_eq!(
        second("Origin, User-Agent", "[\"user-agent\"]", ["Origin: a\r\n", "Origin: b\r\n"]),
        "2",
        "the others count"
    );
    // The client has no way to say so itself.
    let origin = counting("Cache-Control: max-age=60\r\nVary: X-A\r\n");
    let weir = start(&origin, ", ignore_vary = [\"x-a\"]", "");
    let mut client = Http2Client::connect(weir.web());
    for expected in ["1", "1"] {
        let stream = client.get("/");
        assert_eq!(client.response(stream).text(), expected);
    }
    assert_eq!(get(&weir, "/", "X-A: other\r\n").text(), "1");
}

#[test]
fn credentials_and_codings_are_not_among_the_others() {
    let cookies = ["Cookie: a=1\r\n", "Cookie: a=2\r\n"];
    assert_eq!(second("Cookie", "[\"*\"]", cookies), "2");
    assert_eq!(second("Cookie", "[\"*\", \"cookie\"]", cookies), "1");
    assert_eq!(second("cookie, X-A", "[\"x-a\"]", cookies), "2");
    let codings = ["Accept-Encoding: gzip\r\n", "Accept-Encoding: identity\r\n"];
    assert_eq!(second("Accept-Encoding", "[\"*\"]", codings), "2");
    assert_eq!(second("*", "[]", ["", ""]), "2");
    assert_eq!(second("*", "[\"x-a\"]", ["", ""]), "2");
    assert_eq!(second("*", "[\"*\"]", ["", ""]), "1");
}

/// What a server gets with a value of the exchange says nothing of the request of the next client.
#[test]
fn what_depends_on_a_value_of_the_exchange_is_not_stored_unless_it_is_named() {
    for (ignored, expected) in [("[\"*\"]", "2"), ("[\"x-from\"]", "1")] {
        let origin = counting("Cache-Control: max-age=60\r\nVary: X-From\r\n");
        let weir = start(
            &origin,
            &format!(
                ", ignore_vary = {ignored} }}, request_headers = {{ set = {{ x-from = \"{{client_port}}\" }}"
            ),
            "",
        );
        assert_eq!(get(&weir, "/", "").text(), "1");
        let again = get(&weir, "/", "");
        assert_eq!(again.text(), expected, "{ignored}: {}", status(&again));
    }
}

/// What is stored without regard to a field is not what another rule, before or after a reload, finds.
#[test]
fn a_route_that_goes_by_the_field_does_not_find_what_was_stored_without_it() {
    for share in ["", ", share = \"all\""] {
        let origin = counting("Cache-Control: max-age=60\r\nVary: X-A\r\n");
        let text = |keys: &str| {
            let route = format!(
                "{{ path = \"/\", upstream = \"app\", cache = {{ name = \"pages\"{share}{keys} }} }}"
            );
            let cache = "cache.pages = { memory = \"4MiB\", response_max = \"1MiB\" }";
            config_with(&[origin.named("a")], &format!("{cache}\nlistener.web.route = [{route}]"))
        };
        let weir = Weir::start(&text(", ignore_vary = [\"x-a\"]"));
        assert_eq!(get(&weir, "/", "X-A: 1\r\n").text(), "1");
        weir.reload(&text(""));
        assert_eq!(get(&weir, "/", "X-A: 2\r\n").text(), "2");
        assert_eq!(get(&weir, "/", "X-A: 1\r\n").text(), "3");
    }
}

/// `Connection` keeps a field from the server: its response is none for those who have that field.
#[test]
fn a_field_that_does_not_reach_the_server_selects_nothing() {
    let origin = counting("Cache-Control: max-age=60\r\nVary: X-A\r\n");
    let weir = start(&origin, "", "");
    assert_eq!(get(&weir, "/", "X-A: 1\r\nConnection: x-a\r\n").text(), "1");
    assert_eq!(get(&weir, "/", "X-A: 1\r\n").text(), "2");
    assert_eq!(get(&weir, "/", "X-A: 1\r\n").text(), "2", "it is stored");
    assert_eq!(get(&weir, "/", "X-A: 1\r\nConnection: x-a\r\n").text(), "3");
    assert_eq!(get(&weir, "/", "X-A: 1\r\nConnection: x-b\r\n").text(), "2", "the request has no such field");
}
