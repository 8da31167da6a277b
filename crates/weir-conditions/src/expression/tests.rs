//! Tests of conditions: what holds, what is wrong with a text, and what bounds everything.

use std::collections::HashMap;
use std::net::IpAddr;

use proptest::prelude::*;
use weir_traffic::route::NeededTest;

use super::error::ExpressionError;
use super::evaluate::Facts;
use super::names::{NameError, Names, ValueType};
use super::parsed::{EXPRESSION_BYTES_MAX, Expression};
use super::step::TERMS_MAX;

/// Names of an exchange, with the type that their first part says.
struct TestNames;

impl Names for TestNames {
    type Value = String;

    fn resolve(&self, parts: &[&str]) -> Result<(String, ValueType), NameError> {
        let value_type = match parts {
            ["method" | "path" | "host"] | ["header" | "cookie", _] | ["tls", "version"] => ValueType::Text,
            ["status" | "port"] => ValueType::Number,
            ["client_address"] => ValueType::Address,
            ["tls"] => ValueType::Flag,
            _ => {
                let message = format!("there is no `{}`", parts.join("."));
                return Err(NameError { message, help: None });
            }
        };
        Ok((parts.join("."), value_type))
    }
}

/// Values of an exchange, several with a line each.
struct TestFacts(HashMap<&'static str, &'static str>);

impl TestFacts {
    fn get(&self, name: &str) -> Option<&'static str> {
        self.0.get(name).copied()
    }
}

impl Facts<String> for TestFacts {
    fn any_text(&self, value: &String, mut passes: impl FnMut(&[u8]) -> bool) -> bool {
        self.get(value).unwrap_or_default().split('\n').any(|line| passes(line.as_bytes()))
    }

    fn is_present(&self, value: &String) -> bool {
        self.get(value).is_some()
    }

    fn number(&self, value: &String) -> Option<i64> {
        self.get(value)?.parse().ok()
    }

    fn address(&self, value: &String) -> Option<IpAddr> {
        self.get(value)?.parse().ok()
    }

    fn flag(&self, value: &String) -> bool {
        self.get(value) == Some("true")
    }
}

fn facts() -> TestFacts {
    TestFacts(HashMap::from([
        ("method", "GET"),
        ("path", "/api/Users"),
        ("host", "www.example.com"),
        ("header.x-debug", "0\n1"),
        ("header.user-agent", "curl/8.5.0"),
        ("header.content-length", "1500"),
        ("header.x-token", "abc"),
        ("cookie.token", "abc"),
        ("status", "503"),
        ("client_address", "192.0.2.7"),
        ("tls", "true"),
        ("tls.version", "1.3"),
    ]))
}

fn read(text: &str) -> Result<Expression<String>, ExpressionError> {
    Expression::new(text, &TestNames)
}

