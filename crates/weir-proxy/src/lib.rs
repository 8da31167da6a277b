//! The data path of Weir and what keeps it running.
//!
//! In layers: a folder uses only the folders below it. A worker accepts a connection, an exchange is carried on it, and
//! relayed to a server. See ARCHITECTURE.md for the map.

mod control;

mod worker;
mod downstream;
mod exchange;
mod responder;
mod upstream;
mod relay;
mod state;
mod net;

pub use control::commands::{
    AdminCommand, CommandKind, CommandRejected, CommandSender, ReloadReport, ServerChange,
};
pub use control::listening_sockets::BoundListener;
pub use control::own_log::OwnLog;
pub use control::proxy::{Proxy, StopReport, workers_by_default};
pub use control::start_error::StartError;
pub use net::descriptors::DescriptorBudget;
pub use net::listening::BoundAddress;
pub use net::memory::give_back_memory_by;
pub use state::snapshot::head_limits;
pub use state::surroundings::TlsError;
