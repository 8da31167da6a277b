//! Each value in each key that decides something: what the table of `docs/order.md` says is what `weir check` does.

use weir_config::{ASKED, DECISIONS, DiagnosticKind};

use crate::checked;

/// The maps and tables among the values.
const DEFINED: [(&str, &str); 4] = [
    (
        "map.country",
        concat!(
            "map.country = { source = \"{client_address}\", field = \"country.iso_code\", database = \"",
            env!("CARGO_MANIFEST_DIR"),
            "/tests/addresses.mmdb\" }"
        ),
    ),
    ("map.plan", "map.plan = { source = \"{user}\", exact = { ann = \"gold\" } }"),
    ("table.clients.gpc0", "table.clients.store = \"gpc0\""),
    ("table.users.gpc0", "table.users = { key = \"{user}\", store = \"gpc0\" }"),
];

/// A config in which this key asks for a value.
fn config(key: &str, is_condition: bool, value: &str) -> String {
    let asked = match is_condition {
        true => format!("'has({})'", value.replace("match.1", "match[\"1\"]")),
        false => format!("\"/x{{{value}}}\""),
    };
    let defined = DEFINED.iter().find(|(name, _)| *name == value).map_or("", |(_, defined)| defined);
    let (mut route, mut rest, mut action) = (String::new(), String::new(), "upstream = \"app\"");
    let mut servers = "servers = [\"a:80\"]".to_owned();
    match key.trim_start_matches("listener.NAME.route.") {
        "list.NAME.when" => {
            route.push_str("lists = \"l\"");
            rest = format!("list.l = {{ action = \"deny\", when = {asked} }}");
        }
        "list.NAME.key" => {
            route.push_str("lists = \"l\"");
            rest = format!("list.l = {{ action = \"deny\", key = {asked}, entries = [\"a\"] }}");
        }
        "limit.NAME.when" => {
            route.push_str("limited_by = \"l\"");
            rest = format!("limit.l = {{ rate = \"1/s\", when = {asked} }}");
        }
        "limit.NAME.key" => {
            route.push_str("limited_by = \"l\"");
            rest = format!("limit.l = {{ rate = \"1/s\", key = {asked} }}");
        }
        "table.NAME.when" => {
            route.push_str("track = \"t\"");
            rest = format!("table.t = {{ store = \"gpc0\", when = {asked} }}");
        }
        "table.NAME.key" => {
            route.push_str("track = \"t\"");
            rest = format!("table.t = {{ store = \"gpc0\", key = {asked} }}");
        }
        "table.NAME.increment.gpc0" => {
            route.push_str("track = \"t\"");
            rest = format!("table.t = {{ store = \"gpc0\", increment.gpc0 = {asked} }}");
        }
        "upstream.NAME.retry.when" => rest = format!("upstream.app.retry.when = {asked}"),
        "upstream.NAME.dynamic.server" => {
            servers = format!("dynamic = {{ server = {asked}, allow = [\"a:80\"] }}");
        }
        "access_log.when" => rest = format!("access_log = {{ format = \"common\", when = {asked} }}"),
        "redirect.to" => {
            action = "";
            route = format!("redirect = {{ to = {asked} }}");
        }
        "respond.headers" => {
            action = "";
            route = format!("respond = {{ headers = {{ x-a = {asked} }} }}");
        }
        "mirror.when" => route = format!("mirror = {{ upstream = \"app\", when = {asked} }}"),
        "error_pages.when" => {
            route = format!("error_pages = [{{ status = 404, upstream = \"app\", when = {asked} }}]");
        }
        "expires.when" => route = format!("expires = [{{ time = \"1h\", when = {asked} }}]"),
        "when" => route = format!("when = {asked}"),
        other => match other.split_once('.').expect("the key is one of a table") {
            ("cache", key) => {
                route = format!("cache = {{ name = \"pages\", {key} = {asked} }}");
                rest.push_str("cache.pages.memory = \"16MiB\"");
            }
            (table, "when") => route = format!("{table} = {{ when = {asked}, set = {{ x-a = \"1\" }} }}"),
            (table, _) => route = format!("{table} = {{ set = {{ x-a = {asked} }} }}"),
        },
    }
    format!(
        "{defined}\n{rest}\n[upstream.app]\n{servers}\n[listener.web]\naddress = \":80\"\n[[listener.web.route]]\n\
         path_regex = \"^/(.*)$\"\nbasic = {{ users = {{ ann = \"$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm\" }} }}\n\
         {action}\n{route}\n"
    )
    .replace("upstream.app.retry", "[upstream.app]\nretry")
    .replacen("\n[upstream.app]\nservers", "\nSERVERS", usize::from(key == "upstream.NAME.retry.when"))
    .replace("SERVERS", "servers")
}

#[test]
fn each_key_asks_for_what_is_known_and_nothing_else() {
    for decision in DECISIONS {
        for (value, known) in ASKED {
            let text = config(decision.key, decision.is_condition, value);
            let diagnostics = checked(&text).diagnostics;
            let errors: Vec<_> = diagnostics.errors().collect();
            let place = format!("{} {value}\n{text}\n{errors:?}", decision.key);
            if *known <= decision.stage {
                assert!(errors.is_empty(), "{place}");
            } else {
                assert_eq!(errors.len(), 1, "{place}");
                assert_eq!(errors[0].kind, DiagnosticKind::BadValue, "{place}");
                assert!(errors[0].help.is_some(), "{place}");
            }
        }
    }
}
