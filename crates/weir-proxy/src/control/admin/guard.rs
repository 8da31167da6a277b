//! Who may do what at the admin listener: credentials, host names, pages of other sites, and how many may ask at once.
//!
//! Each refusal is counted by its reason, and logged once in a while with whose it was. None of this concerns the listeners of the
//! config: it is decided on the control thread, before anything is looked up.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use data_encoding::{BASE64, HEXLOWER};
use weir_config::{Config, ConfigDump, Credentials};
use weir_http::Method;
use weir_observe::{AdminRefusal, AdminShard, AdminStats};
use weir_traffic::limit::ClientKey;

use super::answer::Answer;
use super::request::Request;
use crate::net::clock::{self, Instant};

/// Connections that may be open; what comes beyond is refused.
const CONNECTIONS_MAX: usize = 64;

/// Of these, connections of one host, as [`ClientKey`] tells hosts: one that says nothing must not keep everybody out.
const CONNECTIONS_PER_HOST_MAX: usize = 16;

/// How often a refusal is logged.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// The field in which Weir's own page shows that it was read here.
pub(super) const TOKEN_FIELD: &str = "weir-page-token";

/// Paths that tell nothing but whether traffic is welcome; who asks has no credentials.
const OPEN_PATHS: [&[u8]; 2] = [b"/ready", b"/live"];

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Over TCP.
    Network(SocketAddr),
    /// Over a Unix socket, whose file mode has decided already.
    Local,
}

/// What the config says, exchanged by a reload.
#[derive(Debug, Default)]
struct Terms {
    credentials: Credentials,
    hosts: Vec<Box<str>>,
    changes: bool,
    socket_changes: bool,
    /// The whole of it, without secrets.
    shown: ConfigDump,
}

/// Whether everybody may ask that.
pub(super) fn is_open(request: &Request) -> bool {
    matches!(request.method(), Method::Get | Method::Head) && OPEN_PATHS.contains(&request.path())
}

impl Terms {
    fn of(config: &Config) -> Self {
        Self {
            credentials: config.credentials.clone(),
            hosts: config.admin.hosts.clone(),
            changes: config.admin.changes,
            socket_changes: config.admin.allows_socket_changes(),
            shown: config.dump.clone(),
        }
    }
}

/// Decides about connections and requests.
#[derive(Debug)]
pub(crate) struct Guard {
    terms: ArcSwap<Terms>,
    /// What only a page knows that was read from this process.
    page_token: String,
    open: Mutex<HashMap<ClientKey, usize>>,
    shard: AdminShard,
    logged: Mutex<Logged>,
}

/// When a refusal was logged, and how many have not been since.
#[derive(Debug, Default)]
struct Logged {
    at: Option<Instant>,
    unlogged: u64,
}

/// A connection that is open; it is counted until this is dropped.
pub(super) struct Seat {
    guard: Arc<Guard>,
    host: ClientKey,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.guard.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.host) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.host);
            }
        }
    }
}

/// Why a request is not answered as asked.
pub(super) struct Refused {
    pub(super) refusal: AdminRefusal,
    pub(super) answer: Answer,
    /// Whether it tried a password or a token: the next try has to wait.
    pub(super) guessed: bool,
}

impl Refused {
    pub(super) fn new(refusal: AdminRefusal, status: u16, text: &str) -> Self {
        Self { refusal, answer: Answer::plain(status, text), guessed: false }
    }
}

