//! What may not hold of a limit and of a list.

use std::fmt;

use crate::value::{ByteRate, Size};

/// A rule about limits and lists that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleFault {
    NothingLimited(Box<str>),
    SharedConcurrent,
    SharedBandwidth,
    DelayAndStatuses,
    DelayAndBlock,
    FieldsOff,
    LongBurst { burst: Size, rate: ByteRate },
    SameKeyForAll,
    NoEntries,
    NetworksByOtherKey,
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingLimited(name) => {
                write!(f, "the limit `{name}` has neither `rate` nor `concurrent` nor `bandwidth`")
            }
            Self::SharedConcurrent => f.write_str(
                "`concurrent` and `shared` exclude each other: a node that dies would keep its requests counted",
            ),
            Self::SharedBandwidth => f.write_str(
                "`bandwidth` and `shared` exclude each other: bytes are taken more often than nodes exchange",
            ),
            Self::DelayAndStatuses => f.write_str(
                "`delay` and `count_status` exclude each other: what counts is known only when there is a response",
            ),
            Self::DelayAndBlock => f.write_str("`delay` and `block` exclude each other"),
            Self::FieldsOff => f.write_str("`fields_in_responses` has no effect here: `fields` is off"),
            Self::LongBurst { burst, rate } => {
                write!(f, "a burst of {burst} takes more than a day at {rate}")
            }
            Self::NoEntries => f.write_str("the list has neither entries nor a condition"),
            Self::SameKeyForAll => {
                f.write_str("a key without placeholders is the same for every request")
            }
            Self::NetworksByOtherKey => {
                f.write_str("networks are looked up by the address of the client, and the key is another one")
            }
        }
    }
}
