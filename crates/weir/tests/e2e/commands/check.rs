//! `weir check`: exit codes, standard output and standard error.

use super::THREE_ROUTES;
use crate::harness::{CommandResult, WrittenConfig, run};

const GOOD: &str = "\
listener.web = { address = \"127.0.0.1:0\", upstream = \"app\" }
upstream.app.servers = [\"10.0.0.1:80\", \"10.0.0.2:80\"]
";

fn check(text: &str) -> CommandResult {
    run(&["check", WrittenConfig::new(text).path()])
}

#[test]
fn a_valid_config_is_summarised_in_one_line() {
    let file = WrittenConfig::new(GOOD);
    let done = run(&["check", file.path()]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert_eq!(done.stdout, format!("{}: ok (1 listener, 1 upstream)\n", file.path()));
}

#[test]
fn mistakes_end_with_two_in_every_format() {
    let file = WrittenConfig::new(&GOOD.replace("address", "adress").replace("10.0.0.2:80", "10.0.0.2"));
    for format in ["text", "short", "json"] {
        let done = run(&["check", "--format", format, file.path()]);
        assert_eq!((done.code, done.stderr.as_str()), (Some(2), ""), "{done:?}");
        assert!(done.stdout.contains("adress") && done.stdout.contains("10.0.0.2"), "{done:?}");
        assert!(!done.stdout.contains('\u{1b}'), "no colours without a terminal: {done:?}");
    }
}

#[test]
fn json_is_json() {
    let file = WrittenConfig::new(&GOOD.replace("address", "adress"));
    let done = run(&["check", "--format", "json", file.path()]);
    let mistakes: serde_json::Value = serde_json::from_str(&done.stdout).expect("the output is JSON");
    let all = mistakes.as_array().expect("a list of mistakes");
    let misspelt = all.iter().find(|mistake| mistake["code"] == "unknown-key").expect("the key is unknown");
    assert_eq!(misspelt["location"]["line"], 1, "{mistakes:#}");
}

#[test]
fn the_effective_config_checks_and_prints_the_same_again() {
    let printed = run(&["check", "--print", WrittenConfig::new(GOOD).path()]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.stderr.contains(": ok (1 listener, 1 upstream)"), "{printed:?}");
    let again = run(&["check", "--print", WrittenConfig::new(&printed.stdout).path()]);
    assert_eq!((again.code, again.stdout), (Some(0), printed.stdout), "{}", again.stderr);

    let bad = run(&["check", "--print", WrittenConfig::new("listener.web = 1\n").path()]);
    assert_eq!((bad.code, bad.stdout.as_str()), (Some(2), ""), "{bad:?}");
}

#[test]
fn a_missing_file_is_reported() {
    for command in ["check", "serve"] {
        let done = run(&[command, "/nowhere/weir.toml"]);
        assert_eq!(done.code, Some(2), "{done:?}");
        let output = done.stdout + &done.stderr;
        assert!(
            output.starts_with("error: /nowhere/weir.toml: ")
                && output.contains("\nhelp: there is no such file"),
            "{output}"
        );
    }
    let folder = run(&["check", "/"]);
    assert!(folder.code == Some(2) && folder.stdout.contains("cannot be read"), "{folder:?}");
}

#[test]
fn routes_are_accepted() {
    let checked = check(THREE_ROUTES);
    assert_eq!(checked.code, Some(0), "{}", checked.text());
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let bad = THREE_ROUTES
        .replace("address = \"127.0.0.1:0\"", "adress = \"127.0.0.1:0\"")
        .replace("upstream = \"site\"", "upstream = \"sites\"")
        .replace("weight = 2", "weight = 300");
    let checked = check(&bad);
    assert!(checked.code.is_some_and(|code| code != 0), "{:?} {}", checked.code, checked.text());
    for expected in
        ["weir.toml:3:1", "adress", "did you mean `address`", "sites", "did you mean `site`", "300", "256"]
    {
        assert!(checked.text().contains(expected), "{expected:?} is missing in:\n{}", checked.text());
    }
    let line_of = |needle: &str| bad.lines().position(|line| line.contains(needle)).map_or(0, |at| at + 1);
    for needle in ["sites", "weight = 300"] {
        let place = format!("weir.toml:{}:", line_of(needle));
        assert!(checked.text().contains(&place), "{place} is missing in:\n{}", checked.text());
    }
}

#[test]
fn broken_toml_and_a_missing_file_are_reported() {
    let broken = check("[listener.web\naddress = 1");
    assert!(
        broken.code.is_some_and(|code| code != 0) && broken.text().contains("weir.toml:1"),
        "{}",
        broken.text()
    );
    let missing = run(&["check", "/nonexistent/weir.toml"]);
    assert!(missing.code.is_some_and(|code| code != 0), "{}", missing.text());
    assert!(missing.text().contains("/nonexistent/weir.toml"), "{}", missing.text());
}

#[test]
fn two_equal_routes_are_a_mistake() {
    let tie = THREE_ROUTES.replace("host = \"old.test\"\n", "path = \"/api/\"\n");
    let checked = check(&tie);
    assert!(checked.code.is_some_and(|code| code != 0), "{}", checked.text());
    assert!(checked.text().contains("/api/"), "{}", checked.text());
}
