//! The JSON API of changes, and the commands of the runtime socket over HTTP. Who may ask has been decided.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use weir_config::parse_duration;
use weir_traffic::Mode;
use weir_traffic::route::query_value;

use super::query::decoded;
use super::request::Request;
use super::response::Answer;
use crate::control::admin_access::Peer;
use crate::control::commands::{ServerChange, Unfulfilled};
use crate::control::operations::Served;
use crate::control::runtime_commands::command::{self, LINE_BYTES_MAX};
use crate::control::runtime_commands::run::{correct, obey};
use crate::control::server_modes::Unknown;

/// What the path of a server begins with: `/api/servers/UPSTREAM/SERVER`.
pub(super) const SERVERS: &[u8] = b"/api/servers/";

const TOML: &str = "application/toml; charset=utf-8";

/// The greatest weight of a server.
const WEIGHT_MAX: u16 = 256;

/// The most requests that a server may be allowed at once.
const REQUESTS_MAX: u64 = 10_000_000;

/// `GET /api/config`: the config as its file has it, without its secrets.
pub(super) fn config(served: &Served) -> Answer {
    Answer::new(200, TOML, served.written.load().dump.to_string())
}

/// `POST /api/reload`.
pub(super) async fn reload(served: &Served, peer: Peer) -> Answer {
    match served.wishes.reload(&peer.to_string()).await {
        Ok(reloaded) => Answer::json(
            200,
            &json!({ "generation": reloaded.generation, "needs_restart": reloaded.needs_restart }),
        ),
        Err(unfulfilled) => refused(&unfulfilled),
    }
}

/// `GET /api/raw?command=show%20stat`: what the runtime socket answers to a command that changes nothing.
pub(super) async fn raw_look(query: &[u8], served: &Arc<Served>, peer: Peer) -> Answer {
    let Some(line) = query_value(query, b"command").map(decoded) else {
        return Answer::plain(400, "`command` is missing, as in `/api/raw?command=show%20info`.\n");
    };
    match command::parse(&line) {
        Ok(command) if command.changes() => {
            Answer::plain(405, "This changes something: POST it to /api/raw.\n")
        }
        Ok(command) => Answer::plain(200, obey(command, served, peer).await),
        Err(wrong) => Answer::plain(400, correct(&wrong)),
    }
}

/// `POST /api/raw` with a command as the body.
pub(super) async fn raw(body: &[u8], served: &Arc<Served>, peer: Peer) -> Answer {
    if body.len() > LINE_BYTES_MAX {
        return Answer::plain(413, format!("A command has at most {LINE_BYTES_MAX} bytes.\n"));
    }
    match command::parse(&String::from_utf8_lossy(body)) {
        Ok(command) => Answer::plain(200, obey(command, served, peer).await),
        Err(wrong) => Answer::plain(400, correct(&wrong)),
    }
}

/// What is wanted of a server: what is not there stays as it is.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    mode: Option<String>,
    deadline: Option<String>,
    weight: Option<u16>,
    address: Option<String>,
    /// A number, or `"off"`.
    max_requests: Option<Json>,
}

/// `POST /api/servers/UPSTREAM/SERVER`.
pub(super) async fn change_server(request: &Request, served: &Arc<Served>, peer: Peer) -> Answer {
    let names = request.path()[SERVERS.len()..].split(|&byte| byte == b'/').map(decoded).collect::<Vec<_>>();
    let [upstream, server] = names.as_slice() else {
        return bad("the path is /api/servers/UPSTREAM/SERVER, with `/` in a name written as `%2F`");
    };
    let wanted: Wanted = match serde_json::from_slice(request.body()) {
        Ok(wanted) => wanted,
        Err(error) => return bad(&format!("the body is not what is wanted of a server: {error}")),
    };
    let (change, mode) = match read(upstream, server, &wanted) {
        Ok(read) => read,
        Err(what) => return bad(&what),
    };
    if !change.is_empty()
        && let Err(unfulfilled) = served.wishes.change(change, &peer.to_string()).await
    {
        return refused(&unfulfilled);
    }
    if let Some((mode, deadline)) = mode
        && let Err(unknown) = served.modes.set(upstream, server, mode, deadline)
    {
        return no_such(unknown);
    }
    shown(upstream, server, served)
}

/// The server as it is now.
fn shown(upstream: &str, server: &str, served: &Served) -> Answer {
    match served.sources.server_overview(upstream, server) {
        Ok(server) => Answer::json(200, &server),
        Err(unknown) => no_such(unknown),
    }
}

fn no_such(unknown: Unknown) -> Answer {
    refused(&match unknown {
        Unknown::Upstream(name) => Unfulfilled::NoUpstream(name),
        Unknown::Server(upstream, name) => Unfulfilled::NoServer(upstream, name),
    })
}

/// A mode, and how long a drain may take.
type WantedMode = Option<(Mode, Option<Duration>)>;

fn read(upstream: &str, server: &str, wanted: &Wanted) -> Result<(ServerChange, WantedMode), String> {
    let mut change = ServerChange::of(upstream, server);
    if *wanted == Wanted::default() {
        return Err("nothing is wanted: give mode, weight, address or max_requests".to_owned());
    }
    change.weight = wanted.weight;
    if wanted.weight.is_some_and(|weight| weight > WEIGHT_MAX) {
        return Err(format!("`weight` is 0 to {WEIGHT_MAX}"));
    }
    let address = wanted.address.as_deref().map(str::parse).transpose();
    change.address = address.map_err(|error: weir_config::ValueError| format!("`address`: {error}"))?;
    change.max_requests = match &wanted.max_requests {
        None => None,
        Some(Json::String(word)) if word == "off" => Some(None),
        Some(count) => match count.as_u64().filter(|count| (1..=REQUESTS_MAX).contains(count)) {
            Some(count) => Some(u32::try_from(count).ok()),
            None => return Err(format!("`max_requests` is 1 to {REQUESTS_MAX}, or \"off\"")),
        },
    };
    Ok((change, read_mode(wanted)?))
}

fn read_mode(wanted: &Wanted) -> Result<WantedMode, String> {
    let deadline = wanted.deadline.as_deref().map(parse_duration).transpose();
    let deadline = deadline.map_err(|error| format!("`deadline`: {}", error.message))?;
    let Some(word) = &wanted.mode else {
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

fn bad(what: &str) -> Answer {
    Answer::json(400, &json!({ "errors": [what] }))
}

fn refused(unfulfilled: &Unfulfilled) -> Answer {
    let status = match unfulfilled {
        Unfulfilled::NoUpstream(_) | Unfulfilled::NoServer(..) => 404,
        Unfulfilled::Refused(_) | Unfulfilled::Mistakes(_) => 409,
        Unfulfilled::Nobody => 503,
    };
    let errors = match unfulfilled {
        Unfulfilled::Mistakes(mistakes) => mistakes.clone(),
        other => vec![other.to_string()],
    };
    Answer::json(status, &json!({ "errors": errors }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(body: &str) -> Result<(ServerChange, WantedMode), String> {
        let wanted: Wanted = serde_json::from_str(body).map_err(|error| error.to_string())?;
        read("app", "a", &wanted)
    }

    #[test]
    fn what_is_wanted_of_a_server_is_read() {
        let of = || ServerChange::of("app", "a");
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
            assert_eq!(wanted(body), Ok(read), "{body}");
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
            assert!(wanted(body).is_err(), "{body}");
        }
    }
}
