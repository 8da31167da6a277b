//! One load of a scenario that has several, with its name in the table.

use crate::load::http2::flood::FloodKind;
use crate::load::tool::LoadTool;
use crate::topology::listener::Suite;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadCase {
    /// A crowd, played by one tool.
    Crowd { tool: LoadTool, clients: usize },
    /// The number of clients.
    Clients(usize),
    /// Clients that offer this suite.
    Suite(Suite),
    /// Requests with a body of this many bytes; 0: GET.
    Body(usize),
    /// Usual clients beside this attack.
    Flood(FloodKind),
}

impl std::fmt::Display for LoadCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Crowd { tool, clients } => {
                write!(f, "{}, {clients} clients", if tool == LoadTool::Ab { "ab -k" } else { tool.name() })
            }
            Self::Clients(clients) => write!(f, "{clients} clients"),
            Self::Suite(suite) => f.write_str(suite.name()),
            Self::Flood(kind) => f.write_str(kind.name()),
            Self::Body(0) => f.write_str("GET"),
            Self::Body(len) => write!(f, "POST of {len} bytes"),
        }
    }
}
