//! HTTPRoutes and GRPCRoutes with hosts in common on one listener: exactly one of two such routes is accepted, as the API demands. The older one
//! stays, then the first by name.

use std::collections::{BTreeMap, HashSet};

use weir_sort::CompactSort as _;

use crate::api::SharedText;
use crate::assembly::{RouteKey, RouteState};
use crate::compile::RouteKind;
use crate::refusal::Refusal;
use crate::store::ObjectKey;

/// The hosts that routes of one kind have on a listener.
#[derive(Debug, Default)]
struct ClaimedHosts {
    /// Names, wildcards, and the empty one for every host.
    hosts: HashSet<SharedText>,
    /// What follows the dots of each: where a wildcard would meet it.
    parents: HashSet<SharedText>,
}

impl ClaimedHosts {
    fn claim(&mut self, host: &SharedText) {
        let parents = host.match_indices('.').map(|(dot, _)| host[dot + 1..].into());
        self.parents.extend(parents);
        self.hosts.insert(host.clone());
    }

    fn meets(&self, host: &str) -> bool {
        if self.hosts.is_empty() || host.is_empty() {
            return !self.hosts.is_empty();
        }
        let is_covered = |(dot, _): (usize, &str)| self.hosts.contains(&*format!("*{}", &host[dot..]));
        let is_wildcard_met = || host.strip_prefix("*.").is_some_and(|parent| self.parents.contains(parent));
        self.hosts.contains("")
            || self.hosts.contains(host)
            || host.match_indices('.').any(is_covered)
            || is_wildcard_met()
    }
}

/// Decides for all routes; those for which that is new.
pub(crate) fn judge(routes: &mut BTreeMap<RouteKey, RouteState>) -> Vec<RouteKey> {
    let first_of = |kind| RouteKey { kind, key: ObjectKey::default() };
    let has_some = |kind, next| routes.range(first_of(kind)..first_of(next)).next().is_some();
    // The kinds of routes in their order.
    let has_both = has_some(RouteKind::Http, RouteKind::Grpc) && has_some(RouteKind::Grpc, RouteKind::Tls);
    let mut changed = Vec::new();
    let mut of_kinds: Vec<(&RouteKey, &mut RouteState)> =
        routes.range_mut(first_of(RouteKind::Http)..first_of(RouteKind::Tls)).collect();
    if has_both {
        of_kinds.sort_compact_by(|(one, of_one), (other, of_other)| {
            let age = |state: &RouteState| state.compiled.created.clone();
            (age(of_one), &one.key, one.kind).cmp(&(age(of_other), &other.key, other.kind))
        });
    }
    let mut claimed: BTreeMap<(usize, usize, RouteKind), ClaimedHosts> = BTreeMap::new();
    for (key, state) in of_kinds {
        let (kind, rival) = match key.kind {
            RouteKind::Grpc => (RouteKind::Grpc, RouteKind::Http),
            kind => (kind, RouteKind::Grpc),
        };
        let mut is_new = false;
        for attachment in &mut state.attachments {
            let gateway = attachment.gateway;
            let listeners = attachment.verdict.as_deref().unwrap_or_default();
            let has_rival = has_both
                && listeners.iter().any(|one| {
                    let rivals = claimed.get(&(gateway, one.listener, rival));
                    rivals.is_some_and(|rivals| one.hosts.iter().any(|host| rivals.meets(host)))
                });
            let refusal = has_rival.then(|| {
                let message =
                    format!("an older {} has some of the same hostnames on the listener", rival.name());
                Refusal::new("HostnameConflict", message)
            });
            if has_both && !has_rival {
                for one in listeners {
                    let hosts = claimed.entry((gateway, one.listener, kind)).or_default();
                    one.hosts.iter().for_each(|host| hosts.claim(host));
                }
            }
            is_new |= attachment.rival != refusal;
            attachment.rival = refusal;
        }
        if is_new {
            changed.push(key.clone());
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::hosts::meet;

    #[test]
    fn hosts_meet_as_they_do_one_by_one() {
        let hosts =
            ["", "*.test", "a.test", "*.a.test", "b.a.test", "*.b.a.test", "a.other", "test", "ba.test"];
        for claimed in hosts {
            let mut claims = ClaimedHosts::default();
            assert!(!claims.meets(claimed));
            claims.claim(&claimed.into());
            for host in hosts {
                assert_eq!(claims.meets(host), meet(claimed, host).is_some(), "{claimed:?} {host:?}");
            }
        }
    }
}
