//! Why requests failed: by the answers themselves, and by querying the target for each, where it has an address for that.
//!
//! Queries while the load runs, since a target keeps its records for a while only; some time after the failure, since an exchange
//! is recorded when it is over.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::loads::LEAVING;
use crate::clock;
use crate::load::{FailedExchange, LoadFault};

/// The path of Weir's records of exchanges; the id of one follows.
const EXCHANGES: &str = "/api/exchanges";

/// From a failure to the first query, and from one query to the next.
const REST: Duration = Duration::from_millis(400);

/// The most queries for one failure that the target does not know yet: a server that hangs may hold the request for seconds.
const QUESTIONS: u32 = 10;

/// Failures that may wait for an explanation; further ones have none.
const WAITING_MAX: usize = 10_000;

/// Longest wait for an answer of the target.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Unexplained ones that are kept in words.
const EXAMPLES_MAX: usize = 5;

/// Where explanations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExplanationSource {
    /// The answers alone: the target has no admin address.
    None,
    /// The target, by its admin address.
    Target(SocketAddr),
}

impl ExplanationSource {
    /// `Target` if the target answers at `admin`.
    pub(super) fn find(admin: Option<SocketAddr>) -> Self {
        match admin.map(|admin| (admin, get(admin, &format!("{EXCHANGES}?limit=1")))) {
            Some((admin, Ok((200, _)))) => Self::Target(admin),
            _ => Self::None,
        }
    }

    /// The reason that the target has recorded for `id`.
    fn ask(self, id: &str) -> Option<String> {
        let Self::Target(admin) = self else { return None };
        let (status, story) = get(admin, &format!("{EXCHANGES}/{id}")).ok()?;
        if status == 200 { reason_of_story(&story) } else { None }
    }
}

/// How many failed, and why.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FailureReasons {
    /// How many for each reason.
    reasons: BTreeMap<String, u64>,
    /// Those without an explanation.
    pub(super) unexplained: u64,
    /// The first of them.
    examples: Vec<String>,
}

impl FailureReasons {
    fn note(&mut self, failed: &FailedExchange, reason: Option<String>) {
        if let Some(reason) = reason {
            *self.reasons.entry(reason).or_default() += 1;
            return;
        }
        self.unexplained += 1;
        if self.examples.len() < EXAMPLES_MAX {
            let id = if failed.id.is_empty() { "without an id" } else { &failed.id };
            self.examples.push(format!("{id}: {}", failed.fault));
        }
    }

    /// For the report.
    pub(super) fn sentence(&self, asked: &ExplanationSource) -> String {
        let by = match asked {
            ExplanationSource::Target(_) => "explained by the target, asked for each by its id",
            ExplanationSource::None => "the target cannot be asked; by their answers alone",
        };
        let reasons: Vec<String> =
            self.reasons.iter().map(|(reason, number)| format!("{number} x {reason}")).collect();
        let reasons = if reasons.is_empty() { "nothing".to_owned() } else { reasons.join(", ") };
        let mut sentence = format!("{by}: {reasons}; unexplained: {}", self.unexplained);
        if !self.examples.is_empty() {
            sentence.push_str(&format!(" ({})", self.examples.join("; ")));
        }
        sentence
    }
}

/// One that is not explained yet.
struct UnexplainedFailure {
    failed: FailedExchange,
    due: Instant,
    questions: u32,
}

/// Explains the failures received from `received`, until all senders are gone and no query is pending.
pub(super) fn tell(received: &Receiver<FailedExchange>, asked: &ExplanationSource) -> FailureReasons {
    let (mut tally, mut waiting, mut is_over) = (FailureReasons::default(), VecDeque::new(), false);
    while !is_over || !waiting.is_empty() {
        match received.recv_timeout(REST / 4) {
            Ok(failed) if is_intended(&failed) => {}
            Ok(failed) if *asked == ExplanationSource::None => {
                tally.note(&failed, reason_of_answer(&failed.fault));
            }
            Ok(failed) if waiting.len() >= WAITING_MAX => tally.note(&failed, None),
            Ok(failed) => {
                waiting.push_back(UnexplainedFailure { failed, due: clock::now() + REST, questions: 0 });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                is_over = true;
                clock::pause(REST / 4);
            }
        }
        // All rest for as long, so the first is always the next.
        while waiting.front().is_some_and(|open: &UnexplainedFailure| open.due <= clock::now()) {
            let Some(mut open) = waiting.pop_front() else { break };
            let reason = asked.ask(&open.failed.id);
            open.questions += 1;
            if reason.is_some() || open.questions >= QUESTIONS {
                tally.note(&open.failed, reason);
            } else {
                open.due = clock::now() + REST;
                waiting.push_back(open);
            }
        }
    }
    tally
}

/// A client of the kind that leaves before the answer.
fn is_intended(failed: &FailedExchange) -> bool {
    failed.fault == LoadFault::Timeout && failed.id.starts_with(LEAVING)
}

