//! Sources of servers: who the servers of an upstream are, according to a file, DNS, Consul, etcd or a control plane (xDS), followed as it changes.
//!
//! Each upstream with a source has a task that asks it; what it says is a whole [`ServerSet`], sent when it changes. What is believed
//! (grace for empty answers, last known servers in an outage and over a restart) is decided in `source_state`, without I/O. Must not know the
//! request path, nor balance anything.

#![forbid(unsafe_code)]

// What is followed, and what is believed of it.
mod run;
mod server_sources;
mod route_sources;
mod believed_store;
mod remembered_servers;

// The sources, each with its task.
mod file_source;
mod file_format;
mod dns;
mod consul;
mod etcd;
mod xds;
mod source_client;
mod weights;
mod route_report;

// From a source to the set that goes out.
mod report;
mod state_file;
mod names_in_use;
mod source_state;
mod backoff;
mod server_set;
mod clock;

pub use believed_store::FragmentSet;
pub use dns::{SYSTEM_FILE, dns_resolver};
pub use names_in_use::{KnownAddresses, NamesInUse};
pub use remembered_servers::{RememberedServers, RememberedUpstream};
pub use run::{DiscoveryConfig, DiscoveryOutput, run};
pub use server_set::{DiscoveredServer, ServerReadiness, ServerSet, ServerSetOrigin};
pub use state_file::{StoredServers, StoredUpstream, stored_servers};
