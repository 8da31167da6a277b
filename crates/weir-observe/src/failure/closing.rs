//! The party that ended a connection first, and how, by the failure.

use super::{Cause, Failure, Party};

/// How a connection was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// In order: no more bytes come (FIN).
    Closed,
    /// Broken off (RST).
    Reset,
    /// A time limit of the config passed.
    TimeLimit,
    /// It never came about.
    NeverOpened,
    /// Neither side ended it: the exchange was rejected or aborted because of its content.
    Refused,
}

impl Closing {
    /// The stable lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Closing::Closed => "closed",
            Closing::Reset => "reset",
            Closing::TimeLimit => "time-limit",
            Closing::NeverOpened => "never-opened",
            Closing::Refused => "refused",
        }
    }
}

impl Failure {
    /// The party that ended it first, and how. When a time limit has passed, Weir ends it, whichever party is slow.
    pub const fn closing(self) -> (Party, Closing) {
        match self.cause {
            Cause::Reset | Cause::StreamRefused | Cause::Http1Required => (self.party, Closing::Reset),
            Cause::Closed
            | Cause::ResponseIncomplete
            | Cause::BodyIncomplete
            | Cause::StaleConnection
            | Cause::GoAway
            | Cause::TlsAlert => (self.party, Closing::Closed),
            Cause::TimedOut
            | Cause::ExchangeTimedOut
            | Cause::BodyTooSlow
            | Cause::TunnelIdle
            | Cause::PingTimedOut
            | Cause::ConnectionMaxAge => (Party::Weir, Closing::TimeLimit),
            Cause::Refused
            | Cause::Unreachable
            | Cause::ConnectFailed
            | Cause::ConnectDenied
            | Cause::SocketMissing
            | Cause::PortsExhausted
            | Cause::SourceAddress
            | Cause::KernelMemory
            | Cause::NameUnresolved => (self.party, Closing::NeverOpened),
            _ => (Party::Weir, Closing::Refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::phase::Phase;

    #[test]
    fn slow_peers_are_ended_by_weir() {
        for (failure, expected) in [
            (Failure::server(Phase::Response, Cause::TimedOut), (Party::Weir, Closing::TimeLimit)),
            (Failure::server(Phase::Relay, Cause::Reset), (Party::Server, Closing::Reset)),
            (Failure::client(Phase::Send, Cause::Closed), (Party::Client, Closing::Closed)),
            (Failure::server(Phase::Connect, Cause::Refused), (Party::Server, Closing::NeverOpened)),
            (Failure::weir(Phase::Queue, Cause::QueueFull), (Party::Weir, Closing::Refused)),
        ] {
            assert_eq!(failure.closing(), expected, "{failure:?}");
        }
    }
}
