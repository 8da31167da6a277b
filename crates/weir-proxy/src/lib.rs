//! The data path of Weir.
//!
//! In layers: a folder uses only the folders below it. A worker accepts a connection, an exchange is carried on it, and
//! relayed to a server. The control plane, `weir-control`, starts the workers, sends them messages and reads `state`. See
//! ARCHITECTURE.md for the map.

pub mod worker;
pub mod downstream;
mod exchange;
mod responder;
pub mod upstream;
mod relay;
pub mod state;
mod compression;
pub mod net;
