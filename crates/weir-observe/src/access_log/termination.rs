//! How an exchange ended, in the letters that readers of HAProxy's log know: who, where, and two for cookies.

use crate::failure::{Cause, Failure, Party};
use crate::phase::Phase;

/// The termination state: four characters, `----` after a good end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Termination([u8; 4]);

impl Termination {
    /// The state after an exchange; `local` says that Weir answered it without a server, as with a redirect.
    pub fn of(failure: Option<Failure>, local: bool) -> Termination {
        match failure {
            Some(failure) => Termination([who(failure), place(failure.phase), b'-', b'-']),
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
fn who(failure: Failure) -> u8 {
    let timed = matches!(failure.cause, Cause::TimedOut | Cause::BodyTooSlow | Cause::TunnelIdle);
    match (failure.cause, failure.party) {
        (Cause::Cut, _) => b'K',
        (Cause::ServerDown, _) => b'D',
        (Cause::DescriptorLimit | Cause::PortsExhausted | Cause::BufferLimit, _) => b'R',
        (Cause::Panicked, _) => b'I',
        (_, Party::Client) if timed => b'c',
        (_, Party::Server) if timed => b's',
        // HAProxy has no letter for its own time limits but the queue's, which counts as the server's.
        (_, Party::Weir) if timed => b's',
        (Cause::NoServer | Cause::AllServersFull | Cause::QueueFull, _) => b'S',
        (Cause::Closed | Cause::Reset | Cause::Io, Party::Client) => b'C',
        (_, Party::Client | Party::Weir) => b'P',
        (
            Cause::Rule(_) | Cause::UpgradeUnasked | Cause::TooManyInterimResponses | Cause::HeadOverflow,
            Party::Server,
        ) => b'P',
        (_, Party::Server) => b'S',
    }
}

fn place(phase: Phase) -> u8 {
    match phase {
        Phase::Accept | Phase::Tls | Phase::Request | Phase::Route => b'R',
        Phase::Queue => b'Q',
        Phase::Connect => b'C',
        Phase::Send | Phase::Response => b'H',
        Phase::Relay => b'D',
        Phase::Finish => b'L',
    }
}
