//! The parts of a report that only the running Weir has, over its admin listener or its runtime socket.

use std::time::Duration;

use serde_json::Value;

use super::Parts;
use crate::error::CommandError;
use crate::running::admin_client::{AdminArguments, AdminClient, overview};

/// How much longer than the profile its answer may take.
const PROFILE_GRACE: Duration = Duration::from_secs(60);

/// Why there is no profile.
const NO_PROFILE: &str = "Weir was built without the feature `profiler`, or `admin.changes` (`admin.socket_changes` for its socket) is off";

/// What is read as it is: file, target, meaning.
const READ: [(&str, &str, &str); 5] = [
    ("config.toml", "/api/config", "the config in use, without secrets"),
    ("metrics.txt", "/metrics", "all metrics"),
    ("failures.json", "/api/failures", "the last failures, from the flight recorder"),
    ("exchanges.json", "/api/exchanges?limit=200", "the last exchanges"),
    ("log.txt", "/api/log", "the last lines of the log of Weir"),
];

/// Adds them; gives the number of the process.
pub(super) fn collect(parts: &mut Parts, admin: &AdminArguments, seconds: u64) -> Option<u64> {
    let client = match admin.client() {
        Ok(client) => client,
        Err(error) => {
            parts.add("state.json", "", Err(error.line()));
            return None;
        }
    };
    let state = match overview(&client, usize::MAX) {
        Ok(state) => state,
        Err(error) => {
            parts.add("state.json", "", Err(format!("Weir does not answer: {}", error.line())));
            return None;
        }
    };
    parts.add("state.json", "the whole state, with panics and their backtraces", Ok(json(&state)));
    for (name, target, what) in READ {
        parts.add(name, what, get(&client, target));
    }
    let connections = get(&client, "/api/connections?limit=200");
    parts.add("connections.json", "the oldest open connections", connections);
    add_profiles(parts, client, seconds);
    state["process"]["pid"].as_u64()
}

fn get(client: &AdminClient, target: &str) -> Result<Vec<u8>, String> {
    let answer = client.get(target).map_err(|error| error.line())?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(format!("the answer for {target} is {status}")),
    }
}

fn add_profiles(parts: &mut Parts, client: AdminClient, seconds: u64) {
    let client = client.within(Duration::from_secs(seconds) + PROFILE_GRACE);
    let post = |target: &str| match client.post(target, "text/plain", b"") {
        Ok(answer) if answer.status == 200 => Ok(answer.body),
        Ok(answer) if answer.status == 409 => Err("another profile is being taken".to_owned()),
        Ok(_) => Err(NO_PROFILE.to_owned()),
        Err(error) => Err(CommandError::line(&error)),
    };
    if seconds > 0 {
        let target = format!("/api/profile/cpu?seconds={seconds}&format=folded");
        parts.add("cpu.folded", "where the CPU time went, as folded stacks", post(&target));
    }
    parts.add("memory.json", "where the memory is", post("/api/profile/memory"));
}

fn json(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
