//! The meaning of the keys of routes and upstreams.

use std::net::IpAddr;
use std::time::Duration;

use weir_config::{CertificateSource, Config, ForwardHost, RouteAction, Server, ServerAddress};
use weir_traffic::ServerTier;
use weir_traffic::balance::{HashKey, Policy};
use weir_traffic::route::{RouteId, RouteRequest, RouteTable};

use crate::config;

struct Request {
    host: &'static str,
    path: &'static str,
    query: &'static str,
    header: (&'static str, &'static str),
    method: &'static str,
    source: [u8; 4],
}

const GET: Request = Request {
    host: "other.test",
    path: "/",
    query: "",
    header: ("", ""),
    method: "GET",
    source: [127, 0, 0, 1],
};

impl RouteRequest for Request {
    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn query(&self) -> &[u8] {
        self.query.as_bytes()
    }

    fn method(&self) -> &[u8] {
        self.method.as_bytes()
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        (self.header.0 == name).then_some(self.header.1.as_bytes())
    }

    fn source(&self) -> IpAddr {
        IpAddr::from(self.source)
    }
}

/// The name of the route that a request takes.
fn route(config: &Config, request: &Request) -> String {
    let routes = &config.listeners[0].routes;
    let rules =
        routes.iter().enumerate().map(|(index, route)| (route.matches.clone(), RouteId(index as u32)));
    let table = RouteTable::new(rules.collect()).expect("a checked configuration has no ties");
    table.lookup(request).map_or_else(|| "none".to_owned(), |found| routes[found.index()].name.to_string())
}

const ROUTES: &str = r#"
[listener.web]
address = ":0"
upstream = "app"
limits.body_size = "1MiB"

[[listener.web.route]]
host = ["Example.com", "*.example.com"]
path = "/api/"
upstream = "app"
strip_prefix = true
forward_host = "app.internal:81"

[[listener.web.route]]
name = "exact"
path_exact = "/api/x"
upstream = "app"
limits.body_size = "off"

[[listener.web.route]]
path_regex = '\.png$'
upstream = "app"
limits.body_size = "5MiB"

[[listener.web.route]]
name = "rules"
method = ["post", "PUT"]
header = { X-Env = "canary", x-old = false }
query = { debug = true, v = { regex = "^[0-9]+$" } }
source = "10.0.0.0/8"
upstream = "app"

[upstream.app]
servers = ["a:80"]
"#;

#[test]
fn requests_take_the_route_that_the_text_gives_them() {
    let config = config(ROUTES);
    let rules = Request {
        method: "POST",
        header: ("x-env", "canary"),
        query: "debug&v=12",
        source: [10, 1, 2, 3],
        ..GET
    };
    for (request, expected) in [
        (GET, "*"),
        (Request { host: "example.com", path: "/api/y", ..GET }, "example.com/api/"),
        (Request { host: "a.b.example.com", path: "/api/y", ..GET }, "example.com/api/"),
        (Request { path: "/api/x", ..GET }, "exact"),
        (Request { path: "/a.png", ..GET }, "~\\.png$"),
        (Request { path: "/any", ..rules }, "rules"),
        (Request { method: "GET", ..rules }, "*"),
        (Request { query: "debug&v=x", ..rules }, "*"),
        (Request { header: ("x-env", "stable"), ..rules }, "*"),
        (Request { source: [11, 1, 2, 3], ..rules }, "*"),
    ] {
        assert_eq!(route(&config, &request), expected, "{} {}", request.host, request.path);
    }
}

#[test]
fn a_route_has_the_body_limit_of_its_listener_unless_it_says_otherwise() {
    let config = config(ROUTES);
    let sizes: Vec<Option<u64>> =
        config.listeners[0].routes.iter().map(|route| route.body_size.map(|size| size.bytes())).collect();
    assert_eq!(sizes, [Some(1 << 20), None, Some(5 << 20), Some(1 << 20), Some(1 << 20)]);
}

#[test]
fn a_prefix_is_stripped_and_the_host_replaced() {
    let config = config(ROUTES);
    let route = &config.listeners[0].routes[0];
    let mut out = Vec::new();
    assert!(route.rewrite.as_ref().unwrap().apply(b"/api/users", Some(b"a=1"), &mut out));
    assert_eq!(out, b"/users?a=1");
    assert_eq!(route.forward_host, ForwardHost::Literal("app.internal:81".into()));
}

#[test]
fn actions_without_a_server() {
    let config = config(
        r#"
        [[listener.web.route]]
        path = "/old"
        redirect = { to = "https://{host}/new{path}{query}", status = 301 }
        response_headers.set = { Cache-Control = "no-store" }
        [[listener.web.route]]
        path = "/gone"
        respond = { status = 410, body = "gone", headers = { X-Why = "old" } }
        [listener.web]
        address = ":0"
        "#,
    );
    let [redirect, respond] = &config.listeners[0].routes[..] else { panic!("two routes") };
    let RouteAction::Redirect(to) = &redirect.action else { panic!("a redirect") };
    assert_eq!((to.status, to.to.to_string()), (301, "https://{host}/new{path}{query}".to_owned()));
    assert_eq!(&*redirect.response_headers.set[0].0, "cache-control");
    let RouteAction::Respond(fixed) = &respond.action else { panic!("a response") };
    assert_eq!((fixed.status, &*fixed.body, fixed.headers[0].1.literal()), (410, "gone", Some("old")));
}

