//! `weir ctl keys`: the keys of tokens that are fetched from servers, and how that goes.

use clap::Args;
use serde_json::Value;

use crate::error::CommandError;
use crate::output::shown;
use crate::running::admin_client::AdminClient;

/// How the keys are shown.
#[derive(Debug, Args)]
pub(crate) struct KeysArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The keys of a running Weir.
pub(crate) fn show(client: &AdminClient, arguments: &KeysArguments) -> Result<String, CommandError> {
    let keys: Vec<Value> = serde_json::from_str(&client.get("/api/keys")?.accepted()?)?;
    Ok(match arguments.json {
        true => format!("{:#}\n", Value::from(keys)),
        false if keys.is_empty() => "no route has `remote_keys`\n".to_owned(),
        false => keys.iter().map(paragraph).collect::<Vec<_>>().join("\n"),
    })
}

fn paragraph(keys: &Value) -> String {
    let count = |name: &str| keys[name].as_u64().unwrap_or(0);
    let number = keys["keys"].as_u64().map_or_else(|| "none yet".to_owned(), |number| number.to_string());
    let mut text = format!(
        "{} of {}\n  keys     {number}\n  fetches  {}, {} unchanged, {} failed\n",
        shown(&keys["path"]),
        shown(&keys["upstream"]),
        count("fetches"),
        count("unchanged"),
        count("failures"),
    );
    if keys["last_failure"].is_string() {
        text.push_str(&format!("  last     {}\n", shown(&keys["last_failure"])));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_shown_with_what_is_wrong_with_them() {
        let good = json!({
            "upstream": "idp", "path": "/jwks.json", "keys": 2, "fetched_ms": 1, "fetches": 12, "unchanged": 9, "failures": 1,
            "last_failure": null,
        });
        assert_eq!(
            paragraph(&good),
            "/jwks.json of idp\n  keys     2\n  fetches  12, 9 unchanged, 1 failed\n"
        );
        let bad = json!({
            "upstream": "idp", "path": "/", "keys": null, "fetched_ms": null, "fetches": 3, "unchanged": 0, "failures": 3,
            "last_failure": "the response has status 404\u{1b}",
        });
        let expected = "/ of idp\n  keys     none yet\n  fetches  3, 0 unchanged, 3 failed\n  last     the response has status 404\\u{1b}\n";
        assert_eq!(paragraph(&bad), expected);
    }
}
