//! `weir ctl mirrors`: what routes copy to other upstreams, and the last responses that were not the same there.

use clap::Args;
use serde_json::Value;

use crate::error::CommandError;
use crate::output::shown;
use crate::running::admin_client::AdminClient;

/// Routes of a mirror that are shown, those with most differences first.
const ROUTES_SHOWN_MAX: usize = 20;

/// What is shown of the mirrors.
#[derive(Debug, Args)]
pub(crate) struct MirrorsArguments {
    /// Only the mirror of the route of this name.
    route: Option<String>,
    /// The differences that are shown of each mirror, the latest first; at most 64.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    last: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The mirrors of a running Weir.
pub(crate) fn show(client: &AdminClient, arguments: &MirrorsArguments) -> Result<String, CommandError> {
    let mut mirrors: Vec<Value> = serde_json::from_str(&client.get("/api/mirrors")?.accepted()?)?;
    if let Some(name) = &arguments.route {
        mirrors.retain(|mirror| mirror["route"] == name.as_str());
        if mirrors.is_empty() {
            return Err(CommandError::Usage { what: format!("no route `{name}` has a mirror"), help: None });
        }
    }
    Ok(match arguments.json {
        true => format!("{:#}\n", Value::from(mirrors)),
        false if mirrors.is_empty() => "no route has a mirror\n".to_owned(),
        false => {
            mirrors.iter().map(|mirror| paragraph(mirror, arguments.last)).collect::<Vec<_>>().join("\n")
        }
    })
}

fn paragraph(mirror: &Value, last: usize) -> String {
    let count = |name: &str| mirror[name].as_u64().unwrap_or(0);
    let differences = |place: usize| mirror["differences"][place].as_u64().unwrap_or(0);
    let copied = &mirror["copied_upstream"];
    let copied = if copied.is_null() { String::new() } else { format!(", to {}", shown(copied)) };
    let mut text = format!(
        "{} of {}{copied}: {}% to {}\n  copies    {} sent, {} failed, {} left out (body), {} left out (busy)\n",
        shown(&mirror["route"]),
        shown(&mirror["listener"]),
        count("share"),
        shown(&mirror["upstream"]),
        count("requests"),
        count("failures"),
        count("too_long"),
        count("busy"),
    );
    if count("compared") > 0 {
        text.push_str(&format!(
            "  compared  {}, of which differ: status {}, headers {}, body {}\n",
            count("compared"),
            differences(0),
            differences(1),
            differences(2),
        ));
    }
    for route in mirror["routes"].as_array().into_iter().flatten().take(ROUTES_SHOWN_MAX) {
        let of = |place: usize| route["differences"][place].as_u64().unwrap_or(0);
        let (status, headers, body) = (of(0), of(1), of(2));
        let route = shown(&route["route"]);
        text.push_str(&format!("  by {route}: status {status}, headers {headers}, body {body}\n"));
    }
    let found = mirror["last_differences"].as_array();
    found.into_iter().flatten().take(last).for_each(|found| text.push_str(&line(found)));
    text
}

/// One difference: what was requested, and what is not the same.
fn line(found: &Value) -> String {
    let mut parts = Vec::new();
    if found["status"] != found["mirror_status"] {
        parts.push(format!("status {} -> {}", found["status"], found["mirror_status"]));
    }
    if !found["grpc_status"].is_null() {
        let (real, mirror) = (shown(&found["grpc_status"]), shown(&found["mirror_grpc_status"]));
        parts.push(format!("grpc-status {real} -> {mirror}"));
    }
    let names: Vec<String> = found["headers"].as_array().into_iter().flatten().map(shown).collect();
    if !names.is_empty() {
        parts.push(format!("headers {}", names.join(", ")));
    }
    let body = |name: &str| {
        let hash = shown(&found[name][1]);
        format!("{} B {}", found[name][0], hash.get(..8).unwrap_or_default())
    };
    if found["body"].is_array() {
        parts.push(format!("body {} -> {}", body("body"), body("mirror_body")));
    }
    let (method, target, id) =
        (shown(&found["method"]), shown(&found["target"]), shown(&found["request_id"]));
    let id = if id.is_empty() { String::new() } else { format!(" [{id}]") };
    let by = &found["answered_by"];
    let by = if by.is_null() { String::new() } else { format!(" by {}", shown(by)) };
    format!("  {method} {target}{id}{by}: {}\n", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mirror_is_shown_with_its_last_differences() {
        let mirror = json!({
            "listener": "web", "route": "all", "copied_upstream": "app", "upstream": "new", "share": 10, "compare": ["status"],
            "requests": 12, "failures": 1, "too_long": 2, "busy": 0, "compared": 11, "differences": [1, 1, 1],
            "routes": [{ "route": "web nginx.conf:7", "differences": [1, 1, 1] }],
            "last_differences": [
                { "at": 1, "method": "GET", "target": "/a", "request_id": "r1", "status": 200, "mirror_status": 404,
                  "headers": ["etag", "x\u{1b}"], "body": [3, "00112233445566778899aabbccddeeff"],
                  "mirror_body": [4, "ffeeddccbbaa99887766554433221100"] },
                { "at": 1, "method": "GET", "target": "/b", "request_id": "", "status": 200, "mirror_status": 200,
                  "grpc_status": "ok", "mirror_grpc_status": "not-found", "headers": ["etag"],
                  "answered_by": "web nginx.conf:7" },
            ],
        });
        let expected = "\
all of web, to app: 10% to new
  copies    12 sent, 1 failed, 2 left out (body), 0 left out (busy)
  compared  11, of which differ: status 1, headers 1, body 1
  by web nginx.conf:7: status 1, headers 1, body 1
  GET /a [r1]: status 200 -> 404; headers etag, x\\u{1b}; body 3 B 00112233 -> 4 B ffeeddcc
  GET /b by web nginx.conf:7: grpc-status ok -> not-found; headers etag
";
        assert_eq!(paragraph(&mirror, 2), expected);
    }
}
