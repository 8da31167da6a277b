//! The addresses of all listeners side by side: none twice.

use crate::mistake::{Finding, MistakeKind};
use crate::source::Span;
use crate::text::Document;
use crate::value::ListenAddress;

/// Reports addresses that two listeners, or one listener twice, bind; warns where one takes part of what another takes.
pub(super) fn check(document: &Document, findings: &mut Vec<Finding>) {
    let addresses = listen_addresses(document);
    for (index, later) in addresses.iter().enumerate() {
        for earlier in &addresses[..index] {
            if !later.address.overlaps(&earlier.address) {
                continue;
            }
            let finding = if later.address == earlier.address {
                let what = format!("`{}` is bound twice", later.address);
                Finding::new(MistakeKind::Duplicate, later.at, what)
                    .related(earlier.at, "the first time here")
            } else {
                let what = format!("`{}` and `{}` overlap", later.address, earlier.address);
                Finding::new(MistakeKind::Doubtful, later.at, what)
                    .related(earlier.at, format!("the other address, of {}", earlier.owner))
                    .hint("a connection goes to the more specific address, if the system binds both")
            };
            findings.push(finding);
            break;
        }
    }
}

/// An address and who binds it.
struct Bound {
    owner: String,
    address: ListenAddress,
    at: Span,
}

fn listen_addresses(document: &Document) -> Vec<Bound> {
    let mut bound = Vec::new();
    for (name, text) in &document.listener.0 {
        for address in text.value.address.iter().flat_map(|addresses| &addresses.0) {
            let owner = format!("listener `{}`", name.value);
            bound.push(Bound { owner, address: address.value.clone(), at: address.at });
        }
    }
    if let Some(address) = document.admin.value.address {
        let at = document.admin.key_at("address");
        bound.push(Bound { owner: "`admin`".to_owned(), address: ListenAddress::Tcp(address), at });
    }
    bound
}
