//! From a failure to its reason: a table of indices, computed by the compiler from the rows of `table.rs`.
//!
//! A reason is an index: first the rules broken by requests, then the same rules broken by responses, then the rows.

use weir_http::Rule;

use super::table::{FailureRow, ROWS};
use super::{Cause, Failure, Party, rules};
use crate::words::phase::Phase;

const RULES: usize = Rule::ALL.len();

/// One of the distinguishable reasons for a failure; as small as an index, to count by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(u16);

enum ReasonKind {
    RequestRule(Rule),
    ResponseRule(Rule),
    Row(&'static FailureRow),
}

impl Reason {
    /// How many reasons there are.
    pub const COUNT: usize = 2 * RULES + ROWS.len();

    /// Every reason, in the order of [`index`](Reason::index).
    pub fn all() -> impl Iterator<Item = Reason> {
        (0..Reason::COUNT as u16).map(Reason)
    }

    /// The place of this reason among all, below [`Reason::COUNT`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The stable kebab-case code.
    pub fn code(self) -> &'static str {
        match self.kind() {
            ReasonKind::RequestRule(rule) => rule.name(),
            ReasonKind::ResponseRule(rule) => rules::response_code(rule),
            ReasonKind::Row(row) => row.code,
        }
    }

    /// The reason with this code.
    pub fn from_code(code: &str) -> Option<Reason> {
        Reason::all().find(|reason| reason.code() == code)
    }

    /// The status to answer with as long as the client has received no head.
    pub const fn status(self) -> Option<u16> {
        match self.kind() {
            ReasonKind::RequestRule(rule) => rules::request_status(rule),
            ReasonKind::ResponseRule(_) => Some(502),
            ReasonKind::Row(row) => row.status,
        }
    }

    /// The status for the log when the client received no head.
    pub const fn log_status(self) -> u16 {
        match self.kind() {
            ReasonKind::Row(row) => row.log_status,
            _ => match self.status() {
                Some(status) => status,
                // A rule about the connection of the client, on which nothing can be answered.
                None => 400,
            },
        }
    }

    /// The text for the client.
    pub const fn client_text(self) -> &'static str {
        match self.kind() {
            // The sentence is about the client's own message, so it reveals nothing.
            ReasonKind::RequestRule(rule) => rule.sentence(),
            ReasonKind::ResponseRule(_) => super::table::BAD_GATEWAY,
            ReasonKind::Row(row) => row.client,
        }
    }

    /// The meaning, for the operator.
    pub const fn happened(self) -> &'static str {
        match self.kind() {
            ReasonKind::RequestRule(rule) | ReasonKind::ResponseRule(rule) => rule.sentence(),
            ReasonKind::Row(row) => row.happened,
        }
    }

    /// The advice, for the operator.
    pub const fn change(self) -> &'static str {
        match self.kind() {
            ReasonKind::RequestRule(rule) => rules::request_change(rule),
            ReasonKind::ResponseRule(rule) => rules::response_change(rule),
            ReasonKind::Row(row) => row.change,
        }
    }

    /// The party at fault.
    pub const fn party(self) -> Party {
        match self.kind() {
            ReasonKind::RequestRule(_) => Party::Client,
            ReasonKind::ResponseRule(_) => Party::Server,
            ReasonKind::Row(row) => row.party,
        }
    }

    /// The phases in which this reason is expected.
    pub const fn phases(self) -> &'static [Phase] {
        match self.kind() {
            ReasonKind::RequestRule(rule) => rules::request_phases(rule),
            ReasonKind::ResponseRule(rule) => rules::response_phases(rule),
            ReasonKind::Row(row) => row.phases,
        }
    }

    /// The cause behind it.
    pub const fn cause(self) -> Cause {
        match self.kind() {
            ReasonKind::RequestRule(rule) | ReasonKind::ResponseRule(rule) => Cause::Rule(rule),
            ReasonKind::Row(row) => row.cause,
        }
    }

    /// Whether a message can break the rule behind this reason at all: a request has no status line, a response no target.
    pub fn is_possible(self) -> bool {
        match self.kind() {
            ReasonKind::RequestRule(rule) => !rules::request_phases(rule).is_empty(),
            ReasonKind::ResponseRule(rule) => !rules::response_phases(rule).is_empty(),
            ReasonKind::Row(_) => true,
        }
    }

    const fn kind(self) -> ReasonKind {
        let index = self.0 as usize;
        if index < RULES {
            ReasonKind::RequestRule(Rule::ALL[index])
        } else if index < 2 * RULES {
            ReasonKind::ResponseRule(Rule::ALL[index - RULES])
        } else {
            ReasonKind::Row(&ROWS[index - 2 * RULES])
        }
    }
}

/// The reason of a failure.
pub(super) const fn find(failure: Failure) -> Reason {
    match failure.cause {
        Cause::Rule(rule) => match failure.party {
            Party::Server => Reason(RULES as u16 + rule as u16),
            _ => Reason(rule as u16),
        },
        cause => match cause.bare_index() {
            Some(index) => Reason(BY_CAUSE[index][failure.party as usize][failure.phase as usize]),
            None => unreachable!(),
        },
    }
}

type ByPlace = [[u16; Phase::COUNT]; Party::COUNT];

static BY_CAUSE: [ByPlace; Cause::BARE_COUNT] = index_rows();

/// For every cause, party and phase the best row: one that names all three, else cause and party, else the cause. Each row is looked at once:
/// the compiler stops an evaluation that takes too long.
const fn index_rows() -> [ByPlace; Cause::BARE_COUNT] {
    let mut table = [[[0; Phase::COUNT]; Party::COUNT]; Cause::BARE_COUNT];
    let mut scores = [[[0; Phase::COUNT]; Party::COUNT]; Cause::BARE_COUNT];
    let mut index = 0;
    while index < ROWS.len() {
        let row = &ROWS[index];
        let Some(cause) = row.cause.bare_index() else { panic!("rows are about causes without payload") };
        let mut party = 0;
        while party < Party::COUNT {
            let mut phase = 0;
            while phase < Phase::COUNT {
                let score = 1 + 2 * (row.party as usize == party) as u8 + has_phase(row.phases, phase) as u8;
                if score > scores[cause][party][phase] {
                    scores[cause][party][phase] = score;
                    table[cause][party][phase] = (2 * RULES + index) as u16;
                }
                phase += 1;
            }
            party += 1;
        }
        index += 1;
    }
    let mut cause = 0;
    while cause < Cause::BARE_COUNT {
        assert!(scores[cause][0][0] > 0, "every cause has a row");
        cause += 1;
    }
    table
}

const fn has_phase(phases: &[Phase], phase: usize) -> bool {
    let mut index = 0;
    while index < phases.len() {
        if phases[index] as usize == phase {
            return true;
        }
        index += 1;
    }
    false
}
