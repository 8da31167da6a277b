//! The host that a server is told.

/// The `Host` that a server gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ForwardHost {
    /// The one from the client.
    #[default]
    Keep,
    /// The address of the server as in the config.
    Server,
    /// This one.
    Literal(Box<str>),
}
