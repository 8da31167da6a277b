//! The data path of Weir and what keeps it running.
//!
//! In the order of the flow: a worker accepts a session, a session carries exchanges, an exchange is relayed to a
//! server. See ARCHITECTURE.md for the map.

mod proxy;
mod reload;
mod wishes;
mod worker;
mod snapshot;
mod view;
mod turn;
mod room;

mod downstream;
mod exchange;
mod relay;
mod upstream;
mod recorder;
mod running;
mod control;

mod tls;

mod connection;
mod socket;
mod sys;
mod descriptors;
mod buffer;
mod allowance;
mod deadline;
mod quantum;
mod tide;
mod timers;
mod idleness;
mod alarm;
mod wheel;
mod clock;
mod cpus;

pub use control::own_log::OwnLog;
pub use descriptors::DescriptorBudget;
pub use downstream::listener::BoundAddress;
pub use proxy::{Listened, Proxy, StartError, Stopped, workers_by_default};
pub use reload::Reloaded;
pub use snapshot::{TlsError, head_limits};
pub use tide::give_back_memory_by;
pub use wishes::{ServerChange, Unfulfilled, Wanted, Wish, Wishes};
