//! Where a request goes: an upstream, and the host that its server is told.

/// Index of an upstream in [`Config::upstreams`](crate::Config::upstreams).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamIndex(pub usize);

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
