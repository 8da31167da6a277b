//! How an exchange ended, in the letters of HAProxy's log: the party, the phase, and two for cookies.

use crate::failure::{Cause, Failure, Party};
use crate::words::phase::Phase;

/// The termination state: four characters, `----` after a good end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Termination([u8; 4]);

impl Termination {
    /// The state after an exchange; `local` says that Weir answered it without a server, as with a redirect.
    pub fn new(failure: Option<Failure>, local: bool) -> Termination {
        match failure {
            Some(failure) => Termination([party(failure), place(failure), b'-', b'-']),
            None if local => Termination(*b"LR--"),
            None => Termination(*b"----"),
        }
    }

    /// The letters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the letters are ASCII")
    }
}

/// Time limits in lower case, aborts in upper case.
fn party(failure: Failure) -> u8 {
    match (failure.cause, failure.party) {
        (Cause::Killed | Cause::Drained | Cause::ConnectionMaxAge, _) => b'K',
        (Cause::ServerDown, _) => b'D',
        (
            Cause::DescriptorLimit
            | Cause::MemoryLimit
            | Cause::SlowHeadAtLimit
            | Cause::KernelMemory
            | Cause::PortsExhausted
            | Cause::SourceAddress
            | Cause::BufferLimit,
            _,
        ) => b'R',
        (Cause::Panicked | Cause::WorkerCrashed, _) => b'I',
        (Cause::TimedOut | Cause::BodyTooSlow, Party::Client) => b'c',
        // HAProxy counts its own time limits, the queue's above all, as the server's.
        (
            Cause::TimedOut
            | Cause::BodyTooSlow
            | Cause::TunnelIdle
            | Cause::PingTimedOut
            | Cause::ExchangeTimedOut,
            _,
        ) => b's',
        (
            Cause::NoServer
            | Cause::AffinityUnavailable
            | Cause::AllServersFull
            | Cause::QueueFull
            | Cause::QueueEvicted
            | Cause::QueueOverload,
            _,
        ) => b'S',
        (Cause::Closed | Cause::Reset | Cause::Io, Party::Client) => b'C',
        (_, Party::Client | Party::Weir) => b'P',
        // A response that HAProxy would not let through either.
        (
            Cause::Rule(_)
            | Cause::UnexpectedUpgrade
            | Cause::PrematureUpgrade
            | Cause::UpgradeIgnored
            | Cause::WebsocketAcceptMismatch
            | Cause::WebsocketNotSupported
            | Cause::TooManyInterimResponses
            | Cause::HeadOverflow,
            _,
        ) => b'P',
        (_, Party::Server) => b'S',
    }
}

fn place(failure: Failure) -> u8 {
    match failure.phase {
        // Without a server there is nothing to connect to: HAProxy's `SC`.
        _ if matches!(failure.cause, Cause::NoServer | Cause::AffinityUnavailable) => b'C',
        Phase::Accept | Phase::Tls | Phase::Request | Phase::Route => b'R',
        Phase::Queue => b'Q',
        Phase::Connect => b'C',
        Phase::Send | Phase::Response => b'H',
        Phase::Relay => b'D',
        Phase::Finish => b'L',
    }
}

#[cfg(test)]
mod tests {
    use weir_http::Rule;

    use super::*;

    #[test]
    fn letters_are_those_that_haproxy_writes() {
        use Phase::{Connect, Finish, Queue, Relay, Request, Response, Route};
        let cases = [
            (Failure::client(Request, Cause::Closed), "CR--"),
            (Failure::client(Request, Cause::TimedOut), "cR--"),
            (Failure::client(Request, Cause::Rule(Rule::BadTarget)), "PR--"),
            (Failure::weir(Route, Cause::NoRoute), "PR--"),
            (Failure::client(Queue, Cause::Closed), "CQ--"),
            (Failure::weir(Queue, Cause::TimedOut), "sQ--"),
            (Failure::weir(Queue, Cause::NoServer), "SC--"),
            (Failure::server(Connect, Cause::Refused), "SC--"),
            (Failure::server(Connect, Cause::TimedOut), "sC--"),
            (Failure::weir(Connect, Cause::PortsExhausted), "RC--"),
            (Failure::server(Response, Cause::Closed), "SH--"),
            (Failure::server(Response, Cause::TimedOut), "sH--"),
            (Failure::server(Response, Cause::Rule(Rule::BareLf)), "PH--"),
            (Failure::client(Response, Cause::Reset), "CH--"),
            (Failure::client(Relay, Cause::Reset), "CD--"),
            (Failure::client(Relay, Cause::TimedOut), "cD--"),
            (Failure::server(Relay, Cause::ResponseIncomplete), "SD--"),
            (Failure::server(Relay, Cause::TimedOut), "sD--"),
            (Failure::weir(Relay, Cause::TunnelIdle), "sD--"),
            (Failure::weir(Relay, Cause::Drained), "KD--"),
            (Failure::server(Relay, Cause::ServerDown), "DD--"),
            (Failure::weir(Relay, Cause::Panicked), "ID--"),
            (Failure::client(Finish, Cause::TimedOut), "cL--"),
        ];
        for (failure, letters) in cases {
            assert_eq!(Termination::new(Some(failure), false).as_str(), letters, "{failure:?}");
        }
        assert_eq!(Termination::new(None, false).as_str(), "----");
        assert_eq!(Termination::new(None, true).as_str(), "LR--");
    }
}
