//! `show sess`: the running sessions, a line for each, or all fields of one.
//!
//! The line has those keys of HAProxy that mean something here, with Weir's own behind them.

use std::fmt::Write as _;
use std::time::Duration;

use crate::access_log::UnixMicros;

/// A session that runs.
#[derive(Debug, Clone)]
pub struct SessionRow {
    /// The number in place of HAProxy's pointer.
    pub pointer: u64,
    /// Weir's id of it.
    pub id: String,
    /// When it began.
    pub opened: UnixMicros,
    /// `tcpv4`, `tcpv6` or `unix_stream`.
    pub proto: &'static str,
    /// The client.
    pub source: String,
    /// Its listener.
    pub listener: String,
    /// The protocol of the listener.
    pub mode: &'static str,
    /// Whether the client uses TLS.
    pub is_tls: bool,
    /// The upstream of its exchange, once that is decided.
    pub upstream: Option<String>,
    /// The server of the present attempt.
    pub server: Option<String>,
    /// How long it has been there.
    pub age: Duration,
    /// `idle`, `tunnel`, or the phase of its exchange.
    pub state: &'static str,
    /// How long it has been in that state.
    pub state_age: Duration,
    /// The event that it waits for.
    pub awaited: &'static str,
    /// Requests that have come on it.
    pub requests: u64,
    /// The id of the present request; empty if it has none.
    pub request_id: Vec<u8>,
    /// Method and path of the present request; empty if there is none.
    pub request: Vec<u8>,
    /// Attempts of the present exchange.
    pub attempts: u32,
    /// Bytes of the present exchange from the client and to it.
    pub bytes: (u64, u64),
}

/// `show sess`: one line each. `matching` is how many there are, `silent` how many did not answer.
pub fn sessions(rows: &[SessionRow], matching: usize, silent: usize) -> String {
    let mut text = String::new();
    for row in rows {
        line(row, &mut text);
    }
    remarks(rows, matching, silent, &mut text);
    text
}

/// `show sess all`, `show sess ID`: all that is known of each.
pub fn session_details(rows: &[SessionRow], matching: usize, silent: usize) -> String {
    let mut text = String::new();
    for row in rows {
        details(row, &mut text);
    }
    remarks(rows, matching, silent, &mut text);
    text
}

// Writing to a `String` does not fail.
fn line(row: &SessionRow, text: &mut String) {
    let (upstream, server) = places(row);
    let _fits = write!(
        text,
        "{:#x}: proto={} src={} fe={} be={upstream} srv={server} age={} state={} state_age={} requests={} \
         in={} out={} id={}",
        row.pointer,
        row.proto,
        row.source,
        row.listener,
        human(row.age),
        row.state,
        human(row.state_age),
        row.requests,
        row.bytes.0,
        row.bytes.1,
        row.id,
    );
    if !row.request_id.is_empty() {
        let _fits = write!(text, " request_id={}", row.request_id.escape_ascii());
    }
    if !row.request.is_empty() {
        let _fits = write!(text, " request=\"{}\"", row.request.escape_ascii());
    }
    text.push('\n');
}

fn details(row: &SessionRow, text: &mut String) {
    let (upstream, server) = places(row);
    let opened = row.opened.haproxy();
    let _fits = write!(
        text,
        "{:#x}: [{}] id={} proto={} source={}\n  frontend={} (mode={}), tls={}\n  backend={upstream}, server={server}, attempts={}\n  \
         age={}, requests={}, in={}, out={}\n  state={} since {}, waits for {}\n",
        row.pointer,
        String::from_utf8_lossy(&opened),
        row.id,
        row.proto,
        row.source,
        row.listener,
        row.mode,
        if row.is_tls { "yes" } else { "no" },
        row.attempts,
        human(row.age),
        row.requests,
        row.bytes.0,
        row.bytes.1,
        row.state,
        human(row.state_age),
        row.awaited,
    );
    if !row.request.is_empty() || !row.request_id.is_empty() {
        let (request, id) = (row.request.escape_ascii(), row.request_id.escape_ascii());
        let _fits = writeln!(text, "  request=\"{request}\", request_id={id}");
    }
}

