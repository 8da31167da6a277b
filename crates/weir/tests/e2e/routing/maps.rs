//! Maps and variables wherever placeholders stand: every kind of entry, captures, keys of limits and lists, redirects, the access log; files that change
//! while requests run, and what cannot be used of them.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::scripts::echo;
use crate::harness::{
    Client, Http2Client, Origin, Response, Weir, WrittenConfig, config_with, eventually, run,
    temporary_folder,
};

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// A listener with these routes and tables besides.
fn config(origin: &Origin, routes: &str, tables: &str) -> String {
    let listener = format!(
        "listener.web.trusted_proxies = [\"127.0.0.1\"]
         listener.web.http2.prior_knowledge = \"allowed\"
         listener.web.access_log.output = \"file:{{dir}}/access.log\"
         listener.web.access_log.format = \"{{status}} {{map.kind}} {{vars.name}}\"
         listener.web.vars = {{ name = \"of the listener\" }}
         listener.web.route = [{routes}]
         {tables}"
    );
    config_with(&[origin.named("a")], &listener)
}

const KINDS: &str = "
    map.kind.source = \"{header.x-key}\"
    map.kind.default = \"none of {method}\"
    map.kind.exact = { a = \"exact\", \"10.1.2.3\" = \"one address\" }
    map.kind.host = { \"*.example.com\" = \"below\", \".example.net\" = \"both\" }
    map.kind.prefix = { ab = \"prefix\", abcd = \"longer prefix\" }
    map.kind.suffix = { \".png\" = \"suffix {path}\" }
    map.kind.network = { \"10.0.0.0/8\" = \"network\", \"10.1.0.0/16\" = \"longer network\", \"2001:db8::/32\" = \"six\" }
    map.kind.regex = { '^v(?<major>[0-9]+)\\.([0-9]+)$' = \"{match.major}-{match.2} {vars.name}\", '^v' = \"second\" }
    ";

/// A redirect to nowhere is none: the page for 404, in place of a `Location` without a value, which browsers read as the page itself.
#[test]
fn a_redirect_by_a_map_without_the_entry_is_not_found() {
    let origin = echo();
    let routes = "{ path = \"/\", redirect = { to = \"{map.moved}\", status = 301 } }";
    let moved = "map.moved.source = \"{path}\"\nmap.moved.exact = { \"/old\" = \"/new\" }";
    let weir = Weir::start(&config(&origin, routes, &format!("{KINDS}\n{moved}")));
    let found = get(&weir, "/old", "");
    assert_eq!((found.status, found.field("location")), (301, Some("/new")));
    let missing = get(&weir, "/other", "");
    assert_eq!((missing.status, missing.field("location"), missing.reason()), (404, None, Some("no-route")));
    assert_eq!(Http2Client::connect(weir.web()).fetch("/other").status, 404);
}

#[test]
fn every_kind_of_entry_has_its_value() {
    let origin = echo();
    let routes = "{ path = \"/\", respond = { status = 200, body = \"{map.kind}|{vars.name}\" } },
         { path = \"/own\", vars = { name = \"of the route\" }, respond = { status = 200, body = \"{map.kind}|{vars.name}\" } }";
    let weir = Weir::start(&config(&origin, routes, KINDS));
    for (key, expected) in [
        ("a", "exact"),
        ("A", "none of GET"),
        ("x.example.com", "below"),
        ("example.com", "none of GET"),
        ("example.net", "both"),
        ("abc", "prefix"),
        ("abcde", "longer prefix"),
        ("x.png", "suffix /"),
        ("10.2.3.4", "network"),
        ("10.1.2.4", "longer network"),
        ("10.1.2.3", "one address"),
        ("2001:db8::1", "six"),
        ("v12.7", "12-7 of the listener"),
        ("vx", "second"),
        ("", "none of GET"),
    ] {
        let response = get(&weir, "/", &format!("X-Key: {key}\r\n"));
        assert_eq!(response.text(), format!("{expected}|of the listener"), "{key}");
    }
    assert_eq!(get(&weir, "/own", "X-Key: v1.2\r\n").text(), "1-2 of the route|of the route");
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get_with("/own", &[("x-key", "v1.2")]);
    assert_eq!(client.response(stream).text(), "1-2 of the route|of the route");
    eventually("the lines are there", || {
        let lines = std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
        lines.contains("200 12-7\\x20of\\x20the\\x20listener of\\x20the\\x20listener\n")
            && lines.contains("200 1-2\\x20of\\x20the\\x20route of\\x20the\\x20route\n")
    });
}

#[test]
fn servers_get_fields_of_maps_and_clients_redirects() {
    let origin = echo();
    let routes = "
        { path = \"/\", upstream = \"app\", request_headers.set = { x-kind = \"{map.kind}\" }, response_headers.set = { x-page = \"{map.page}\" } },
        { path = \"/go\", when = \"has(map.to)\", redirect = { to = \"{map.to}\", status = 301 } },
        { path = \"/vip\", when = \"map.kind == 'exact' && vars.name == 'vip'\", vars = { name = \"vip\" }, respond = { status = 299 } }";
    let tables = "
        map.page = { source = \"{status}\", default = \"other\", exact = { \"200\" = \"fine\" } }
        map.to = { source = \"{path}\", exact = { \"/go/a\" = \"https://example.com/a\" }, regex = { '^/go/b/(.*)$' = \"/b/{match.1}?from={query.from}\" } }";
    let weir = Weir::start(&config(&origin, routes, &format!("{KINDS}{tables}")));
    let response = get(&weir, "/", "X-Key: a\r\n");
    assert_eq!((response.status, response.field("x-page")), (200, Some("fine")));
    assert_eq!(origin.last_request().field("x-kind"), Some("exact"));
    assert_eq!(get(&weir, "/go/a", "").field("location"), Some("https://example.com/a"));
    let response = get(&weir, "/go/b/c%0d%0ax?from=%0d%0aSet-Cookie:1", "");
    assert_eq!(response.field("location"), Some("/b/c%0D%0Ax?from=%0d%0aSet-Cookie:1"));
    assert_eq!(response.field("set-cookie"), None);
    assert_eq!(get(&weir, "/go/c", "").status, 200, "no entry: the other route");
    assert_eq!(get(&weir, "/vip", "X-Key: a\r\n").status, 299);
    assert_eq!(get(&weir, "/vip", "X-Key: b\r\n").status, 200);
    // A condition looks at each line, as a server may believe any.
    assert_eq!(get(&weir, "/vip", "X-Key: b\r\nX-Key: a\r\n").status, 299);
}

/// Each line of a field is a key, so that no line hides another.
#[test]
fn limits_and_lists_are_by_what_a_map_says() {
    let origin = echo();
    let routes = "
        { path = \"/\", upstream = \"app\", limited_by = [\"plan\"] },
        { path = \"/open\", upstream = \"app\", lists = [\"banned\"] }";
    let tables = "
        map.plan = { source = \"{header.x-tenant}\", prefix = { free- = \"free\" } }
        limit.plan = { key = \"{map.plan}\", rate = \"1/h\" }
        list.banned = { action = \"deny\", key = \"{map.kind}\", entries = [\"exact\"] }";
    let weir = Weir::start(&config(&origin, routes, &format!("{KINDS}{tables}")));
    assert_eq!(get(&weir, "/", "X-Tenant: free-1\r\n").status, 200);
    assert_eq!(get(&weir, "/", "X-Tenant: free-2\r\n").status, 429, "both are one plan");
    for _ in 0..3 {
        assert_eq!(get(&weir, "/", "X-Tenant: paid-1\r\n").status, 200, "an empty value is no key");
    }
    assert_eq!(get(&weir, "/", "X-Tenant: paid-1\r\nX-Tenant: free-3\r\n").status, 429);
    assert_eq!(get(&weir, "/open", "X-Key: b\r\n").status, 200);
    assert_eq!(get(&weir, "/open", "X-Key: b\r\nX-Key: a\r\n").status, 403);
}

fn with_file(text: &str) -> (Weir, Origin, String) {
    let origin = echo();
    let folder = temporary_folder();
    std::fs::write(folder.path().join("tenants.map"), text).expect("the folder of the test takes a file");
    let tables = "
        map.kind = { source = \"{host}\", default = \"none\", file = \"tenants.map\", file_kind = \"host\", reload = \"100ms\" }";
    let routes = "{ path = \"/\", respond = { status = 200, body = \"{map.kind}\" } }";
    let config = config(&origin, routes, tables);
    (Weir::start_in(folder, &config), origin, config)
}

/// Has another file take the place of the one of a map.
fn replace(weir: &Weir, text: &str) {
    let (new, file) = (weir.folder().join("new.map"), weir.folder().join("tenants.map"));
    std::fs::write(&new, text).expect("the folder takes a file");
    std::fs::rename(new, file).expect("both are in one folder");
}

#[test]
fn a_changed_file_counts_while_requests_run() {
    let (weir, _origin, _) = with_file("# tenants\na.test  old value\n\n*.b.test other\n");
    let (is_over, seen) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let requests = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let text = get(&weir, "/", "").text();
                assert!(text == "old value" || text == "new value", "{text}");
                seen.fetch_or(text == "new value", Ordering::Relaxed);
            }
        });
        replace(&weir, "a.test new value\n");
        eventually("the changed file counts", || seen.load(Ordering::Relaxed));
        is_over.store(true, Ordering::Relaxed);
        requests.join().expect("every response had one of both values");
    });
    weir.line(&["the entries of the changed files count from now on", "map=\"kind\"", "entries=1"]);
}

#[test]
fn a_file_with_a_mistake_changes_nothing() {
    let (weir, _origin, config) = with_file("a.test old\n");
    for (text, said) in [
        ("a.test new\nno-value\n", "tenants.map:2: the key has no value"),
        ("a.test new\na.*.test x\n", "tenants.map:2: \\\"a.*.test\\\" is no host"),
        ("a.test new\na.test x\n", "tenants.map:2: the key is there already"),
        (
            "a.test {user}\n",
            "tenants.map:1: `{user}` is new in the map: it counts once the config is reloaded",
        ),
    ] {
        replace(&weir, text);
        weir.line(&["a file of a map has changed and cannot be used; the entries of before stay", said]);
        assert_eq!(get(&weir, "/", "").text(), "old", "{text}");
    }
    std::fs::remove_file(weir.folder().join("tenants.map")).expect("it is there");
    weir.line(&["the entries of before stay", "it cannot be read"]);
    assert_eq!(get(&weir, "/", "").text(), "old");
    weir.reload_in_vain(&config);
    assert_eq!(get(&weir, "/", "").text(), "old", "a config without its file is not used");
    replace(&weir, "a.test new\n");
    eventually("the file counts again", || get(&weir, "/", "").text() == "new");
}

#[test]
fn reloads_and_upgrades_read_the_file() {
    let (mut weir, _origin, config) = with_file("a.test first\n");
    assert_eq!(get(&weir, "/", "").text(), "first");
    // Every 100 milliseconds it would be read anyway; here a reload reads it, and the map of the config before goes on.
    replace(&weir, "a.test second\n");
    weir.reload(&config);
    assert_eq!(get(&weir, "/", "").text(), "second");
    weir.reload(
        &config.replace("default = \"none\"", "default = \"nobody\", exact = { \"b.test\" = \"inline\" }"),
    );
    replace(&weir, "a.test third\n");
    eventually("the map of the new config is followed", || get(&weir, "/", "").text() == "third");
    let other = Client::exchange(weir.web(), "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n");
    assert_eq!(other.text(), "inline");
    weir.upgrade();
    assert_eq!(get(&weir, "/", "").text(), "third");
    replace(&weir, "a.test fourth\n");
    eventually("the next process follows the file", || get(&weir, "/", "").text() == "fourth");
}

#[test]
fn explain_says_what_maps_have_decided() {
    let origin = echo();
    let routes = "
        { path = \"/\", upstream = \"app\", request_headers.set = { x-kind = \"{map.kind}\" } },
        { path = \"/vip\", when = \"map.kind == 'exact'\", respond = { status = 299 } }";
    let config = config(&origin, routes, KINDS).replace("file:{dir}/access.log", "stdout");
    let explained = |config: &str, header: &str| {
        let written = WrittenConfig::new(config);
        let done = run(&["explain", written.path(), "http://a.test/vip", "-H", header]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout
    };
    let said = "not /vip: its condition does not hold: `map.kind == 'exact'` is false (map.kind is ";
    let open = explained(&config.replace("header.x-key", "header.x-sort"), "X-Sort: abc");
    for said in [format!("{said}\"prefix\""), "map        map.kind is \"prefix\"".to_owned()] {
        assert!(open.contains(&said), "{said} in {open}");
    }
    let secret = explained(&config, "X-Key: abc");
    assert!(secret.contains(&format!("{}there)", said)) && !secret.contains("prefix\""), "{secret}");
}

/// Each request asks twice: for its response, and for the log.
#[test]
fn lookups_are_counted_by_what_they_find() {
    let (origin, folder) = (echo(), temporary_folder());
    let file = folder.path().join("kinds.map");
    std::fs::write(&file, "c of the file\n").expect("the folder takes files");
    let routes =
        "{ path = \"/\", vars = { name = \"x\" }, respond = { status = 200, body = \"{map.kind}\" } }";
    let tables = format!(
        "map.kind = {{ source = \"{{header.x-key}}\", exact = {{ a = \"one\" }}, prefix = {{ b = \"two\" }}, default = \"none\" }}\n\
         map.files = {{ source = \"{{path}}\", file = \"{}\", reload = \"100ms\" }}\n\
         listener.web.response_headers.set.x-file = \"{{map.files}}\"\n\
         process.workers = 2",
        file.display()
    );
    let weir = Weir::start(&config(&origin, routes, &tables));
    for key in ["a", "b", "bb", "c", ""] {
        assert_eq!(get(&weir, "/", &format!("X-Key: {key}\r\n")).status, 200);
    }
    let of = |map: &str, name: &str, labels: &[&str]| {
        let map = format!("map=\"{map}\"");
        let labels: Vec<&str> = labels.iter().copied().chain([&*map]).collect();
        weir.metrics().sum(&format!("weir_map_{name}"), &labels)
    };
    eventually("all lookups are counted", || {
        let found = |outcome: &str| of("kind", "lookups_total", &[&format!("outcome=\"{outcome}\"")]);
        ["entry", "database", "default"].map(found) == [6.0, 0.0, 4.0]
    });
    assert_eq!([of("kind", "entries", &[]), of("files", "entries", &[])], [2.0, 1.0]);
    assert!(of("files", "memory_bytes", &[]) > 0.0);
    let text = Client::get_by_address(weir.address("admin"), "/metrics").text();
    assert!(!text.contains("weir_map_refused{map=\"kind\"}"), "it has no files");
    assert_eq!(of("files", "refused", &[]), 0.0);
    let new = file.with_extension("new");
    std::fs::write(&new, "key {no.such.value}\n")
        .and_then(|()| std::fs::rename(&new, &file))
        .expect("it takes files");
    eventually("the file is refused", || of("files", "refused", &[]) == 1.0);
}

#[cfg(feature = "geoip")]
#[test]
fn a_database_of_addresses_is_asked_and_followed() {
    let origin = echo();
    let bytes = include_bytes!("../../../../weir-config/tests/addresses.mmdb").to_vec();
    let folder = temporary_folder();
    let file = folder.path().join("addresses.mmdb");
    std::fs::write(&file, &bytes).expect("the folder takes files");
    let path = file.display();
    let tables = format!(
        "map.kind = {{ source = \"{{client_address}}\", database = \"{path}\", field = \"country.iso_code\", reload = \"100ms\", \
                       network = {{ \"127.7.0.0/16\" = \"own\" }}, default = \"nowhere\" }}
         map.city = {{ source = \"{{client_address}}\", database = \"{path}\", field = \"city.names.en\", default = \"no city\" }}
         map.number = {{ source = \"{{client_address}}\", database = \"{path}\", field = \"autonomous_system_number\" }}
         list.french = {{ action = \"deny\", when = 'map.kind == \"FR\"' }}"
    );
    let routes = "{ path = \"/\", vars = { name = \"x\" }, lists = [\"french\"], respond = { status = 200, body = \"{map.kind}|{map.city}|{map.number}\" } }";
    let weir = Weir::start(&config(&origin, routes, &tables));
    let of = |address: &str| {
        let answer = get(&weir, "/", &format!("X-Forwarded-For: {address}\r\n"));
        (answer.status, answer.text())
    };
    for (address, expected) in [
        ("127.0.0.1", "DE|Munich|64512"),
        ("127.7.1.1", "own|Munich|64512"),
        ("2001:db8::1", "JP|no city|"),
        ("10.0.0.1", "nowhere|no city|"),
    ] {
        assert_eq!(of(address), (200, expected.to_owned()), "{address}");
    }
    assert_eq!(of("127.200.0.1").0, 403);
    let replace = |content: &[u8]| {
        let new = file.with_extension("new");
        std::fs::write(&new, content)
            .and_then(|()| std::fs::rename(&new, &file))
            .expect("the folder takes files");
    };
    let at = bytes.windows(2).position(|two| two == b"DE").expect("it is there");
    let mut other = bytes.clone();
    other[at..at + 2].copy_from_slice(b"AT");
    replace(&other);
    eventually("the other database counts", || of("127.0.0.1").1 == "AT|Munich|64512");
    replace(&bytes[..bytes.len() / 2]);
    weir.line(&["ERROR", "a file of a map has changed and cannot be used", "it is no MaxMind DB"]);
    assert_eq!(of("127.0.0.1").1, "AT|Munich|64512");
}
