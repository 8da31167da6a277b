//! The state of a running Weir in the words of HAProxy's runtime socket, for programs that read those.
//!
//! Forms, columns, keys and their order are those of HAProxy 2.6 (its Management Guide, sections 9.1 to 9.3). Pure: an overview goes in, text
//! comes out; commands are read elsewhere.

mod info;
mod stat;
mod servers;
mod rows;
mod columns;
mod field;
mod events;
mod sessions;
mod check;
#[cfg(test)]
mod tests;

pub use check::{CheckLayer, check_status};
pub use events::{ErrorRow, errors};
pub use info::info;
pub use servers::{backends, servers_conn, servers_state};
pub use sessions::{SessionRow, session_details, sessions};
pub use stat::{ProxyName, StatFilter, stat};

/// How `show stat` and `show info` are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatForm {
    /// CSV, or lines `key: value`.
    #[default]
    Text,
    /// One line per value, with its type and its meaning.
    Typed,
    /// One line of JSON.
    Json,
}
