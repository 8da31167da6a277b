//! The commands of the runtime socket, in the words of HAProxy: read, carried out, and answered in the form that its tools expect.
//!
//! Comes over the runtime socket, and over HTTP at `/api/raw`.

pub(crate) mod run;
mod rows;
mod tables;
pub(crate) mod command;
mod table_command;
