//! Generated output: help, completions, manual pages, the reference and the schema of the config.

use crate::harness::run;

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = run(&["completions", shell]);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
        for word in ["serve", "check", "explain", "demo", "listen", "format"] {
            assert!(done.stdout.contains(word), "{word} is missing for {shell}");
        }
    }
    let unknown = run(&["completions", "csh"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("bash"), "{unknown:?}");
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    for (arguments, title) in [(&["man"][..], ".TH weir 1"), (&["man", "serve"], ".TH weir-serve 1")] {
        let done = run(arguments);
        assert!(done.code == Some(0) && done.stdout.contains(title), "{done:?}");
    }
    let unknown = run(&["man", "sevre"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("serve, check"), "{unknown:?}");
}

#[test]
fn the_config_describes_itself() {
    let reference = run(&["reference"]);
    assert!(reference.code == Some(0) && reference.stdout.contains("listener.NAME"), "{reference:?}");
    let schema: serde_json::Value =
        serde_json::from_str(&run(&["schema"]).stdout).expect("the schema is JSON");
    assert!(schema["$schema"].is_string(), "{schema:#}");
    let help = run(&["--help"]).stdout;
    assert!(!help.contains("schema"), "for authors of documents only: {help}");
}

#[test]
fn help_has_examples() {
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    for word in ["serve", "check", "explain", "weir.toml"] {
        assert!(help.text().contains(word), "{word} is missing in:\n{}", help.text());
    }
    let version = run(&["--version"]);
    assert!(version.code == Some(0) && version.text().starts_with("weir "), "{}", version.text());
    assert_ne!(run(&["no-such-command"]).code, Some(0));
}
