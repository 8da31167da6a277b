//! Tables of thousands of routes: a request meets few of them, and none is compared with all others.

use std::cell::Cell;
use std::net::IpAddr;

use super::*;

/// A request that counts how often it is asked for a field or its method.
struct Counting {
    path: String,
    tenant: String,
    asked: Cell<usize>,
}

impl Counting {
    fn new(path: &str, tenant: &str) -> Counting {
        Counting { path: path.to_owned(), tenant: tenant.to_owned(), asked: Cell::new(0) }
    }
}

impl RouteRequest for Counting {
    fn host(&self) -> &[u8] {
        b"a.com"
    }
    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }
    fn query(&self) -> &[u8] {
        b""
    }
    fn method(&self) -> &[u8] {
        self.asked.set(self.asked.get() + 1);
        b"GET"
    }
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.asked.set(self.asked.get() + 1);
        (name == "x-tenant").then_some(self.tenant.as_bytes())
    }
    fn source(&self) -> IpAddr {
        IpAddr::from([192, 0, 2, 1])
    }
}

/// Without an index each request asks for its field ten thousand times, and fifty million pairs of routes are compared.
#[test]
fn a_request_tries_few_of_many_routes_by_field_value() {
    let tenant = |number: usize| RouteMatch {
        headers: vec![header("x-tenant", ValueMatch::exact(&format!("t{number}")))],
        ..any()
    };
    let mut routes: Vec<RouteMatch> = (0..10_000).map(tenant).collect();
    routes.push(RouteMatch { headers: vec![header("x-tenant", ValueMatch::Present)], priority: -1, ..any() });
    let by_tenant = table(&routes).unwrap();
    for (tenant, route) in [("t0", 0), ("t9999", 9_999), ("t5000", 5_000), ("other", 10_000)] {
        let request = Counting::new("/", tenant);
        assert_eq!(by_tenant.lookup(&request), Some(RouteId(route)), "{tenant}");
        assert!(request.asked.get() < 10, "{tenant}: asked {} times", request.asked.get());
    }
    routes.push(tenant(7));
    let tie = Tie { first: RouteId(7), second: RouteId(10_001) };
    assert_eq!(table(&routes).unwrap_err(), [tie]);
}

/// Without an index each request tries three thousand patterns, and four and a half million pairs are run against each other.
#[test]
fn a_request_tries_few_of_many_patterns() {
    let methods = vec![MethodMatch::parse("GET").unwrap()];
    let pattern = |text: String| RouteMatch {
        path: PathMatch::regex(&text).unwrap(),
        methods: methods.clone(),
        ..any()
    };
    let mut routes: Vec<RouteMatch> =
        (0..3_000).map(|number| pattern(format!("^/s{number}/[0-9]+$"))).collect();
    routes.extend((0..30).map(|number| pattern(format!("/[a-z]+/e{number}$"))));
    let by_pattern = table(&routes).unwrap();
    for (path, route) in
        [("/s0/1", Some(0)), ("/s2999/42", Some(2_999)), ("/x/e29", Some(3_029)), ("/s1/x", None)]
    {
        let request = Counting::new(path, "");
        assert_eq!(by_pattern.lookup(&request), route.map(RouteId), "{path}");
        assert!(request.asked.get() < 10, "{path}: asked {} times", request.asked.get());
    }
    routes.push(pattern("^/s17/1$".to_owned()));
    let tie = Tie { first: RouteId(17), second: RouteId(3_030) };
    assert_eq!(table(&routes).unwrap_err(), [tie]);
}

#[test]
fn ties_are_reported_up_to_a_number() {
    let ties = table(&vec![prefix("*", "/a"); 1_000]).unwrap_err();
    assert_eq!(ties.len(), 100);
}
