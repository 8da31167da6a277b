//! The authority for development: names that the public DNS has are refused, since no client of theirs would trust it.

use std::net::IpAddr;

use weir_traffic::route::HostPattern;

use crate::check::files::Files;
use crate::config::{INTERNAL_DOMAINS, InternalAuthority, Route, is_internal_address, is_internal_name};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::InternalText;

/// What clients on the same machine ask for.
const OF_MACHINE: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

pub(in crate::check) fn check(
    text: &SpannedTable<InternalText>,
    routes: &[Route],
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> InternalAuthority {
    let InternalText { hosts, directory, lifetime } = &text.value;
    let mut authority = InternalAuthority {
        names: Vec::new(),
        addresses: Vec::new(),
        directory: directory.as_ref().map(|directory| files.folder(directory)),
        lifetime: *lifetime,
    };
    if let Some(hosts) = hosts {
        for host in hosts {
            add(&mut authority, &host.value, host.span, diagnostics);
        }
        if hosts.is_empty() && text.is_sound {
            let message = "`hosts` is empty: there is nothing to make a certificate for";
            let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, text.key_at("hosts"), message);
            diagnostics.push(diagnostic.help("name the hosts, or leave `hosts` out"));
        }
        return authority;
    }
    for host in routes.iter().flat_map(|route| route.certified_hosts()) {
        if *host != HostPattern::ANY {
            add(&mut authority, host, text.span, diagnostics);
        }
    }
    for host in OF_MACHINE {
        let host = HostPattern::parse(host).expect("it is a host");
        add(&mut authority, &host, text.span, diagnostics);
    }
    authority
}

/// Adds a host, unless there can be no certificate for it.
fn add(
    authority: &mut InternalAuthority,
    host: &HostPattern,
    at: SourceSpan,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let name = host.to_string();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let (reason, help) = if let Ok(address) = bare.parse::<IpAddr>() {
        if is_internal_address(address) {
            if !authority.addresses.contains(&address) {
                authority.addresses.push(address);
            }
            return;
        }
        ("it is a public address", "use `certificates` for it".to_owned())
    } else if *host == HostPattern::ANY {
        ("it is any host", "name the hosts".to_owned())
    } else if !is_internal_name(&name) {
        let domains = INTERNAL_DOMAINS.map(|domain| format!("`{domain}`")).join(", ");
        let help = format!(
            "clients of a public name need `acme = {{}}` or `certificates`; for development, use a name below {domains}"
        );
        ("it is not a name for development", help)
    } else if name.strip_prefix("*.").is_some_and(|rest| !rest.contains('.')) {
        (
            "clients accept no wildcard directly below a top-level domain",
            format!("write one such as `*.app{}`", &name[1..]),
        )
    } else {
        if !authority.names.iter().any(|known| **known == *name) {
            authority.names.push(name.into());
        }
        return;
    };
    let message = format!("the internal authority makes no certificate for `{name}`: {reason}");
    diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message).help(help));
}
