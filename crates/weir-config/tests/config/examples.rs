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

/// Each is a config of its own; keys and certificates are those of the reader.
#[test]
fn recipes_have_no_mistakes() {
    let page = read(&root().join("docs/recipes.md"));
    let mut shown = 0;
    for (number, recipe) in page.split("\n## ").enumerate() {
        let name = recipe.lines().next().unwrap_or_default();
        for block in recipe.split("```toml\n").skip(1) {
            let text = block.split("```").next().expect("a block ends");
            let checked = CheckedConfig::parse_alone(text, name, &|_| None);
            assert!(
                checked.config.is_some() && checked.diagnostics.is_empty(),
                "{name}:\n{}",
                checked.diagnostics
            );
            shown += 1;
        }
        // Those that stand among the examples already are named.
        let is_told = number == 0 || recipe.contains("```toml\n") || recipe.contains("(../examples/");
        assert!(is_told, "{name} shows no config");
    }
    assert!(shown >= 11, "{shown}");
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
