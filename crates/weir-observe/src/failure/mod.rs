//! How an exchange can end badly: the phase it stood in, the party at fault, and the cause.
//!
//! A [`Failure`] is made where the data path notices it and travels by copy. Everything said about it later, to the client
//! and to the operator, comes from one table (`table.rs`): the stable reason code, the status, and the advice.
//! Whether to try again is decided in weir-traffic, not here.

mod closing;
mod markdown;
mod lookup;
mod rules;
mod table;
mod cause;
#[cfg(test)]
mod tests;

pub use cause::Cause;
pub use closing::Closing;
pub use lookup::Reason;
pub use markdown::{config_keys_named, failures_markdown};

use crate::words::phase::Phase;

/// The party whose action, or failure to act, ended the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Party {
    /// The peer that opened the connection.
    Client,
    /// The endpoint the exchange was sent to.
    Server,
    /// Weir itself: a limit, a missing route, no server to choose, a defect.
    Weir,
}

impl Party {
    /// How many parties there are.
    pub const COUNT: usize = 3;

    /// Every party; `party as usize` is its index.
    pub const ALL: [Party; Party::COUNT] = [Party::Client, Party::Server, Party::Weir];

    /// The stable lower-case name: log field, metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Party::Client => "client",
            Party::Server => "server",
            Party::Weir => "weir",
        }
    }
}

/// Why an exchange ended badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Where the exchange stood.
    pub phase: Phase,
    /// The party that ended it.
    pub party: Party,
    /// The cause.
    pub cause: Cause,
}

const _: () = assert!(size_of::<Failure>() <= 16, "a failure travels by copy");
const _: () = assert!(size_of::<Option<Failure>>() <= 16, "a failure travels by copy");

impl Failure {
    /// A failure of the client.
    pub const fn client(phase: Phase, cause: Cause) -> Failure {
        Failure { phase, party: Party::Client, cause }
    }

    /// A failure of the server.
    pub const fn server(phase: Phase, cause: Cause) -> Failure {
        Failure { phase, party: Party::Server, cause }
    }

    /// A failure of Weir, or a limit of Weir that was reached.
    pub const fn weir(phase: Phase, cause: Cause) -> Failure {
        Failure { phase, party: Party::Weir, cause }
    }

    /// The stable code, such as `connect-refused`: value of the `weir-reason` response field, word in the log, label in
    /// the metrics, row in `docs/failures.md`.
    pub fn reason(self) -> &'static str {
        self.reason_id().code()
    }

    /// The reason as an index, for counting.
    pub const fn reason_id(self) -> Reason {
        lookup::find(self)
    }

    /// The status to answer with, or `None` when nothing can be sent and the connection is aborted.
    ///
    /// The phase determines whether there is a request to answer and whether the client has received a head already. Before
    /// [`Phase::Request`] there is no request to answer, unless plain HTTP came to a port with TLS. From [`Phase::Relay`] on there is never a status,
    /// and a broken transfer ends so that it cannot be taken for a whole one: see decision 50.
    pub const fn status(self) -> Option<u16> {
        match (self.phase, self.cause) {
            (Phase::Tls, Cause::PlainHttpOnTlsPort) => self.reason_id().status(),
            (Phase::Accept | Phase::Tls | Phase::Relay | Phase::Finish, _) => None,
            _ => self.reason_id().status(),
        }
    }

    /// The status for the log when the client received no head: [`status`](Failure::status), or what it would have been;
    /// 499 when the client went away.
    pub const fn log_status(self) -> u16 {
        self.reason_id().log_status()
    }

    /// The text for the client: short, and nothing about servers or config.
    pub const fn client_text(self) -> &'static str {
        self.reason_id().client_text()
    }

    /// The text for the operator: phase, party, cause, and advice.
    pub const fn explanation(self) -> FailureExplanation {
        let reason = self.reason_id();
        FailureExplanation {
            phase: self.phase,
            party: self.party,
            happened: reason.happened(),
            change: reason.change(),
        }
    }
}

/// A failure in sentences for the operator; never sent to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureExplanation {
    /// Where the exchange stood.
    pub phase: Phase,
    /// The party that ended it.
    pub party: Party,
    /// The meaning, in one or two sentences.
    pub happened: &'static str,
    /// The advice, naming keys of the config.
    pub change: &'static str,
}

impl std::fmt::Display for FailureExplanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}, phase {}) {}", self.happened, self.party.name(), self.phase.name(), self.change)
    }
}
