//! Several nodes: a planned hand-over, what keepalived and BIRD are told, and what the nodes have in common. Machines are network namespaces.

mod hand_over;
mod announcements;
mod failover;
mod active_active;
mod forwarding;
mod bound_listeners;
mod anycast;
mod same_server;
mod shared_affinity;
mod shared_limits;
mod shared_tables;
mod store_tls;
mod sentinel;
mod limit_store;
mod forwarding_pair;
mod steady_client;
mod node;
