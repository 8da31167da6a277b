//! The control plane of Weir: everything that is not on the request path.
//!
//! Starts, reloads and stops the running [`Proxy`]; serves the admin listener and the runtime socket; probes servers, resolves their names,
//! reads changed certificates, writes logs, exports traces, takes profiles. Talks to the workers of `weir-proxy` by messages and by
//! reading its state. Must not make a worker wait.

mod proxy;
mod runtime_socket;
mod admin;
mod runtime_commands;
mod operations;
mod reports;
mod figures;
mod background_tasks;
mod servers;
mod connections;
mod node;
mod credentials;
mod limit_exchange;
mod acme;
mod certificates;
mod dns_names;
mod trace_export;
mod memory;
mod worker_queries;
mod logs;
mod sockets;
mod upgrade;
mod pid_file;
mod process;
mod panics;
mod privileges;
mod start_error;
mod internal_authority;
mod commands;
mod admin_access;
mod reload_counts;
mod trace_counts;
#[cfg(feature = "profiler")]
mod profile;
mod whole_files;
mod threads;
mod features;
mod sys;

pub use commands::{
    AdminCommand, CommandKind, CommandRejected, CommandSender, CommandUnderWay, ReloadReport, ServerChange,
    UpgradeReport,
};
pub use features::{BUILD_HELP, Feature, PROFILER, TRACES, XDS};
pub use internal_authority::InternalError;
pub use logs::own_log::OwnLog;
pub use memory::MemoryPlan;
pub use node::watcher::{NodeWatcher, WaitingWatcher};
pub use panics::watch as watch_panics;
pub use proxy::{
    NewNames, OpenedProxy, ProgressCheck, Proxy, ServerChanges, StopReport, with_stored_servers,
    workers_by_default,
};
pub use sockets::inherited_sockets::InheritedSockets;
pub use sockets::listening_sockets::BoundListener;
pub use start_error::StartError;
pub use upgrade::handover::{
    HandedFragments, Handover, HandoverError, HandoverGiver, HandoverReceiver, Takeover,
};
pub use upgrade::launcher::{UPGRADE_VARIABLE, UpgradeLauncher};
pub use upgrade::running_requests::{OccupiedSlots, RunningRequests};
pub use weir_discovery::{FragmentSet, ServerSet};

pub use privileges::{
    give_up as give_up_privileges, overview as confinement, why_missing, why_refused, why_unbindable,
    why_unreadable,
};
