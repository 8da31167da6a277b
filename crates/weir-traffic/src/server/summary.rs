//! One look at a server, small enough to be noted for every request and told later.

use super::ServerState;
use super::eligibility::Standing;
use super::status::{Health, Mode, Posture};

/// Load and posture of a server at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Glance {
    /// Requests in flight on it.
    pub in_flight: u32,
    /// The upper half of the packed posture; its top bit says that every slot was taken.
    posture: u32,
}

const FULL: u32 = 1 << 31;

impl ServerState {
    /// A look at the server.
    #[inline]
    pub fn glance(&self) -> Glance {
        let in_flight = self.in_flight();
        let full = if self.is_limit(in_flight) { FULL } else { 0 };
        Glance { in_flight, posture: (self.packed_posture() >> 32) as u32 | full }
    }
}

impl Glance {
    /// Its weight.
    pub fn weight(self) -> u32 {
        self.unpacked().weight
    }

    /// Whether any request could have been given to it, and if not, why.
    pub fn standing(self) -> Standing {
        let posture = self.unpacked();
        match posture.mode {
            Mode::Maintenance => Standing::Maintenance,
            Mode::Draining => Standing::Draining,
            Mode::Serving if !posture.panic && posture.health == Health::Down => Standing::Down,
            Mode::Serving if !posture.panic && posture.ejection.is_out() => Standing::Ejected,
            Mode::Serving if posture.weight == 0 => Standing::WeightZero,
            Mode::Serving if self.posture & FULL != 0 => Standing::Full,
            Mode::Serving => Standing::Eligible,
        }
    }

    fn unpacked(self) -> Posture {
        Posture::unpack(u64::from(self.posture & !FULL) << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Ejection;

    #[test]
    fn a_look_tells_load_weight_and_standing() {
        let server = ServerState::new(7, 2);
        assert!(server.try_acquire());
        let look = server.glance();
        assert_eq!((look.in_flight, look.weight(), look.standing()), (1, 7, Standing::Eligible));
        assert!(server.try_acquire());
        assert_eq!(server.glance().standing(), Standing::Full);
        server.set_health(Health::Down);
        assert_eq!(server.glance().standing(), Standing::Down);
        server.set_mode(Mode::Draining);
        assert_eq!(server.glance().standing(), Standing::Draining);
        server.set_mode(Mode::Maintenance);
        assert_eq!((server.glance().standing(), server.glance().weight()), (Standing::Maintenance, 7));
        assert_eq!(ServerState::new(0, 0).glance().standing(), Standing::WeightZero);
        let ejected = ServerState::new(1, 0);
        ejected.set_ejection(Ejection::Ejected);
        assert_eq!(ejected.glance().standing(), Standing::Ejected);
        ejected.set_panic(true);
        assert_eq!(ejected.glance().standing(), Standing::Eligible);
    }
}
