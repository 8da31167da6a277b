//! Routes as a whole: tables of examples, and random tables against an oracle that tries every route.

use std::cmp::Reverse;
use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

mod many;

/// A request as plain text.
#[derive(Debug, Clone)]
struct TestRequest {
    host: &'static str,
    path: &'static str,
    query: &'static str,
    method: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    source: IpAddr,
}

impl RouteRequest for TestRequest {
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
        self.headers.iter().find(|(one, _)| *one == name).map(|(_, value)| value.as_bytes())
    }
    fn header_lines(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.headers.iter().filter(move |(one, _)| *one == name).map(|(_, value)| value.as_bytes())
    }
    fn source(&self) -> IpAddr {
        self.source
    }
    /// Those of the routes that the fields `holds` name.
    fn condition_holds(&self, route: RouteId) -> bool {
        self.header_lines("holds").any(|number| number == route.0.to_string().as_bytes())
    }
}

fn get(host: &'static str, path: &'static str) -> TestRequest {
    let source = "192.0.2.1".parse().unwrap();
    TestRequest { host, path, query: "", method: "GET", headers: Vec::new(), source }
}

fn hosts(texts: &[&str]) -> Vec<HostPattern> {
    texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect()
}

fn prefix(host: &str, path: &str) -> RouteMatch {
    RouteMatch { hosts: hosts(&[host]), path: PathMatch::prefix(path).unwrap(), ..RouteMatch::default() }
}

fn any() -> RouteMatch {
    RouteMatch::default()
}

/// With a condition of this text.
fn when(condition: &str) -> RouteMatch {
    RouteMatch { condition: Some(condition.into()), ..any() }
}

fn header(name: &str, value: ValueMatch) -> FieldMatch {
    FieldMatch::new(name, value).unwrap()
}

fn table(routes: &[RouteMatch]) -> Result<RouteTable, Vec<Tie>> {
    let routes = routes.iter().cloned().zip((0..).map(RouteId));
    RouteTable::new(routes.collect()).map(RouteTable::with_filters)
}

#[test]
fn the_most_specific_route_wins() {
    let regex = |text| RouteMatch { path: PathMatch::regex(text).unwrap(), ..any() };
    let exact = |text| RouteMatch { path: PathMatch::exact(text).unwrap(), ..any() };
    let methods = vec![MethodMatch::parse("get").unwrap()];
    let net = |text: &str| vec![text.parse().unwrap()];
    // Each pair: the first wins over the second for the request, whichever is written first.
    for (winner, loser, request) in [
        (prefix("a.com", "/"), prefix("*.com", "/x/y"), get("a.com", "/x/y")),
        (prefix("*.b.com", "/"), prefix("*.com", "/x"), get("a.b.com", "/x")),
        (prefix("*.com", "/"), exact("/x"), get("a.com", "/x")),
        (exact("/x"), regex("^/x$"), get("", "/x")),
        (regex("x"), prefix("*", "/x"), get("", "/x")),
        (prefix("*", "/x"), prefix("*", "/"), get("", "/x")),
        (prefix("*", "/x/"), prefix("*", "/x"), get("", "/x/y")),
        (prefix("*", "/"), any(), get("", "/")),
        (
            RouteMatch { methods, ..any() },
            RouteMatch { headers: vec![header("a", ValueMatch::Absent); 3], ..any() },
            get("", "/"),
        ),
        (
            RouteMatch { headers: vec![header("a", ValueMatch::Absent)], ..any() },
            RouteMatch { query: vec![QueryMatch::new("q", ValueMatch::Absent).unwrap()], ..any() },
            get("", "/"),
        ),
        (
            RouteMatch { query: vec![QueryMatch::new("q", ValueMatch::Absent).unwrap()], ..any() },
            RouteMatch { sources: net("192.0.2.1/32"), ..any() },
            get("", "/"),
        ),
        (
            RouteMatch { sources: net("192.0.2.0/24"), ..any() },
            RouteMatch { sources: net("192.0.0.0/16"), ..any() },
            get("", "/"),
        ),
        (
            RouteMatch { sources: net("192.0.0.0/16"), ..any() },
            when("a"),
            TestRequest { headers: vec![("holds", "0"), ("holds", "1")], ..get("", "/") },
        ),
        (
            when("a"),
            RouteMatch { priority: 1, ..any() },
            TestRequest { headers: vec![("holds", "0"), ("holds", "1")], ..get("", "/") },
        ),
        (RouteMatch { priority: 1, ..any() }, any(), get("", "/")),
        (any(), RouteMatch { priority: -1, ..any() }, get("", "/")),
    ] {
        let there = table(&[winner.clone(), loser.clone()]).unwrap();
        assert_eq!(there.lookup(&request), Some(RouteId(0)), "{winner:?} over {loser:?}");
        let back = table(&[loser.clone(), winner.clone()]).unwrap();
        assert_eq!(back.lookup(&request), Some(RouteId(1)), "{winner:?} over {loser:?}, written later");
    }
}

