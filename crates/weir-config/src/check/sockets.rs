//! The addresses of all listeners together: no duplicates, no overlaps without a warning.

use std::collections::HashMap;

use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::text::Document;
use crate::value::ListenAddress;

/// Reports addresses that two listeners, or one listener twice, bind; warns where one includes part of another. The sockets of
/// `[admin]` share no port with others.
pub(super) fn check(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let addresses = listen_addresses(document);
    let mut earlier = Earlier::default();
    for (index, later) in addresses.iter().enumerate() {
        let same = earlier.same_as(later, &addresses);
        let rival = earlier.of_all_ipv6(later, &addresses);
        let other = same.or(rival).or_else(|| earlier.overlapping(later, &addresses));
        earlier.add(index, later);
        let Some(earlier) = other else { continue };
        diagnostics.push(if same.is_some() {
            let message = format!("`{}` is bound twice", later.address);
            Diagnostic::new(DiagnosticKind::Duplicate, later.span, message)
                .label(earlier.span, "the first time here")
        } else if rival.is_some() {
            let message =
                format!("`{}` and `{}` both take all addresses of IPv6", later.address, earlier.address);
            let port = port(&later.takes).unwrap_or_default();
            Diagnostic::new(DiagnosticKind::Conflict, later.span, message)
                .label(earlier.span, format!("the other address, of {}", earlier.owner))
                .help(format!("`0.0.0.0:{port}` takes all of IPv4 and nothing else"))
        } else if later.is_admin {
            let message = format!("`{}` and `{}` cannot both be bound", later.address, earlier.address);
            Diagnostic::new(DiagnosticKind::Conflict, later.span, message)
                .label(earlier.span, format!("the other address, of {}", earlier.owner))
                .help("give it a port of its own")
        } else {
            let message = format!("`{}` and `{}` overlap", later.address, earlier.address);
            Diagnostic::new(DiagnosticKind::Suspicious, later.span, message)
                .label(earlier.span, format!("the other address, of {}", earlier.owner))
                .help("a connection goes to the more specific address")
        });
    }
}

/// The addresses before one, by their possible overlaps with it.
#[derive(Default)]
struct Earlier<'a> {
    same: HashMap<&'a ListenAddress, Vec<usize>>,
    /// Of each port: the addresses that include every address of a family or of both.
    wide: HashMap<u16, Vec<usize>>,
    /// Of each port: all.
    ports: HashMap<u16, Vec<usize>>,
}

impl<'a> Earlier<'a> {
    fn add(&mut self, index: usize, bound: &'a SocketClaim) {
        self.same.entry(&bound.address).or_default().push(index);
        if bound.takes != bound.address {
            self.same.entry(&bound.takes).or_default().push(index);
        }
        let Some(port) = port(&bound.takes) else { return };
        self.ports.entry(port).or_default().push(index);
        if is_wide(&bound.takes) {
            self.wide.entry(port).or_default().push(index);
        }
    }

    /// The first that is written as this one and takes some of the same.
    fn same_as<'b>(&self, later: &SocketClaim, all: &'b [SocketClaim]) -> Option<&'b SocketClaim> {
        let same = self.same.get(&later.address).into_iter().flatten().map(|index| &all[*index]);
        same.filter(|earlier| later.takes.overlaps(&earlier.takes))
            .find(|earlier| earlier.address == later.address)
    }

    /// The first that takes all addresses of IPv6, too, but is written otherwise: connections would go to either.
    fn of_all_ipv6<'b>(&self, later: &SocketClaim, all: &'b [SocketClaim]) -> Option<&'b SocketClaim> {
        let takes_all = |claim: &SocketClaim| match &claim.takes {
            ListenAddress::AllTcp { .. } => true,
            ListenAddress::Tcp(address) => address.is_ipv6() && address.ip().is_unspecified(),
            ListenAddress::Unix(_) => false,
        };
        let wide = self.wide.get(&port(&later.takes)?).filter(|_| takes_all(later))?;
        wide.iter()
            .map(|index| &all[*index])
            .find(|earlier| takes_all(earlier) && earlier.takes != later.takes)
    }

    /// The first that overlaps: all of the port are compared only for an address that includes the whole port.
    fn overlapping<'b>(&self, later: &SocketClaim, all: &'b [SocketClaim]) -> Option<&'b SocketClaim> {
        let overlapping = |list: Option<&Vec<usize>>| {
            let mut list = list.into_iter().flatten().copied();
            list.find(|index| later.takes.overlaps(&all[*index].takes))
        };
        let by_port = port(&later.takes).and_then(|port| {
            overlapping(if is_wide(&later.takes) { self.ports.get(&port) } else { self.wide.get(&port) })
        });
        by_port.into_iter().chain(overlapping(self.same.get(&later.takes))).min().map(|index| &all[index])
    }
}

fn port(address: &ListenAddress) -> Option<u16> {
    match address {
        ListenAddress::Tcp(addr) => Some(addr.port()),
        ListenAddress::AllTcp { port } => Some(*port),
        ListenAddress::Unix(_) => None,
    }
}

/// Whether it takes all addresses of a port, or all of one family.
fn is_wide(address: &ListenAddress) -> bool {
    match address {
        ListenAddress::Tcp(addr) => addr.ip().is_unspecified(),
        ListenAddress::AllTcp { .. } => true,
        ListenAddress::Unix(_) => false,
    }
}

/// An address and its owner.
struct SocketClaim {
    owner: String,
    /// As it is written.
    address: ListenAddress,
    /// The addresses that it occupies.
    takes: ListenAddress,
    span: SourceSpan,
    is_admin: bool,
}

/// The addresses of the listeners first.
fn listen_addresses(document: &Document) -> Vec<SocketClaim> {
    let mut bound = Vec::new();
    for (name, text) in &document.listener.0 {
        for address in text.value.address.iter().flat_map(|addresses| &addresses.0) {
            let owner = format!("listener `{}`", name.value);
            let (address, at) = (address.value.clone(), address.span);
            bound.push(SocketClaim { owner, takes: address.clone(), address, span: at, is_admin: false });
        }
    }
    let admin = &document.admin;
    let address = admin.value.address.map(ListenAddress::Tcp);
    for (key, address) in [("address", address), ("socket", admin.value.socket.clone())] {
        let Some(address) = address else { continue };
        let takes = match &address {
            // The admin listener takes IPv4 too, where a listener of this address does not.
            ListenAddress::Tcp(addr) if addr.is_ipv6() && addr.ip().is_unspecified() => {
                ListenAddress::AllTcp { port: addr.port() }
            }
            address => address.clone(),
        };
        let owner = format!("`admin.{key}`");
        bound.push(SocketClaim { owner, address, takes, span: admin.key_at(key), is_admin: true });
    }
    bound
}
