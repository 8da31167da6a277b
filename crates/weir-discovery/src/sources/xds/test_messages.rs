//! Messages for tests.

use super::messages::base::{Address, AddressKind, SocketAddress, WrappedNumber};
use super::messages::endpoint::{EndpointDescription, LbEndpoint, LoadAssignment, LocalityEndpoints};

/// An endpoint of this address.
pub(super) fn endpoint(address: &str, port: u32) -> LbEndpoint {
    let socket = SocketAddress { address: address.into(), port_value: port, ..SocketAddress::default() };
    let address = Some(Address { kind: Some(AddressKind::Socket(socket)) });
    LbEndpoint {
        endpoint: Some(EndpointDescription { address, ..EndpointDescription::default() }),
        ..LbEndpoint::default()
    }
}

/// An assignment with these endpoints in one locality.
pub(super) fn assignment(name: &str, endpoints: &[(&str, u32)]) -> LoadAssignment {
    let lb_endpoints = endpoints.iter().map(|(address, port)| endpoint(address, *port)).collect();
    let locality = LocalityEndpoints { lb_endpoints, ..LocalityEndpoints::default() };
    LoadAssignment { cluster_name: name.into(), endpoints: vec![locality], policy: None }
}

/// A number that is set.
pub(super) fn number(value: u32) -> Option<WrappedNumber> {
    Some(WrappedNumber { value })
}
