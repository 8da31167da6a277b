//! Networks less other networks: who is left to be denied when only some are allowed.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_config::{AccessListParts, ListAction};

/// Every address of both families.
fn every() -> [IpNet; 2] {
    [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())]
}

/// The networks of clients that are not served: those that are denied, and all but those that are allowed, if some are.
pub(super) fn denied(allowed: &[IpNet], denied: &[IpNet]) -> Vec<IpNet> {
    let mut networks = denied.to_vec();
    if !allowed.is_empty() {
        for network in every() {
            let taken: Vec<&IpNet> = allowed.iter().collect();
            push_rest(network, &taken, &mut networks);
        }
    }
    networks
}

/// These networks less others.
pub(super) fn less(networks: &[IpNet], others: &[IpNet]) -> Vec<IpNet> {
    let others: Vec<&IpNet> = others.iter().collect();
    let mut rest = Vec::new();
    networks.iter().for_each(|network| push_rest(*network, &others, &mut rest));
    rest
}

/// A network less others, as the largest networks that make it up.
fn push_rest(network: IpNet, others: &[&IpNet], rest: &mut Vec<IpNet>) {
    let meeting: Vec<&IpNet> =
        others.iter().copied().filter(|other| other.contains(&network) || network.contains(*other)).collect();
    if meeting.is_empty() {
        rest.push(network);
    } else if !meeting.iter().any(|other| other.contains(&network)) {
        let halves = network.subnets(network.prefix_len() + 1).expect("it contains a smaller one");
        halves.for_each(|half| push_rest(half, &meeting, rest));
    }
}

/// A list of networks of clients.
pub(super) fn list(name: &str, action: ListAction, networks: &[IpNet]) -> AccessListParts {
    AccessListParts::of_networks(name, action, networks.iter().map(|network| (*network, name.into())))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn networks(text: &str) -> Vec<IpNet> {
        text.split_whitespace().map(|one| one.parse().unwrap()).collect()
    }

    #[test]
    fn all_but_the_allowed_are_denied() {
        for (allowed, denied_too, served, refused) in [
            ("10.0.0.0/8", "", "10.0.0.1 10.255.255.255", "9.255.255.255 11.0.0.0 192.0.2.1 ::1 2001:db8::1"),
            (
                "10.0.0.0/8 2001:db8::/32",
                "10.1.0.0/16",
                "10.0.0.1 10.2.0.0 2001:db8::5",
                "10.1.2.3 2001:db9::1",
            ),
            ("192.0.2.1/32", "", "192.0.2.1", "192.0.2.0 192.0.2.2"),
            ("0.0.0.0/0 ::/0", "", "192.0.2.0 ::1", ""),
            ("", "192.0.2.0/24", "192.0.3.0 ::1", "192.0.2.9"),
        ] {
            let list = list("a", ListAction::Deny, &denied(&networks(allowed), &networks(denied_too)));
            let is_denied = |address: &str| list.find_address(address.parse::<IpAddr>().unwrap()).is_some();
            served.split_whitespace().for_each(|address| assert!(!is_denied(address), "{allowed} {address}"));
            refused.split_whitespace().for_each(|address| assert!(is_denied(address), "{allowed} {address}"));
        }
    }

    #[test]
    fn what_is_denied_is_not_exempt() {
        let rest = less(&networks("10.0.0.0/30 192.0.2.0/24"), &networks("10.0.0.1/32 192.0.0.0/16"));
        assert_eq!(rest, networks("10.0.0.0/32 10.0.0.2/31"));
    }
}
