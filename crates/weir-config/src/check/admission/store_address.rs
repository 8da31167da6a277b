//! Addresses of stores and of their sentinels: schemes, hosts, ports, databases. No name is resolved.

use crate::config::{MonitoredMaster, StorePlace};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::Spanned;
use crate::value::ServerAddress;

/// The longest name of a master.
const MASTER_LEN_MAX: usize = 255;

/// What is written, and how.
struct StoreAddressKind {
    noun: &'static str,
    help: &'static str,
    usual_port: u16,
}

const SERVER: StoreAddressKind = StoreAddressKind {
    noun: "the address of a store",
    help: "write one such as `\"redis://10.0.0.5\"`, `\"rediss://cache.internal:6380/2\"` or `\"unix:/run/redis/redis.sock\"`",
    usual_port: 6379,
};

const MASTER: StoreAddressKind = StoreAddressKind {
    noun: "the name of a master",
    help: "with `sentinel`, the address has the name of the master in place of host and port: `\"redis://mymaster\"`, `\"rediss://mymaster/2\"`",
    usual_port: 6379,
};

const SENTINEL: StoreAddressKind = StoreAddressKind {
    noun: "the address of a sentinel",
    help: "write one such as `\"redis://10.0.0.5\"` or `\"rediss://sentinel.internal:26379\"`",
    usual_port: 26379,
};

/// The address of a store.
#[derive(Debug)]
pub(in crate::check) struct StoreAddress {
    /// Where it is; of a master, its name alone.
    pub(in crate::check) place: StorePlace,
    pub(in crate::check) database: u32,
    pub(in crate::check) is_tls: bool,
}

/// The address of a sentinel.
#[derive(Debug)]
pub(in crate::check) struct SentinelAddress {
    pub(in crate::check) server: ServerAddress,
    pub(in crate::check) is_tls: bool,
    pub(in crate::check) span: SourceSpan,
}

/// The address of a store without sentinels.
pub(in crate::check) fn of_server(
    text: &Spanned<Box<str>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<StoreAddress> {
    if text.value.starts_with("unix:") {
        let parsed = text.value.parse().map_err(|error| refuse(text, format!("{error}"), SERVER.help));
        let place = or_report(parsed, diagnostics)?;
        return Some(StoreAddress { place: StorePlace::Address(place), database: 0, is_tls: false });
    }
    let parsed = parts(text, &SERVER).and_then(|parts| {
        let database = parts.database(text, &SERVER)?;
        let server = server(text, parts.authority, &SERVER)?;
        Ok(StoreAddress { place: StorePlace::Address(server), database, is_tls: parts.is_tls })
    });
    or_report(parsed, diagnostics)
}

/// The address of a store whose master sentinels name.
pub(in crate::check) fn of_master(
    text: &Spanned<Box<str>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<StoreAddress> {
    let parsed = parts(text, &MASTER).and_then(|parts| {
        let database = parts.database(text, &MASTER)?;
        let name = parts.authority;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        let is_address = name.parse::<std::net::IpAddr>().is_ok();
        if name.is_empty() || name.len() > MASTER_LEN_MAX || !is_name || is_address {
            return Err(refuse(text, format!("`{}` does not have {}", text.value, MASTER.noun), MASTER.help));
        }
        let master = MonitoredMaster { name: name.into(), sentinels: Vec::new(), login: None };
        Ok(StoreAddress { place: StorePlace::Master(master), database, is_tls: parts.is_tls })
    });
    or_report(parsed, diagnostics)
}

/// The address of a sentinel.
pub(in crate::check) fn of_sentinel(
    text: &Spanned<Box<str>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<SentinelAddress> {
    let parsed = parts(text, &SENTINEL).and_then(|parts| {
        if parts.database.is_some() {
            return Err(refuse(text, "a sentinel has no databases".to_owned(), SENTINEL.help));
        }
        let server = server(text, parts.authority, &SENTINEL)?;
        Ok(SentinelAddress { server, is_tls: parts.is_tls, span: text.span })
    });
    or_report(parsed, diagnostics)
}

/// What a URL consists of.
struct AddressParts<'a> {
    is_tls: bool,
    authority: &'a str,
    database: Option<&'a str>,
}

impl AddressParts<'_> {
    fn database(&self, text: &Spanned<Box<str>>, kind: &StoreAddressKind) -> Result<u32, Diagnostic> {
        self.database.unwrap_or("0").parse().map_err(|_| {
            let message = format!("`{}` does not end with the number of a database", text.value);
            refuse(text, message, kind.help)
        })
    }
}

fn parts<'a>(text: &'a Spanned<Box<str>>, kind: &StoreAddressKind) -> Result<AddressParts<'a>, Diagnostic> {
    let schemes = [("redis://", false), ("rediss://", true)];
    let rest = schemes.iter().find_map(|(scheme, is_tls)| Some((*is_tls, text.value.strip_prefix(scheme)?)));
    let Some((is_tls, rest)) = rest else {
        if text.value.split("://").next().is_some_and(|scheme| scheme.ends_with("sentinel")) {
            let help = "write the name of the master as `address = \"redis://mymaster\"`, and the sentinels as `sentinel = { addresses = [\"redis://10.0.0.5\"] }`";
            // The text may have a password.
            return Err(refuse(text, "sentinels have no place in the address of a store".to_owned(), help));
        }
        return Err(refuse(text, format!("`{}` is not {}", text.value, kind.noun), kind.help));
    };
    if rest.contains('@') {
        // The text may have a password.
        let help = "write the user as `user` and the password as `password` or `password_file`";
        return Err(refuse(text, "the address has no user and no password".to_owned(), help));
    }
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    Ok(AddressParts { is_tls, authority, database: Some(database).filter(|text| !text.is_empty()) })
}

fn server(
    text: &Spanned<Box<str>>,
    authority: &str,
    kind: &StoreAddressKind,
) -> Result<ServerAddress, Diagnostic> {
    let has_port =
        authority.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let with_port = if has_port { authority.to_owned() } else { format!("{authority}:{}", kind.usual_port) };
    let address = with_port.parse::<ServerAddress>().ok().filter(|it| !matches!(it, ServerAddress::Unix(_)));
    address.ok_or_else(|| refuse(text, format!("`{}` is not {}", text.value, kind.noun), kind.help))
}

fn refuse(text: &Spanned<Box<str>>, message: String, help: &str) -> Diagnostic {
    Diagnostic::new(DiagnosticKind::BadValue, text.span, message).help(help)
}

fn or_report<T>(parsed: Result<T, Diagnostic>, diagnostics: &mut Vec<Diagnostic>) -> Option<T> {
    parsed.map_err(|diagnostic| diagnostics.push(diagnostic)).ok()
}
