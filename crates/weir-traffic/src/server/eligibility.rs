//! Whether a server can be chosen for a request, and if not, the first reason against it.
//!
//! The words of `weir explain`, the flight recorder and the status page. Decides nothing: the balancer reads the state itself.

/// Whether a server could be chosen for a request, and if not, the first reason against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Eligibility {
    /// It can be chosen.
    Eligible,
    /// It has its bounded share of the load; it is chosen only when no other can be.
    Bounded,
    /// All its slots are taken.
    Full,
    /// The request has failed on it already.
    Excluded,
    /// It is a backup and a primary is eligible.
    Reserve,
    /// Its source says that it is about to end, and another server is eligible.
    LastResort,
    /// Its weight is 0.
    WeightZero,
    /// The operator drains it.
    Draining,
    /// The operator took it out for maintenance.
    Maintenance,
    /// Its agent says that it takes no requests, or none without affinity to it.
    Agent,
    /// Its health checks failed.
    Down,
    /// Requests failed on it.
    Ejected,
}

impl Eligibility {
    /// One sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Eligibility::Eligible => "can take the request",
            Eligibility::Bounded => "is at the limit of the load factor",
            Eligibility::Full => "all slots are in use",
            Eligibility::Excluded => "an attempt of this request has failed on it",
            Eligibility::Reserve => "is a backup, and a primary server is eligible",
            Eligibility::LastResort => "is about to end by its source, and another server is eligible",
            Eligibility::WeightZero => "the weight is 0",
            Eligibility::Draining => "is being drained",
            Eligibility::Maintenance => "is in maintenance",
            Eligibility::Agent => "its agent takes it out of service",
            Eligibility::Down => "health checks fail",
            Eligibility::Ejected => "is ejected as an outlier",
        }
    }

    /// Whether the server would be chosen now or once it has room.
    pub(crate) const fn is_taking_part(self) -> bool {
        matches!(self, Eligibility::Eligible | Eligibility::Bounded | Eligibility::Full)
    }
}
