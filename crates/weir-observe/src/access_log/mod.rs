//! One line per exchange: its fields, the syntax of formats, and rendering.
//!
//! A worker fills an [`ExchangeRecord`] with borrowed values when an exchange is over, a [`LogTemplate`] turns it into one
//! line, and a writer elsewhere takes the line. Whatever bytes a peer sent, a line is one line: see `escape.rs`.

mod parse;
mod render;
mod format;
pub(crate) mod escape;
mod field;
mod mask;
mod record;
mod termination;
pub mod syslog;
mod timestamp;
#[cfg(test)]
mod tests;

pub use format::{FormatError, LogTemplate};
pub use record::{AuthRecord, ExchangeRecord, FieldSource, NoFields, OpenConnections, TlsRecord};
pub use termination::Termination;
pub use timestamp::UnixMicros;
