//! Which requests the admin listener answers: credentials, host names, and pages of other sites.
//!
//! Decided on the control thread, before anything is looked up. None of this concerns the listeners of the config.

use std::net::{IpAddr, SocketAddr};

use data_encoding::BASE64;
use weir_config::Credentials;
use weir_http::Method;
use weir_observe::AdminRefusal;

use super::request::AdminRequest;
use super::response::RefusedRequest;
use crate::administration::admin_access::{AdminAccess, AdminPeer};

/// The field in which Weir's own page shows that it was read here.
const TOKEN_FIELD: &str = "weir-page-token";

/// Paths that reveal only whether traffic is welcome; probes have no credentials.
const OPEN_PATHS: [&[u8]; 2] = [b"/ready", b"/live"];

/// Whether the request needs no credentials.
pub(super) fn is_open(request: &AdminRequest) -> bool {
    matches!(request.method(), Method::Get | Method::Head) && OPEN_PATHS.contains(&request.path())
}

/// Whether a request is answered at all.
pub(super) fn check(
    access: &AdminAccess,
    request: &AdminRequest,
    peer: AdminPeer,
) -> Result<(), RefusedRequest> {
    let reads = matches!(request.method(), Method::Get | Method::Head);
    if peer == AdminPeer::Local || is_open(request) {
        return Ok(());
    }
    let rules = access.rules();
    if rules.credentials.are_needed() {
        check_credentials(request, &rules.credentials)?;
    } else {
        check_host(request, &rules.hosts)?;
    }
    if reads { check_site(request) } else { Ok(()) }
}

/// Whether a request may change anything.
pub(super) fn may_change(
    access: &AdminAccess,
    request: &AdminRequest,
    peer: AdminPeer,
) -> Result<(), RefusedRequest> {
    check_changes(access, peer, "Changes are not allowed here:")?;
    if peer == AdminPeer::Local {
        return Ok(());
    }
    let (site, origin) = (request.field("sec-fetch-site"), request.field("origin"));
    if site.is_none() && origin.is_none() {
        // Not a browser.
        return Ok(());
    }
    let token = request.field(TOKEN_FIELD).unwrap_or_default();
    let is_ours = site.is_none_or(|site| site == b"same-origin")
        && origin.is_none_or(|origin| is_origin_of(origin, request.field("host").unwrap_or_default()))
        && access.page_token().is_some_and(|own| token == own.as_bytes());
    if is_ours {
        return Ok(());
    }
    let what = "Requests from web pages are refused, except from the status page of this very process: load it anew.\n";
    Err(RefusedRequest::new(AdminRefusal::CrossSite, 403, what))
}

/// Whether a request may have a profile: it costs CPU time and shows running code, so it takes the right to change something. A form of the
/// status page is enough, without a script: a page of another site cannot get one, since browsers name the origin of every POST.
pub(super) fn may_profile(
    access: &AdminAccess,
    request: &AdminRequest,
    peer: AdminPeer,
) -> Result<(), RefusedRequest> {
    check_changes(access, peer, "A profile needs the right to make changes:")?;
    let (site, origin) = (request.field("sec-fetch-site"), request.field("origin"));
    let is_elsewhere = matches!(site, Some(b"cross-site" | b"same-site"))
        || origin.is_some_and(|origin| !is_origin_of(origin, request.field("host").unwrap_or_default()));
    if peer != AdminPeer::Local && is_elsewhere {
        return Err(RefusedRequest::new(
            AdminRefusal::CrossSite,
            403,
            "Requests from web pages are refused.\n",
        ));
    }
    Ok(())
}

/// Whether the config allows changes over this connection.
fn check_changes(access: &AdminAccess, peer: AdminPeer, what: &str) -> Result<(), RefusedRequest> {
    let (is_allowed, key) = match peer {
        AdminPeer::Local => (access.allows_socket_changes(), "admin.socket_changes"),
        AdminPeer::Network(_) => (access.allows_changes(), "admin.changes"),
    };
    if is_allowed {
        return Ok(());
    }
    let what = format!("{what} `{key}` of the config is off.\n");
    Err(RefusedRequest::new(AdminRefusal::ChangesOff, 403, &what))
}

fn check_credentials(request: &AdminRequest, credentials: &Credentials) -> Result<(), RefusedRequest> {
    let presented = request.field("authorization");
    if presented.is_some_and(|presented| are_accepted(presented, credentials)) {
        return Ok(());
    }
    let what = "Credentials are needed here: those of `admin.user`, or the token of `admin.token_file`.\n";
    let mut refused = RefusedRequest::new(AdminRefusal::Credentials, 401, what);
    // Browsers ask for a name and a password by the first one; a token goes as a password too.
    refused.answer = refused.answer.with_field("WWW-Authenticate", "Basic realm=\"Weir\", charset=\"UTF-8\"");
    if !credentials.have_user() {
        refused.answer = refused.answer.with_field("WWW-Authenticate", "Bearer realm=\"Weir\"");
    }
    refused.guessed = presented.is_some();
    Err(refused)
}

