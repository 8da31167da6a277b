//! The two ends of a connection.

/// Which side of the connection we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The peer opens streams.
    Server,
    /// We open streams.
    Client,
}