impl Guard {
    /// Decides by what `config` says.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self {
            terms: ArcSwap::from_pointee(Terms::of(config)),
            page_token: HEXLOWER.encode(&token),
            open: Mutex::default(),
            shard: AdminShard::default(),
            logged: Mutex::default(),
        })
    }

    /// Decides by another config from now on.
    pub(crate) fn follow(&self, config: &Config) {
        self.terms.store(Arc::new(Terms::of(config)));
    }

    pub(crate) fn figures(&self) -> AdminStats {
        self.shard.stats()
    }

    /// What Weir's own page has to send with a change; `None` when it can change nothing.
    pub(super) fn page_token(&self) -> Option<&str> {
        self.allows_changes().then_some(&*self.page_token)
    }

    /// The config in use, without secrets.
    pub(super) fn shown_config(&self) -> ConfigDump {
        self.terms.load().shown.clone()
    }

    /// Whether anything may be changed at all.
    pub(crate) fn allows_changes(&self) -> bool {
        self.terms.load().changes
    }

    /// Whether anything may be changed through the runtime socket.
    pub(crate) fn allows_socket_changes(&self) -> bool {
        self.terms.load().socket_changes
    }

    /// A place for a connection from this address, if one is left.
    pub(super) fn seat(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let host = ClientKey::from(address);
        let own = open.entry(host).or_default();
        if all >= CONNECTIONS_MAX || *own >= CONNECTIONS_PER_HOST_MAX {
            if *own == 0 {
                open.remove(&host);
            }
            return None;
        }
        *own += 1;
        Some(Seat { guard: Arc::clone(self), host })
    }

    pub(crate) fn count_answer(&self) {
        self.shard.record_answer();
    }

    /// Counts a refusal, and logs it if none was logged for a while.
    pub(crate) fn count_refusal(&self, refusal: AdminRefusal, peer: Peer) {
        self.shard.record_refusal(refusal);
        let now = clock::now();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.at.is_some_and(|at| now.saturating_duration_since(at) < LOG_PAUSE) {
            logged.unlogged += 1;
            return;
        }
        logged.at = Some(now);
        let unlogged = std::mem::take(&mut logged.unlogged);
        drop(logged);
        let reason = refusal.name();
        tracing::warn!(reason, %peer, more_since_the_last = unlogged, "the admin listener refused a request");
    }

    /// Whether a request is answered at all.
    pub(super) fn check(&self, request: &Request, peer: Peer) -> Result<(), Refused> {
        let reads = matches!(request.method(), Method::Get | Method::Head);
        if peer == Peer::Local || is_open(request) {
            return Ok(());
        }
        let terms = self.terms.load();
        if terms.credentials.are_needed() {
            check_credentials(request, &terms.credentials)?;
        } else {
            check_host(request, &terms.hosts)?;
        }
        if reads { check_site(request) } else { Ok(()) }
    }

    /// Whether a request may change anything.
    pub(super) fn may_change(&self, request: &Request, peer: Peer) -> Result<(), Refused> {
        self.check_changes(peer, "Changes are not allowed here:")?;
        if peer == Peer::Local {
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
            && token == self.page_token.as_bytes();
        if is_ours {
            return Ok(());
        }
        let what = "Requests from web pages are refused, except from the status page of this very process: load it anew.\n";
        Err(Refused::new(AdminRefusal::CrossSite, 403, what))
    }

    /// Whether a request may have a profile: it costs CPU time and shows what runs, so it takes the right to change something. A form of the
    /// status page will do, without a script: a page of another site can have none, since browsers say of every POST whose page made it.
    pub(super) fn may_profile(&self, request: &Request, peer: Peer) -> Result<(), Refused> {
        self.check_changes(peer, "Profiles are for those who may change something:")?;
        let (site, origin) = (request.field("sec-fetch-site"), request.field("origin"));
        let is_elsewhere = matches!(site, Some(b"cross-site" | b"same-site"))
            || origin.is_some_and(|origin| !is_origin_of(origin, request.field("host").unwrap_or_default()));
        if peer != Peer::Local && is_elsewhere {
            return Err(Refused::new(AdminRefusal::CrossSite, 403, "Requests from web pages are refused.\n"));
        }
        Ok(())
    }

    /// Whether the config lets anybody change something who comes this way.
    fn check_changes(&self, peer: Peer, what: &str) -> Result<(), Refused> {
        let (is_allowed, key) = match peer {
            Peer::Local => (self.allows_socket_changes(), "admin.socket_changes"),
            Peer::Network(_) => (self.allows_changes(), "admin.changes"),
        };
        if is_allowed {
            return Ok(());
        }
        let what = format!("{what} `{key}` of the config is off.\n");
        Err(Refused::new(AdminRefusal::ChangesOff, 403, &what))
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network(address) => write!(f, "{address}"),
            Self::Local => f.write_str("unix"),
        }
    }
}