/// `Basic` (RFC 7617) or `Bearer` (RFC 6750).
fn are_accepted(presented: &[u8], credentials: &Credentials) -> bool {
    let Some(space) = presented.iter().position(|byte| *byte == b' ') else { return false };
    let (scheme, value) = (&presented[..space], presented[space..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return credentials.accept_token(value);
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return false;
    }
    let Ok(pair) = BASE64.decode(value) else { return false };
    let Some(colon) = pair.iter().position(|byte| *byte == b':') else { return false };
    let (user, password) = (&pair[..colon], &pair[colon + 1..]);
    credentials.accept_user(user, password) || credentials.accept_token(password)
}

/// Against DNS rebinding: a page elsewhere can have its name lead here, but that is no address, none of our names, and none without a
/// dot, since such a name cannot be registered.
fn check_host(request: &AdminRequest, hosts: &[Box<str>]) -> Result<(), RefusedRequest> {
    let Some(host) = request.field("host") else { return Ok(()) };
    if is_own_host(&String::from_utf8_lossy(host), hosts) {
        return Ok(());
    }
    let what = "This is no name of Weir's admin listener. Without credentials it answers to addresses, to names without a dot and to those of `admin.allowed_hosts`: any page of the web can have a \
                name of its own lead here (DNS rebinding).\n\
                To scrape metrics by a name like weir.example.com, do one of these:\n\
                - list the name: admin.allowed_hosts = [\"weir.example.com\"]\n\
                - ask for credentials: admin.token_file (`authorization` in the scrape config of Prometheus) or admin.user and admin.password_file (`basic_auth`)\n\
                - scrape by address\n";
    Err(RefusedRequest::new(AdminRefusal::Host, 421, what))
}

fn is_own_host(authority: &str, hosts: &[Box<str>]) -> bool {
    if authority.parse::<SocketAddr>().is_ok() || authority.parse::<IpAddr>().is_ok() {
        return true;
    }
    if let Some(address) = authority.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<IpAddr>().is_ok();
    }
    let name = authority.rsplit_once(':').map_or(authority, |(name, _port)| name);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    !name.is_empty() && !name.contains('.')
        || name.ends_with(".localhost")
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(&name))
}

/// Whether the page of another site wants to use an answer as a part of itself (Fetch Metadata). A link that a user follows is fine.
fn check_site(request: &AdminRequest) -> Result<(), RefusedRequest> {
    let elsewhere = matches!(request.field("sec-fetch-site"), Some(b"cross-site" | b"same-site"));
    if elsewhere && request.field("sec-fetch-mode") != Some(b"navigate") {
        let what = "Pages of other sites get nothing here.\n";
        return Err(RefusedRequest::new(AdminRefusal::CrossSite, 403, what));
    }
    Ok(())
}

/// Whether an origin (RFC 6454) is that of pages that were asked for by this `Host`.
fn is_origin_of(origin: &[u8], host: &[u8]) -> bool {
    let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    !host.is_empty() && authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_local_names_and_those_of_the_config() {
        let hosts: [Box<str>; 1] = ["weir.internal".into()];
        for host in [
            "127.0.0.1:9000",
            "10.1.2.3",
            "[::1]:9000",
            "[::1]",
            "localhost",
            "LocalHost:9000",
            "weir.localhost:1",
            "weir:9000",
            "Weir.Internal:9000",
            "weir.internal.",
        ] {
            assert!(is_own_host(host, &hosts), "{host}");
        }
        for host in ["", "evil.test", "evil.test:9000", "localhost.evil.test", "127.0.0.1.evil.test"] {
            assert!(!is_own_host(host, &hosts), "{host}");
        }
    }

    #[test]
    fn an_origin_belongs_to_a_host() {
        assert!(is_origin_of(b"http://127.0.0.1:9000", b"127.0.0.1:9000"));
        assert!(is_origin_of(b"https://weir.internal", b"weir.internal"));
        for (origin, host) in [
            ("null", "null"),
            ("", ""),
            ("http://", ""),
            ("http://127.0.0.1:3000", "127.0.0.1:9000"),
            ("http://evil.test", "127.0.0.1:9000"),
            ("ftp://a", "a"),
        ] {
            assert!(!is_origin_of(origin.as_bytes(), host.as_bytes()), "{origin} {host}");
        }
    }
}
