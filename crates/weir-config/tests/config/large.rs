//! Configs of thousands of parts, whole and broken. Where something is compared with everything else, each of these takes minutes.

use std::fmt::Write as _;

use weir_config::{CheckedConfig, Colour, DiagnosticKind};

fn parse(text: &str) -> CheckedConfig {
    CheckedConfig::parse_alone(text, "weir.toml", &|_| None)
}

const HEAD: &str = "[upstream.app]\nservers = [\"127.0.0.1:1\"]\n";

#[test]
fn a_conflict_among_thousands_of_regexes_is_found() {
    let mut text = HEAD.to_owned();
    for number in 0..2_000 {
        let _infallible = write!(
            text,
            "[[listener.web.route]]\npath_regex = '^/service{number}/users/[0-9]+$'\nupstream = \"app\"\n"
        );
    }
    let text = text + "[listener.web]\naddress = \":8080\"\n";
    let checked = parse(&text);
    assert_eq!(checked.diagnostics.len(), 0, "{}", checked.diagnostics);
    let tied = parse(&text.replacen("/service7/", "/service1999/", 1));
    let kinds: Vec<DiagnosticKind> = tied.diagnostics.iter().map(|diagnostic| diagnostic.kind).collect();
    assert_eq!(kinds, [DiagnosticKind::Conflict], "{}", tied.diagnostics);
}

#[test]
fn thousands_of_names_are_found() {
    let mut text = String::from("[listener.web]\naddress = \":8080\"\n");
    for number in 0..5_000 {
        let _infallible = write!(
            text,
            "[[listener.web.route]]\nhost = \"h{number}.example.com\"\nupstream = \"u{number}\"\n\
             [upstream.u{number}]\nservers = [\"127.0.0.1:1\"]\n"
        );
    }
    let config = parse(&text).into_result().expect("it has no mistake");
    assert_eq!((config.upstreams.len(), config.listeners[0].routes.len()), (5_000, 5_000));
    let unknown = parse(&text.replace("upstream = \"u", "upstream = \"v")).diagnostics;
    assert_eq!(unknown.errors().count(), 5_000);
    let rendered = unknown.render(Colour::Never);
    assert!(rendered.contains("help: did you mean `u0`?"), "{}", &rendered[..1_000]);
    assert!(rendered.ends_with("... and 4800 more\n\n5000 errors"), "{}", &rendered[rendered.len() - 100..]);
}

#[test]
fn a_duplicate_among_thousands_of_servers_of_one_upstream_is_found() {
    let servers: Vec<String> =
        (0..20_000).map(|number| format!("\"127.0.{}.{}:1\"", number / 250, number % 250)).collect();
    let text = |servers: &[String]| {
        let servers = servers.join(", ");
        format!(
            "[listener.web]\naddress = \":8080\"\nupstream = \"app\"\n[upstream.app]\nservers = [{servers}]\n"
        )
    };
    assert!(parse(&text(&servers)).diagnostics.is_empty());
    let twice = parse(&text(&[&servers[..], &servers[5..6]].concat())).diagnostics;
    assert_eq!(twice.to_string().lines().count(), 1, "{twice}");
    assert!(twice.to_string().contains("the server `127.0.0.5:1` is listed twice"), "{twice}");
}

#[test]
fn thousands_of_diagnostics_are_placed() {
    for line in
        ["= 1\n", "a = = 1\n", "[\n", "a = 10s\n", "a = \"x\n", "b.c = 1\n", "a = 1 ", "a = [1,\n", "{"]
    {
        let text = line.repeat(31_000 / line.len());
        let diagnostics = parse(&text).diagnostics;
        assert!(diagnostics.errors().next().is_some(), "{line:?}");
        assert!(!diagnostics.render(Colour::Never).is_empty());
    }
}