#[test]
fn an_upstream_has_the_values_of_the_text() {
    let config = config(
        r#"
        [listener.web]
        address = ":0"
        upstream = "app"
        [upstream.app]
        balance = "consistent-hash"
        hash_key = "cookie:session"
        hash_load_factor = "off"
        max_requests = 10
        servers = ["a:80", { address = "b:80", name = "b", weight = 0, max_requests = "off", backup = true },
                   { address = "c:80", max_requests = 3 }]
        timeouts = { relay = "off", response = "1m20s", send = { credit = "5s", rate_min = "1KiB/s" } }
        retry = { on_status = [503, 502], budget = "50%" }
        "#,
    );
    let upstream = &config.upstreams[0];
    let Policy::ConsistentHash { key, load_factor } = &upstream.balance else { panic!("a consistent hash") };
    assert_eq!((key, load_factor.percent()), (&HashKey::Cookie("session".to_owned()), None));
    let servers: Vec<(&str, u16, Option<u32>, bool)> = upstream
        .servers
        .iter()
        .map(|server| (&*server.name, server.weight, server.max_requests, server.tier == ServerTier::Backup))
        .collect();
    assert_eq!(servers, [("a:80", 1, Some(10), false), ("b", 0, None, true), ("c:80", 1, Some(3), false)]);
    assert_eq!(upstream.timeouts.relay, None);
    assert_eq!(upstream.timeouts.response, Some(Duration::from_secs(80)));
    let send = upstream.timeouts.send.unwrap();
    assert_eq!(send.rate_min.map(|rate| rate.bytes_per_second()), Some(1024));
    assert_eq!(upstream.retry.policy().on_status, [502, 503]);
}

#[test]
fn the_certificates_of_discovered_servers_are_for_the_name_that_was_asked_for() {
    let text = r#"
        listener.web = { address = ":80", upstream = "app" }
        [upstream.app]
        discovery = { dns = "app.test:443" }
        tls = { verify = false }
        max_requests = 7
        "#;
    // A warning says that nothing is verified.
    let config = Config::parse(text, "weir.toml").unwrap();
    let upstream = &config.upstreams[0];
    assert!(upstream.servers.is_empty());
    assert_eq!(upstream.max_requests, Some(7));
    let found = Server::new("10.0.0.1:443".parse::<ServerAddress>().unwrap());
    let upstream = upstream.with_servers(vec![found]);
    let tls = upstream.tls.as_ref().unwrap();
    assert_eq!(tls.names, ["app.test".try_into().unwrap()]);
}

#[test]
fn certificates_of_servers_of_srv_records_need_a_name() {
    let messages = |tls: &str| {
        let text = format!(
            "listener.web = {{ address = \":80\", upstream = \"app\" }}
            upstream.app = {{ discovery = {{ srv = \"_https._tcp.app.test\" }}, tls = {{ {tls} }} }}"
        );
        // With the authorities of the system.
        Config::parse(&text, "weir.toml").map(|_| ()).unwrap();
        let checked = weir_config::CheckedConfig::parse(&text, "weir.toml");
        checked.diagnostics.to_string().contains("have to be for their addresses")
    };
    assert!(messages(""));
    assert!(!messages("server_name = \"app.test\""));
    assert!(!messages("verify = false"));
}

#[test]
fn hosts_whose_tls_passes_through_get_no_certificate() {
    let names = |tls: &str| {
        let config = config(&format!(
            "[listener.web]
            address = \":443\"
            protocol = \"tcp\"
            tls = {tls}
            [[listener.web.route]]
            sni = \"ends.test.example\"
            upstream = \"app\"
            [[listener.web.route]]
            sni = \"passes.test.example\"
            upstream = \"app\"
            tls_passthrough = true
            [upstream.app]
            servers = [\"10.0.0.1:80\"]"
        ));
        let tls = config.listeners[0].tls.as_ref().expect("it is in the text");
        let of_source = |source: &CertificateSource| match source {
            CertificateSource::Internal(internal) => internal.authority.names.clone(),
            CertificateSource::Files(_) | CertificateSource::Directory(_) => Vec::new(),
        };
        let internal = tls.sources.iter().flat_map(of_source);
        let acme = tls.acme.iter().flat_map(|acme| acme.hosts.clone());
        internal.chain(acme).filter(|name| name.ends_with(".example")).collect::<Vec<_>>()
    };
    assert_eq!(names("{ acme = {} }"), ["ends.test.example".into()]);
    assert_eq!(names("\"internal\""), ["ends.test.example".into()]);
}
