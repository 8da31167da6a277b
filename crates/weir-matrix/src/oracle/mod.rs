//! Judges what was observed of a case by the bytes alone: each connection is exactly the messages that were meant, each client has its own
//! responses, each server only what was asked, and as often as it may be.
//!
//! `allowed` is what each exchange may come to, `responses` judges what clients got, `requests` what servers got.

mod responses;
mod requests;
mod content;
mod allowed;

use std::fmt;

pub(crate) use requests::has_asked;

use crate::peer::{End, Label, Record};
use crate::run::Observation;

/// Which promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Bytes are no sequence of messages.
    Wire,
    /// A client has got a response that is another's.
    Foreign,
    /// A request has been at servers too often.
    Repeated,
    /// Nothing comes.
    Hang,
    /// A body that was cut has ended like a whole one.
    CleanEnd,
    /// A body is not what its sender has sent.
    Body,
    /// A trailer is missing.
    Trailer,
    /// A rule for fields was not followed.
    Rule,
    /// A response that the exchange cannot have, or none.
    Outcome,
    /// A server has got what was not asked.
    Request,
    /// The program itself has failed.
    Program,
}

/// What is wrong, in words.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) broken: Broken,
    pub(crate) what: String,
}

impl Finding {
    pub(super) fn new(broken: Broken, what: impl Into<String>) -> Self {
        Self { broken, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.broken, self.what)
    }
}

/// All that is wrong.
pub(crate) fn judge(observation: &Observation) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        observation.troubles.iter().map(|trouble| Finding::new(Broken::Program, trouble)).collect();
    let signs = ["panicked at", "a defect of Weir", "a system call was denied"];
    for line in observation.log.lines().filter(|line| signs.iter().any(|sign| line.contains(sign))) {
        findings.push(Finding::new(Broken::Program, line));
    }
    let of = |is_client: bool| {
        observation.records.iter().filter(move |record| (record.label == Label::Client) == is_client)
    };
    for record in of(true) {
        if record.end() == Some(End::Silence) {
            let asked: Vec<&str> = record.asked.iter().map(|asked| asked.id).collect();
            findings.push(Finding::new(
                Broken::Hang,
                format!("a client waits in vain; it has asked for {asked:?}"),
            ));
        }
    }
    findings.extend(responses::judge(&observation.case, of(true)));
    findings.extend(requests::judge(&observation.case, of(false)));
    findings
}

/// How Weir ended its direction of a connection, for the reader of HTTP/1.
fn ending(record: &Record) -> weir_wire::http1::Ending {
    match record.end() {
        Some(End::Closed) => weir_wire::http1::Ending::Closed,
        Some(End::Broken) => weir_wire::http1::Ending::Broken,
        Some(End::Silence | End::Malformed) | None => weir_wire::http1::Ending::Open,
    }
}
