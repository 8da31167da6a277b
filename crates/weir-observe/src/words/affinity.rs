//! Whether affinity kept a client on its server: the words of log and metrics.

/// The outcome of affinity, recorded once per response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AffinityOutcome {
    /// It got the server that it belongs to.
    Kept,
    /// Its server could not have it; it belongs to another one from now on.
    Moved,
    /// It belonged to no server yet.
    New,
    /// Its server could not have it, and it may have no other one.
    Unavailable,
}

impl AffinityOutcome {
    /// All of them, in the order of their values.
    pub const ALL: [AffinityOutcome; 4] =
        [AffinityOutcome::Kept, AffinityOutcome::Moved, AffinityOutcome::New, AffinityOutcome::Unavailable];

    /// The stable lower-case name: label in metrics, word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            AffinityOutcome::Kept => "kept",
            AffinityOutcome::Moved => "moved",
            AffinityOutcome::New => "new",
            AffinityOutcome::Unavailable => "unavailable",
        }
    }
}
