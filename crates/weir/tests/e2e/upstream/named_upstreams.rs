//! The upstream of a request by its name (`split_by`): which one it is, that no other one can be named, and what becomes of a name that is none.

use crate::harness::http2::{H2C, Http2Client};
use crate::harness::{Client, CommandResult, Origin, Response, Weir, config_with, run};

/// Upstreams `app`, `a` and `b` for tenants, and `secret`, which no request may name; `rest` is what else is in the split.
fn config(origins: &[Origin; 4], rest: &str) -> String {
    let [app, a, b, secret] = origins;
    let servers = format!(
        "upstream.a.servers = [{}]\nupstream.b.servers = [{}]\nupstream.secret.servers = [{}]\n",
        a.named("a"),
        b.named("b"),
        secret.named("secret")
    );
    let routes = format!(
        "listener.web.route = [\n\
         {{ path = \"/\", split_by = \"{{map.backend}}\", split = [{{ upstream = \"a\" }}, {{ upstream = \"b\", response_headers = {{ set = {{ X-Of = \"b\" }} }} }}{rest}] }},\n\
         {{ path = \"/app\", upstream = \"app\" }}, {{ path = \"/secret\", upstream = \"secret\" }},\n]\n"
    );
    let map = "map.backend = { source = \"{header.x-tenant}\", default = \"{header.x-tenant}\", exact = { ann = \"a\", bob = \"b\", eve = \"secret\" } }\n";
    let text = config_with(&[app.named("app")], "");
    let text = text.replace("listener.web.upstream = \"app\"\n", "");
    let log = "access_log.output = \"file:{dir}/access.log\"\naccess_log.format = \"{upstream} {status} {reason}\"\n";
    format!("{text}{servers}{H2C}{routes}{map}{log}")
}

fn origins() -> [Origin; 4] {
    ["app", "a", "b", "secret"].map(Origin::serving)
}

fn get(weir: &Weir, tenant: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Tenant: {tenant}\r\n\r\n"))
}

#[test]
fn the_map_names_the_upstream() {
    let origins = origins();
    let weir = Weir::start(&config(&origins, ", { respond = 404 }"));
    for _ in 0..3 {
        assert_eq!((get(&weir, "ann").text(), get(&weir, "bob").text()), ("a".to_owned(), "b".to_owned()));
    }
    assert_eq!((get(&weir, "ann").field("X-Of"), get(&weir, "bob").field("X-Of")), (None, Some("b")));
    let mut client = Http2Client::connect(weir.web());
    for (tenant, expected) in [("ann", "a"), ("bob", "b")] {
        let stream = client.get_with("/", &[("x-tenant", tenant)]);
        assert_eq!(client.response(stream).text(), expected);
    }
    let stream = client.get_with("/", &[("x-tenant", "eve")]);
    assert_eq!(client.response(stream).status, 404);
}

/// Whatever the value is: the name of an upstream that the split does not name, an address, a URL.
#[test]
fn no_other_upstream_can_be_named() {
    let origins = origins();
    let address = origins[3].address().to_string();
    let url = format!("http://{address}/");
    let names = ["eve", "secret", "app", "", "A", "a,b", "{upstream}", &address, &url];
    let answering = Weir::start(&config(&origins, ", { respond = 404 }"));
    let failing = Weir::start(&config(&origins, ""));
    for name in names {
        assert_eq!(get(&answering, name).status, 404, "{name}");
        let response = get(&failing, name);
        assert_eq!((response.status, response.reason()), (502, Some("unknown-upstream")), "{name}");
    }
    assert!(origins[0].requests().is_empty() && origins[3].requests().is_empty());
    assert_eq!(failing.access_log(names.len())[0], "- 502 unknown-upstream");
    assert_eq!(get(&failing, "a").text(), "a", "the name itself");
}

#[test]
fn a_reload_changes_which_upstreams_can_be_named() {
    let origins = origins();
    let weir = Weir::start(&config(&origins, ""));
    assert_eq!(get(&weir, "secret").status, 502);
    weir.reload(&config(&origins, ", { upstream = \"secret\" }"));
    assert_eq!(
        (get(&weir, "secret").text(), get(&weir, "ann").text()),
        ("secret".to_owned(), "a".to_owned())
    );
    weir.reload(&config(&origins, ""));
    assert_eq!(get(&weir, "secret").status, 502);
}

#[test]
fn explain_shows_which_one_it_is() {
    let folder = crate::harness::temporary_folder();
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, config(&origins(), "").replace("{dir}", &folder.path().display().to_string()))
        .expect("the folder can be written");
    let explain = |tenant: &str| -> CommandResult {
        let field = format!("X-Tenant: {tenant}");
        run(&["explain", &file.display().to_string(), "http://a.test/", "-H", &field])
    };
    let shown = explain("bob").text();
    assert!(shown.contains("upstream   b\n") && !shown.contains("upstream   a\n"), "{shown}");
    let refused = explain("eve").text();
    assert!(refused.contains("unknown-upstream"), "{refused}");
}