#[test]
fn a_less_specific_host_catches_what_the_others_leave() {
    let routes = [prefix("a.com", "/x"), prefix("*.com", "/y"), prefix("*", "/z")];
    let table = table(&routes).unwrap();
    for (host, path, expected) in [
        ("a.com", "/x", Some(0)),
        ("a.com", "/y", Some(1)),
        ("A.com.", "/z", Some(2)),
        ("b.com", "/x", None),
        ("b.com", "/y/1", Some(1)),
        ("", "/y", None),
        ("", "/z", Some(2)),
    ] {
        assert_eq!(table.lookup(&get(host, path)), expected.map(RouteId), "{host}{path}");
    }
}

#[test]
fn hosts_of_any_length_are_looked_up() {
    let table = table(&[prefix("*.com", "/"), any()]).unwrap();
    for len in [1, 7, 8, 9, 249, 250, 5_000] {
        for (suffix, expected) in [(".com", 0), (".COM.", 0), (".org", 1), ("com", 1)] {
            let host: &'static str = format!("{}{suffix}", "a".repeat(len)).leak();
            assert_eq!(table.lookup(&get(host, "/")), Some(RouteId(expected)), "{len} and {suffix}");
        }
    }
}

#[test]
fn prefixes_are_found_among_their_neighbours() {
    let prefixes = ["/", "/a", "/a/b", "/a/b/", "/ab", "/a-b", "/b/c/d"];
    let table = table(&prefixes.map(|text| prefix("*", text))).unwrap();
    for (path, expected) in [
        ("/", Some("/")),
        ("/a", Some("/a")),
        ("/a/", Some("/a")),
        ("/a/b", Some("/a/b")),
        ("/a/b/", Some("/a/b/")),
        ("/a/b/c", Some("/a/b/")),
        ("/a/bc", Some("/a")),
        ("/ab", Some("/ab")),
        ("/abc", Some("/")),
        ("/a-b/", Some("/a-b")),
        ("/a-bc", Some("/")),
        ("/b/c", Some("/")),
        ("/b/c/d/e", Some("/b/c/d")),
        ("*", None),
    ] {
        let found = table.lookup(&get("", path)).map(|route| prefixes[route.index()]);
        assert_eq!(found, expected, "{path}");
    }
}

/// With and without an index, which a table of a few routes has in tests.
#[test]
fn no_line_and_no_spelling_hides_another() {
    let debug = RouteMatch { headers: vec![header("x-debug", ValueMatch::exact("1"))], ..any() };
    let by_query =
        RouteMatch { query: vec![QueryMatch::new("debug", ValueMatch::exact("1")).unwrap()], ..any() };
    let others = ["2", "3"].map(|value| RouteMatch {
        headers: vec![header("x-debug", ValueMatch::exact(value))],
        query: vec![QueryMatch::new("debug", ValueMatch::exact(value)).unwrap()],
        ..any()
    });
    let asked = |headers, query| TestRequest { headers, query, ..get("a.com", "/") };
    for routes in
        [vec![any(), debug.clone(), by_query.clone()], [vec![any(), debug, by_query], others.into()].concat()]
    {
        let table = table(&routes).unwrap();
        for (request, expected) in [
            (asked(vec![("x-debug", "0"), ("x-debug", "1")], ""), 1),
            (asked(vec![("x-debug", "1"), ("x-debug", "0")], ""), 1),
            (asked(vec![("x-debug", "0, 1")], ""), 0),
            (asked(vec![], "debug=0&debug=1"), 2),
            (asked(vec![], "%64ebug=%31"), 2),
            (asked(vec![], "debug=01"), 0),
        ] {
            assert_eq!(table.lookup(&request), Some(RouteId(expected)), "{request:?}");
        }
    }
}

