//! Rules are matched on the normal form of a path, so that no other spelling gets round one, and servers get a form that is
//! chosen in the config.

use crate::harness::{Client, Origin, Response, Weir};

/// A server behind `/`, nothing behind `/admin`.
fn guarded(origin: &Origin, more: &str) -> Weir {
    Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.route = [\n\
         {{ path = \"/\", upstream = \"app\" }},\n\
         {{ path = \"/admin\", respond = {{ status = 403, body = \"no\" }} }},\n\
         {{ path = \"/cut/here\", upstream = \"app\", strip_prefix = true }},\n\
         {{ path = \"/moved\", redirect = {{ to = \"https://{{host}}{{path}}{{query}}\" }} }},\n]\n\
         upstream.app.servers = [\"{}\"]\n{more}\n",
        origin.address()
    ))
}

fn get(weir: &Weir, target: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"))
}

const SPELLINGS: &[&str] = &[
    "/admin",
    "//admin",
    "///admin/x",
    "/./admin",
    "/x/../admin",
    "/x/%2e%2E/admin/y",
    "/x//../admin",
    "/%61dmin",
    "/%61%64%6d%69%6E?q",
    "/../../admin",
    "http://a.test//admin",
];

#[test]
fn no_spelling_gets_round_a_rule() {
    let origin = Origin::serving("served");
    for form in ["normalised", "as-received"] {
        let weir = guarded(&origin, &format!("listener.web.paths.forward = \"{form}\""));
        for target in SPELLINGS {
            let response = get(&weir, target);
            assert_eq!((response.status, &*response.text()), (403, "no"), "{form}: {target}");
        }
        // Its server resolves none of these, so they are not the same path.
        for target in ["/x/..%2fadmin", "/%2561dmin", "/x/..;/admin", "/Admin", "/administrator"] {
            assert_eq!(get(&weir, target).text(), "served", "{form}: {target}");
        }
    }
}

#[test]
fn servers_get_the_form_that_the_config_says() {
    let rows: &[(&str, &str, &str)] = &[
        ("/a/../b?c=/../d//e", "/b?c=/../d//e", "/a/../b?c=/../d//e"),
        ("//b", "/b", "//b"),
        ("/%7Eb/%c3%a9?", "/~b/%C3%A9?", "/%7Eb/%c3%a9?"),
        ("http://a.test/x/..", "/", "/x/.."),
        ("/a%2fb", "/a%2Fb", "/a%2fb"),
        ("/plain/%20/.hidden?x", "/plain/%20/.hidden?x", "/plain/%20/.hidden?x"),
        // A path that a route changes is written anew in any case.
        ("/cut//here/x/./y?z", "/x/y?z", "/x/y?z"),
    ];
    let origin = Origin::serving("served");
    let normalising = guarded(&origin, "");
    let faithful = guarded(&origin, "listener.web.paths.forward = \"as-received\"");
    for (target, normal, received) in rows {
        for (weir, expected) in [(&normalising, normal), (&faithful, received)] {
            assert_eq!(get(weir, target).status, 200, "{target}");
            assert_eq!(origin.last_request().target(), *expected, "{target}");
        }
    }
    let response = get(&normalising, "//moved//x/../y?q");
    assert_eq!(response.field("location"), Some("https://a.test/moved/y?q"));
}

#[test]
fn other_forms_are_refused_on_request() {
    let origin = Origin::serving("served");
    let weir = guarded(&origin, "listener.web.paths.forward = \"refused\"");
    for target in ["//x", "/a/../b", "/%61", "/a%2fb"] {
        let response = get(&weir, target);
        assert_eq!((response.status, response.reason()), (400, Some("path-not-normal")), "{target}");
    }
    for target in ["/x", "/a/b/", "/.x/%20", "/a%2Fb?//%61"] {
        assert_eq!(get(&weir, target).status, 200, "{target}");
    }
    assert_eq!(origin.requests().len(), 4);
}

#[test]
fn encoded_slashes_are_what_the_config_says() {
    let origin = Origin::serving("served");
    let weir = guarded(&origin, "listener.web.paths.encoded_slash = \"refuse\"");
    let response = get(&weir, "/a%2fb");
    assert_eq!((response.status, response.reason()), (400, Some("encoded-slash")));
    assert_eq!(get(&weir, "/a?%2f").status, 200);
    let weir = guarded(&origin, "listener.web.paths.encoded_slash = \"decode\"");
    assert_eq!(get(&weir, "/x%2F..%2fadmin").status, 403);
    assert_eq!(get(&weir, "/x/..%2Fy%252F").status, 200);
    assert_eq!(origin.last_request().target(), "/y%252F", "what an encoded percent sign hides stays hidden");
}
