//! Which certificate is shown for which host at a port that several listeners share: that of the listener to which the host belongs, which is the
//! one with the most specific hostname. The names in a certificate choose between those of one listener, never between listeners: anyone who may
//! add a listener to the port could otherwise show a certificate of their own for the hosts of others.

use std::cmp::Reverse;
use std::sync::Arc;

use weir_config::LoadedCertificate;
use weir_sort::CompactSort as _;

use super::GatewayListenerPlan;
use crate::names::hosts::covers;

/// The certificates of these listeners, all of one port, each with the names for which it is shown: hosts, `*.` for one label, and `.` before
/// a name for all hosts below it. That for clients without a name, or with one that belongs to no listener, comes first.
pub(super) fn certificates_by_host(plans: &[&GatewayListenerPlan]) -> Vec<Arc<LoadedCertificate>> {
    let holders: Vec<_> = plans.iter().filter(|plan| !plan.certificates.is_empty()).copied().collect();
    let hosts: Vec<&str> = holders.iter().map(|plan| &*plan.hostname).collect();
    let mut in_order = holders.clone();
    // Stable: the listener for every host first, the others as they are written.
    in_order.sort_compact_by_key(|plan| !plan.hostname.is_empty());
    let mut shown: Vec<(&Arc<LoadedCertificate>, Vec<Box<str>>)> = Vec::new();
    for plan in in_order {
        for certificate in &plan.certificates {
            let names = names_of(certificate, plan, &hosts);
            match shown.iter_mut().find(|(known, _)| *known == certificate) {
                Some((_, known)) => {
                    known.extend(names.into_iter().filter(|name| !known.contains(name)).collect::<Vec<_>>());
                }
                None => shown.push((certificate, names)),
            }
        }
    }
    shown.into_iter().map(|(certificate, names)| limited(certificate, names)).collect()
}

/// The names for which a listener shows one of its certificates.
fn names_of(certificate: &LoadedCertificate, plan: &GatewayListenerPlan, hosts: &[&str]) -> Vec<Box<str>> {
    let own = &*plan.hostname;
    let is_domain = own.starts_with('*');
    if !own.is_empty() && !is_domain {
        let is_for = |one: &LoadedCertificate| one.names.iter().any(|name| covers(name, own));
        let others_are = plan.certificates.iter().any(|one| is_for(one));
        return if is_for(certificate) || !others_are { vec![own.into()] } else { Vec::new() };
    }
    let belongs = |name: &&str| !name.starts_with('.') && owner_of(name, hosts) == Some(own);
    let mut names: Vec<Box<str>> =
        certificate.names.iter().map(|name| &**name).filter(belongs).map(Into::into).collect();
    if is_domain {
        names.push(own[1..].into());
    }
    names
}

/// The hostname of the listener to which all of these hosts belong, or all but some that belong to more specific ones.
fn owner_of<'a>(name: &str, hosts: &[&'a str]) -> Option<&'a str> {
    hosts
        .iter()
        .copied()
        .filter(|host| covers(host, name))
        .min_by_key(|host| (*host != name, Reverse(host.len())))
}

/// The same certificate for other names.
fn limited(certificate: &Arc<LoadedCertificate>, names: Vec<Box<str>>) -> Arc<LoadedCertificate> {
    if certificate.names == names {
        return Arc::clone(certificate);
    }
    Arc::new(certificate.for_names(names))
}
