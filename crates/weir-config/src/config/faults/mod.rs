//! What may not hold of a configuration, in the words of the diagnostics of a text.

mod listener;
mod route;
mod rule;
mod upstream;

use std::fmt;
use std::time::Duration;

pub(crate) use self::listener::ListenerFault;
pub(crate) use self::route::RouteFault;
pub(crate) use self::rule::RuleFault;
pub(crate) use self::upstream::UpstreamFault;
use crate::key::OutOfBounds;
use crate::value::print_duration;

/// Why a part of a configuration cannot be used: what it is about, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    pub(in crate::config) place: String,
    pub(crate) fault: ValueFault,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)
    }
}

impl std::error::Error for ConfigFault {}

/// A rule that does not hold. The check of a text gives each its place there; help and labels are its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueFault {
    OutOfBounds(OutOfBounds),
    NameTakenTwice,
    NoSuchUpstream {
        of: &'static str,
        upstreams: usize,
        index: usize,
    },
    /// No route with a rule has this value of its key.
    NeverKnown(String),
    DnsTimes {
        min: Duration,
        max: Duration,
    },
    Listener(ListenerFault),
    Route(RouteFault),
    Rule(RuleFault),
    Upstream(UpstreamFault),
}

impl fmt::Display for ValueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds(error) => error.fmt(f),
            Self::NameTakenTwice => f.write_str("its name is taken twice"),
            Self::NoSuchUpstream { of, upstreams, index } => {
                write!(f, "{of}there are {upstreams} upstreams, and no number {index}")
            }
            Self::NeverKnown(value) => write!(f, "no route with it knows `{{{value}}}`, by which it is"),
            Self::DnsTimes { min, max } => {
                let (min, max) = (print_duration(*min), print_duration(*max));
                write!(f, "`ttl_min` ({min}) is longer than `ttl_max` ({max})")
            }
            Self::Listener(fault) => fault.fmt(f),
            Self::Route(fault) => fault.fmt(f),
            Self::Rule(fault) => fault.fmt(f),
            Self::Upstream(fault) => fault.fmt(f),
        }
    }
}

macro_rules! faults_from {
    ($($variant:ident($fault:ty),)+) => {$(
        impl From<$fault> for ValueFault {
            fn from(fault: $fault) -> Self {
                Self::$variant(fault)
            }
        }
    )+};
}

faults_from! {
    OutOfBounds(OutOfBounds),
    Listener(ListenerFault),
    Route(RouteFault),
    Rule(RuleFault),
    Upstream(UpstreamFault),
}