fn remarks(rows: &[SessionRow], matching: usize, silent: usize, text: &mut String) {
    if matching > rows.len() {
        let _fits = writeln!(text, "# the oldest {} of {matching} sessions", rows.len());
    }
    if silent > 0 {
        let _fits = writeln!(text, "# {silent} more did not answer in time");
    }
}

fn places(row: &SessionRow) -> (&str, &str) {
    (row.upstream.as_deref().unwrap_or("<NONE>"), row.server.as_deref().unwrap_or("<none>"))
}

/// A time in HAProxy's two greatest units, such as `2m5s`.
fn human(time: Duration) -> String {
    let seconds = time.as_secs();
    let two = |large: u64, letter: char, small: u64, smaller: char| match small {
        0 => format!("{large}{letter}"),
        small => format!("{large}{letter}{small}{smaller}"),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3600..86_400 => two(seconds / 3600, 'h', seconds / 60 % 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds / 3600 % 24, 'h'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> SessionRow {
        SessionRow {
            pointer: 0x100_0000_0011,
            id: "s0-17".into(),
            opened: UnixMicros(100_000_000),
            proto: "tcpv4",
            source: "192.0.2.7:4711".into(),
            listener: "web".into(),
            mode: "http",
            is_tls: true,
            upstream: Some("app".into()),
            server: Some("a".into()),
            age: Duration::from_secs(65),
            state: "response",
            state_age: Duration::from_millis(3900),
            awaited: "the head of the server's response",
            requests: 3,
            request_id: b"an-id".to_vec(),
            request: b"GET /a\"\x1b".to_vec(),
            attempts: 1,
            bytes: (80, 0),
        }
    }

    #[test]
    fn a_line_has_the_keys_of_haproxy_in_its_order_and_more_behind() {
        let line = "0x10000000011: proto=tcpv4 src=192.0.2.7:4711 fe=web be=app srv=a age=1m5s state=response state_age=3s \
                    requests=3 in=80 out=0 id=s0-17 request_id=an-id request=\"GET /a\\\"\\x1b\"\n";
        assert_eq!(sessions(&[row()], 1, 0), line);
        let idle = SessionRow {
            upstream: None,
            server: None,
            state: "idle",
            request_id: Vec::new(),
            request: Vec::new(),
            ..row()
        };
        let line = "0x10000000011: proto=tcpv4 src=192.0.2.7:4711 fe=web be=<NONE> srv=<none> age=1m5s state=idle state_age=3s \
                    requests=3 in=80 out=0 id=s0-17\n";
        assert_eq!(sessions(&[idle], 1, 0), line);
    }

    #[test]
    fn omitted_sessions_are_counted() {
        let text = sessions(&[row()], 4242, 2);
        assert!(
            text.ends_with("\n# the oldest 1 of 4242 sessions\n# 2 more did not answer in time\n"),
            "{text}"
        );
    }

    #[test]
    fn one_session_is_shown_with_all_its_fields() {
        let text = "0x10000000011: [01/Jan/1970:00:01:40.000] id=s0-17 proto=tcpv4 source=192.0.2.7:4711\n  frontend=web (mode=http), \
                    tls=yes\n  backend=app, server=a, attempts=1\n  age=1m5s, requests=3, in=80, out=0\n  state=response since 3s, \
                    waits for the head of the server's response\n  request=\"GET /a\\\"\\x1b\", request_id=an-id\n";
        assert_eq!(session_details(&[row()], 1, 0), text);
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3599, "59m59s"),
            (3600, "1h"),
            (90_061, "1d1h"),
            (86_400, "1d"),
        ] {
            assert_eq!(human(Duration::from_secs(seconds)), text);
        }
    }
}
