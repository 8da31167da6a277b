//! Hostnames of listeners and routes: which requests are for both, and which hostname is the more specific.
//!
//! A hostname is a name in lower case, `*.` and a name, or empty for every host.

use weir_sort::CompactSort as _;
use weir_traffic::route::{HostError, HostPattern};

use crate::api::SharedText;

/// A hostname as an object writes it, or every host.
pub(crate) fn hostname(written: Option<&str>) -> SharedText {
    match written {
        None | Some("" | "*") => SharedText::default(),
        Some(name) => name.to_ascii_lowercase().into(),
    }
}

/// A hostname in the one form that it has, whose every other spelling is the same host: in lower case, without a dot at its end. Empty for every host.
pub(crate) fn canonical(written: Option<&str>) -> Result<SharedText, HostError> {
    match written {
        None | Some("" | "*") => Ok(SharedText::default()),
        Some(name) => HostPattern::parse(name).map(|host| host.to_string().into()),
    }
}

fn in_lower_case(name: &SharedText) -> SharedText {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) || **name == *"*" {
        return hostname(Some(name));
    }
    name.clone()
}

/// Whether every host of `other` is one of `hostname`.
pub(crate) fn covers(hostname: &str, other: &str) -> bool {
    match hostname.strip_prefix('*') {
        _ if hostname.is_empty() || hostname == other => true,
        Some(suffix) => other.len() > suffix.len() && other.ends_with(suffix),
        None => false,
    }
}

/// The hosts of both, if there are any.
pub(crate) fn meet<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    if covers(one, other) { Some(other) } else { covers(other, one).then_some(one) }
}

/// The hosts that a listener has in common with a route, less those that belong to a more specific listener of the same port.
pub(crate) fn in_common(listener: &str, route: &[SharedText], others: &[&str]) -> Vec<SharedText> {
    let of_route: Vec<SharedText> = match route {
        [] => vec![SharedText::default()],
        names => names.iter().map(in_lower_case).collect(),
    };
    let is_taken = |host: &str| {
        others.iter().any(|other| *other != listener && covers(listener, other) && covers(other, host))
    };
    let mut hosts: Vec<SharedText> = of_route
        .iter()
        .filter_map(|name| {
            let host = meet(listener, name).filter(|host| !is_taken(host))?;
            Some(if *host == **name { name.clone() } else { host.into() })
        })
        .collect();
    hosts.sort_compact();
    hosts.dedup();
    // Kept for each route.
    hosts.shrink_to_fit();
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_both_are_the_more_specific_ones() {
        for (one, other, both) in [
            ("", "a.test", Some("a.test")),
            ("*.a.test", "x.a.test", Some("x.a.test")),
            ("*.a.test", "x.y.a.test", Some("x.y.a.test")),
            ("*.a.test", "*.y.a.test", Some("*.y.a.test")),
            ("*.a.test", "a.test", None),
            ("*.a.test", "xa.test", None),
            ("a.test", "b.test", None),
            ("a.test", "a.test", Some("a.test")),
            ("", "", Some("")),
        ] {
            assert_eq!(meet(one, other), both, "{one} and {other}");
            assert_eq!(meet(other, one), both, "{other} and {one}");
        }
    }

    #[test]
    fn hosts_of_a_more_specific_listener_are_its_own() {
        let route: [SharedText; 2] = ["x.a.test".into(), "y.a.test".into()];
        let hosts = in_common("*.a.test", &route, &["", "*.a.test", "x.a.test"]);
        assert_eq!(hosts, ["y.a.test"]);
    }
}
