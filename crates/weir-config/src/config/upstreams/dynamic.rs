//! `dynamic` of an upstream: the server that each request names.

use std::time::Duration;

use crate::config::AllowedServers;
use crate::value::Template;

/// The server of each request: a text made of it, and what that may come to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DynamicServers {
    /// `HOST:PORT`, with values of the request.
    pub server: Template,
    /// All that it may come to.
    pub allow: AllowedServers,
    /// Names that are known at once, those that lead nowhere included.
    pub names_max: usize,
    /// How long a name is known that no request asks for.
    pub idle: Duration,
}

impl DynamicServers {
    /// Servers by a text, of those that are allowed.
    pub fn new((server, allow): (Template, AllowedServers), names_max: usize, idle: Duration) -> Self {
        Self { server, allow, names_max, idle }
    }
}
