//! `weir ctl connections` and `weir ctl end`: a table of the connections, and ending one, or those on a server.

use anyhow::anyhow;
use clap::Args;
use serde_json::Value;

use crate::error::CommandError;
use crate::output::{counted, shown};
use crate::running::admin_client::{AdminClient, path_segment};

/// The filter of listed connections.
#[derive(Debug, Args)]
pub(crate) struct ConnectionsArguments {
    /// Only those of this listener.
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// Only those with an exchange that goes to this upstream.
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// Only those with an exchange on this server.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only those that are at least as old, such as `10s`.
    #[arg(long, value_name = "TIME")]
    min_age: Option<String>,
    /// The maximum number, the oldest first; at most 1000.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The connections to end.
#[derive(Debug, Args)]
pub(crate) struct EndArguments {
    /// The connection, as `weir ctl connections` shows it, such as `s0-17`.
    #[arg(required_unless_present = "server")]
    id: Option<String>,
    /// End all connections with an exchange on a server of this upstream.
    #[arg(long, value_name = "NAME", requires = "server", conflicts_with = "id")]
    upstream: Option<String>,
    /// The server.
    #[arg(long, value_name = "NAME", requires = "upstream", conflicts_with = "id")]
    server: Option<String>,
}

/// The open connections.
pub(crate) fn list(client: &AdminClient, arguments: &ConnectionsArguments) -> Result<String, CommandError> {
    let mut target = format!("/api/connections?limit={}", arguments.limit);
    for (name, value) in [
        ("listener", &arguments.listener),
        ("upstream", &arguments.upstream),
        ("server", &arguments.server),
        ("min_age", &arguments.min_age),
    ] {
        if let Some(value) = value {
            target.push_str(&format!("&{name}={}", path_segment(value)));
        }
    }
    let response: Value = serde_json::from_str(&client.get(&target)?.accepted()?)?;
    Ok(if arguments.json { format!("{response:#}\n") } else { table(&response) })
}

/// Ends the connections, and reports their number.
pub(crate) fn end(client: &AdminClient, arguments: &EndArguments) -> Result<String, CommandError> {
    let target = match (&arguments.id, &arguments.upstream, &arguments.server) {
        (Some(id), ..) => format!("/api/connections/{}/end", path_segment(id)),
        (None, Some(upstream), Some(server)) => {
            format!(
                "/api/connections/end?upstream={}&server={}",
                path_segment(upstream),
                path_segment(server)
            )
        }
        (None, ..) => {
            let what = "no connection is given".to_owned();
            return Err(CommandError::Usage { what, help: None });
        }
    };
    let response: Value = serde_json::from_str(&client.post(&target, "application/json", b"")?.accepted()?)?;
    let Some(count) = response["count"].as_u64() else {
        return Err(CommandError::Failed {
            error: anyhow!("{} answers something else", client.endpoint),
            help: None,
        });
    };
    let verb = if count == 1 { "was" } else { "were" };
    Ok(format!("{} {verb} ended\n", counted(usize::try_from(count).unwrap_or(usize::MAX), "connection")))
}

fn table(response: &Value) -> String {
    const TITLES: [&str; 8] =
        ["CONNECTION", "AGE", "STATE", "SINCE", "LISTENER", "CLIENT", "SERVER", "REQUEST"];
    let connections = response["connections"].as_array().map_or(&[][..], Vec::as_slice);
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(connections.iter().map(row));
    let widths: Vec<usize> = (0..TITLES.len())
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let line: String = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  ")).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let count = |name: &str| response[name].as_u64().unwrap_or(0);
    let mut remark = |what: String| text.push_str(&format!("{what}\n"));
    if count("matching") > connections.len() as u64 {
        remark(format!("these are the oldest of {}", count("matching")));
    }
    if count("silent") > 0 {
        remark(format!("{} more did not answer in time", count("silent")));
    }
    if count("silent_workers") > 0 {
        remark(format!("{} workers did not answer in time", count("silent_workers")));
    }
    text
}

fn row(connection: &Value) -> [String; 8] {
    let exchange = &connection["exchange"];
    let server = match (shown(&exchange["upstream"]), shown(&exchange["server"])) {
        (upstream, _) if upstream.is_empty() => "-".to_owned(),
        (upstream, server) if server.is_empty() => upstream,
        (upstream, server) => format!("{upstream}/{server}"),
    };
    let [method, host, path] = [&exchange["method"], &exchange["host"], &exchange["path"]].map(shown);
    let request = if path.is_empty() { host } else { format!("{method} {host}{path}") };
    [
        shown(&connection["id"]),
        seconds(&connection["age_ms"]),
        shown(&connection["state"]),
        seconds(&connection["state_ms"]),
        shown(&connection["listener"]),
        shown(&connection["client"]),
        server,
        request,
    ]
}

/// Seconds with as many digits as mean something.
fn seconds(millis: &Value) -> String {
    let seconds = millis.as_f64().unwrap_or(0.0) / 1000.0;
    if seconds < 10.0 { format!("{seconds:.1}s") } else { format!("{seconds:.0}s") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn connections_stand_in_a_table() {
        let idle = json!({
            "id": "s0-1", "age_ms": 125_000.0, "state": "idle", "state_ms": 500.0, "listener": "web",
            "client": "192.0.2.7:4711", "exchange": null,
        });
        let busy = json!({
            "id": "s0-2", "age_ms": 3000.0, "state": "response", "state_ms": 2900.0, "listener": "web", "client": "unix",
            "exchange": { "upstream": "app", "server": "a", "method": "GET", "host": "h.test", "path": "/\u{1b}" },
        });
        let response =
            json!({ "connections": [idle, busy], "matching": 5, "silent": 1, "silent_workers": 0 });
        let expected = "\
CONNECTION  AGE   STATE     SINCE  LISTENER  CLIENT          SERVER  REQUEST
s0-1        125s  idle      0.5s   web       192.0.2.7:4711  -
s0-2        3.0s  response  2.9s   web       unix            app/a   GET h.test/\\u{1b}
these are the oldest of 5
1 more did not answer in time
";
        assert_eq!(table(&response), expected);
    }
}
