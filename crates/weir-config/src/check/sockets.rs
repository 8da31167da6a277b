//! The addresses of all listeners side by side: none twice.

use crate::mistake::{Finding, MistakeKind};
use crate::source::Span;
use crate::text::Document;
use crate::value::ListenAddress;

/// Reports addresses that two listeners, or one listener twice, bind; warns where one takes part of what another takes. The sockets of
/// `[admin]` share no port with anybody.
pub(super) fn check(document: &Document, findings: &mut Vec<Finding>) {
    let addresses = listen_addresses(document);
    for (index, later) in addresses.iter().enumerate() {
        let overlapping = || addresses[..index].iter().filter(|earlier| later.takes.overlaps(&earlier.takes));
        let same = overlapping().find(|earlier| earlier.address == later.address);
        let Some(earlier) = same.or_else(|| overlapping().next()) else { continue };
        findings.push(if same.is_some() {
            let what = format!("`{}` is bound twice", later.address);
            Finding::new(MistakeKind::Duplicate, later.at, what).related(earlier.at, "the first time here")
        } else if later.is_admin {
            let what = format!("`{}` and `{}` cannot both be bound", later.address, earlier.address);
            Finding::new(MistakeKind::Conflict, later.at, what)
                .related(earlier.at, format!("the other address, of {}", earlier.owner))
                .hint("give it a port of its own")
        } else {
            let what = format!("`{}` and `{}` overlap", later.address, earlier.address);
            Finding::new(MistakeKind::Doubtful, later.at, what)
                .related(earlier.at, format!("the other address, of {}", earlier.owner))
                .hint("a connection goes to the more specific address")
        });
    }
}

/// An address and who binds it.
struct Bound {
    owner: String,
    /// As it is written.
    address: ListenAddress,
    /// What is gone once it is bound.
    takes: ListenAddress,
    at: Span,
    is_admin: bool,
}

/// Those of the listeners first.
fn listen_addresses(document: &Document) -> Vec<Bound> {
    let mut bound = Vec::new();
    for (name, text) in &document.listener.0 {
        for address in text.value.address.iter().flat_map(|addresses| &addresses.0) {
            let owner = format!("listener `{}`", name.value);
            let (address, at) = (address.value.clone(), address.at);
            bound.push(Bound { owner, takes: address.clone(), address, at, is_admin: false });
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
        bound.push(Bound { owner, address, takes, at: admin.key_at(key), is_admin: true });
    }
    bound
}
