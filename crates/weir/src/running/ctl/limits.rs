//! `weir ctl limits`: the limits by key, how full their tables are, and the keys that they refuse most.

use clap::Args;
use serde_json::Value;

use crate::error::CommandError;
use crate::output::shown;
use crate::running::admin_client::AdminClient;

/// What is shown of the limits.
#[derive(Debug, Args)]
pub(crate) struct LimitsArguments {
    /// Only the limit of this name.
    name: Option<String>,
    /// The keys that are shown of each limit, those that are refused most first; at most 32.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    keys: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The limits of a running Weir.
pub(crate) fn show(client: &AdminClient, arguments: &LimitsArguments) -> Result<String, CommandError> {
    let mut limits: Vec<Value> = serde_json::from_str(&client.get("/api/limits")?.accepted()?)?;
    if let Some(name) = &arguments.name {
        limits.retain(|limit| limit["name"] == name.as_str());
        if limits.is_empty() {
            return Err(CommandError::Usage { what: format!("there is no limit `{name}`"), help: None });
        }
    }
    Ok(match arguments.json {
        true => format!("{:#}\n", Value::from(limits)),
        false if limits.is_empty() => "the config has no limits\n".to_owned(),
        false => limits.iter().map(|limit| paragraph(limit, arguments.keys)).collect::<Vec<_>>().join("\n"),
    })
}

fn paragraph(limit: &Value, keys: usize) -> String {
    let count = |name: &str| limit[name].as_u64().unwrap_or(0);
    let dry = if limit["is_dry_run"] == true { " (dry run)" } else { "" };
    let mut text = format!(
        "{}: {} by {}{dry}\n  requests  {} passed, {} delayed, {} refused",
        shown(&limit["name"]),
        shown(&limit["rule"]),
        shown(&limit["key"]),
        count("passed"),
        count("delayed"),
        count("refused"),
    );
    for (name, what) in [("excess", "over the limit"), ("waiting", "waiting")] {
        if count(name) > 0 {
            text.push_str(&format!(", {} {what}", count(name)));
        }
    }
    text.push_str(&format!("\n  keys      {} of {}", count("keys"), count("keys_max")));
    if count("evictions") > 0 {
        text.push_str(&format!(", {} forgotten for want of room", count("evictions")));
    }
    text.push('\n');
    let shared = &limit["shared"];
    if shared.is_object() {
        let state = match shared["is_up"] == true {
            true => "all nodes together".to_owned(),
            false => format!("this node alone: {}", shown(&shared["error"])),
        };
        let master = match shared["master"].is_string() {
            true => format!(" (master {})", shown(&shared["master"])),
            false => String::new(),
        };
        let number = |name: &str| shared[name].as_u64().unwrap_or(0);
        text.push_str(&format!(
            "  shared    in {}{master}, {state}; {} keys exchanged, {} failures\n",
            shown(&shared["store"]),
            number("exchanged"),
            number("failures"),
        ));
    }
    for key in limit["top"].as_array().into_iter().flatten().take(keys) {
        let number = |name: &str| key[name].as_u64().unwrap_or(0);
        let ago = number("last_ms_ago").div_ceil(1_000);
        text.push_str(&format!(
            "  refused   {} times, {ago}s ago: {}\n",
            number("count"),
            shown(&key["key"])
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_shown_with_the_keys_that_it_refuses_most() {
        let limit = json!({
            "name": "per-client", "rule": "10/s, burst 20", "key": "{client_address}", "is_dry_run": false,
            "passed": 100, "delayed": 0, "refused": 12, "excess": 0, "waiting": 3,
            "keys": 7, "keys_max": 100_000, "evictions": 0,
            "shared": { "store": "nodes", "is_up": false, "error": "it is gone", "master": "10.0.0.2:6379", "exchanged": 8, "failures": 2 },
            "top": [
                { "key": "192.0.2.1", "count": 10, "last_ms_ago": 1_200 },
                { "key": "a\u{1b}b", "count": 2, "last_ms_ago": 90_000 },
                { "key": "192.0.2.3", "count": 1, "last_ms_ago": 90_000 },
            ],
        });
        let expected = "\
per-client: 10/s, burst 20 by {client_address}
  requests  100 passed, 0 delayed, 12 refused, 3 waiting
  keys      7 of 100000
  shared    in nodes (master 10.0.0.2:6379), this node alone: it is gone; 8 keys exchanged, 2 failures
  refused   10 times, 2s ago: 192.0.2.1
  refused   2 times, 90s ago: a\\u{1b}b
";
        assert_eq!(paragraph(&limit, 2), expected);
    }
}