#[test]
fn ties_name_both_routes() {
    let get_only =
        |path| RouteMatch { methods: vec![MethodMatch::parse("GET").unwrap()], ..prefix("*", path) };
    let post_only =
        |path| RouteMatch { methods: vec![MethodMatch::parse("POST").unwrap()], ..prefix("*", path) };
    let with = |name, value| RouteMatch { headers: vec![header(name, value)], ..any() };
    let regex = |text| RouteMatch { path: PathMatch::regex(text).unwrap(), ..any() };
    let value_regex = |text| ValueMatch::regex(text).unwrap();
    let from = |net: &str| RouteMatch { sources: vec![net.parse().unwrap()], ..any() };
    for (a, b, tied) in [
        (any(), any(), true),
        (prefix("*", "/a"), prefix("*", "/a"), true),
        (prefix("*", "/a"), prefix("*", "/b"), false),
        (prefix("a.com", "/"), prefix("A.COM.", "/"), true),
        (prefix("a.com", "/"), prefix("b.com", "/"), false),
        (get_only("/"), get_only("/"), true),
        (get_only("/"), post_only("/"), false),
        (get_only("/"), prefix("*", "/"), false),
        (with("a", ValueMatch::Present), with("b", ValueMatch::Present), true),
        (with("a", ValueMatch::exact("1")), with("A", ValueMatch::exact("2")), false),
        (with("a", ValueMatch::Absent), with("a", ValueMatch::Present), false),
        (with("a", ValueMatch::Absent), with("a", ValueMatch::Absent), true),
        (with("a", ValueMatch::prefix("x")), with("a", ValueMatch::exact("xy")), true),
        (with("a", ValueMatch::prefix("x")), with("a", ValueMatch::exact("y")), false),
        (with("a", ValueMatch::prefix("x")), with("a", ValueMatch::prefix("xy")), true),
        (with("a", ValueMatch::prefix("x")), with("a", ValueMatch::prefix("y")), false),
        (with("a", value_regex("^x")), with("a", ValueMatch::prefix("y")), false),
        (with("a", value_regex("x")), with("a", ValueMatch::prefix("y")), true),
        (with("a", value_regex("^.$")), with("a", ValueMatch::prefix(".(")), false),
        (with("a", value_regex("^x")), with("a", value_regex("y$")), true),
        (with("a", value_regex("^x")), with("a", value_regex("^y")), false),
        (with("a", value_regex("^x")), with("a", ValueMatch::Present), true),
        (regex("^/a"), regex("^/b"), false),
        (regex("^/a"), regex("b$"), true),
        (from("10.0.0.0/8"), from("10.1.2.3/8"), true),
        (from("10.0.0.0/8"), from("10.0.0.0/16"), false),
        (from("10.0.0.0/8"), from("11.0.0.0/8"), false),
        (RouteMatch { priority: 1, ..any() }, any(), false),
        (when("a"), when("a"), true),
        (when("a"), when("b"), false),
        (when("a"), any(), false),
    ] {
        let result = table(&[a.clone(), b.clone()]);
        let expected = if tied { vec![Tie { first: RouteId(0), second: RouteId(1) }] } else { vec![] };
        assert_eq!(result.err().unwrap_or_default(), expected, "{a:?} and {b:?}");
    }
}

