//! Which of several routes takes a request, where nginx's `^~` or the order of the file decides.

use crate::harness::http2::H2C;
use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Weir, WrittenConfig, config_with, run};

const BEFORE_REGEX: &str = r#"
[[listener.web.route]]
path = "/images"
before_regex = true
respond.body = "images"
[[listener.web.route]]
path = "/images/raw"
respond.body = "raw"
[[listener.web.route]]
path_regex = '\.png$'
respond.body = "regex"
[[listener.web.route]]
path = "/"
respond.body = "rest"
"#;

const IN_ORDER: &str = r#"
listener.web.route_order = "file"
[[listener.web.route]]
method = "POST"
respond.body = "posts"
[[listener.web.route]]
path = "/api"
respond.body = "api"
[[listener.web.route]]
path_exact = "/api/x"
when = 'header["x-own"] == "1"'
respond.body = "never"
[[listener.web.route]]
path_regex = '^/'
respond.body = "regex"
"#;

fn both_protocols(routes: &str, cases: &[(&str, &str, &str)]) {
    let settings = format!("{H2C}{routes}");
    let weir = Weir::start(&config_with(&["'127.0.0.1:1'".to_owned()], &settings));
    let mut http1 = Client::connect(weir.web());
    let mut http2 = Http2Client::connect(weir.web());
    for (method, target, expected) in cases {
        http1.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: a.test\r\nX-Own: 1\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(http1.response().text(), *expected, "{method} {target}");
        let fields = [http2.request(method, target), vec![("x-own", "1")]].concat();
        let stream = http2.open(&fields, true);
        assert_eq!(http2.response(stream).text(), *expected, "HTTP/2: {method} {target}");
    }
}

#[test]
fn a_prefix_goes_before_regular_expressions_where_it_says_so() {
    both_protocols(
        BEFORE_REGEX,
        &[
            ("GET", "/images/a.png", "images"),
            ("GET", "//images/./a.png", "images"),
            ("GET", "/images/raw/a.png", "regex"),
            ("GET", "/images/raw/a", "raw"),
            ("GET", "/imagesx.png", "regex"),
            ("GET", "/x", "rest"),
        ],
    );
}

/// `/api` is a beginning of `/apix` as well, and as specific as a prefix of the same length; what follows it stays, with one slash.
#[test]
fn a_beginning_of_a_path_takes_what_no_segment_ends() {
    let routes = r#"
[[listener.web.route]]
path_begins = "/api"
upstream = "echo"
replace_prefix = "/v2"
[[listener.web.route]]
path = "/api"
method = "POST"
respond.body = "prefix"
[[listener.web.route]]
path_begins = "/down"
before_regex = true
respond.body = "down"
[[listener.web.route]]
path_regex = '\.png$'
respond.body = "regex"
"#;
    let origin = echo();
    let routes = format!("upstream.echo.servers = ['{}']\n{routes}", origin.address());
    both_protocols(
        &routes,
        &[
            ("GET", "/api", "/v2"),
            ("GET", "/api/x?q", "/v2/x?q"),
            ("GET", "/apix", "/v2x"),
            ("GET", "//%61pi/./x", "/v2/x"),
            ("GET", "/api.png", "regex"),
            ("POST", "/api/x", "prefix"),
            ("POST", "/apix", "/v2x"),
            ("GET", "/downloads/a.png", "down"),
        ],
    );
}

#[test]
fn the_first_route_of_the_file_takes_a_request_where_that_is_asked_for() {
    both_protocols(
        IN_ORDER,
        &[("POST", "/api/x", "posts"), ("GET", "/api/x", "api"), ("GET", "/apix", "regex")],
    );
}

#[test]
fn explain_names_the_route_that_serve_takes() {
    let file = WrittenConfig::new(&config_with(&["'127.0.0.1:1'".to_owned()], IN_ORDER));
    let shown = run(&["explain", file.path(), "http://a.test/api/x", "-H", "X-Own: 1"]).stdout;
    assert!(shown.contains("route      /api: takes the request: path prefix /api"), "{shown}");
    assert!(shown.contains("not =/api/x: matches too, but is written later"), "{shown}");
}
