//! Whether a server may be chosen, and how much it should get, in one word.
//!
//! Part of [`ServerState`](crate::ServerState), which changes it whole: readers never see half of a change.

use super::{RAMP_FULL, WEIGHT_MAX};

/// The verdict of the health checks on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Health {
    /// It answers.
    Up,
    /// It failed its checks.
    Down,
}

impl Health {
    /// The stable lower-case name: label in metrics, word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Health::Up => "up",
            Health::Down => "down",
        }
    }
}

/// The operator's mode of a server; independent of its health, so that ending a drain does not revive a
/// dead server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Ordinary service.
    Serving,
    /// Only requests bound to this server (by a cookie, say); no others.
    Draining,
    /// No new request at all.
    Maintenance,
}

impl Mode {
    /// All of them, from the one that takes all requests to the one that takes none.
    pub const ALL: [Mode; 3] = [Mode::Serving, Mode::Draining, Mode::Maintenance];

    /// The mode of this name.
    pub fn named(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The stable lower-case name: value in the config and at the admin address, word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Serving => "serving",
            Mode::Draining => "draining",
            Mode::Maintenance => "maintenance",
        }
    }
}

/// The verdict of live traffic on a server; independent of its health, so that neither undoes what the other found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EjectionState {
    /// Nothing against it.
    None,
    /// It gets no requests for a while.
    Ejected,
    /// It may have one request.
    OnTrial,
    /// One has taken that, and has not begun; when it has, the server is ejected again.
    Taken,
}

impl EjectionState {
    /// Whether it gets no requests.
    pub(crate) const fn is_out(self) -> bool {
        matches!(self, EjectionState::Ejected | EjectionState::Taken)
    }
}

/// Weight, ramp, health, mode and ejection in one word, together with the share that follows from them, so that
/// the balancer learns with one load whether a server may be chosen and how much it should get.
///
/// Bits 0..32: share; 32..41: weight; 41..50: ramp; 50: down; 51..53: mode; 53: ejected; 54: on trial (with 53: taken); 55: panic;
/// 56..58: mode by the agent; 58: down by the agent; 59..64: what is missing of the part of the weight, in 1/32.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusWord {
    pub(crate) weight: u32,
    pub(crate) ramp: u32,
    pub(crate) health: Health,
    pub(crate) mode: Mode,
    pub(crate) ejection: EjectionState,
    /// Whether health and ejection count for nothing.
    pub(crate) panic: bool,
    /// The mode that the agent of the server wants.
    pub(crate) agent_mode: Mode,
    /// Whether its agent says that it is down.
    pub(crate) agent_down: bool,
    /// The part of the weight that counts, in 1/32: 1 to [`PART_FULL`]. So a share of a small weight is not rounded to nothing, or to all of it.
    pub(crate) part: u32,
}

const EJECTED: u64 = 1 << 53;
const ON_TRIAL: u64 = 1 << 54;
const PANIC: u64 = 1 << 55;
const AGENT_DOWN: u64 = 1 << 58;

/// All of a weight; see [`ServerState::set_weight_part`](super::ServerState::set_weight_part).
pub const PART_FULL: u32 = 32;

impl StatusWord {
    /// Of a server that is up and serving.
    pub(crate) fn new(weight: u32) -> StatusWord {
        StatusWord {
            weight: weight.min(WEIGHT_MAX),
            ramp: RAMP_FULL,
            health: Health::Up,
            mode: Mode::Serving,
            ejection: EjectionState::None,
            panic: false,
            agent_mode: Mode::Serving,
            agent_down: false,
            part: PART_FULL,
        }
    }

    /// The mode that counts: that of the operator or that of the agent, whichever allows less.
    pub(crate) const fn effective_mode(self) -> Mode {
        if self.agent_mode as u8 > self.mode as u8 { self.agent_mode } else { self.mode }
    }

    /// The verdict of the health checks, and down if the agent says so.
    pub(crate) const fn effective_health(self) -> Health {
        if self.agent_down { Health::Down } else { self.health }
    }

