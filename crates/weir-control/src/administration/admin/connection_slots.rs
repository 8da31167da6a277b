//! How many connections the admin listener serves at once, over all and from one host.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use weir_traffic::limit::ClientKey;

/// The most open connections; further ones are rejected.
const CONNECTIONS_MAX: usize = 64;

/// Of these, connections of one host, as [`ClientKey`] defines a host: idle connections of one must not keep all others out.
const CONNECTIONS_PER_HOST_MAX: usize = 16;

/// Counts the connections that are open.
#[derive(Debug, Default)]
pub(super) struct ConnectionSlots {
    open: Mutex<HashMap<ClientKey, usize>>,
}

/// A connection that is open; it is counted until this is dropped.
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    host: ClientKey,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.slots.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.host) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.host);
            }
        }
    }
}

impl ConnectionSlots {
    /// A place for a connection from this address, if one is left.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let host = ClientKey::from(address);
        let own = open.entry(host).or_default();
        if all >= CONNECTIONS_MAX || *own >= CONNECTIONS_PER_HOST_MAX {
            if *own == 0 {
                open.remove(&host);
            }
            return None;
        }
        *own += 1;
        Some(ConnectionSlot { slots: Arc::clone(self), host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_cannot_take_every_place_by_its_many_addresses() {
        let slots = Arc::new(ConnectionSlots::default());
        let six = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
        let of_one: Vec<_> = (0..20).filter_map(|last| slots.take(six(last))).collect();
        assert_eq!(of_one.len(), CONNECTIONS_PER_HOST_MAX);
        assert!(slots.take(IpAddr::from([0x2001, 0xdb8, 0, 2, 0, 0, 0, 1])).is_some(), "another network");
        let mapped = |ip: IpAddr| if let IpAddr::V4(ip) = ip { ip.to_ipv6_mapped().into() } else { ip };
        let ip = IpAddr::from([10, 0, 0, 1]);
        let both = (0..20).filter_map(|at| slots.take(if at % 2 == 0 { ip } else { mapped(ip) }));
        assert_eq!(both.collect::<Vec<_>>().len(), CONNECTIONS_PER_HOST_MAX);
    }

    #[test]
    fn one_address_cannot_take_every_place() {
        let slots = Arc::new(ConnectionSlots::default());
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let of_one: Vec<_> = (0..20).filter_map(|_| slots.take(address(1))).collect();
        assert_eq!(of_one.len(), CONNECTIONS_PER_HOST_MAX);
        let others: Vec<_> = (2..=200).filter_map(|last| slots.take(address(last))).collect();
        assert_eq!(of_one.len() + others.len(), CONNECTIONS_MAX);
        drop(of_one);
        assert!(slots.take(address(1)).is_some());
        drop(others);
        assert!(slots.open.lock().unwrap().is_empty(), "no host is remembered");
    }
}
