//! The examples of the repository: they have no mistakes, and each shows what it says.

use weir_config::{CheckedConfig, Config, DiagnosticKind, RouteAction};

use crate::{config, examples, read, root};

fn example(name: &str) -> Config {
    let checked = CheckedConfig::load(&root().join(format!("examples/{name}.toml")));
    checked.config.unwrap_or_else(|| panic!("{}", checked.diagnostics))
}

#[test]
fn no_example_has_a_diagnostic_or_a_warning() {
    let examples = examples();
    assert!(examples.len() >= 8, "{} examples", examples.len());
    for (name, text) in examples {
        let checked = CheckedConfig::load(&root().join(format!("examples/{name}.toml")));
        // Keys have no place in a repository, and folders of logs and files are where Weir runs: only that they are not there may be wrong.
        let is_absent = |kind: DiagnosticKind, what: &str| {
            kind == DiagnosticKind::Certificate
                || what.contains("/log/") && what.ends_with("the folder does not exist")
                || what.starts_with("there is no folder `/")
        };
        let mut diagnostics = checked.diagnostics.iter();
        assert!(diagnostics.all(|it| is_absent(it.kind, &it.message)), "{name}:\n{}", checked.diagnostics);
        assert!(CheckedConfig::parse_alone(&text, &name, &|_| None).config.is_some(), "{name}");
        assert!(text.starts_with("# "), "{name} begins by saying what it shows");
    }
}

#[test]
fn the_canary_gets_its_share() {
    let config = example("canary");
    let RouteAction::Split(parts) = &config.listeners[0].routes[0].action else {
        panic!("the first route splits")
    };
    let shares: Vec<(&str, u32)> =
        parts.iter().map(|part| (&*config.upstream(part.upstream().unwrap()).name, part.weight)).collect();
    assert_eq!(shares, [("stable", 95), ("canary", 5)]);
}

#[test]
fn each_listener_has_the_access_log_that_it_should() {
    let text = read(&root().join("examples/access-log.toml"));
    let config = config(&text);
    let formats: Vec<(&str, bool, String)> = config
        .listeners
        .iter()
        .map(|listener| {
            (&*listener.name, listener.access_log.format.is_some(), listener.access_log.output.to_string())
        })
        .collect();
    let expected = [
        ("web", true, "file:/var/log/weir/access.log"),
        ("api", true, "syslog:/dev/log"),
        ("internal", false, "stdout"),
    ];
    assert_eq!(formats, expected.map(|(name, is_on, output)| (name, is_on, output.to_owned())));
}
