//! `[routes_from.NAME]` in the text.

use crate::key::{Spanned, section};

section! {
    /// Keys of etcd or Consul that hold parts of the config, followed while Weir runs: routes of listeners that the file has, and upstreams. Each
    /// key is checked as if the file included it; one with a mistake changes nothing. See [docs/discovery.md](discovery.md#routes-from-keys).
    #[derive(Debug, Clone)]
    pub(crate) struct RoutesFromText at "routes_from.NAME" {
        /// A prefix of keys in etcd (`discovery.etcd`): each key below it is a fragment. Exactly one of `etcd` and `consul` is set.
        etcd: Spanned<Box<str>> = optional, like "Traefik `providers.etcd.rootKey`";
        /// A prefix of keys in the KV store of Consul (`discovery.consul`): each key below it is a fragment.
        consul: Spanned<Box<str>> = optional, like "Traefik `providers.consul.rootKey`";
        /// The datacenter of the keys in Consul. Without it, that of the agent.
        datacenter: Spanned<Box<str>> = optional;
        /// A file in which the fragments in use are kept, so that a start does not depend on a store that is away. Weir writes it; its folder
        /// must exist. Without it, they are kept in memory only.
        state_file: Spanned<Box<str>> = optional;
    }
}
