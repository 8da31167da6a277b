//! Whether persistence kept a client on its server: the words of log and metrics.

/// What became of a client's bond to a server, told once per response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// It got the server that it belongs to.
    Kept,
    /// Its server could not have it; it belongs to another one from now on.
    Moved,
    /// It belonged to no server yet.
    New,
}

impl Kept {
    /// All of them, in the order of their values.
    pub const ALL: [Kept; 3] = [Kept::Kept, Kept::Moved, Kept::New];

    /// The stable lower-case name: label in metrics, word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Kept::Kept => "kept",
            Kept::Moved => "moved",
            Kept::New => "new",
        }
    }
}