#[test]
fn every_tie_is_found_and_a_route_never_ties_with_itself() {
    let routes = [any(), prefix("*", "/a"), any(), prefix("*", "/a"), any()];
    let pairs: Vec<_> = table(&routes).unwrap_err().iter().map(|tie| (tie.first.0, tie.second.0)).collect();
    assert_eq!(pairs, [(0, 2), (0, 4), (1, 3), (2, 4)]);

    let several = RouteMatch { hosts: hosts(&["a.com", "A.com", "*.com"]), ..any() };
    let again = (several.clone(), RouteId(7));
    assert!(RouteTable::new(vec![(several, RouteId(7)), again]).is_ok(), "two alternatives of one route");
}

#[test]
fn of_different_conditions_the_first_that_holds_counts() {
    let plain = prefix("*", "/a");
    let with = |condition: &str| RouteMatch { condition: Some(condition.into()), ..plain.clone() };
    let routes = [plain.clone(), with("c"), with("b"), with("a"), any()];
    let table = table(&routes).unwrap();
    for (holding, expected) in
        [(&[][..], 0), (&["3"], 3), (&["3", "2"], 2), (&["3", "2", "1"], 1), (&["0", "4"], 0)]
    {
        let headers = holding.iter().map(|number| ("holds", *number)).collect();
        let request = TestRequest { headers, ..get("a.com", "/a/b") };
        assert_eq!(table.lookup(&request), Some(RouteId(expected)), "{holding:?}");
        let considered = table.explain(&request);
        assert_eq!(considered[0], Considered { route: RouteId(expected), outcome: RouteOutcome::Chosen });
        for one in considered.iter().filter(|one| (1..=3).contains(&one.route.0)) {
            let holds = holding.contains(&one.route.0.to_string().as_str());
            assert_eq!(one.outcome != RouteOutcome::Condition, holds, "{holding:?} {one:?}");
        }
    }
    assert_eq!(with("path == '/x'").to_string(), "host *, path prefix /a, when path == '/x'");
}

#[test]
fn methods_are_compared_as_sent() {
    let route = RouteMatch { methods: vec![MethodMatch::parse("purge").unwrap()], ..any() };
    let table = table(&[route]).unwrap();
    for (method, expected) in [("PURGE", true), ("purge", false), ("GET", false)] {
        let request = TestRequest { method, ..get("", "/") };
        assert_eq!(table.lookup(&request).is_some(), expected, "{method}");
    }
    assert_eq!(MethodMatch::parse("get").unwrap().as_str(), "GET");
    assert!(MethodMatch::parse("").is_err() && MethodMatch::parse("G ET").is_err());
}

#[test]
fn a_mapped_client_address_counts_as_ipv4() {
    let route = RouteMatch { sources: vec!["192.0.2.0/24".parse().unwrap()], ..any() };
    let table = table(&[route]).unwrap();
    for (source, expected) in
        [("192.0.2.9", true), ("::ffff:192.0.2.9", true), ("192.0.3.9", false), ("::1", false)]
    {
        let request = TestRequest { source: source.parse().unwrap(), ..get("", "/") };
        assert_eq!(table.lookup(&request).is_some(), expected, "{source}");
        assert_eq!(table.explain(&request)[0].outcome == RouteOutcome::Chosen, expected, "{source}");
    }
}

#[test]
fn explain_reports_the_first_reason() {
    let routes = [
        any(),
        prefix("b.com", "/"),
        prefix("a.com", "/other"),
        RouteMatch { methods: vec![MethodMatch::parse("POST").unwrap()], ..prefix("a.com", "/") },
        RouteMatch { headers: vec![header("X-Env", ValueMatch::Present)], ..prefix("a.com", "/") },
        RouteMatch {
            query: vec![QueryMatch::new("v", ValueMatch::exact("2")).unwrap()],
            ..prefix("a.com", "/")
        },
        RouteMatch { sources: vec!["10.0.0.0/8".parse().unwrap()], ..prefix("a.com", "/") },
        prefix("a.com", "/"),
    ];
    let table = table(&routes).unwrap();
    let considered = table.explain(&TestRequest { query: "v=1", ..get("a.com", "/x") });
    let found: Vec<_> = considered.into_iter().map(|one| (one.route.0, one.outcome)).collect();
    assert_eq!(
        found,
        [
            (7, RouteOutcome::Chosen),
            (0, RouteOutcome::LessSpecific),
            (1, RouteOutcome::Host),
            (2, RouteOutcome::Path),
            (3, RouteOutcome::Method),
            (4, RouteOutcome::Header("x-env".to_owned())),
            (5, RouteOutcome::Query("v".to_owned())),
            (6, RouteOutcome::Source),
        ]
    );
}

