//! Maps and variables: where they may be used, what is shown of them, and what hostile texts do to them.

use weir_config::{CheckedConfig, Config, ConfigDiff, RuleOrder, Stage, TemplateFacts, TemplateValue};

/// A config with these tables and one route.
fn text(tables: &str, route: &str) -> String {
    format!(
        "{tables}\nlistener.web = {{ address = \":80\", route = [{{ path = \"/\", upstream = \"app\", {route} }}] }}\n\
         upstream.app.servers = [\"127.0.0.1:1\"]\n"
    )
}

fn errors(tables: &str, route: &str) -> Vec<String> {
    let checked = CheckedConfig::parse(&text(tables, route), "weir.toml");
    checked.diagnostics.errors().map(|error| checked.diagnostics.line(error)).collect()
}

/// Users with one name and a hash of a password.
const USERS: &str =
    "basic = { users = { ann = \"$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm\" } }";

#[test]
fn what_a_map_is_made_of_decides_where_it_may_be_used() {
    let of = |source: &str| format!("map.x = {{ source = \"{source}\", exact = {{ a = \"b\" }} }}");
    let in_values = "map.x = { source = \"{host}\", exact = { a = \"{user}\" } }";
    let through = "map.x = { source = \"{map.y}\", exact = { a = \"b\" } }\nmap.y = { source = \"{user}\", exact = { a = \"b\" } }";
    let when = "when = \"map.x == 'b'\"";
    let request = "request_headers.set = { x-a = \"{map.x}\" }";
    let response = "response_headers.set = { x-a = \"{map.x}\" }";
    for (tables, route, works) in [
        (of("{host}"), when.to_owned(), true),
        (of("{user}"), when.to_owned(), false),
        (of("{user}"), format!("{when}, {USERS}"), false),
        (of("{user}"), request.to_owned(), false),
        (of("{user}"), format!("{request}, {USERS}"), true),
        (in_values.to_owned(), request.to_owned(), false),
        (in_values.to_owned(), format!("{request}, {USERS}"), true),
        (through.to_owned(), request.to_owned(), false),
        (through.to_owned(), format!("{request}, {USERS}"), true),
        (of("{status}"), request.to_owned(), false),
        (of("{status}"), response.to_owned(), true),
        (of("{server}"), request.to_owned(), true),
        (of("{server}"), when.to_owned(), false),
        (of("{host}"), "vars = { y = \"{map.x}\" }, when = \"vars.y == 'b'\"".to_owned(), true),
        (of("{status}"), "vars = { y = \"{map.x}\" }, when = \"vars.y == 'b'\"".to_owned(), false),
    ] {
        let found = errors(&tables, &route);
        assert_eq!(found.is_empty(), works, "{tables} {route}: {found:?}");
    }
    let tcp = |source: &str| {
        format!(
            "map.x = {{ source = \"{source}\", network = {{ \"10.0.0.0/8\" = \"b\" }} }}\nlimit.l = {{ key = \"{{map.x}}\", concurrent = 1 }}\n\
             listener.raw = {{ address = \":80\", protocol = \"tcp\", upstream = \"app\", limited_by = [\"l\"] }}\nupstream.app.servers = [\"127.0.0.1:1\"]\n"
        )
    };
    assert!(Config::parse(&tcp("{client_address}"), "weir.toml").is_ok());
    assert!(Config::parse(&tcp("{path}"), "weir.toml").is_err());
}

#[test]
fn rules_are_asked_once_what_their_map_is_made_of_is_known() {
    let tables = "map.x = { source = \"{user}\", exact = { a = \"b\" } }\nmap.y = { source = \"{host}\", exact = { a = \"b\" } }\n\
         list.by_user = { action = \"deny\", key = \"{map.x}\", entries = [\"b\"] }\nlist.by_host = { action = \"deny\", key = \"{map.y}\", entries = [\"b\"] }";
    let route = format!("lists = [\"by_user\", \"by_host\"], {USERS}");
    let config = Config::parse(&text(tables, &route), "weir.toml").expect("it is well-formed");
    let order = RuleOrder::new(&config.lists);
    let stages = config.lists.iter().map(|list| order.of_list(list));
    assert_eq!(stages.collect::<Vec<_>>(), [Stage::Identity, Stage::Route]);
}