#[test]
fn conditions_hold() {
    for text in [
        "true",
        "tls",
        "!false",
        "tls == true && tls != false",
        "method == 'GET'",
        "'GET' == method",
        "method in [\"GET\", \"HEAD\"]",
        "!(method in ['POST'])",
        "path.startsWith('/api') && path.endsWith('Users') && path.contains('i/U')",
        "path.lowerAscii() == '/api/users' && path.lowerAscii().endsWith('/users')",
        "path.lowerAscii().contains('i/us') && path.lowerAscii().startsWith('/api/u')",
        "path.lowerAscii() in ['/x', '/api/users'] && path.lowerAscii().matches('^/API')",
        r#"path.matches(r"^/api/\w+$") && path.matches("^/api/\\w+$")"#,
        r#"header["x-debug"] == "1" && header['x-debug'] == '0'"#,
        "header.x_none == '' && !has(header.x_none) && has(header['x-token'])",
        "header['x-token'] == cookie.token && header['x-none'] != cookie.none",
        "status >= 500 && status < 600 && 503 == status && 500 < status && status in [502, 503]",
        "status != 200 && !(status == 200)",
        "int(header['content-length']) > 1000 && size(path) == 10 && path.size() <= 10",
        "client_address in ['192.0.2.0/24', '2001:db8::/32'] && client_address == '192.0.2.7'",
        "!(client_address in ['10.0.0.0/8']) && client_address != '192.0.2.8'",
        "ip(header['x-token']) != '192.0.2.1'",
        "false || false || status == 503",
        "status == 200 || tls && method == 'GET'",
        "(status == 200 || tls) && method == 'GET'",
        "status == 200 && tls || method == 'GET'",
        "port == -1 || true",
    ] {
        let condition = read(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert!(condition.holds(&facts()), "{text}");
        assert!(condition.trace(&facts()).0, "{text}");
        let negated = format!("!({text})");
        assert!(!read(&negated).expect("it is well-formed").holds(&facts()), "{negated}");
    }
}

#[test]
fn what_is_missing_is_equal_to_nothing_but_an_empty_text() {
    for text in [
        "port == 0",
        "port < 1",
        "port > -1",
        "header.none == header.other",
        "header.none == 'x'",
        "int(header.none) >= 0",
        "ip(header.none) in ['0.0.0.0/0', '::/0']",
        "tls.version == '1.2'",
    ] {
        assert!(!read(text).expect("it is well-formed").holds(&facts()), "{text}");
    }
}

#[test]
fn no_line_hides_another() {
    let deny = read("header['x-debug'] == '1'").expect("it is well-formed");
    assert!(deny.holds(&facts()));
    let all_but = read("header['x-debug'] != '0'").expect("it is well-formed");
    assert!(!all_but.holds(&facts()), "one of the lines is 0");
}

/// A value that is there twice says nothing of which one a server takes, and comparing all with all would be quadratic.
#[test]
fn two_values_are_compared_when_each_is_there_once() {
    let same = read("header.a == header.b").expect("it is well-formed");
    let other = read("header.a != header.b").expect("it is well-formed");
    for (first, second, are_same) in
        [("1", "1", true), ("1", "2", false), ("1\n1", "1", false), ("1", "2\n1", false), ("", "", true)]
    {
        let facts = TestFacts(HashMap::from([("header.a", first), ("header.b", second)]));
        assert_eq!((same.holds(&facts), other.holds(&facts)), (are_same, !are_same), "{first:?} {second:?}");
    }
}

#[test]
fn later_comparisons_are_asked_only_where_they_count() {
    let condition =
        read("status == 200 && tls || method == 'GET' || path == '/'").expect("it is well-formed");
    let (holds, outcomes) = condition.trace(&facts());
    assert!(holds);
    let asked: Vec<_> =
        outcomes.iter().map(|outcome| (&condition.text()[outcome.span.clone()], outcome.holds)).collect();
    assert_eq!(
        asked,
        [
            ("status == 200", Some(false)),
            ("tls", None),
            ("method == 'GET'", Some(true)),
            ("path == '/'", None)
        ]
    );
    assert_eq!(condition.values().collect::<Vec<_>>(), ["status", "tls", "method", "path"]);
    assert_eq!(condition.terms().len(), 4);
}

#[test]
fn what_secrets_are_compared_with_is_hidden() {
    let text = "header['x-token'] in ['abc', \"de\"] && path == '/a' || !(header['x-token'] == r'f' && 'g' == header['x-token'])";
    let condition = read(text).expect("it is well-formed");
    assert_eq!(
        condition.hiding(|value| value == "header.x-token", "-"),
        "header['x-token'] in [\"-\", \"-\"] && path == '/a' || !(header['x-token'] == \"-\" && \"-\" == header['x-token'])"
    );
    assert_eq!(condition.hiding(|_| false, "-"), text);
}

/// What is wrong with a condition, with the bytes that are marked.
fn wrong(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("{text} is read"),
        Err(ExpressionError { span, message, help }) => {
            format!("[{}] {message}; {}", &text[span], help.unwrap_or_default())
        }
    }
}