/// The order of the module's description, computed afresh for a route and a request it matches.
type Rank = (u8, usize, u8, usize, bool, usize, usize, u8, i32);

fn rank(route: &RouteMatch, request: &TestRequest) -> Option<Rank> {
    let host = request.host.trim_end_matches('.').to_ascii_lowercase();
    let hosts: Vec<String> = route.hosts.iter().map(ToString::to_string).collect();
    let host_rank = |pattern: &String| match pattern.strip_prefix('*') {
        Some("") => Some((0, 0)),
        Some(below) => (host.ends_with(below) && host.len() > below.len()).then_some((1, below.len())),
        None => (*pattern == host).then_some((2, 0)),
    };
    let host = if hosts.is_empty() { (0, 0) } else { hosts.iter().filter_map(host_rank).max()? };

    let shown = route.path.to_string();
    let (kind, text) = shown.split_once(' ').unwrap();
    let path = match kind {
        "any" => (0, 0),
        "prefix" => {
            let segments = format!("{}/", text.trim_end_matches('/'));
            let below = request.path.starts_with(&segments);
            // Of one text, the prefix goes before the beginning.
            (below || request.path == text).then_some((1, 2 * text.len() + 1))?
        }
        "beginning" => request.path.starts_with(text).then_some((1, 2 * text.len()))?,
        "regex" => regex::Regex::new(text).unwrap().is_match(request.path).then_some((2, 0))?,
        _ => (request.path == text).then_some((3, 0))?,
    };

    let matches =
        (route.methods.is_empty() || route.methods.iter().any(|method| method.as_str() == request.method))
            && route.headers.iter().all(|rule| rule.value().matches_any(request.header_lines(rule.name())))
            && route.query.iter().all(|rule| {
                rule.matches_values(query_values(request.query.as_bytes(), rule.name().as_bytes()))
            });
    let containing = route.sources.iter().filter(|net| net.contains(&request.source));
    let source = match containing.map(|net| net.prefix_len() + 1).max() {
        None if route.sources.is_empty() => 0,
        len => len?,
    };
    let rules = (!route.methods.is_empty(), route.headers.len(), route.query.len());
    matches.then_some((host.0, host.1, path.0, path.1, rules.0, rules.1, rules.2, source, route.priority))
}

const HOSTS: [&str; 6] = ["*", "a.com", "b.a.com", "*.a.com", "*.com", "c.b.a.com"];
const PREFIXES: [&str; 6] = ["/", "/a", "/a/", "/a/b", "/ab", "/a/b/c"];
const REGEXES: [&str; 5] = ["^/a", "b$", "^/a/b$", "^/[ab]+$", "^/c"];

fn value_match() -> impl Strategy<Value = ValueMatch> {
    prop_oneof![
        Just(ValueMatch::Present),
        Just(ValueMatch::Absent),
        Just(ValueMatch::exact("1")),
        Just(ValueMatch::exact("12")),
        Just(ValueMatch::prefix("1")),
        Just(ValueMatch::regex("^2").unwrap()),
    ]
}

