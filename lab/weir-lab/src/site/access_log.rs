//! Reads the requests of an access log: the JSON of Weir, and the combined and common formats of web servers.
//!
//! A log has no bodies and few fields, so that requests with a body are left out, and said to be. Weir's has the time at which a request
//! began, in microseconds. The formats of web servers have whole seconds, so that the requests of a second are spread over it. This
//! reader shares nothing with the writer of Weir's log.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use serde_json::Value;

use super::expectation::StatusSet;

/// A request of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedRequest {
    /// When it was due, nanoseconds after the first of the log.
    pub due: u64,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The status that it had.
    pub status: u16,
}

impl LoggedRequest {
    /// The statuses that are like its own.
    pub fn statuses(&self) -> StatusSet {
        StatusSet::like(self.status)
    }
}

/// What a log has: its requests in the order in which they were due, and what was left out, by reason.
#[derive(Debug, Default)]
pub struct LoggedRequests {
    /// The requests.
    pub requests: Vec<LoggedRequest>,
    /// How many lines were left out, and an example of each kind.
    pub left_out: BTreeMap<&'static str, (u64, String)>,
}

/// A line that was read.
struct LogLine<'a> {
    /// Nanoseconds of the era at which it began, as exactly as the line says.
    at: i128,
    /// The time has whole seconds only.
    is_coarse: bool,
    method: &'a str,
    path: &'a str,
    status: u16,
}

/// Methods whose requests have no body.
const WITHOUT_BODY: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// Reads a log.
///
/// # Errors
/// When no line of it can be sent.
pub fn read(text: &str) -> anyhow::Result<LoggedRequests> {
    let mut all = LoggedRequests::default();
    let mut found: Vec<(i128, bool, LoggedRequest)> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let json = line.starts_with('{').then(|| serde_json::from_str::<Value>(line).ok()).flatten();
        let read = match (line.starts_with('{'), &json) {
            (true, Some(json)) => of_json(json),
            (true, None) => Err("lines that are no JSON"),
            (false, _) => of_text(line),
        };
        let sendable = read.and_then(|line| {
            if !WITHOUT_BODY.contains(&line.method) {
                return Err("requests whose body the log does not have");
            }
            let is_path = line.path.starts_with('/') && line.path.bytes().all(|byte| byte.is_ascii_graphic());
            if is_path { Ok(line) } else { Err("requests without a path that can be sent") }
        });
        match sendable {
            Ok(LogLine { at, is_coarse, method, path, status }) => {
                let (method, path) = (method.to_owned(), path.to_owned());
                found.push((at, is_coarse, LoggedRequest { due: 0, method, path, status }));
            }
            Err(why) => {
                let example = || (0, format!("line {}", number + 1));
                all.left_out.entry(why).or_insert_with(example).0 += 1;
            }
        }
    }
    let reasons: Vec<String> = all
        .left_out
        .iter()
        .map(|(why, (count, example))| format!("{count} {why}, such as {example}"))
        .collect();
    ensure!(!found.is_empty(), "the log has no request to send: {}", reasons.join("; "));
    // Stable, so that requests of the same second stay in the order of the log.
    found.sort_by_key(|(at, ..)| *at);
    spread(&mut found);
    let first = found[0].0;
    all.requests = found
        .into_iter()
        .map(|(at, _, request)| LoggedRequest {
            due: u64::try_from(at - first).unwrap_or(u64::MAX),
            ..request
        })
        .collect();
    Ok(all)
}

/// Spreads the requests of times with whole seconds over their second.
fn spread(found: &mut [(i128, bool, LoggedRequest)]) {
    for same in found.chunk_by_mut(|one, other| one.0 == other.0) {
        let count = same.len() as i128;
        for (place, (at, is_coarse, _)) in same.iter_mut().enumerate() {
            if *is_coarse {
                *at += SECOND * place as i128 / count;
            }
        }
    }
}

/// A line of Weir's log.
fn of_json(json: &Value) -> Result<LogLine<'_>, &'static str> {
    let text = |names: &[&str]| names.iter().find_map(|name| json.get(*name)?.as_str());
    let number = |name: &str| json.get(name).and_then(Value::as_f64);
    let time =
        text(&["time"]).and_then(|time| time.parse::<Timestamp>().ok()).ok_or("lines without a time")?;
    let status = number("status").or_else(|| number("status_sent")).unwrap_or(0.0) as u16;
    let (method, path) = match text(&["request_line"]).and_then(request_line) {
        Some(both) if json.get("target").is_none() => both,
        _ => (
            text(&["method"]).ok_or("lines without a request")?,
            text(&["target"]).ok_or("lines without a request")?,
        ),
    };
    Ok(LogLine { at: time.as_nanosecond(), is_coarse: false, method, path, status })
}

