//! The state of a server at one moment, small enough to be kept for every request and reported later.

use super::ServerState;
use super::eligibility::Eligibility;
use super::status::{Health, Mode, StatusWord};

/// Load and status of a server at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerSummary {
    /// Requests in flight on it.
    pub in_flight: u32,
    /// The upper half of the packed status; its top bit says that every slot was taken.
    status: u32,
}

const FULL: u32 = 1 << 31;

impl ServerState {
    /// The state of the server now.
    #[inline]
    pub fn summary(&self) -> ServerSummary {
        let in_flight = self.in_flight();
        let full = if self.is_limit(in_flight) { FULL } else { 0 };
        ServerSummary { in_flight, status: (self.packed_status() >> 32) as u32 | full }
    }
}

impl ServerSummary {
    /// Its weight.
    pub fn weight(self) -> u32 {
        self.unpacked().weight
    }

    /// Whether any request could have been given to it, and if not, why.
    pub fn eligibility(self) -> Eligibility {
        let status = self.unpacked();
        match status.mode {
            Mode::Maintenance => Eligibility::Maintenance,
            Mode::Draining => Eligibility::Draining,
            Mode::Serving if !status.panic && status.health == Health::Down => Eligibility::Down,
            Mode::Serving if !status.panic && status.ejection.is_out() => Eligibility::Ejected,
            Mode::Serving if status.weight == 0 => Eligibility::WeightZero,
            Mode::Serving if self.status & FULL != 0 => Eligibility::Full,
            Mode::Serving => Eligibility::Eligible,
        }
    }

    fn unpacked(self) -> StatusWord {
        StatusWord::unpack(u64::from(self.status & !FULL) << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::EjectionState;

    #[test]
    fn a_look_tells_load_weight_and_standing() {
        let server = ServerState::new(7, 2);
        assert!(server.try_acquire());
        let look = server.summary();
        assert_eq!((look.in_flight, look.weight(), look.eligibility()), (1, 7, Eligibility::Eligible));
        assert!(server.try_acquire());
        assert_eq!(server.summary().eligibility(), Eligibility::Full);
        server.set_health(Health::Down);
        assert_eq!(server.summary().eligibility(), Eligibility::Down);
        server.set_mode(Mode::Draining);
        assert_eq!(server.summary().eligibility(), Eligibility::Draining);
        server.set_mode(Mode::Maintenance);
        assert_eq!(
            (server.summary().eligibility(), server.summary().weight()),
            (Eligibility::Maintenance, 7)
        );
        assert_eq!(ServerState::new(0, 0).summary().eligibility(), Eligibility::WeightZero);
        let ejected = ServerState::new(1, 0);
        ejected.set_ejection(EjectionState::Ejected);
        assert_eq!(ejected.summary().eligibility(), Eligibility::Ejected);
        ejected.set_panic(true);
        assert_eq!(ejected.summary().eligibility(), Eligibility::Eligible);
    }
}
