//! The JSON API of changes, and the commands of the runtime socket over HTTP. Permissions are checked before.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use weir_config::parse_duration;
use weir_traffic::Mode;
use weir_traffic::route::query_value;

use super::query::decoded;
use super::request::AdminRequest;
use super::response::BufferedResponse;
use crate::administration::admin_access::AdminPeer;
use crate::administration::admin_operations::Operations;
use crate::administration::runtime_commands::command;
use crate::administration::runtime_commands::command::LINE_BYTES_MAX;
use crate::administration::runtime_commands::run::{execute, explain};
use crate::servers::modes::UnknownServer;
use crate::workers::commands::{CommandRejected, ServerChange};

/// The beginning of a server's path: `/api/servers/UPSTREAM/SERVER`.
pub(super) const SERVERS: &[u8] = b"/api/servers/";

const TOML: &str = "application/toml; charset=utf-8";

/// The greatest weight of a server.
const WEIGHT_MAX: u16 = 256;

/// The most requests that a server may be allowed at once.
const REQUESTS_MAX: u64 = 10_000_000;

/// `GET /api/config`: the config as its file has it, without its secrets.
pub(super) fn config(operations: &Operations) -> BufferedResponse {
    BufferedResponse::new(200, TOML, operations.file_config.load().dump.to_string())
}

/// `POST /api/reload`.
pub(super) async fn reload(operations: &Operations, peer: AdminPeer) -> BufferedResponse {
    match operations.commands.reload(&peer.to_string()).await {
        Ok(reloaded) => BufferedResponse::json(
            200,
            &json!({ "generation": reloaded.generation, "needs_restart": reloaded.needs_restart }),
        ),
        Err(rejected) => refused(&rejected),
    }
}

/// `POST /api/upgrade`.
pub(super) async fn upgrade(operations: &Operations, peer: AdminPeer) -> BufferedResponse {
    match operations.commands.upgrade(&peer.to_string()).await {
        Ok(upgraded) => {
            BufferedResponse::json(200, &json!({ "process": upgraded.process, "version": upgraded.version }))
        }
        Err(rejected) => refused(&rejected),
    }
}

/// `GET /api/raw?command=show%20stat`: the runtime socket's answer to a command that changes nothing.
pub(super) async fn raw_look(
    query: &[u8],
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> BufferedResponse {
    let Some(line) = query_value(query, b"command").map(decoded) else {
        return BufferedResponse::plain(400, "`command` is missing, as in `/api/raw?command=show%20info`.\n");
    };
    match command::parse(&line) {
        Ok(command) if command.changes() => {
            let why = "This changes something: POST it to /api/raw.\n";
            BufferedResponse::plain(405, why).with_field("Allow", "POST")
        }
        Ok(command) => BufferedResponse::plain(200, execute(command, operations, peer).await),
        Err(wrong) => BufferedResponse::plain(400, explain(&wrong)),
    }
}

/// `POST /api/raw` with a command as the body.
pub(super) async fn raw(body: &[u8], operations: &Arc<Operations>, peer: AdminPeer) -> BufferedResponse {
    if body.len() > LINE_BYTES_MAX {
        return BufferedResponse::plain(413, format!("A command has at most {LINE_BYTES_MAX} bytes.\n"));
    }
    match command::parse(&String::from_utf8_lossy(body)) {
        Ok(command) => BufferedResponse::plain(200, execute(command, operations, peer).await),
        Err(wrong) => BufferedResponse::plain(400, explain(&wrong)),
    }
}

/// Requested changes of a server: absent fields stay as they are.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerPatch {
    mode: Option<String>,
    deadline: Option<String>,
    weight: Option<u16>,
    address: Option<String>,
    /// A number, or `"off"`.
    max_requests: Option<Json>,
}

