//! ACME: hosts that a certificate can be for, authorities that can be asked, and ways to prove a host that are there.

use std::net::IpAddr;
use std::path::Path;

use data_encoding::{BASE64, BASE64URL, BASE64URL_NOPAD};
use weir_traffic::route::HostPattern;

use super::dns_update;
use crate::certificate::Authorities;
use crate::check::certificate_files::load_file;
use crate::check::files::Files;
use crate::config::{
    AccountSecret, Acme, AcmeChallenge, AcmeIssuer, DnsHook, DnsRecords, ExternalAccount, Route,
};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{NonEmpty, Spanned, SpannedTable};
use crate::text::{AcmeText, ExternalAccountText, URL_BYTES_MAX, is_host_with_port};

pub(in crate::check) fn check(
    text: &SpannedTable<AcmeText>,
    routes: &[Route],
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Acme {
    let value = &text.value;
    let ca: Vec<Box<str>> = value.ca.0.iter().map(|ca| ca.value.clone()).collect();
    value.ca.0.iter().for_each(|ca| check_url(ca, diagnostics));
    if let Some(email) = &value.email {
        check_email(email, diagnostics);
    }
    let challenges = challenges(text, diagnostics);
    let can_wildcard = challenges.contains(&AcmeChallenge::Dns01);
    let hosts = hosts(text, routes, can_wildcard, diagnostics);
    check_on_demand(text, diagnostics);
    let on_demand: Vec<HostPattern> = value.on_demand.iter().map(|host| host.value.clone()).collect();
    if hosts.is_empty() && on_demand.is_empty() && text.is_sound {
        let message = "there is no host to get a certificate for: no route names one";
        let help = "write `hosts = [\"example.com\"]`, or `host` in a route";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, text.span, message).help(help));
    }
    let ca_root =
        value.ca_root.as_ref().and_then(|file| load_file(file, Authorities::load, files, diagnostics));
    let accounts = value.external_account.iter();
    let external_accounts =
        accounts.filter_map(|account| external_account(account, &ca, files, diagnostics)).collect();
    Acme {
        hosts,
        on_demand,
        issuer: AcmeIssuer {
            email: value.email.as_ref().map(|email| email.value.clone()),
            ca,
            ca_root,
            directory: files.folder(&value.directory),
            challenges,
            profile: value.profile.clone(),
            external_accounts,
            on_demand_ask: value.on_demand_ask.as_ref().map(|url| url.value.0.clone()),
            on_demand_max: value.on_demand_max as usize,
            orders_max: value.orders_max as usize,
            dns: dns_records(text, files, diagnostics),
            dns_follow_cname: value.dns_follow_cname,
        },
        wait: value.wait,
    }
}

fn check_url(ca: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) {
    let rest = ca.value.strip_prefix("https://").unwrap_or_default();
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let is_of_url = |c: char| c.is_ascii_graphic() && !"\"#<>\\^`{|}".contains(c);
    let is_url = is_host_with_port(authority) && rest.chars().all(is_of_url) && rest.len() <= URL_BYTES_MAX;
    if !is_url {
        let message = format!("`{}` is not the URL of a directory of ACME", ca.value);
        let help = "write one with `https://`, such as `\"https://acme-v02.api.letsencrypt.org/directory\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, ca.span, message).help(help));
    }
}

fn check_email(email: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) {
    let is_address = email.value.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && !host.is_empty() && email.value.chars().all(|c| c.is_ascii_graphic())
    });
    if !is_address {
        let message = format!("`{}` is not an address for mail", email.value);
        let help = "write one such as `\"ops@example.com\"`, or leave `email` out";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, email.span, message).help(help));
    }
}

fn challenges(text: &SpannedTable<AcmeText>, diagnostics: &mut Vec<Diagnostic>) -> Vec<AcmeChallenge> {
    let dns = ["dns_update", "dns_command"].into_iter().find(|key| !text.is_missing(key));
    let has_dns = dns.is_some();
    let Some(NonEmpty(named)) = &text.value.challenges else {
        return match has_dns {
            true => vec![AcmeChallenge::Dns01],
            false => vec![AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01],
        };
    };
    let names_dns = named.contains(&AcmeChallenge::Dns01);
    if names_dns && !has_dns && text.is_sound {
        let message = "`dns-01` needs something that sets records";
        let help = "write `dns_update` for a name server that takes updates, or `dns_command` for a program";
        diagnostics
            .push(Diagnostic::new(DiagnosticKind::Conflict, text.key_at("challenges"), message).help(help));
    }
    if let Some(key) = dns.filter(|_| !names_dns) {
        let message = format!("`{key}` has no effect: `challenges` does not name `dns-01`");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, text.key_at(key), message));
    }
    named.clone()
}

