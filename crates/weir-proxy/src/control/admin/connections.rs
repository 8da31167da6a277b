//! What runs now, and how it is ended.
//!
//! `GET /api/sessions?listener=&upstream=&server=&min_age=&limit=`, `GET /api/sessions/ID`, `POST /api/sessions/ID/end`,
//! `POST /api/sessions/end?upstream=&server=`. JSON; keys are only added, never renamed.

use serde_json::{Value, json};
use weir_config::parse_duration;
use weir_traffic::route::query_value;

use super::query::{decoded, only_known};
use super::request::Request;
use super::response::Answer;
use crate::control::admin_access::Peer;
use crate::control::connections::{self, TOLD_MAX};
use crate::control::operations::Served;
use crate::control::reports::Narrator;
use crate::control::server_modes::Unknown;
use crate::control::worker_queries::RunningFound;
use crate::state::running::{Question, SessionId};

/// What the path of all sessions is, and what that of one begins with.
pub(super) const ALL: &[u8] = b"/api/sessions";
pub(super) const ONE: &[u8] = b"/api/sessions/";

/// What the path ends with by which a session is ended, and the path that ends those of a server.
const END: &str = "/end";
const END_ALL: &[u8] = b"/api/sessions/end";

/// Sessions in one answer, unless the query says otherwise.
const LIMIT: usize = 100;

/// `GET /api/sessions`: the oldest ones that the query takes.
pub(super) async fn list(request: &Request, served: &Served) -> Answer {
    match read(request.query()) {
        Err(what) => bad(&what),
        Ok(question) => {
            let found = served.desk.ask_running(question).await;
            let narrator = Narrator::new(&served.desk);
            let lines: Vec<Value> = found.sessions.iter().map(|session| narrator.session(session)).collect();
            Answer::json(200, &with_counts(&found, json!({ "sessions": lines })))
        }
    }
}

/// `GET /api/sessions/ID`: one, with the story of its exchange so far.
pub(super) async fn one(request: &Request, served: &Served) -> Answer {
    let id = decoded(&request.path()[ONE.len()..]);
    let Ok(session) = id.parse() else { return unknown(&id, 0) };
    let question = Question { session: Some(session), count_max: 1, ..Question::default() };
    let found = served.desk.ask_running(question).await;
    let narrator = Narrator::new(&served.desk);
    match found.sessions.first() {
        Some(session) => {
            let mut told = narrator.session(session);
            told["exchange"] = session.flight.as_ref().map_or(Value::Null, |_| narrator.running(session));
            Answer::json(200, &told)
        }
        None => unknown(&id, found.silent_workers),
    }
}

/// `POST /api/sessions/ID/end`, `POST /api/sessions/end`.
pub(super) async fn end(request: &Request, served: &Served, peer: Peer) -> Answer {
    if request.path() == END_ALL {
        return end_all(request, served, peer).await;
    }
    let path = decoded(&request.path()[ONE.len()..]);
    let Some(id) = path.strip_suffix(END) else {
        return bad("the path is /api/sessions/ID/end, or /api/sessions/end with `upstream` and `server`");
    };
    let Ok(session) = id.parse::<SessionId>() else { return unknown(id, 0) };
    let found = connections::end(&served.desk, session, &peer.to_string()).await;
    if found.sessions.is_empty() { unknown(id, found.silent_workers) } else { ended(&found) }
}

async fn end_all(request: &Request, served: &Served, peer: Peer) -> Answer {
    let said = if request.query().is_empty() { request.body() } else { request.query() };
    if let Err(what) = only_known(said, &["upstream", "server"]) {
        return bad(&what);
    }
    let value = |name: &str| query_value(said, name.as_bytes()).map(decoded);
    let (Some(upstream), Some(server)) = (value("upstream"), value("server")) else {
        return bad("`upstream` and `server` are both needed: the sessions of one server are ended");
    };
    if let Err(unknown) = served.sources.knows(&upstream, &server) {
        let what = match unknown {
            Unknown::Upstream(upstream) => format!("there is no upstream `{upstream}`"),
            Unknown::Server(upstream, server) => format!("upstream `{upstream}` has no server `{server}`"),
        };
        return Answer::json(404, &json!({ "errors": [what] }));
    }
    ended(&connections::end_all(&served.desk, &upstream, &server, &peer.to_string()).await)
}

fn ended(found: &RunningFound) -> Answer {
    let ids: Vec<String> = found.sessions.iter().map(|session| session.id.to_string()).collect();
    let told = json!({ "ended": ids, "count": found.matching, "silent_workers": found.silent_workers });
    Answer::json(200, &told)
}

fn bad(what: &str) -> Answer {
    Answer::json(400, &json!({ "errors": [what] }))
}

fn unknown(id: &str, silent_workers: usize) -> Answer {
    let silent = match silent_workers {
        0 => "",
        _ => ", or its worker did not answer in time",
    };
    let what = format!("there is no session `{id}`: it may have ended{silent}");
    Answer::json(404, &json!({ "errors": [what] }))
}

fn with_counts(found: &RunningFound, mut told: Value) -> Value {
    told["matching"] = found.matching.into();
    told["asked"] = found.asked.into();
    told["silent"] = found.silent.into();
    told["silent_workers"] = found.silent_workers.into();
    told
}

/// Which sessions a query means.
fn read(query: &[u8]) -> Result<Question, String> {
    only_known(query, &["listener", "upstream", "server", "min_age", "limit"])?;
    let value = |name: &str| query_value(query, name.as_bytes()).map(decoded).filter(|text| !text.is_empty());
    let limit = value("limit").map(|text| match text.parse() {
        Ok(limit @ 1..=TOLD_MAX) => Ok(limit),
        _ => Err(format!("`limit` is a number from 1 to {TOLD_MAX}, not `{text}`")),
    });
    let age_min = value("min_age").map(|text| parse_duration(&text)).transpose();
    Ok(Question {
        listener: value("listener").map(Into::into),
        upstream: value("upstream").map(Into::into),
        server: value("server").map(Into::into),
        age_min: age_min.map_err(|error| format!("`min_age`: {}", error.message))?.unwrap_or_default(),
        count_max: limit.transpose()?.unwrap_or(LIMIT),
        ..Question::default()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn questions_are_read_from_the_query() {
        let question = read(b"listener=web&upstream=app&server=10.0.0.1%3A80&min_age=90s&limit=7").unwrap();
        assert_eq!(question.listener.as_deref(), Some("web"));
        assert_eq!(
            (question.upstream.as_deref(), question.server.as_deref()),
            (Some("app"), Some("10.0.0.1:80"))
        );
        assert_eq!((question.age_min, question.count_max, question.ends), (Duration::from_secs(90), 7, None));
        assert_eq!(read(b"").unwrap().count_max, LIMIT);
        for (query, what) in [
            ("limit=0", "`limit` is a number from 1 to 1000, not `0`"),
            ("limit=1001", "`limit` is a number from 1 to 1000, not `1001`"),
            (
                "colour=red",
                "`colour` is not known here; there are listener, upstream, server, min_age, limit",
            ),
        ] {
            assert_eq!(read(query.as_bytes()).unwrap_err(), what);
        }
        assert!(read(b"min_age=soon").is_err());
    }
}