fn route_match() -> impl Strategy<Value = RouteMatch> {
    let host = prop::collection::vec(prop::sample::select(&HOSTS), 0..3);
    let path = prop_oneof![
        Just(PathMatch::ANY),
        prop::sample::select(&PREFIXES).prop_map(|text| PathMatch::prefix(text).unwrap()),
        prop::sample::select(&PREFIXES).prop_map(|text| PathMatch::beginning(text).unwrap()),
        prop::sample::select(&PREFIXES).prop_map(|text| PathMatch::exact(text).unwrap()),
        prop::sample::select(&REGEXES).prop_map(|text| PathMatch::regex(text).unwrap()),
    ];
    let methods = prop::collection::vec(prop::sample::select(&["GET", "POST"]), 0..2);
    let headers = prop::collection::vec((prop::sample::select(&["x", "y"]), value_match()), 0..3);
    let query = prop::collection::vec(value_match(), 0..2);
    let sources = prop::collection::vec(prop::sample::select(&["10.0.0.0/8", "10.1.0.0/16", "::/0"]), 0..3);
    (host, path, methods, headers, query, sources, 0..2).prop_map(
        |(host, path, methods, headers, query, sources, priority)| RouteMatch {
            hosts: hosts(&host),
            path,
            methods: methods.iter().map(|text| MethodMatch::parse(text).unwrap()).collect(),
            headers: headers.into_iter().map(|(name, value)| header(name, value)).collect(),
            query: query.into_iter().map(|value| QueryMatch::new("q", value).unwrap()).collect(),
            sources: sources.iter().map(|text| text.parse().unwrap()).collect(),
            condition: None,
            priority,
            before_regex: false,
            precedence: 0,
        },
    )
}

fn request() -> impl Strategy<Value = TestRequest> {
    let host = prop::sample::select(&["a.com", "B.a.com.", "c.b.a.com", "x.com", "com", ""]);
    let path = prop::sample::select(&["/", "/a", "/a/", "/a/b", "/a/bc", "/ab", "/a/b/c/d", "/c", "*", "/b"]);
    let query = prop::sample::select(&["", "q=1", "q=12", "q", "z=1&q=2"]);
    let method = prop::sample::select(&["GET", "POST"]);
    let value = || prop::option::of(prop::sample::select(&["1", "12", "2", ""]));
    let source = prop::sample::select(&["10.1.0.1", "10.2.0.1", "192.0.2.1", "2001:db8::1"]);
    (host, path, query, method, value(), value(), source).prop_map(
        |(host, path, query, method, x, y, source)| TestRequest {
            host,
            path,
            query,
            method,
            headers: x.map(|value| ("x", value)).into_iter().chain(y.map(|value| ("y", value))).collect(),
            source: source.parse().unwrap(),
        },
    )
}

proptest! {
    /// Routes are added one by one; one that ties is left out. Then every request takes the route that the
    /// oracle ranks highest, and nothing else ranks as high: no tie went unnoticed.
    #[test]
    fn tables_agree_with_the_oracle(
        candidates in prop::collection::vec(route_match(), 1..12),
        requests in prop::collection::vec(request(), 40),
    ) {
        let mut routes = Vec::new();
        for candidate in candidates {
            routes.push(candidate);
            if table(&routes).is_err() {
                routes.pop();
            }
        }
        let table = table(&routes).unwrap();
        for request in &requests {
            let mut ranked: Vec<(Rank, RouteId)> = routes
                .iter()
                .zip((0..).map(RouteId))
                .filter_map(|(route, id)| Some((rank(route, request)?, id)))
                .collect();
            ranked.sort_by_key(|(rank, _)| Reverse(*rank));
            if let [(first, _), (second, _), ..] = ranked[..] {
                prop_assert_ne!(first, second, "an unnoticed tie");
            }
            prop_assert_eq!(table.lookup(request), ranked.first().map(|(_, id)| *id));
            let explained = table.explain(request);
            let matching = explained.iter().filter(|one| matches!(one.outcome, RouteOutcome::Chosen | RouteOutcome::LessSpecific));
            prop_assert_eq!(matching.count(), ranked.len(), "explain and lookup disagree");
        }
    }

    /// Routes with other hosts, paths, methods or priorities are never called a tie.
    #[test]
    fn routes_that_differ_in_host_path_or_method_do_not_tie(a in route_match(), b in route_match()) {
        let hosts_differ = !a.hosts.is_empty()
            && !b.hosts.is_empty()
            && a.hosts.iter().all(|host| !b.hosts.contains(host));
        let methods_differ = !a.methods.is_empty() && !b.methods.is_empty() && a.methods != b.methods;
        let paths_differ = a.path != b.path && !matches!((a.path.kind(), b.path.kind()), (path::PathKind::Regex(_), path::PathKind::Regex(_)));
        let priorities_differ = a.priority != b.priority;
        if hosts_differ || methods_differ || paths_differ || priorities_differ {
            prop_assert!(table(&[a, b]).is_ok());
        }
    }
}