fn check_credentials(request: &Request, credentials: &Credentials) -> Result<(), Refused> {
    let presented = request.field("authorization");
    if presented.is_some_and(|presented| are_accepted(presented, credentials)) {
        return Ok(());
    }
    let what = "Credentials are needed here: those of `admin.user`, or the token of `admin.token_file`.\n";
    let mut refused = Refused::new(AdminRefusal::Credentials, 401, what);
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
/// dot, since nobody can register such a one.
fn check_host(request: &Request, hosts: &[Box<str>]) -> Result<(), Refused> {
    let Some(host) = request.field("host") else { return Ok(()) };
    if is_own_host(&String::from_utf8_lossy(host), hosts) {
        return Ok(());
    }
    let what = "This is no name of Weir's admin listener. Without credentials it answers to addresses, to names without a dot and to those of `admin.hosts`: any page of the web can have a \
                name of its own lead here (DNS rebinding).\n\
                To scrape metrics by a name like weir.example.com, do one of these:\n\
                - list the name: admin.hosts = [\"weir.example.com\"]\n\
                - ask for credentials: admin.token_file (`authorization` in the scrape config of Prometheus) or admin.user and admin.password_file (`basic_auth`)\n\
                - scrape by address\n";
    Err(Refused::new(AdminRefusal::Host, 421, what))
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

/// Whether the page of another site wants to use an answer as a part of itself (Fetch Metadata). A link that somebody follows is fine.
fn check_site(request: &Request) -> Result<(), Refused> {
    let elsewhere = matches!(request.field("sec-fetch-site"), Some(b"cross-site" | b"same-site"));
    if elsewhere && request.field("sec-fetch-mode") != Some(b"navigate") {
        let what = "Pages of other sites get nothing here.\n";
        return Err(Refused::new(AdminRefusal::CrossSite, 403, what));
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

    #[test]
    fn one_host_cannot_take_every_place_by_its_many_addresses() {
        let guard = Arc::new(Guard::new(&Config::default()).unwrap());
        let six = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
        let of_one: Vec<_> = (0..20).filter_map(|last| guard.seat(six(last))).collect();
        assert_eq!(of_one.len(), CONNECTIONS_PER_HOST_MAX);
        assert!(guard.seat(IpAddr::from([0x2001, 0xdb8, 0, 2, 0, 0, 0, 1])).is_some(), "another network");
        let mapped = |ip: IpAddr| if let IpAddr::V4(ip) = ip { ip.to_ipv6_mapped().into() } else { ip };
        let ip = IpAddr::from([10, 0, 0, 1]);
        let both = (0..20).filter_map(|at| guard.seat(if at % 2 == 0 { ip } else { mapped(ip) }));
        assert_eq!(both.collect::<Vec<_>>().len(), CONNECTIONS_PER_HOST_MAX);
    }

    #[test]
    fn one_address_cannot_take_every_place() {
        let guard = Arc::new(Guard::new(&Config::default()).unwrap());
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let of_one: Vec<_> = (0..20).filter_map(|_| guard.seat(address(1))).collect();
        assert_eq!(of_one.len(), CONNECTIONS_PER_HOST_MAX);
        let others: Vec<_> = (2..=200).filter_map(|last| guard.seat(address(last))).collect();
        assert_eq!(of_one.len() + others.len(), CONNECTIONS_MAX);
        drop(of_one);
        assert!(guard.seat(address(1)).is_some());
        drop(others);
        assert!(guard.open.lock().unwrap().is_empty(), "nobody is remembered");
    }
}
