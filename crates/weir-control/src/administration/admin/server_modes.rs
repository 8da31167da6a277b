//! The servers and their modes: `GET /servers`, and `POST /servers` to change one.

use std::time::Duration;

use weir_config::parse_duration;
use weir_traffic::Mode;
use weir_traffic::route::query_value;

use super::query::decoded;
use super::request::AdminRequest;
use super::response::BufferedResponse;
use crate::administration::admin_operations::Operations;

/// `GET /servers`: one line per server.
pub(super) fn table(operations: &Operations) -> BufferedResponse {
    BufferedResponse::plain(200, operations.modes.table())
}

/// `POST /servers?upstream=NAME&server=NAME&mode=MODE[&deadline=TIME]`, or the same as the body, as forms and `curl -d` send it.
pub(super) fn change_mode(request: &AdminRequest, operations: &Operations) -> BufferedResponse {
    let said = if request.query().is_empty() { request.body() } else { request.query() };
    match ModeChange::read(said) {
        Err(what) => BufferedResponse::plain(400, format!("{what}\n")),
        Ok(ModeChange { upstream, server, mode, deadline }) => {
            match operations.modes.set(&upstream, &server, mode, deadline) {
                Ok(()) => table(operations),
                Err(unknown) => BufferedResponse::plain(404, format!("{unknown}\n")),
            }
        }
    }
}

/// A change of the mode of a server.
#[derive(Debug, PartialEq, Eq)]
struct ModeChange {
    upstream: String,
    server: String,
    mode: Mode,
    deadline: Option<Duration>,
}

impl ModeChange {
    fn read(query: &[u8]) -> Result<Self, String> {
        for parameter in query.split(|&byte| byte == b'&').filter(|parameter| !parameter.is_empty()) {
            let name = parameter.split(|&byte| byte == b'=').next().unwrap_or_default();
            if !matches!(name, b"upstream" | b"server" | b"mode" | b"deadline") {
                let name = String::from_utf8_lossy(name);
                return Err(format!(
                    "`{name}` is not known; give upstream, server, mode and if need be deadline"
                ));
            }
        }
        let value = |name: &str| query_value(query, name.as_bytes()).map(decoded);
        let needed = |name: &str| {
            value(name).ok_or_else(|| {
                format!("`{name}` is missing; give upstream, server, mode and if need be deadline")
            })
        };
        let word = needed("mode")?;
        let mode = Mode::named(&word).ok_or_else(|| {
            let [all, bound, none] = Mode::ALL.map(Mode::name);
            format!("`mode` is {all}, {bound} or {none}, not `{word}`")
        })?;
        let deadline = value("deadline").map(|text| parse_duration(&text)).transpose();
        let deadline = deadline.map_err(|error| format!("`deadline`: {}", error.message))?;
        if deadline.is_some() && mode != Mode::Draining {
            return Err("`deadline` belongs to `mode=draining`".into());
        }
        Ok(Self { upstream: needed("upstream")?, server: needed("server")?, mode, deadline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_from_the_query() {
        let query = b"server=10.0.0.1%3A80&upstream=a%20b&mode=draining&deadline=30s";
        let change = ModeChange {
            upstream: "a b".into(),
            server: "10.0.0.1:80".into(),
            mode: Mode::Draining,
            deadline: Some(Duration::from_secs(30)),
        };
        assert_eq!(ModeChange::read(query), Ok(change));
        for (query, what) in [
            ("", "`mode` is missing; give upstream, server, mode and if need be deadline"),
            ("upstream=a&server=b", "`mode` is missing; give upstream, server, mode and if need be deadline"),
            (
                "upstream=a&mode=serving",
                "`server` is missing; give upstream, server, mode and if need be deadline",
            ),
            (
                "server=a&mode=serving",
                "`upstream` is missing; give upstream, server, mode and if need be deadline",
            ),
            ("upstream=a&server=b&mode=drain", "`mode` is serving, draining or maintenance, not `drain`"),
            ("upstream=a&server=b&mode=serving&deadline=1s", "`deadline` belongs to `mode=draining`"),
            (
                "upstream=a&server=b&mode=serving&dead=1s",
                "`dead` is not known; give upstream, server, mode and if need be deadline",
            ),
        ] {
            assert_eq!(ModeChange::read(query.as_bytes()), Err(what.to_owned()), "{query}");
        }
        assert!(ModeChange::read(b"upstream=a&server=b&mode=draining&deadline=soon").is_err());
    }
}
