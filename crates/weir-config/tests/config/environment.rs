//! Environment variables change values, never the structure.

use weir_config::{CheckedConfig, ListenAddress, WorkerCount};

const TEXT: &str = r#"
[process]
workers = "${WORKERS}"
pin_workers = "${PIN:-false}"

[listener.web]
address = "${ADDRESS:-127.0.0.1}:${PORT}"
upstream = "app"
connections_max = "${LIMIT:-off}"

[upstream.app]
servers = ["${SERVER}"]
"#;

fn checked(values: &[(&str, &str)]) -> CheckedConfig {
    let environment =
        |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    CheckedConfig::parse_alone(TEXT, "weir.toml", &environment)
}

#[test]
fn variables_have_values_of_any_type() {
    let values = [("WORKERS", "4"), ("PIN", "true"), ("PORT", "8080"), ("LIMIT", "7"), ("SERVER", "a:80")];
    let checked = checked(&values);
    assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
    let config = checked.config.unwrap();
    assert!(matches!(config.process.workers, WorkerCount::Exactly(count) if count.get() == 4));
    assert!(config.process.pin_workers);
    assert_eq!(config.listeners[0].addresses[0], ListenAddress::Tcp("127.0.0.1:8080".parse().unwrap()));
    assert_eq!(config.listeners[0].connections_max, Some(7));
}

#[test]
fn a_variable_cannot_add_a_key_or_a_server() {
    let values =
        [("WORKERS", "4"), ("PORT", "8080"), ("SERVER", "a:80\", \"b:80\"]\nbalance = \"random\" # ")];
    let diagnostics = checked(&values).diagnostics;
    assert_eq!(diagnostics.len(), 1, "{diagnostics}");
    assert!(diagnostics.to_string().starts_with("weir.toml:12:12: error: "), "{diagnostics}");
}

#[test]
fn a_variable_that_is_not_set_is_the_only_diagnostic() {
    let diagnostics = checked(&[("WORKERS", "4"), ("SERVER", "a:80")]).diagnostics.to_string();
    assert_eq!(
        diagnostics,
        "weir.toml:7:34: error: the environment variable `PORT` is not set (set it, or write `${PORT:-default}`)"
    );
}