/// A value that doubles with each variable, and a chain that is deeper than the bound: both are refused before anything is evaluated.
#[test]
fn what_a_value_leads_to_is_bounded() {
    let doubling = (0..40).map(|at| format!("v{at} = \"{{vars.v{0}}}{{vars.v{0}}}\", ", at + 1));
    let deep = (0..2_000).map(|at| format!("v{at} = \"{{vars.v{}}}\", ", at + 1));
    for (variables, last) in [(doubling.collect::<String>(), 40), (deep.collect::<String>(), 2_000)] {
        let route = format!(
            "vars = {{ {variables} v{last} = \"x\" }}, request_headers.set = {{ x-a = \"{{vars.v0}}\" }}"
        );
        let found = errors("", &route);
        assert!(
            found.iter().any(|error| error.contains("maps and variables for one value")),
            "{:?}",
            found.first()
        );
    }
    let some = (0..20).map(|at| format!("v{at} = \"{{vars.v{}}}\", ", at + 1)).collect::<String>();
    let route = format!("vars = {{ {some} v20 = \"x\" }}, request_headers.set = {{ x-a = \"{{vars.v0}}\" }}");
    assert_eq!(errors("", &route), [""; 0]);
}

#[test]
fn secrets_are_not_shown() {
    let tables = "map.x = { source = \"{cookie.session}\", exact = { hush-20 = \"ann\" } }\nmap.api_token = { source = \"{host}\", exact = { a = \"hush-21\" } }";
    let route = "vars = { token = \"hush-22\" }, request_headers.set = { x-a = \"{map.x}{map.api_token}{vars.token}\" }";
    let config = Config::parse(&text(tables, route), "weir.toml").expect("it is well-formed");
    let shown = config.dump.to_string();
    let told: Vec<&str> = shown.lines().filter(|line| line.contains("hush")).collect();
    assert!(told.is_empty() && shown.contains("[map.api_token]") && shown.contains("\"ann\""), "{told:?}");
}

#[test]
fn a_changed_map_is_a_difference_that_applies_from_the_next_request_on() {
    let of = |value: &str| {
        let tables = format!("map.x = {{ source = \"{{host}}\", exact = {{ a = \"{value}\" }} }}");
        CheckedConfig::parse(&text(&tables, "request_headers.set = { x-a = \"{map.x}\" }"), "weir.toml")
    };
    let difference = ConfigDiff::between(&of("b"), &of("c"));
    let shown = format!("{difference:?}");
    assert!(shown.contains("Map(\"x\")") && shown.contains("NextRequest"), "{shown}");
    assert!(!format!("{:?}", ConfigDiff::between(&of("b"), &of("b"))).contains("Map("));
}

/// What a client may send.
struct Hostile<'a>(&'a [u8]);

impl TemplateFacts for Hostile<'_> {
    fn count(&self, _: &TemplateValue) -> usize {
        1
    }

    fn write_nth(&self, value: &TemplateValue, _: usize, out: &mut Vec<u8>) {
        match value {
            TemplateValue::Map(map) => map.map().expect("it is defined").write(self, 0, out),
            value => self.write_first(value, out),
        }
    }

    fn write_first(&self, value: &TemplateValue, out: &mut Vec<u8>) {
        match value {
            TemplateValue::Map(map) => map.map().expect("it is defined").write(self, 0, out),
            _ => out.extend_from_slice(self.0),
        }
    }
}