#[test]
fn mistakes_are_explained_with_a_correction() {
    for (text, expected) in [
        ("", "[] the condition ends here, and a name, a text or a number is expected here; "),
        (
            "path",
            "[path] this is a text, and a condition is expected here; compare it: `NAME == \"...\"`, or ask whether it is there: `has(NAME)`",
        ),
        ("path = '/'", "[=] `=` is no sign of a condition; write `==` to compare"),
        ("path == '/' and tls", "[and] `and` stands where `&&` or `||` is expected; write `&&`"),
        ("path == '/' & tls", "[&] `&` is no sign of a condition; write `&&`"),
        ("not tls", "[not] `not` is no word of a condition; write `!`"),
        ("path ~ '^/a'", "[~] `~` is no sign of a condition; write `NAME.matches(\"REGEX\")`"),
        (
            "$uri == '/'",
            "[$] `$` is no sign of a condition; variables have no `$`: `header[\"user-agent\"]`, `host`, `path`, `client_address`",
        ),
        (
            "{path} == '/'",
            "[{] `{` is no sign of a condition; names stand without braces here: `path`, not `{path}`",
        ),
        ("path == '/", "['/] the text is not closed by a quote; "),
        ("pfad == '/'", "[pfad] there is no `pfad`; "),
        ("status == '200'", "['200'] `==` cannot compare a number with a text; write `200` without quotes"),
        (
            "path == 5",
            "[5] `==` cannot compare a text with a number; write `\"5\"`, or `int(NAME)` on the other side",
        ),
        (
            "path > '/a'",
            "[>] `>` is for numbers, and these are texts; write `int(NAME)` for the number that a text is",
        ),
        ("path == ['/a']", "[['/a']] `==` cannot compare a text with a list; write `in` for a list"),
        (
            "path in '/a'",
            "['/a'] `in` has a list on its right, and this is a text; write `[\"...\", \"...\"]`",
        ),
        ("path in []", "[[]] the list is empty, so nothing is in it; put long lists into a map"),
        (
            "client_address == '10.0.0.0/8'",
            "['10.0.0.0/8'] \"10.0.0.0/8\" is no IP address; write `in [\"10.0.0.0/8\"]` for a network",
        ),
        (
            "client_address in ['10.0.0.1/8']",
            "['10.0.0.1/8'] \"10.0.0.1/8\" is an address within its network; write \"10.0.0.0/8\"",
        ),
        (
            "client_address == 10.0.0.1",
            "[10] numbers are whole, and an address is a text; write an address or a network in quotes: `client_address in [\"192.0.2.0/24\"]`",
        ),
        ("path.starts_with('/a')", "[starts_with] there is no function `starts_with`; write `startsWith`"),
        ("path.toLower() == 'a'", "[toLower] there is no function `toLower`; write `lowerAscii`"),
        ("startsWith(path, '/a')", "[startsWith] `startsWith` has the form `NAME.startsWith(\"...\")`; "),
        ("status.startsWith('5')", "[status] `startsWith` is for texts, and this is a number; "),
        (
            "path.matches('(')",
            "['('] the regular expression is malformed: unclosed group; write `r\"...\"`, in which a backslash is one",
        ),
        (
            "path.lowerAscii() == '/API'",
            "['/API'] this is compared with a text in lower case, and has capitals; write \"/api\"",
        ),
        (
            "header.agent-id == 'x'",
            "[-] `-` is no sign of a condition; a name with a dash needs brackets and quotes: `header[\"user-agent\"]`",
        ),
        ("size(path)", "[size(path)] this is a number, and no condition; compare it: `size(query) > 1000`"),
        ("1 == 1", "[1 == 1] two constants are compared; one side is a name"),
        ("status == 5 == 6", "[==] two comparisons in a row; join them with `&&`"),
        ("(tls", "[(] this is not closed by `)`; "),
        ("tls)", "[)] `)` stands where `&&` or `||` is expected; "),
        (
            "path == \"\\q\"",
            "[\\q] `\\q` is no escape; write `\\\\` for a backslash, or `r\"...\"`, in which each stands for itself",
        ),
        ("tls ? 1 : 2", "[?] `?` is no sign of a condition; there is no `?:`: write two rules, or use a map"),
    ] {
        assert_eq!(wrong(text), expected, "{text}");
    }
}

#[test]
fn everything_is_bounded() {
    assert!(wrong(&"(".repeat(100)).contains("levels deep"));
    assert!(wrong(&"!".repeat(100)).contains("levels deep"));
    assert!(wrong(&vec!["tls"; TERMS_MAX + 1].join("&&")).contains("comparisons at most"));
    assert!(wrong(&"x".repeat(EXPRESSION_BYTES_MAX + 1)).contains("4096 bytes at most"));
    assert!(wrong(&format!("status in [{}]", vec!["1"; 257].join(","))).contains("256 members"));
    assert!(read(&vec!["tls"; TERMS_MAX].join("||")).is_ok());
}

