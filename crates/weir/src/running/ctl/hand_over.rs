//! `weir ctl hand-over` and `weir ctl take-back`: a planned change from this node to another one of a pair.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::clock;
use crate::error::CommandError;
use crate::running::admin_client::AdminClient;

/// How often the state is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How a hand-over is carried out.
#[derive(Debug, Args)]
pub(crate) struct HandOverArguments {
    /// How long connections may end with their next response. Without it, `process.hand_over_delay`.
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Begin, and do not wait.
    #[arg(long)]
    no_wait: bool,
}

/// Hands over, and waits until the other node is told to take over.
pub(crate) fn hand_over(client: &AdminClient, arguments: &HandOverArguments) -> Result<String, CommandError> {
    let options = arguments.delay.as_ref().map_or_else(|| json!({}), |delay| json!({ "delay": delay }));
    let answer = client.post("/api/hand-over", "application/json", options.to_string().as_bytes())?;
    let mut state: Value = serde_json::from_str(&answer.accepted()?)?;
    while state["state"] == "closing" && !arguments.no_wait {
        clock::pause(LOOK);
        state = serde_json::from_str(&client.get("/api/hand-over")?.accepted()?)?;
    }
    Ok(line(&state))
}

/// Takes the traffic back.
pub(crate) fn take_back(client: &AdminClient) -> Result<String, CommandError> {
    let answer = client.post("/api/take-back", "application/json", b"")?;
    Ok(line(&serde_json::from_str(&answer.accepted()?)?))
}

fn line(state: &Value) -> String {
    let what = match state["state"].as_str() {
        Some("closing") => "closing: connections end with their next response",
        Some("handed-over") => {
            "handed over: another node is to serve, and this one serves what still arrives"
        }
        Some("standby") => "standby: the address is left to the other node",
        Some(other) => other,
        None => "unknown",
    };
    format!("{what} ({} connections open, {} tunnels)\n", state["connections_open"], state["tunnels_open"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_one_line() {
        let state = json!({ "state": "closing", "connections_open": 12, "tunnels_open": 3 });
        assert_eq!(
            line(&state),
            "closing: connections end with their next response (12 connections open, 3 tunnels)\n"
        );
    }
}
