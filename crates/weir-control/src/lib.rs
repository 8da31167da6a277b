//! The control plane of Weir: everything that is not on the request path.
//!
//! Starts, reloads and stops the running [`Proxy`]; serves the admin listener and the runtime socket; probes servers, resolves their names,
//! reads changed certificates, writes logs, exports traces, takes profiles. Talks to the workers of `weir-proxy` by messages and by
//! reading its state. Must not make a worker wait.

mod serving;
mod proxy;
mod administration;
mod cluster;
mod tls;
mod servers;
mod telemetry;
mod memory;
mod lifecycle;
mod workers;
mod start_error;
mod features;
mod system;

pub use crate::cluster::node::watcher::{NodeWatcher, WaitingWatcher};
pub use crate::lifecycle::panics::watch as watch_panics;
pub use crate::lifecycle::sockets::inherited_sockets::InheritedSockets;
pub use crate::lifecycle::sockets::listening_sockets::BoundListener;
pub use crate::lifecycle::upgrade::handover::{
    HandedFragments, Handover, HandoverError, HandoverGiver, HandoverReceiver, Takeover,
};
pub use crate::lifecycle::upgrade::launcher::{UPGRADE_VARIABLE, UpgradeLauncher};
pub use crate::lifecycle::upgrade::running_requests::{OccupiedSlots, RunningRequests};
pub use crate::telemetry::logs::own_log::OwnLog;
pub use crate::workers::commands::{
    AdminCommand, CommandKind, CommandRejected, CommandSender, CommandUnderWay, ReloadReport, ServerChange,
    UpgradeReport,
};
pub use features::{BUILD_HELP, Feature, GEOIP, HTTP3, PROFILER, TRACES, XDS};
pub use memory::MemoryPlan;
pub use proxy::{
    NewNames, OpenedProxy, ProgressCheck, Proxy, ServerChanges, StopReport, with_stored_servers,
    workers_by_default,
};
pub use serving::{
    ConfigSource, ConfigWatch, ProcessState, RoutesElsewhere, RoutesUpdate, ServeEnd, ServeEvents,
    ServeSignal, Serving, ServingProgram, UPGRADE_TIME_MAX, with_known_fragments,
};
pub use start_error::{InternalError, StartError};
pub use weir_discovery::{FragmentSet, ServerSet};

pub use crate::lifecycle::privileges::{
    give_up as give_up_privileges, overview as confinement, why_missing, why_refused, why_unbindable,
    why_unreadable,
};
