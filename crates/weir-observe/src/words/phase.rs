//! The ten phases of an exchange, and the time spent in each.
//!
//! The same ten words are the time limits of the config, fields of the log, labels of the metrics and the phase of a
//! failure. A phase is a place in the flow, not a clock: times are measured by the data path and stored here.

use std::ops::{Index, IndexMut};

/// Where an exchange stands; the order of declaration is the order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Phase {
    /// The connection of the client is taken from the listener.
    Accept,
    /// The TLS handshake with the client.
    Tls,
    /// The head of the request is read.
    Request,
    /// A route, and with it an upstream, is chosen.
    Route,
    /// The exchange waits for a server with a free slot.
    Queue,
    /// A connection to the server is taken from the idle ones or opened, TLS towards the server included.
    Connect,
    /// The request is sent to the server.
    Send,
    /// Weir waits for the head of the response; the client has received nothing yet.
    Response,
    /// The body of the response (or a tunnel) is relayed; the client has received the head.
    Relay,
    /// The last bytes leave for the client.
    Finish,
}

impl Phase {
    /// How many phases there are.
    pub const COUNT: usize = 10;

    /// Every phase in the order of events; `phase as usize` is its index.
    pub const ALL: [Phase; Phase::COUNT] = [
        Phase::Accept,
        Phase::Tls,
        Phase::Request,
        Phase::Route,
        Phase::Queue,
        Phase::Connect,
        Phase::Send,
        Phase::Response,
        Phase::Relay,
        Phase::Finish,
    ];

    /// The stable lower-case name: config key, log field, metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Accept => "accept",
            Phase::Tls => "tls",
            Phase::Request => "request",
            Phase::Route => "route",
            Phase::Queue => "queue",
            Phase::Connect => "connect",
            Phase::Send => "send",
            Phase::Response => "response",
            Phase::Relay => "relay",
            Phase::Finish => "finish",
        }
    }

    /// The phase with this [`name`](Phase::name).
    pub fn from_name(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// Microseconds that one exchange spent in each phase.
///
/// A `u32` holds 71 minutes; longer stays (tunnels) read as `u32::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhaseTimes([u32; Phase::COUNT]);

impl PhaseTimes {
    /// No time spent anywhere.
    pub const ZERO: PhaseTimes = PhaseTimes([0; Phase::COUNT]);

    /// Adds time spent in a phase; a phase may be entered several times, as when an attempt is repeated.
    #[inline]
    pub fn add(&mut self, phase: Phase, micros: u64) {
        let spent = &mut self.0[phase as usize];
        *spent = spent.saturating_add(u32::try_from(micros).unwrap_or(u32::MAX));
    }

    /// Microseconds spent in all phases together.
    pub fn total(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }

    /// Microseconds spent from one phase to another, both included.
    #[inline]
    pub fn between(&self, first: Phase, last: Phase) -> u64 {
        let times = self.0.get(first as usize..=last as usize).unwrap_or_default();
        times.iter().copied().map(u64::from).sum()
    }

    /// Forgets everything, for the next exchange of the connection.
    #[inline]
    pub fn reset(&mut self) {
        *self = PhaseTimes::ZERO;
    }
}

impl Index<Phase> for PhaseTimes {
    type Output = u32;

    #[inline]
    fn index(&self, phase: Phase) -> &u32 {
        &self.0[phase as usize]
    }
}

impl IndexMut<Phase> for PhaseTimes {
    #[inline]
    fn index_mut(&mut self, phase: Phase) -> &mut u32 {
        &mut self.0[phase as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_order_and_names_lead_back() {
        for (index, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, index);
            assert_eq!(Phase::from_name(phase.name()), Some(phase));
        }
        assert_eq!(Phase::from_name("Accept"), None);
    }

    #[test]
    fn times_add_up_and_saturate() {
        let mut times = PhaseTimes::ZERO;
        times.add(Phase::Connect, 30);
        times.add(Phase::Connect, 12);
        times.add(Phase::Relay, 5);
        assert_eq!(times[Phase::Connect], 42);
        assert_eq!(times.total(), 47);
        assert_eq!(times.between(Phase::Send, Phase::Relay), 5);
        assert_eq!(times.between(Phase::Relay, Phase::Send), 0);
        times.add(Phase::Relay, u64::MAX);
        assert_eq!(times[Phase::Relay], u32::MAX);
        assert_eq!(times.total(), u64::from(u32::MAX) + 42);
        times.reset();
        assert_eq!(times, PhaseTimes::default());
    }
}