/// The hosts, each once, in the order of the text.
fn hosts(
    text: &SpannedTable<AcmeText>,
    routes: &[Route],
    can_wildcard: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Box<str>> {
    let mut hosts: Vec<Box<str>> = Vec::new();
    let mut add = |host: Box<str>| {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    };
    if let Some(named) = &text.value.hosts {
        for host in named {
            match why_not(&host.value, can_wildcard) {
                None => add(host.value.to_string().into()),
                Some((reason, help)) => {
                    let message = format!("there can be no certificate for `{}`: {reason}", host.value);
                    let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, host.span, message);
                    diagnostics.push(diagnostic.help(help));
                }
            }
        }
        return hosts;
    }
    let is_on_demand = |host: &HostPattern| text.value.on_demand.iter().any(|one| one.value == *host);
    for host in routes.iter().flat_map(|route| route.certified_hosts()) {
        match why_not(host, can_wildcard) {
            None => add(host.to_string().into()),
            Some(_) if *host == HostPattern::ANY || is_on_demand(host) => {}
            Some((reason, help)) => {
                let message = format!("the host `{host}` of a route gets no certificate: {reason}");
                diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, text.span, message).help(help));
            }
        }
    }
    hosts
}

/// Why there is no certificate for a host, and what helps.
fn why_not(host: &HostPattern, can_wildcard: bool) -> Option<(&'static str, &'static str)> {
    let name = host.to_string();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if *host == HostPattern::ANY {
        Some(("it is any host", "name the hosts"))
    } else if bare.parse::<IpAddr>().is_ok() {
        Some(("it is an address, not a name", "name a host, or use `certificates`"))
    } else if name.starts_with("*.") && !can_wildcard {
        Some((
            "a wildcard has to be proved by DNS",
            "write `dns_update` or `dns_command`, or patterns in `on_demand`",
        ))
    } else if !bare.contains('.') {
        Some(("it is no name of the public DNS", "name a whole host, such as `www.example.com`"))
    } else {
        None
    }
}

/// Clients that may name any host would have Weir order without end.
fn check_on_demand(text: &SpannedTable<AcmeText>, diagnostics: &mut Vec<Diagnostic>) {
    for host in text.value.on_demand.iter().filter(|host| host.value == HostPattern::ANY) {
        let message = "`on_demand` cannot be any host: clients could make Weir order without end";
        let help = "name your domains, such as `\"*.customers.example.com\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, host.span, message).help(help));
    }
    for key in ["on_demand_max", "on_demand_ask"] {
        if text.is_sound
            && text.value.on_demand.is_empty()
            && let Some(at) = text.written(key)
        {
            let message = format!("`{key}` has no effect without `on_demand`");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
    }
}

fn external_account(
    text: &SpannedTable<ExternalAccountText>,
    ca: &[Box<str>],
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ExternalAccount> {
    let ExternalAccountText { ca: named, key_id, key_file } = &text.value;
    if let Some(named) = named
        && !ca.contains(&named.value)
    {
        let message = format!("`{}` is none of the authorities in `ca`", named.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, named.span, message));
    }
    let key_file = key_file.as_ref()?;
    let path = files.path(key_file);
    let key = match files.may_read {
        true => read_key(&path, key_file.span, diagnostics)?,
        false => Box::default(),
    };
    let ca = named.as_ref().map_or_else(|| ca.first(), |named| Some(&named.value))?.clone();
    Some(ExternalAccount { ca, key_id: key_id.clone()?, key: AccountSecret(key) })
}

fn read_key(path: &Path, at: SourceSpan, diagnostics: &mut Vec<Diagnostic>) -> Option<Box<[u8]>> {
    let mut refuse = |kind, problem: String| {
        diagnostics.push(Diagnostic::new(kind, at, format!("`{}`: {problem}", path.display())));
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            refuse(DiagnosticKind::Unreadable, format!("the key cannot be read: {error}"));
            return None;
        }
    };
    let text = text.trim().as_bytes();
    let decoded = [BASE64URL_NOPAD, BASE64URL, BASE64].iter().find_map(|base64| base64.decode(text).ok());
    match decoded.filter(|key| !key.is_empty()) {
        Some(key) => Some(key.into()),
        None => {
            refuse(DiagnosticKind::BadValue, "this is not a key in base64".to_owned());
            None
        }
    }
}

/// What sets records: one of the two.
fn dns_records(
    text: &SpannedTable<AcmeText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<DnsRecords> {
    let value = &text.value;
    if value.dns_command.is_some()
        && let (Some(at), Some(other)) = (text.written("dns_command"), text.written("dns_update"))
    {
        let message = "`dns_command` and `dns_update` exclude each other";
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message);
        diagnostics.push(diagnostic.label(other, "the other is here"));
    }
    let update = value.dns_update.as_ref();
    match (update, &value.dns_command) {
        (Some(update), _) => dns_update::check(update, value, files, diagnostics).map(DnsRecords::Update),
        (None, Some(command)) => Some(DnsRecords::Command(dns_hook(command, value, diagnostics))),
        (None, None) => None,
    }
}

fn dns_hook(
    command: &NonEmpty<Spanned<Box<str>>>,
    value: &AcmeText,
    diagnostics: &mut Vec<Diagnostic>,
) -> DnsHook {
    if let Some(program) = command.0.first()
        && !Path::new(&*program.value).is_absolute()
    {
        let message = format!("`{}` is not the whole path of a program", program.value);
        let help = "write one such as `\"/usr/local/bin/set-record\"`; no shell is started, and `PATH` is not searched";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, program.span, message).help(help));
    }
    DnsHook {
        command: command.0.iter().map(|word| word.value.clone()).collect(),
        timeout: value.dns_timeout,
        wait: value.dns_wait,
    }
}
