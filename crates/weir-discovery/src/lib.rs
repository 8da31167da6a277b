//! Sources of servers: who the servers of an upstream are, according to a file, DNS, Consul, etcd or a control plane (xDS), followed as it changes.
//!
//! Each upstream with a source has a task that asks it; what it says is a whole [`ServerSet`], sent when it changes. What is believed
//! (grace for empty answers, last known servers in an outage and over a restart) is decided in `last_known/`, without I/O. Must not know the
//! request path, nor balance anything.

#![forbid(unsafe_code)]

// What is followed: configs come in, whole sets go out.
mod run;
mod server_sources;
mod route_sources;

// The sources, each with its task.
mod sources;

// What is believed of what they say.
mod last_known;

mod server_set;
mod clock;

pub use last_known::believed_store::FragmentSet;
pub use last_known::names_in_use::{KnownAddresses, NamesInUse};
pub use last_known::remembered_servers::{RememberedServers, RememberedUpstream};
pub use last_known::state_file::{StoredServers, StoredUpstream, stored_servers};
pub use run::{DiscoveryConfig, DiscoveryOutput, run};
pub use server_set::{DiscoveredServer, ServerReadiness, ServerSet, ServerSetOrigin};
pub use sources::dns::{SYSTEM_FILE, dns_resolver};