/// A line of the common or combined format: `ADDRESS - USER [TIME] "REQUEST" STATUS BYTES ...`.
fn of_text(line: &str) -> Result<LogLine<'_>, &'static str> {
    let other = "lines of another format than combined, common or JSON";
    let (_, rest) = line.split_once(" [").ok_or(other)?;
    let (time, rest) = rest.split_once("] \"").ok_or(other)?;
    // A quotation mark in the request is written as an escape by all servers.
    let (request, rest) = rest.split_once("\" ").ok_or(other)?;
    let status = rest.split(' ').next().and_then(|status| status.parse().ok()).ok_or(other)?;
    let at = jiff::fmt::strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).and_then(|time| time.to_timestamp());
    let at = at.map_err(|_| other)?.as_nanosecond();
    let (method, path) = request_line(request).ok_or("lines without a request")?;
    Ok(LogLine { at, is_coarse: true, method, path, status })
}

/// Method and path of `GET / HTTP/1.1`.
fn request_line(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    (version.starts_with("HTTP/") && words.next().is_none()).then_some((method, path))
}

/// What was left out, for the report.
pub fn remark(log: &LoggedRequests) -> Option<String> {
    let reasons: Vec<String> = log
        .left_out
        .iter()
        .map(|(why, (count, example))| format!("{count} {why} (first: {example})"))
        .collect();
    (!reasons.is_empty()).then(|| format!("Of the log, these were left out: {}.", reasons.join(", ")))
}

/// Reads the log in `file`.
///
/// # Errors
/// When it cannot be read, or no line of it can be sent.
pub fn read_file(file: &std::path::Path) -> anyhow::Result<LoggedRequests> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    read(&String::from_utf8_lossy(&bytes)).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::{read, remark};

    #[test]
    fn a_combined_log_has_its_requests_spread_over_their_seconds() {
        let log = "\
            203.0.113.7 - - [10/Oct/2026:13:55:36 +0200] \"GET /a?b=c HTTP/1.1\" 200 612 \"-\" \"curl/8\"\n\
            203.0.113.8 - ann [10/Oct/2026:13:55:37 +0200] \"GET /b HTTP/2.0\" 304 0 \"http://x/\" \"x\"\n\
            203.0.113.8 - ann [10/Oct/2026:13:55:37 +0200] \"HEAD /c HTTP/1.1\" 404 0\n\
            203.0.113.8 - - [10/Oct/2026:13:55:37 +0200] \"POST /login HTTP/1.1\" 302 0 \"-\" \"x\"\n\
            203.0.113.8 - - [10/Oct/2026:13:55:38 +0200] \"\\x16\\x03\" 400 150 \"-\" \"-\"\n\
            what is this\n";
        let log = read(log).unwrap();
        let seen: Vec<_> =
            log.requests.iter().map(|it| (it.due, &*it.method, &*it.path, it.status)).collect();
        assert_eq!(
            seen,
            [
                (0, "GET", "/a?b=c", 200),
                (1_000_000_000, "GET", "/b", 304),
                (1_500_000_000, "HEAD", "/c", 404),
            ]
        );
        let said = remark(&log).unwrap();
        assert!(said.contains("1 requests whose body the log does not have (first: line 4)"), "{said}");
        assert!(said.contains("1 lines without a request (first: line 5)"), "{said}");
        assert!(
            said.contains("1 lines of another format than combined, common or JSON (first: line 6)"),
            "{said}"
        );
    }

    #[test]
    fn the_lines_of_weir_are_put_in_the_order_in_which_requests_began() {
        let line = |time: &str, target: &str| {
            format!(
                r#"{{"time":"2026-10-10T13:55:{time}Z","method":"GET","target":"{target}","status":200}}"#
            )
        };
        // Lines are written when a request ends.
        let text = [line("36.000000", "/a"), line("36.2", "/b"), line("36.100000", "/slow")];
        let log = read(&text.join("\n")).unwrap();
        let seen: Vec<_> = log.requests.iter().map(|it| (it.due, &*it.path)).collect();
        assert_eq!(seen, [(0, "/a"), (100_000_000, "/slow"), (200_000_000, "/b")]);
    }

    #[test]
    fn the_request_line_of_a_log_with_fields_of_ones_own_is_read() {
        let line = r#"{"time":"2026-10-10T13:55:36Z","request_line":"GET /x HTTP/1.1"}"#;
        assert_eq!(read(line).unwrap().requests[0].path, "/x");
    }

    #[test]
    fn a_log_without_requests_is_an_error() {
        let error = read("{}\nnothing\n").unwrap_err().to_string();
        assert!(
            error.contains("no request to send: 1 lines of another format") && error.contains("line 2"),
            "{error}"
        );
    }
}