#[test]
fn a_longest_prefix_goes_before_regexes_where_it_says_so() {
    let before = |host, path| RouteMatch { before_regex: true, ..prefix(host, path) };
    let regex = |text| RouteMatch { path: PathMatch::regex(text).unwrap(), ..any() };
    let table = table(&[
        before("*", "/images"),
        prefix("*", "/images/raw"),
        regex(r"\.png$"),
        RouteMatch { path: PathMatch::exact("/images/x.png").unwrap(), ..any() },
        RouteMatch { methods: vec![MethodMatch::parse("POST").unwrap()], ..before("*", "/forms") },
        prefix("*", "/"),
        RouteMatch { path: PathMatch::beginning("/images/ra").unwrap(), ..any() },
        RouteMatch { path: PathMatch::beginning("/down").unwrap(), before_regex: true, ..any() },
        RouteMatch { path: PathMatch::beginning("/images/raw").unwrap(), ..any() },
    ])
    .unwrap();
    let found = |request: &TestRequest| table.lookup(request).map(|route| route.0);
    for (path, expected) in [
        ("/images/rat", 6),
        ("/images/raws", 8),
        ("/images/raw", 1),
        ("/images/raws.png", 2),
        ("/downloads/a.png", 7),
        ("/images/a.png", 0),
        ("/images", 0),
        // Of nginx: the longest prefix alone says whether regexes are asked.
        ("/images/raw/a.png", 2),
        ("/images/raw/a", 1),
        ("/images/x.png", 3),
        ("/a.png", 2),
        ("/imagesx.png", 2),
        ("/forms/a.png", 2),
        ("/a", 5),
    ] {
        assert_eq!(found(&get("", path)), Some(expected), "{path}");
    }
    let post = TestRequest { method: "POST", ..get("", "/forms/a.png") };
    assert_eq!(found(&post), Some(4));
}

#[test]
fn in_the_order_of_the_routes_the_first_takes_a_request() {
    let routes = [
        RouteMatch { sources: vec!["192.0.2.0/24".parse().unwrap()], ..prefix("a.test", "/api") },
        RouteMatch { methods: vec![MethodMatch::parse("POST").unwrap()], ..any() },
        prefix("*.test", "/"),
        RouteMatch { path: PathMatch::exact("/api/x").unwrap(), hosts: hosts(&["a.test"]), ..any() },
        prefix("*", "/api"),
        prefix("*", "/api"),
    ];
    let table = RouteTable::in_order(routes.iter().cloned().zip((0..).map(RouteId)).collect());
    let found = |request: &TestRequest| table.lookup(request).map(|route| route.0);
    for (host, path, expected) in [
        ("a.test", "/api/x", Some(0)),
        ("A.test.", "/api", Some(0)),
        ("b.test", "/api", Some(2)),
        ("c", "/api/y", Some(4)),
        ("c", "/", None),
    ] {
        assert_eq!(found(&get(host, path)), expected, "{host}{path}");
    }
    let post = TestRequest { method: "POST", ..get("a.test", "/x") };
    assert_eq!(found(&post), Some(1));
    let outcomes: Vec<_> = table.explain(&get("a.test", "/api/x")).into_iter().collect();
    assert_eq!(outcomes[0], Considered { route: RouteId(0), outcome: RouteOutcome::Chosen });
    let later = outcomes.iter().filter(|one| one.outcome == RouteOutcome::Later);
    assert_eq!(later.map(|one| one.route.0).collect::<Vec<_>>(), [2, 3, 4, 5]);
}