/// `POST /api/servers/UPSTREAM/SERVER`.
pub(super) async fn change_server(
    request: &AdminRequest,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> BufferedResponse {
    let names = request.path()[SERVERS.len()..].split(|&byte| byte == b'/').map(decoded).collect::<Vec<_>>();
    let [upstream, server] = names.as_slice() else {
        return bad("the path is /api/servers/UPSTREAM/SERVER, with `/` in a name written as `%2F`");
    };
    let patch: ServerPatch = match serde_json::from_slice(request.body()) {
        Ok(patch) => patch,
        Err(error) => return bad(&format!("the body is no change of a server: {error}")),
    };
    let (change, mode) = match read(upstream, server, &patch) {
        Ok(read) => read,
        Err(what) => return bad(&what),
    };
    if !change.is_empty()
        && let Err(rejected) = operations.commands.change(change, &peer.to_string()).await
    {
        return refused(&rejected);
    }
    if let Some((mode, deadline)) = mode
        && let Err(unknown) = operations.modes.set(upstream, server, mode, deadline)
    {
        return no_such(unknown);
    }
    shown(upstream, server, operations)
}

/// The server as it is now.
fn shown(upstream: &str, server: &str, operations: &Operations) -> BufferedResponse {
    match operations.sources.server_overview(upstream, server) {
        Ok(server) => BufferedResponse::json(200, &server),
        Err(unknown) => no_such(unknown),
    }
}

fn no_such(unknown: UnknownServer) -> BufferedResponse {
    refused(&match unknown {
        UnknownServer::Upstream(name) => CommandRejected::NoUpstream(name),
        UnknownServer::Server(upstream, name) => CommandRejected::NoServer(upstream, name),
    })
}

/// A mode, and how long a drain may take.
type ModePatch = Option<(Mode, Option<Duration>)>;

fn read(upstream: &str, server: &str, patch: &ServerPatch) -> Result<(ServerChange, ModePatch), String> {
    let mut change = ServerChange::new(upstream, server);
    if *patch == ServerPatch::default() {
        return Err("nothing is wanted: give mode, weight, address or max_requests".to_owned());
    }
    change.weight = patch.weight;
    if patch.weight.is_some_and(|weight| weight > WEIGHT_MAX) {
        return Err(format!("`weight` is 0 to {WEIGHT_MAX}"));
    }
    let address = patch.address.as_deref().map(str::parse).transpose();
    change.address = address.map_err(|error: weir_config::ValueError| format!("`address`: {error}"))?;
    change.max_requests = match &patch.max_requests {
        None => None,
        Some(Json::String(word)) if word == "off" => Some(None),
        Some(count) => match count.as_u64().filter(|count| (1..=REQUESTS_MAX).contains(count)) {
            Some(count) => Some(u32::try_from(count).ok()),
            None => return Err(format!("`max_requests` is 1 to {REQUESTS_MAX}, or \"off\"")),
        },
    };
    Ok((change, read_mode(patch)?))
}

fn read_mode(patch: &ServerPatch) -> Result<ModePatch, String> {
    let deadline = patch.deadline.as_deref().map(parse_duration).transpose();
    let deadline = deadline.map_err(|error| format!("`deadline`: {}", error.message))?;
    let Some(word) = &patch.mode else {
        return if deadline.is_some() { Err("`deadline` belongs to a mode".to_owned()) } else { Ok(None) };
    };
    let mode = Mode::named(word).ok_or_else(|| {
        let [all, bound, none] = Mode::ALL.map(Mode::name);
        format!("`mode` is {all}, {bound} or {none}, not `{word}`")
    })?;
    if deadline.is_some() && mode != Mode::Draining {
        return Err("`deadline` belongs to the mode `draining`".to_owned());
    }
    Ok(Some((mode, deadline)))
}

fn bad(what: &str) -> BufferedResponse {
    BufferedResponse::json(400, &json!({ "errors": [what] }))
}

fn refused(rejected: &CommandRejected) -> BufferedResponse {
    let status = match rejected {
        CommandRejected::NoUpstream(_) | CommandRejected::NoServer(..) => 404,
        CommandRejected::Refused(_) | CommandRejected::Diagnostics(_) | CommandRejected::NotUpgraded(_) => {
            409
        }
        CommandRejected::NotServing => 503,
    };
    let errors = match rejected {
        CommandRejected::Diagnostics(diagnostics) => diagnostics.clone(),
        other => vec![other.to_string()],
    };
    BufferedResponse::json(status, &json!({ "errors": errors }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(body: &str) -> Result<(ServerChange, ModePatch), String> {
        let patch: ServerPatch = serde_json::from_str(body).map_err(|error| error.to_string())?;
        read("app", "a", &patch)
    }

    #[test]
    fn requested_changes_of_a_server_are_read() {
        let of = || ServerChange::new("app", "a");
        let drain = Some((Mode::Draining, Some(Duration::from_secs(30))));
        for (body, read) in [
            (r#"{"weight": 5}"#, (ServerChange { weight: Some(5), ..of() }, None)),
            (r#"{"max_requests": "off"}"#, (ServerChange { max_requests: Some(None), ..of() }, None)),
            (r#"{"max_requests": 7}"#, (ServerChange { max_requests: Some(Some(7)), ..of() }, None)),
            (
                r#"{"address": "10.0.0.9:81"}"#,
                (ServerChange { address: Some("10.0.0.9:81".parse().unwrap()), ..of() }, None),
            ),
            (r#"{"mode": "draining", "deadline": "30s"}"#, (of(), drain)),
        ] {
            assert_eq!(patch(body), Ok(read), "{body}");
        }
        for body in [
            "",
            "[]",
            "{}",
            r#"{"weigth": 5}"#,
            r#"{"weight": 257}"#,
            r#"{"weight": -1}"#,
            r#"{"weight": "5"}"#,
            r#"{"max_requests": 0}"#,
            r#"{"max_requests": "none"}"#,
            r#"{"address": "nowhere"}"#,
            r#"{"mode": "drain"}"#,
            r#"{"deadline": "30s"}"#,
            r#"{"mode": "serving", "deadline": "30s"}"#,
        ] {
            assert!(patch(body).is_err(), "{body}");
        }
    }
}