#[test]
fn conditions_say_which_texts_they_need() {
    let one_of =
        |texts: &[&'static str]| NeededTest::OneOf(texts.iter().map(|text| text.as_bytes()).collect());
    let prefix = |text: &'static str| NeededTest::Prefix(text.as_bytes());
    for (text, needed) in [
        ("path == '/a'", vec![(0, "path", one_of(&["/a"]))]),
        (
            "tls && ('x' == host && path.startsWith('/a'))",
            vec![(1, "host", one_of(&["x"])), (2, "path", prefix("/a"))],
        ),
        ("path.matches('^/a/.*[.]php$')", vec![(0, "path", prefix("/a/"))]),
        ("host in ['b', 'a'] && status == 200", vec![(0, "host", one_of(&["a", "b"]))]),
        ("!(host != 'b') && has(host)", vec![]),
        ("host == 'a' || host == 'b'", vec![]),
        ("(host == 'a' || tls) && path == ''", vec![(2, "path", one_of(&[""]))]),
        ("host != 'a' && path.startsWith('') && path.endsWith('x') && path.contains('x')", vec![]),
        ("path.lowerAscii() == '/a' && path.lowerAscii() in ['/a'] && path.matches('(?i)^x')", vec![]),
        ("header['x-token'] == cookie.token && size(path) == 1 && client_address == '192.0.2.1'", vec![]),
        ("true && true", vec![]),
    ] {
        let condition = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let found: Vec<_> =
            condition.needed_texts().map(|(term, value, test)| (term, value.as_str(), test)).collect();
        assert_eq!(found, needed, "{text}");
    }
}

#[test]
fn asking_allocates_nothing() {
    let condition = read(
        "method in ['GET', 'HEAD'] && path.startsWith('/api') && header['user-agent'].matches('^curl/') \
         && client_address in ['192.0.2.0/24'] && status >= 500",
    )
    .expect("it is well-formed");
    let facts = facts();
    let mut holds = false;
    let allocated = allocation_counter::measure(|| holds = condition.holds(&facts));
    // The values of the test are joined texts, found without allocating.
    assert!(holds);
    assert_eq!(allocated.count_total, 0);
}

/// A condition of random parts, and what it comes to.
fn random_condition() -> impl Strategy<Value = (String, bool)> {
    let leaf = prop_oneof![
        Just(("true".to_owned(), true)),
        Just(("false".to_owned(), false)),
        Just(("tls".to_owned(), true)),
        Just(("status == 200".to_owned(), false)),
        Just(("method != 'PUT'".to_owned(), true)),
        Just(("path == '/api/Users'".to_owned(), true)),
        Just(("path.startsWith('/x')".to_owned(), false)),
        Just(("path.matches('^/api/U')".to_owned(), true)),
        Just(("header['x-debug'] in ['1', '2']".to_owned(), true)),
        Just(("header['x-none'] == ''".to_owned(), true)),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|(text, holds)| (format!("!({text})"), !holds)),
            proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| {
                let texts: Vec<String> = parts.iter().map(|(text, _)| format!("({text})")).collect();
                (texts.join(" && "), parts.iter().all(|(_, holds)| *holds))
            }),
            proptest::collection::vec(inner, 1..4).prop_map(|parts| {
                let texts: Vec<String> = parts.iter().map(|(text, _)| format!("({text})")).collect();
                (texts.join(" || "), parts.iter().any(|(_, holds)| *holds))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn jumps_do_not_change_the_answer((text, expected) in random_condition()) {
        if let Ok(condition) = read(&text) {
            prop_assert_eq!(condition.holds(&facts()), expected, "{}", text);
        }
    }

    /// A search for conditions by what they need misses none that holds.
    #[test]
    fn what_holds_has_what_it_needs((text, _) in random_condition()) {
        if let Ok(condition) = read(&text)
            && condition.holds(&facts())
        {
            for (term, value, test) in condition.needed_texts() {
                let passes = |text: &[u8]| match &test {
                    NeededTest::OneOf(texts) => texts.contains(&text),
                    NeededTest::Prefix(prefix) => text.starts_with(prefix),
                };
                prop_assert_eq!(condition.any_text(term, &facts(), passes), Some(true), "{} {}", text, value);
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}") {
        _ = read(&text);
    }

    #[test]
    fn no_row_of_words_makes_it_panic(
        words in proptest::collection::vec(
            prop_oneof![
                Just("path"), Just("tls"), Just("status"), Just("=="), Just("in"), Just("&&"), Just("!"), Just("("),
                Just(")"), Just("["), Just("]"), Just("'x'"), Just("1"), Just("-"), Just("."), Just("size"), Just(","),
                Just("has"), Just("matches"), Just("client_address"), Just("true"), Just("r'('"),
            ],
            0..14,
        ),
    ) {
        if let Ok(condition) = read(&words.join(" ")) {
            let (holds, _) = condition.trace(&facts());
            prop_assert_eq!(holds, condition.holds(&facts()));
        }
    }
}
