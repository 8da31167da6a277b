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

/// A request with conditions of its own making: each looks whether the tenant is one text, the path begins with another, or neither.
struct Conditioned<'a> {
    request: Counting,
    tenants: Vec<&'a str>,
    conditions: &'a [Condition],
    /// Whether it says which texts it has.
    is_open: bool,
}

/// What holds when one of the tenants is this, and the path begins with that.
#[derive(Debug, Clone)]
struct Condition {
    tenants: Vec<&'static str>,
    path: &'static str,
}

impl Condition {
    /// As compiled: the tenant is comparison 0, the path is comparison 1.
    fn needed(&self) -> Vec<NeededText<'_>> {
        let tenants = self.tenants.iter().map(|text| text.as_bytes()).collect();
        let tenants = NeededText { term: 0, value: "tenant".to_owned(), test: NeededTest::OneOf(tenants) };
        let path = NeededTest::Prefix(self.path.as_bytes());
        let path = NeededText { term: 1, value: "path".to_owned(), test: path };
        let has_tenants = !self.tenants.is_empty();
        has_tenants.then_some(tenants).into_iter().chain((!self.path.is_empty()).then_some(path)).collect()
    }
}

impl RouteRequest for Conditioned<'_> {
    fn host(&self) -> &[u8] {
        self.request.host()
    }
    fn path(&self) -> &[u8] {
        self.request.path()
    }
    fn query(&self) -> &[u8] {
        b""
    }
    fn method(&self) -> &[u8] {
        b"GET"
    }
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.request.header(name)
    }
    fn source(&self) -> IpAddr {
        self.request.source()
    }
    fn condition_holds(&self, route: RouteId) -> bool {
        self.request.asked.set(self.request.asked.get() + 1);
        let Condition { tenants, path } = &self.conditions[route.index()];
        (tenants.is_empty() || self.tenants.iter().any(|tenant| tenants.contains(tenant)))
            && self.request.path.starts_with(path)
    }
    fn any_condition_text(
        &self,
        route: RouteId,
        term: usize,
        mut passes: impl FnMut(&[u8]) -> bool,
    ) -> Option<bool> {
        let condition = &self.conditions[route.index()];
        assert!(condition.needed().iter().any(|needed| needed.term == term));
        self.is_open.then(|| match term {
            0 if self.tenants.is_empty() => passes(b""),
            0 => self.tenants.iter().any(|tenant| passes(tenant.as_bytes())),
            _ => passes(self.request.path.as_bytes()),
        })
    }
}

/// Without an index, each condition is asked.
#[test]
fn a_request_tries_few_of_many_conditions() {
    let leak = |text: String| -> &'static str { text.leak() };
    let by_tenant = |number: usize| Condition { tenants: vec![leak(format!("t{number}"))], path: "/" };
    let by_path = |number: usize| Condition { tenants: Vec::new(), path: leak(format!("/p{number}/")) };
    let conditions: Vec<Condition> = (0..1_000).map(by_tenant).chain((0..1_000).map(by_path)).collect();
    let matches = |number: usize| when(&number.to_string());
    let mut routes: Vec<(RouteMatch, RouteId)> =
        (0..conditions.len()).map(|number| (matches(number), RouteId(number as u32))).collect();
    routes.push((any(), RouteId(2_000)));
    let needs = |route: RouteId| conditions.get(route.index()).map(Condition::needed).unwrap_or_default();
    let sorted = RouteTable::new(routes.clone()).unwrap().with_conditions(needs);
    for table in [sorted, RouteTable::in_order(routes).with_conditions(needs)] {
        for (tenants, path, expected) in [
            (vec!["t0"], "/", 0),
            (vec!["t999"], "/p7/x", 999),
            (vec!["other", "t500", "t17"], "/p7/x", 17),
            (vec!["other"], "/p7/x", 1_007),
            (vec![], "/p999/", 1_999),
            (vec![], "/p", 2_000),
            (vec![""], "", 2_000),
        ] {
            let request = Counting::new(path, "");
            let request = Conditioned { request, tenants, conditions: &conditions, is_open: true };
            assert_eq!(table.lookup(&request), Some(RouteId(expected)), "{path}");
            let asked = request.request.asked.get();
            assert!(asked < 6, "{path}: asked {asked} times");
        }
        // A client that repeats itself has no condition asked for each line.
        let request = Counting::new("/p1/", "");
        let tenants = vec!["t998"; 10_000];
        let request = Conditioned { request, tenants, conditions: &conditions[..], is_open: true };
        assert_eq!(table.lookup(&request), Some(RouteId(998)));
        assert!(request.request.asked.get() <= 2_001, "asked {} times", request.request.asked.get());
    }
}

proptest! {
    /// The index changes no answer, whatever the conditions need and whatever a request has.
    #[test]
    fn an_index_of_conditions_changes_no_answer(
        routes in prop::collection::vec(
            (
                prop::collection::vec(prop::sample::select(vec!["", "a", "b", "c"]), 0..3),
                prop::sample::select(vec!["", "/", "/a", "/ab", "/a/b", "/b"]),
                prop::option::of(prop::sample::select(vec!["/", "/a", "/b"])),
                any_option(),
            ),
            0..16,
        ),
        requests in prop::collection::vec(
            (
                prop::collection::vec(prop::sample::select(vec!["", "a", "b", "x"]), 0..4),
                prop::sample::select(vec!["/", "/a", "/ab", "/abc", "/a/b/c", "/b", "/x"]),
            ),
            1..20,
        ),
    ) {
        let conditions: Vec<Condition> = routes
            .iter()
            .map(|(tenants, path, ..)| Condition { tenants: tenants.clone(), path })
            .collect();
        let given: Vec<(RouteMatch, RouteId)> = routes
            .iter()
            .enumerate()
            .map(|(number, (.., path, method))| {
                let path = path.map_or(PathMatch::ANY, |path| PathMatch::prefix(path).unwrap());
                let methods = method.map(|method| MethodMatch::parse(method).unwrap()).into_iter().collect();
                (RouteMatch { path, methods, ..when(&number.to_string()) }, RouteId(number as u32))
            })
            .collect();
        let needs = |route: RouteId| conditions[route.index()].needed();
        let plain = RouteTable::new(given.clone()).unwrap();
        let indexed = RouteTable::new(given.clone()).unwrap().with_conditions(needs);
        let plain_in_order = RouteTable::in_order(given.clone());
        let indexed_in_order = RouteTable::in_order(given).with_conditions(needs);
        for (tenants, path) in requests {
            for is_open in [true, false] {
                let request = Counting::new(path, "");
                let request = Conditioned { request, tenants: tenants.clone(), conditions: &conditions, is_open };
                prop_assert_eq!(indexed.lookup(&request), plain.lookup(&request));
                prop_assert_eq!(indexed_in_order.lookup(&request), plain_in_order.lookup(&request));
            }
        }
    }
}

fn any_option() -> impl Strategy<Value = Option<&'static str>> {
    prop::option::of(prop::sample::select(vec!["GET", "POST"]))
}