/// Ten thousand texts of bytes that entries begin and end with, in any order: nothing panics, what stands before stays, and a value is one of those of the
/// map or made of the text. Expressions that take others exponential time are among them.
#[test]
fn hostile_texts_are_looked_up() {
    let tables = r#"
        map.inner = { source = "{path}", default = "none", regex = { '^(a+)+$' = "as", '(.*)(.*)(.*)x$' = "{match.1}" } }
        map.x.source = "<{path}>"
        map.x.default = "{map.inner}"
        map.x.exact = { "<>" = "empty" }
        map.x.host = { "*.b.test" = "host" }
        map.x.prefix = { "<ab" = "prefix", "<\u00e9" = "e" }
        map.x.suffix = { ".png>" = "suffix" }
        map.x.regex = { '^<((x|xx)*)y(?<rest>.*)>$' = "[{match.rest}]{path}" }
        "#;
    let config = Config::parse(&text(tables, "request_headers.set = { x-a = \"{map.x}\" }"), "weir.toml");
    let config = config.expect("it is well-formed");
    let map = config.maps.iter().find(|map| map.name() == "x").expect("it is there");
    let definition = map.map().expect("it is a map");
    let mut random = fastrand::Rng::with_seed(42);
    let pieces: [&[u8]; 14] = [
        b"a",
        b"ab",
        b"x",
        b"xx",
        b"y",
        b".",
        b"b.test",
        b".png",
        b"\0",
        b"\xff",
        b"{path}",
        b"<",
        b">",
        "\u{e9}".as_bytes(),
    ];
    for number in 0..10_000 {
        let count = if number % 500 == 0 { 4096 } else { random.usize(0..24) };
        let text: Vec<u8> = (0..count).flat_map(|_| pieces[random.usize(0..pieces.len())]).copied().collect();
        let mut out = b"before".to_vec();
        definition.write(&Hostile(&text), 0, &mut out);
        let value = out.strip_prefix(b"before").expect("what stands before stays");
        let fixed: [&[u8]; 7] = [b"empty", b"host", b"prefix", b"e", b"suffix", b"as", b"none"];
        let is_made_of_it = value.ends_with(&text) || text.starts_with(value);
        assert!(fixed.contains(&value) || is_made_of_it, "{text:?}: {value:?}");
    }
}

/// A map that asks a database: that of the tests, in which 127.0.0.0/9 has all fields.
#[cfg(feature = "geoip")]
mod databases {
    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/addresses.mmdb");

    fn table(keys: &str) -> String {
        format!("map.x = {{ source = \"{{client_address}}\", {keys} }}")
    }

    const USE: &str = "request_headers.set = { x-a = \"{map.x}\" }";

    #[test]
    fn a_database_is_read_with_the_config() {
        for keys in [
            format!("database = \"{FILE}\", field = \"country.iso_code\""),
            format!("database = \"{FILE}\", field = \"subdivisions.0.iso_code\", reload = \"1m\""),
            format!(
                "database = \"{FILE}\", field = \"city.names.en\", network = {{ \"10.0.0.0/8\" = \"here\" }}"
            ),
        ] {
            let checked = CheckedConfig::parse(&text(&table(&keys), USE), "weir.toml");
            assert_eq!(checked.diagnostics.to_string(), "", "{keys}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_database_is_told() {
        let broken = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for (keys, expected) in [
            (format!("database = \"{FILE}\""), "`database` needs a `field`"),
            (
                "field = \"country.iso_code\", exact = { a = \"b\" }".to_owned(),
                "no effect without `database`",
            ),
            ("database = \"/none.mmdb\", field = \"a\"".to_owned(), "/none.mmdb: it cannot be read"),
            (format!("database = \"{broken}\", field = \"a\""), "it is no MaxMind DB"),
            (format!("database = \"{FILE}\", field = \"a..b\""), "each part has letters"),
            (
                format!("database = \"{FILE}\", field = \"country.code\""),
                "no record has the field `country.code`",
            ),
        ] {
            let checked = CheckedConfig::parse(&text(&table(&keys), USE), "weir.toml");
            let found = checked.diagnostics.to_string();
            assert!(found.contains(expected), "{keys}: {found}");
        }
        let found = CheckedConfig::parse(
            &text(&table(&format!("database = \"{FILE}\", field = \"country.code\"")), USE),
            "weir.toml",
        );
        assert!(found.config.is_some(), "it is a warning: a later file may have it");
        assert!(found.diagnostics.to_string().contains("`country.iso_code`"), "it says what records have");
    }

    #[test]
    fn a_database_names_no_host_of_a_redirect() {
        let keys = format!("database = \"{FILE}\", field = \"country.iso_code\"");
        for (to, works) in [("https://{map.x}.test{path}", false), ("https://other.test/{map.x}{path}", true)]
        {
            let route = format!("redirect = {{ to = \"{to}\" }}");
            let text = text(&table(&keys), &route).replace("upstream = \"app\", ", "");
            let text = text.replace("upstream.app.servers = [\"127.0.0.1:1\"]", "");
            let checked = CheckedConfig::parse(&text, "weir.toml");
            assert_eq!(checked.config.is_some(), works, "{to}: {}", checked.diagnostics);
        }
    }
}
