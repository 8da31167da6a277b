//! Faults of an exchange, and their tally. One fault fails a measurement: it is never averaged away.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why an exchange was not answered correctly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadFault {
    /// No connection; the operating system's reason.
    Connect(String),
    /// Sending or receiving failed; the operating system's reason.
    Transport(String),
    /// The target reset the connection after the request had begun; the operating system's words for it.
    Reset(String),
    /// The target closed after this many bytes of the answer.
    Closed(u64),
    /// No complete answer in time.
    Timeout,
    /// A status other than 2xx, and the start of the answer.
    Status(u16, String),
    /// The answer is not HTTP: the rule it breaks.
    Malformed(String),
    /// The body has another length: expected, got.
    Length(u64, u64),
    /// The body differs from the expected one, in the piece that begins at this byte.
    Content(u64),
    /// Bytes after the answer, or without a request.
    Surplus,
    /// The target did not close although it was asked to.
    KeptOpen,
    /// The target ended the stream of the request, with this code of HTTP/2.
    StreamReset(u32),
    /// The answer is not what the user expects: what it has and what it should have.
    Unexpected(String),
    /// It was due, and until some time after the end of the run no client was free to send it.
    Unsent,
    /// No source port is free on any address of the client.
    NoSourcePort,
}

/// The most bytes of an answer that a message quotes.
const SHOWN_MAX: usize = 200;

/// The word for connections that were reset.
pub const RESET: &str = "reset";

impl LoadFault {
    /// The error of sending or receiving on an open connection.
    pub fn of(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        match error.kind() {
            E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe => Self::Reset(error.to_string()),
            _ => Self::Transport(error.to_string()),
        }
    }

    /// The word under which faults are counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::Transport(_) => "transport",
            Self::Reset(_) => RESET,
            Self::Closed(_) => "closed early",
            Self::Timeout => "timeout",
            Self::Status(..) => "status",
            Self::Malformed(_) => "malformed answer",
            Self::Length(..) => "body length",
            Self::Content(_) => "body content",
            Self::Surplus => "surplus bytes",
            Self::KeptOpen => "not closed",
            Self::StreamReset(_) => "stream reset",
            Self::Unexpected(_) => "not as expected",
            Self::Unsent => "not sent",
            Self::NoSourcePort => "no source port",
        }
    }
}

impl std::fmt::Display for LoadFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(reason) => write!(f, "could not connect: {reason}"),
            Self::Transport(reason) | Self::Reset(reason) => write!(f, "connection failed: {reason}"),
            Self::Closed(after) => write!(f, "closed after {after} bytes of the answer"),
            Self::Timeout => f.write_str("no complete answer in time"),
            Self::Status(status, start) => {
                let start: String = start.chars().take(SHOWN_MAX).collect();
                write!(f, "status {status}: {start}")
            }
            Self::Malformed(rule) => write!(f, "not HTTP: {rule}"),
            Self::Length(expected, got) => write!(f, "body of {got} bytes instead of {expected}"),
            Self::Content(at) => write!(f, "wrong body content at or after byte {at}"),
            Self::Surplus => f.write_str("bytes after the answer"),
            Self::KeptOpen => f.write_str("kept open after Connection: close"),
            Self::StreamReset(code) => write!(f, "the stream was reset with code {code}"),
            Self::Unexpected(what) => f.write_str(what),
            Self::Unsent => f.write_str("no client was free to send it in time"),
            Self::NoSourcePort => f.write_str("no free source port on any client address"),
        }
    }
}

/// Faults counted by kind, with the first few in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// How many in all.
    pub total: u64,
    /// How many of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// The first few.
    pub examples: Vec<String>,
}

/// How many faults are kept in words.
const EXAMPLES_MAX: usize = 5;

impl Faults {
    /// Counts one fault.
    pub fn note(&mut self, fault: &LoadFault) {
        self.note_many(fault.kind(), 1, || fault.to_string());
    }

    /// Counts `number` faults of one kind, described by `example`.
    pub fn note_many(&mut self, kind: &str, number: u64, example: impl FnOnce() -> String) {
        if number == 0 {
            return;
        }
        self.total += number;
        *self.kinds.entry(kind.to_owned()).or_default() += number;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example());
        }
    }

    /// Adds the faults of another tally.
    pub fn join(&mut self, other: Self) {
        self.total += other.total;
        for (kind, number) in other.kinds {
            *self.kinds.entry(kind).or_default() += number;
        }
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES_MAX);
    }

    /// How many of this kind.
    pub fn of_kind(&self, kind: &str) -> u64 {
        self.kinds.get(kind).copied().unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

impl std::fmt::Display for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds: Vec<String> =
            self.kinds.iter().map(|(kind, number)| format!("{number} x {kind}")).collect();
        write!(f, "{}", kinds.join(", "))?;
        match self.examples.first() {
            Some(example) => write!(f, "; first: {example}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Faults, LoadFault};

    #[test]
    fn faults_are_counted_by_kind_and_the_first_are_kept() {
        let mut faults = Faults::default();
        assert!(faults.is_empty());
        for _ in 0..9 {
            faults.note(&LoadFault::Timeout);
        }
        faults.note(&LoadFault::Status(502, "HTTP/1.1 502 Bad Gateway".to_owned()));
        faults.note_many("refused", 0, || unreachable!("none to describe"));
        assert_eq!((faults.total, faults.kinds["timeout"], faults.kinds["status"]), (10, 9, 1));
        assert_eq!(faults.examples.len(), 5);
        assert_eq!(faults.to_string(), "1 x status, 9 x timeout; first: no complete answer in time");
    }
}