    /// Weight times its part times ramp, 0 when the server takes no unbound requests.
    const fn share(self) -> u32 {
        match self.effective_mode() {
            Mode::Serving if self.is_usable() => {
                // Of a weight above 0, rounded up: something stays.
                (self.weight * self.ramp * self.part).div_ceil(PART_FULL)
            }
            _ => 0,
        }
    }

    /// Whether it is up and not ejected, or panic makes that irrelevant.
    pub(crate) const fn is_usable(self) -> bool {
        self.panic || (matches!(self.effective_health(), Health::Up) && !self.ejection.is_out())
    }

    pub(crate) const fn pack(self) -> u64 {
        let down = matches!(self.health, Health::Down) as u64;
        let mode = self.mode as u64;
        let ejection = match self.ejection {
            EjectionState::None => 0,
            EjectionState::Ejected => EJECTED,
            EjectionState::OnTrial => ON_TRIAL,
            EjectionState::Taken => EJECTED | ON_TRIAL,
        };
        let panic = if self.panic { PANIC } else { 0 };
        let agent_down = if self.agent_down { AGENT_DOWN } else { 0 };
        let agent = (self.agent_mode as u64) << 56 | agent_down | ((PART_FULL - self.part) as u64) << 59;
        let judged = down << 50 | mode << 51 | ejection | panic | agent;
        self.share() as u64 | (self.weight as u64) << 32 | (self.ramp as u64) << 41 | judged
    }

    pub(crate) const fn unpack(word: u64) -> StatusWord {
        StatusWord {
            weight: (word >> 32) as u32 & 0x1ff,
            ramp: (word >> 41) as u32 & 0x1ff,
            health: if word >> 50 & 1 == 0 { Health::Up } else { Health::Down },
            mode: unpack_mode(word >> 51),
            ejection: match word & (EJECTED | ON_TRIAL) {
                0 => EjectionState::None,
                EJECTED => EjectionState::Ejected,
                ON_TRIAL => EjectionState::OnTrial,
                _ => EjectionState::Taken,
            },
            panic: word & PANIC != 0,
            agent_mode: unpack_mode(word >> 56),
            agent_down: word & AGENT_DOWN != 0,
            part: PART_FULL - (word >> 59) as u32,
        }
    }

    /// The share in a packed status.
    #[inline]
    pub(crate) const fn share_of(word: u64) -> u32 {
        word as u32
    }

    /// Whether the server of a packed status is on trial.
    #[inline]
    pub(crate) const fn is_on_trial(word: u64) -> bool {
        word & (EJECTED | ON_TRIAL) == ON_TRIAL
    }
}

const fn unpack_mode(bits: u64) -> Mode {
    match bits & 3 {
        0 => Mode::Serving,
        1 => Mode::Draining,
        _ => Mode::Maintenance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posture_survives_packing() {
        let judged =
            [EjectionState::None, EjectionState::Ejected, EjectionState::OnTrial, EjectionState::Taken]
                .into_iter()
                .flat_map(|ejection| [(ejection, false), (ejection, true)]);
        for (ejection, panic) in judged {
            for weight in [0, 1, 7, WEIGHT_MAX] {
                for ramp in [1, 100, RAMP_FULL] {
                    for health in [Health::Up, Health::Down] {
                        for mode in [Mode::Serving, Mode::Draining, Mode::Maintenance] {
                            for (agent_mode, part) in Mode::ALL.into_iter().zip([1, 20, PART_FULL]) {
                                let agent_down = part == 20;
                                let new = StatusWord::new(weight);
                                let agent = StatusWord { agent_mode, agent_down, part, ..new };
                                let status = StatusWord { ramp, health, mode, ejection, panic, ..agent };
                                let word = status.pack();
                                assert!(StatusWord::unpack(word) == status);
                                assert_eq!(StatusWord::share_of(word), status.share());
                                assert_eq!(StatusWord::is_on_trial(word), ejection == EjectionState::OnTrial);
                            }
                        }
                    }
                }
            }
        }
    }
}
