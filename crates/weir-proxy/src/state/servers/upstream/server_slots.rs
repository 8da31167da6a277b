//! Which server has which place over the reloads of its upstream.
//!
//! The place of a server is its `ServerId`, which is stored elsewhere too: by exchanges in the queue, in the outlier
//! table, with learned cookies. So a server keeps its place as long as the config names it, and leaves it behind only
//! when nothing runs on it any more; then a new server may have it. Pure: looks at loads, changes nothing.

use std::collections::{HashMap, VecDeque};

use weir_config::{Server, Upstream};

use super::UpstreamPlan;
use crate::net::clock::Instant;

/// The servers of an upstream by their places.
#[derive(Debug)]
pub(super) struct ServerSlots {
    pub(super) servers: Vec<Server>,
    /// Of those that the config does not name any more: when their last tunnels end.
    pub(super) leaves_at: Vec<Option<Instant>>,
    /// Whether a server was in its place before.
    pub(super) is_known: Vec<bool>,
}

impl ServerSlots {
    /// Places for servers that come all at once.
    pub(super) fn first(config: &Upstream) -> Self {
        let count = config.servers.len();
        Self { servers: config.servers.clone(), leaves_at: vec![None; count], is_known: vec![false; count] }
    }

    /// Places for the servers of `config` after those of `before`. Those that leave now end at `grace_ends`.
    pub(super) fn after(before: &UpstreamPlan, config: &Upstream, grace_ends: Instant) -> Self {
        let key = |server: &'_ Server| (server.name.clone(), server.address.clone());
        let places: HashMap<_, usize> = config.servers.iter().map(key).zip(0..).collect();
        let mut coming: Vec<Option<&Server>> = config.servers.iter().map(Some).collect();
        let mut slots = Self { servers: Vec::new(), leaves_at: Vec::new(), is_known: Vec::new() };
        let mut vacant = VecDeque::new();
        for (index, known) in before.config.servers.iter().enumerate() {
            let stays = places.get(&key(known)).and_then(|at| coming[*at].take());
            let left_at = before.leaves_at[index];
            if stays.is_none() && left_at.is_some() && before.balancer().states()[index].in_flight() == 0 {
                vacant.push_back(index);
            }
            let leaves_at = if stays.is_some() { None } else { Some(left_at.unwrap_or(grace_ends)) };
            slots.servers.push(stays.unwrap_or(known).clone());
            slots.leaves_at.push(leaves_at);
            slots.is_known.push(true);
        }
        for server in coming.into_iter().flatten() {
            if let Some(index) = vacant.pop_front() {
                slots.servers[index] = server.clone();
                (slots.leaves_at[index], slots.is_known[index]) = (None, false);
            } else {
                slots.servers.push(server.clone());
                slots.leaves_at.push(None);
                slots.is_known.push(false);
            }
        }
        slots
    }
}
