//! When a server is asked at all: always, in place of others, or when nothing else is left.

/// The group of servers that one belongs to; a group is asked when no server of those before it is eligible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ServerTier {
    /// One that gets requests.
    #[default]
    Primary,
    /// One in place of primaries.
    Backup,
    /// One that its source of servers says to be about to end: in place of all others.
    LastResort,
}

impl ServerTier {
    /// All, in the order in which they are asked.
    pub const ALL: [ServerTier; 3] = [ServerTier::Primary, ServerTier::Backup, ServerTier::LastResort];
}
