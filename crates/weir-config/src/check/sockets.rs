//! The addresses of all listeners side by side: none twice.

use crate::key::Spanned;
use crate::mistake::{Finding, MistakeKind};
use crate::text::Document;
use crate::value::ListenAddress;

/// Reports addresses that two listeners, or one listener twice, bind; warns where one takes part of what another takes.
pub(super) fn check(document: &Document, findings: &mut Vec<Finding>) {
    let all: Vec<(&str, &Spanned<ListenAddress>)> = document
        .listener
        .0
        .iter()
        .flat_map(|(name, text)| {
            let addresses = text.value.address.iter().flat_map(|addresses| &addresses.0);
            addresses.map(|address| (&*name.value, address))
        })
        .collect();
    for (index, (_, later)) in all.iter().enumerate() {
        for (name, earlier) in &all[..index] {
            if !later.value.overlaps(&earlier.value) {
                continue;
            }
            let finding = if later.value == earlier.value {
                let what = format!("`{}` is bound twice", later.value);
                Finding::new(MistakeKind::Duplicate, later.at, what)
                    .related(earlier.at, "the first time here")
            } else {
                let what = format!("`{}` and `{}` overlap", later.value, earlier.value);
                Finding::new(MistakeKind::Doubtful, later.at, what)
                    .related(earlier.at, format!("the other address, of listener `{name}`"))
                    .hint("a connection goes to the more specific address, if the system binds both")
            };
            findings.push(finding);
            break;
        }
    }
}