/// The reason in the answer itself: that of Weir, or else that it is the server's own status.
fn reason_of_answer(fault: &LoadFault) -> Option<String> {
    let LoadFault::Status(status, head) = fault else { return None };
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("weir-reason").then(|| value.trim().to_owned())
    };
    Some(head.split(" | ").find_map(field).unwrap_or_else(|| format!("{status} of the server")))
}

/// The reason in Weir's record of an exchange; none where it records no failure.
fn reason_of_story(story: &str) -> Option<String> {
    let story: serde_json::Value = serde_json::from_str(story).ok()?;
    let exchange = story["exchanges"].as_array()?.iter().next_back()?;
    if let Some(reason) = exchange["failure"]["reason"].as_str() {
        return Some(reason.to_owned());
    }
    exchange["status"]
        .as_u64()
        .filter(|status| *status >= 400)
        .map(|status| format!("{status} of the server"))
}

/// Status and body of an answer.
fn get(addr: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{
        ExplanationSource, FailedExchange, FailureReasons, LoadFault, reason_of_answer, reason_of_story, tell,
    };
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::mpsc::channel;

    fn failed(id: &str, fault: LoadFault) -> FailedExchange {
        FailedExchange { fault, id: id.to_owned() }
    }

    #[test]
    fn reasons_are_read() {
        let status = |head: &str| reason_of_answer(&LoadFault::Status(504, head.to_owned()));
        let own = "HTTP/1.1 504 Gateway Timeout | Date: x | Weir-Reason: response-timeout | Server: y";
        assert_eq!(status(own).as_deref(), Some("response-timeout"));
        assert_eq!(status("HTTP/1.1 504 | date: x").as_deref(), Some("504 of the server"));
        assert_eq!(reason_of_answer(&LoadFault::Closed(7)), None);
        for (story, reason) in [
            (
                r#"{"exchanges":[{"status":502,"failure":{"reason":"response-reset"}}]}"#,
                Some("response-reset"),
            ),
            (r#"{"exchanges":[{"status":500,"failure":null}]}"#, Some("500 of the server")),
            // It says that all went well.
            (r#"{"exchanges":[{"status":200,"failure":null}]}"#, None),
            (r#"{"exchanges":[]}"#, None),
            ("no route", None),
        ] {
            assert_eq!(reason_of_story(story).as_deref(), reason, "{story}");
        }
    }

    /// Answers queries for as long as the test runs; knows the ids that begin with `kept` from the second query on.
    fn target() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut asked = 0;
            for mut stream in listener.incoming().map_while(Result::ok) {
                // The whole head: closing a connection with bytes that were not read resets it, and the answer may be lost.
                let head: Vec<String> = BufReader::new(&stream)
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let line = &head[0];
                asked += u32::from(line.contains("/kept-"));
                let (status, body) = match line.split(' ').nth(1) {
                    Some("/api/exchanges?limit=1") => (200, r#"{"exchanges":[]}"#),
                    Some(path) if path.starts_with("/api/exchanges/kept-") && asked > 1 => {
                        (200, r#"{"exchanges":[{"status":504,"failure":{"reason":"response-timeout"}}]}"#)
                    }
                    _ => (404, r#"{"error":"unknown"}"#),
                };
                write!(stream, "HTTP/1.1 {status} X\r\nConnection: close\r\n\r\n{body}").unwrap();
            }
        });
        addr
    }

    #[test]
    fn each_failure_is_queried_until_it_is_known_except_of_clients_that_left() {
        let asked = ExplanationSource::find(Some(target()));
        let (sender, received) = channel();
        sender.send(failed("kept-1", LoadFault::Closed(0))).unwrap();
        sender.send(failed("post-1", LoadFault::Timeout)).unwrap();
        sender.send(failed("leaving-1", LoadFault::Timeout)).unwrap();
        drop(sender);
        let tally = tell(&received, &asked);
        assert_eq!((tally.reasons["response-timeout"], tally.unexplained), (1, 1));
        let said = tally.sentence(&asked);
        assert!(said.contains("1 x response-timeout; unexplained: 1 (post-1: no complete"), "{said}");
    }

    #[test]
    fn without_an_admin_address_answers_are_the_explanation() {
        let nowhere = "127.0.0.1:1".parse().unwrap();
        assert_eq!(
            (ExplanationSource::find(Some(nowhere)), ExplanationSource::find(None)),
            (ExplanationSource::None, ExplanationSource::None)
        );
        let (sender, received) = channel();
        sender.send(failed("kept-1", LoadFault::Status(500, "HTTP/1.1 500 X".to_owned()))).unwrap();
        sender.send(failed("kept-2", LoadFault::Closed(0))).unwrap();
        drop(sender);
        let tally = tell(&received, &ExplanationSource::None);
        assert_eq!((tally.reasons["500 of the server"], tally.unexplained), (1, 1));
        assert!(
            FailureReasons::default().sentence(&ExplanationSource::None).contains("nothing; unexplained: 0")
        );
    }
}
