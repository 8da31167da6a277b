//! Certificates that Weir obtains by itself: those that handshakes show, the answers to challenges of authorities, and how it goes.
//!
//! The thread that obtains them writes, handshakes read; both reach them by way of the snapshot. One set for all listeners with the
//! same issuer, so that a reload loses nothing. Must not know how a certificate is obtained.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, oneshot};
use weir_config::{Acme, AcmeIssuer, LoadedCertificate};
use weir_http::WallTime;
use weir_sort::CompactSort as _;

use crate::net::clock::{self, Instant};

/// The protocol (ALPN) of a handshake by which an authority proves a host (RFC 8737 section 6.2).
pub const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The longest name of a host (RFC 1035 section 2.3.4).
const HOST_LEN_MAX: usize = 253;

/// How often the log names a host whose clients are rejected.
const TOLD_INTERVAL: Duration = Duration::from_secs(60);

/// How long a host that a client has asked for, and that has got no certificate, keeps its place among those on demand.
const REFUSED_KEPT: Duration = Duration::from_secs(60);

/// How long one whose certificate no client asks for keeps its place where another host needs one.
const UNUSED_KEPT: Duration = Duration::from_secs(3600);

/// What the thread that obtains certificates hears of hosts on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostDemand {
    /// A client asks for it.
    Wanted(Box<str>),
    /// Its place is needed for another one.
    Dropped(Box<str>),
}

/// Where a host has come to on its way to a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssuanceState {
    /// There is none, and one is on its way.
    Pending,
    /// There is none, and the last attempt has failed.
    Failed,
    /// There is one.
    Valid,
    /// There is one, and it is being renewed.
    Renewing,
    /// There is one, and its last renewal has failed.
    RenewalFailed,
    /// The one that there is has expired.
    Expired,
}

impl IssuanceState {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Failed, Self::Valid, Self::Renewing, Self::RenewalFailed, Self::Expired];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Failed => "failed",
            Self::Valid => "valid",
            Self::Renewing => "renewing",
            Self::RenewalFailed => "renewal-failed",
            Self::Expired => "expired",
        }
    }
}

/// How it stands with the certificate of a host.
#[derive(Debug, Clone)]
pub struct HostStatus {
    /// Where it has come to.
    pub state: IssuanceState,
    /// The authority that was asked last.
    pub ca: Option<Box<str>>,
    /// Until when the certificate is valid.
    pub not_after: Option<WallTime>,
    /// When the next attempt is due.
    pub next_attempt: Option<WallTime>,
    /// Why the last attempt has failed; `None` after one that has not.
    pub last_error: Option<Box<str>>,
    /// Certificates that were obtained since the start.
    pub obtained: u64,
    /// Attempts that have failed since the start.
    pub failed: u64,
    /// When the log has last named clients that were rejected.
    told_at: Option<Instant>,
    /// Since when it has a place among the hosts on demand; `None` if it is one of the config.
    on_demand_since: Option<Instant>,
}

impl HostStatus {
    /// A host of which nothing is known yet.
    pub const fn new() -> Self {
        Self {
            state: IssuanceState::Pending,
            ca: None,
            not_after: None,
            next_attempt: None,
            last_error: None,
            obtained: 0,
            failed: 0,
            told_at: None,
            on_demand_since: None,
        }
    }
}

impl Default for HostStatus {
    fn default() -> Self {
        Self::new()
    }
}

/// A certificate in use.
#[derive(Debug, Clone)]
struct IssuedCertificate {
    loaded: Arc<LoadedCertificate>,
    certified: Arc<CertifiedKey>,
    /// When a client last asked for a host on demand, in nanoseconds of the clock.
    asked_at_ns: Arc<AtomicU64>,
}

impl IssuedCertificate {
    fn note_asked(&self) {
        self.asked_at_ns.store(clock::now().since_boot_ns(), Ordering::Relaxed);
    }

    fn unused_for(&self) -> Duration {
        let asked_at_ns = self.asked_at_ns.load(Ordering::Relaxed);
        Duration::from_nanos(clock::now().since_boot_ns().saturating_sub(asked_at_ns))
    }
}

/// The certificates of one issuer.
#[derive(Debug)]
pub struct IssuedCertificates {
    /// How they are obtained.
    pub issuer: AcmeIssuer,
    /// By host; that of a wildcard by its pattern.
    now: ArcSwap<HashMap<Box<str>, IssuedCertificate>>,
    /// The certificates of handshakes that prove a host, by host.
    challenges: ArcSwap<HashMap<Box<str>, Arc<CertifiedKey>>>,
    /// Wakes the handshakes that wait.
    changed: Notify,
    status: Mutex<BTreeMap<Box<str>, HostStatus>>,
    /// Where hosts go that clients ask for; once there is a thread that obtains certificates.
    wanted: ArcSwapOption<UnboundedSender<HostDemand>>,
}

impl IssuedCertificates {
    fn new(issuer: AcmeIssuer) -> Self {
        Self {
            issuer,
            now: ArcSwap::default(),
            challenges: ArcSwap::default(),
            changed: Notify::new(),
            status: Mutex::default(),
            wanted: ArcSwapOption::empty(),
        }
    }

    /// Uses a certificate for a host from the next handshake on.
    ///
    /// # Errors
    /// When rustls does not take its key; then nothing changes.
    pub fn install(&self, host: &str, loaded: Arc<LoadedCertificate>) -> Result<(), rustls::Error> {
        let certified = Arc::new(certified(loaded.chain.clone(), loaded.key.clone_key())?);
        let mut now = HashMap::clone(&self.now.load());
        let asked_at_ns = now.get(host).map(|before| Arc::clone(&before.asked_at_ns));
        let is_new = asked_at_ns.is_none();
        let issued = IssuedCertificate { loaded, certified, asked_at_ns: asked_at_ns.unwrap_or_default() };
        if is_new {
            issued.note_asked();
        }
        now.insert(host.into(), issued);
        self.now.store(Arc::new(now));
        self.changed.notify_waiters();
        Ok(())
    }

    /// The certificate of a host, as it was installed.
    pub fn installed(&self, host: &str) -> Option<Arc<LoadedCertificate>> {
        self.now.load().get(host).map(|issued| Arc::clone(&issued.loaded))
    }

    /// Shows a certificate to the authority that proves a host.
    ///
    /// # Errors
    /// When rustls does not take its key.
    pub fn set_challenge(
        &self,
        host: &str,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), rustls::Error> {
        let mut challenges = HashMap::clone(&self.challenges.load());
        challenges.insert(host.into(), Arc::new(certified(chain, key)?));
        self.challenges.store(Arc::new(challenges));
        Ok(())
    }

    /// Ends that.
    pub fn remove_challenge(&self, host: &str) {
        let mut challenges = HashMap::clone(&self.challenges.load());
        if challenges.remove(host).is_some() {
            self.challenges.store(Arc::new(challenges));
        }
    }

    pub(super) fn challenge(&self, host: &str) -> Option<Arc<CertifiedKey>> {
        self.challenges.load().get(host).cloned()
    }

    /// Takes the hosts that clients ask for.
    pub fn set_wanted(&self, wanted: UnboundedSender<HostDemand>) {
        self.wanted.store(Some(Arc::new(wanted)));
    }

    /// Changes what is known of a host, and wakes the handshakes that wait.
    pub fn update(&self, host: &str, change: impl FnOnce(&mut HostStatus)) {
        change(self.lock().entry(host.into()).or_default());
        self.changed.notify_waiters();
    }

    /// Takes note of which hosts are in the config: all others are there on demand.
    pub fn note_configured(&self, is_configured: impl Fn(&str) -> bool) {
        for (host, status) in &mut *self.lock() {
            status.on_demand_since = match is_configured(host) {
                true => None,
                false => status.on_demand_since.or_else(|| Some(clock::now())),
            };
        }
    }

    /// How long no client has asked for a host on demand; `None` without a certificate.
    pub fn unused_for(&self, host: &str) -> Option<Duration> {
        self.now.load().get(host).map(IssuedCertificate::unused_for)
    }

    /// Gives the place of a host on demand to others. Its certificate stays in its file, for the next client that asks.
    pub fn drop_host(&self, host: &str) {
        self.drop_from(&mut self.lock(), host);
    }

    fn drop_from(&self, status: &mut BTreeMap<Box<str>, HostStatus>, host: &str) {
        status.remove(host);
        let mut now = HashMap::clone(&self.now.load());
        if now.remove(host).is_some() {
            self.now.store(Arc::new(now));
        }
        if let Some(wanted) = self.wanted.load().as_ref() {
            let _ended = wanted.send(HostDemand::Dropped(host.into()));
        }
    }

    /// The host on demand that has the least right to its place: one that was refused, or else the one that no client has asked for the longest.
    fn least_needed(&self, status: &BTreeMap<Box<str>, HostStatus>) -> Option<Box<str>> {
        let (at, now) = (clock::now(), self.now.load());
        let on_demand =
            || status.iter().filter_map(|(host, status)| Some((host, status, status.on_demand_since?)));
        let refused = on_demand().filter(|(host, status, since)| {
            status.state == IssuanceState::Failed && !now.contains_key(*host) && at - *since >= REFUSED_KEPT
        });
        let unused = on_demand().filter_map(|(host, ..)| Some((host, now.get(host)?.unused_for())));
        let unused = unused.filter(|(_, unused)| *unused >= UNUSED_KEPT).max_by_key(|(_, unused)| *unused);
        let refused = refused.min_by_key(|(.., since)| *since).map(|(host, ..)| host.clone());
        refused.or_else(|| unused.map(|(host, _)| host.clone()))
    }

    /// Forgets hosts that are in no config any more.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.lock().retain(|host, _| keep(host));
        let now = self.now.load();
        if now.keys().any(|host| !keep(host)) {
            let kept = now.iter().filter(|(host, _)| keep(host));
            self.now.store(Arc::new(kept.map(|(host, issued)| (host.clone(), issued.clone())).collect()));
        }
    }

    /// All hosts with what is known of them.
    pub fn hosts(&self) -> Vec<(Box<str>, HostStatus)> {
        self.lock().iter().map(|(host, status)| (host.clone(), status.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, HostStatus>> {
        // Every change is whole before the next can panic.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, rustls::Error> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Ok(CertifiedKey::new(chain, provider.key_provider.load_private_key(key)?))
}

/// What a handshake finds for the name that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedCertificate {
    /// A certificate, or what other certificates there are is for it.
    There,
    /// None yet: it is worth to wait.
    Coming,
    /// None, and there will be none soon.
    Missing,
    /// It is no name that Weir gets certificates for.
    Unknown,
}

/// The certificates of one listener that are obtained: its hosts among those of the issuer.
#[derive(Debug)]
pub struct ListenerIssued {
    /// What the listener says of them.
    pub config: Acme,
    /// Those of its issuer.
    pub issued: Arc<IssuedCertificates>,
    /// Whether every host has a certificate: then no handshake is delayed to look for its own. None is ever taken away from a host.
    is_complete: AtomicBool,
}

impl ListenerIssued {
    /// Those of the hosts of `config` among those of its issuer.
    pub(super) fn new(config: &Acme, issuers: &Issuers) -> Self {
        let issued = issuers.of(&config.issuer);
        Self { config: config.clone(), issued, is_complete: AtomicBool::new(false) }
    }

    /// Whether handshakes have to be held up for their name.
    pub(crate) fn may_wait(&self) -> bool {
        !self.config.on_demand.is_empty() || !self.is_complete()
    }

    fn is_complete(&self) -> bool {
        if self.is_complete.load(Ordering::Relaxed) {
            return true;
        }
        let now = self.issued.now.load();
        let is_complete = self.config.hosts.iter().all(|host| now.contains_key(host));
        self.is_complete.store(is_complete, Ordering::Relaxed);
        is_complete
    }

    /// How long they may wait.
    pub(crate) const fn wait(&self) -> Duration {
        self.config.wait
    }

    /// Ready at the next change of anything.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.issued.changed.notified()
    }

    /// Whether there is no certificate yet for a name in lower case that may have one. Orders nothing.
    #[cfg(feature = "http3")]
    pub(crate) fn may_come(&self, name: &str) -> bool {
        let is_own = |host: &str| self.config.hosts.iter().any(|own| **own == *host);
        let is_named = || is_own(name) || wildcard_of(name).is_some_and(|pattern| is_own(&pattern));
        let is_on_demand = || is_host_name(name) && self.config.is_on_demand(name);
        self.find(name).is_none() && (is_named() || is_on_demand())
    }

    /// What there is for a name in lower case. A name that may be had on demand is ordered.
    pub(crate) fn look(&self, name: &str) -> NamedCertificate {
        if self.find(name).is_some_and(|issued| {
            issued.note_asked();
            true
        }) {
            return NamedCertificate::There;
        }
        let is_own = |host: &str| self.config.hosts.iter().any(|own| **own == *host);
        let host = if is_own(name) {
            name.to_owned()
        } else if let Some(pattern) = wildcard_of(name).filter(|pattern| is_own(pattern)) {
            pattern
        } else if is_host_name(name) && self.config.is_on_demand(name) && self.order(name) {
            name.to_owned()
        } else {
            return NamedCertificate::Unknown;
        };
        let patience = clock::date() + self.config.wait;
        let is_coming = |status: &HostStatus| {
            status.state == IssuanceState::Pending || status.next_attempt.is_some_and(|next| next < patience)
        };
        match self.issued.lock().get(&*host).is_none_or(is_coming) {
            true => NamedCertificate::Coming,
            false => NamedCertificate::Missing,
        }
    }

    /// Has a certificate ordered; `false` where there are too many already, or no thread that orders.
    fn order(&self, name: &str) -> bool {
        let mut status = self.issued.lock();
        if status.contains_key(name) {
            return true;
        }
        let wanted = self.issued.wanted.load();
        let Some(wanted) = wanted.as_ref() else { return false };
        let on_demand = status.values().filter(|status| status.on_demand_since.is_some()).count();
        if on_demand >= self.issued.issuer.on_demand_max {
            let Some(other) = self.issued.least_needed(&status) else { return false };
            self.issued.drop_from(&mut status, &other);
        }
        status.insert(name.into(), HostStatus { on_demand_since: Some(clock::now()), ..HostStatus::new() });
        wanted.send(HostDemand::Wanted(name.into())).is_ok()
    }

    /// The certificate for a name: its own, or that of the wildcard above it.
    fn find(&self, name: &str) -> Option<IssuedCertificate> {
        let now = self.issued.now.load();
        now.get(name).or_else(|| now.get(&*wildcard_of(name)?)).cloned()
    }

    /// Whether the log should name clients that were rejected for want of a certificate for `name`, and why there is none.
    pub(crate) fn to_tell(&self, name: &str) -> Option<Box<str>> {
        let mut status = self.issued.lock();
        let host = status.get_mut(name)?;
        let now = clock::now();
        if host.told_at.is_some_and(|at| now - at < TOLD_INTERVAL) {
            return None;
        }
        host.told_at = Some(now);
        Some(host.last_error.clone().unwrap_or_else(|| "the order is not finished yet".into()))
    }

    pub(super) fn exact(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.get(name)
    }

    pub(super) fn wildcard(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.get(&wildcard_of(name)?)
    }

    fn get(&self, host: &str) -> Option<Arc<CertifiedKey>> {
        self.issued.now.load().get(host).map(|issued| Arc::clone(&issued.certified))
    }

    /// For clients without a name: that of the first host that has one.
    pub(super) fn default(&self) -> Option<Arc<CertifiedKey>> {
        self.config.hosts.iter().find_map(|host| self.get(host))
    }

    /// The certificates of the hosts of the listener, and of those that were obtained on demand.
    pub(super) fn in_use(&self) -> Vec<Arc<LoadedCertificate>> {
        let now = self.issued.now.load();
        let of_listener =
            |host: &str| self.config.hosts.iter().any(|own| **own == *host) || self.config.is_on_demand(host);
        let mut found: Vec<_> = now.iter().filter(|(host, _)| of_listener(host)).collect();
        found.sort_compact_by(|one, other| one.0.cmp(other.0));
        found.into_iter().map(|(_, issued)| Arc::clone(&issued.loaded)).collect()
    }
}

/// Whether a name that a client has sent can be one of a host. It becomes the name of a file.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.len() <= HOST_LEN_MAX && name.contains('.') && name.split('.').all(is_label)
}

/// The wildcard that a name is under.
fn wildcard_of(name: &str) -> Option<String> {
    name.split_once('.').map(|(_, rest)| format!("*.{rest}"))
}

/// A request for the answer to a challenge that this process has not been given.
#[derive(Debug)]
pub struct TokenLookup {
    /// The token in the path.
    pub token: Box<str>,
    /// Takes the answer.
    pub answer: oneshot::Sender<Option<TokenAnswer>>,
}

/// The answer to a challenge over HTTP (RFC 8555 section 8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenAnswer {
    /// The host that is proved.
    pub host: Box<str>,
    /// What the authority is answered.
    pub text: Box<str>,
}

/// The issuers of the process, and the answers to challenges over HTTP.
#[derive(Debug, Default)]
pub struct Issuers {
    issuers: Mutex<Vec<Arc<IssuedCertificates>>>,
    tokens: ArcSwap<HashMap<Box<str>, TokenAnswer>>,
    /// Where tokens are looked up that another node may have been given.
    lookups: ArcSwapOption<UnboundedSender<TokenLookup>>,
    /// Attempts that have brought a certificate, and such that have failed.
    orders: [AtomicU64; 2],
}

impl Issuers {
    /// The certificates of an issuer: those of before, if there was one like it.
    pub fn of(&self, issuer: &AcmeIssuer) -> Arc<IssuedCertificates> {
        let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = issuers.iter().find(|known| known.issuer == *issuer) {
            return Arc::clone(known);
        }
        // Those that only this list holds are in no config any more.
        issuers.retain(|known| Arc::strong_count(known) > 1);
        let new = Arc::new(IssuedCertificates::new(issuer.clone()));
        issuers.push(Arc::clone(&new));
        new
    }

    /// Counts an attempt.
    pub fn count_order(&self, is_obtained: bool) {
        self.orders[usize::from(!is_obtained)].fetch_add(1, Ordering::Relaxed);
    }

    /// Attempts that have brought a certificate, and such that have failed.
    pub fn orders(&self) -> [u64; 2] {
        [0, 1].map(|index: usize| self.orders[index].load(Ordering::Relaxed))
    }

    /// Takes the tokens that are looked up.
    pub fn set_lookups(&self, lookups: UnboundedSender<TokenLookup>) {
        self.lookups.store(Some(Arc::new(lookups)));
    }

    /// Answers requests for this token.
    pub fn set_token(&self, token: &str, answer: TokenAnswer) {
        let mut tokens = HashMap::clone(&self.tokens.load());
        tokens.insert(token.into(), answer);
        self.tokens.store(Arc::new(tokens));
    }

    /// Ends that.
    pub fn remove_token(&self, token: &str) {
        let mut tokens = HashMap::clone(&self.tokens.load());
        tokens.remove(token);
        self.tokens.store(Arc::new(tokens));
    }

    /// The answer for a token, if this process has been given it.
    pub(crate) fn token(&self, token: &str) -> Option<TokenAnswer> {
        self.tokens.load().get(token).cloned()
    }

    /// Asks for one that another node may have been given; `None` where it cannot be asked for.
    pub(crate) fn look_up(&self, token: &str) -> Option<oneshot::Receiver<Option<TokenAnswer>>> {
        let (answer, answered) = oneshot::channel();
        let lookups = self.lookups.load();
        lookups.as_ref()?.send(TokenLookup { token: token.into(), answer }).ok()?;
        Some(answered)
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use weir_config::{CertificateFiles, Config};

    use super::*;

    /// A listener with two places for hosts below `*.shops.test`, beside one of the config; and what the thread hears.
    fn listener() -> (ListenerIssued, UnboundedReceiver<HostDemand>) {
        let text = "listener.web = { address = \"127.0.0.1:0\", upstream = \"app\", tls.acme = { hosts = [\"a.example.test\"], \
                    on_demand = [\"*.shops.test\"], on_demand_max = 2 } }\nupstream.app.servers = [\"127.0.0.1:1\"]\n";
        let config = Config::parse(text, "weir.toml").unwrap();
        let acme = config.listeners[0].tls.as_ref().unwrap().acme.as_ref().unwrap();
        let listener = ListenerIssued::new(acme, &Issuers::default());
        let (wanted, heard) = unbounded_channel();
        listener.issued.set_wanted(wanted);
        listener.issued.update("a.example.test", |_| {});
        (listener, heard)
    }

    fn certificate() -> Arc<LoadedCertificate> {
        // A key of Ed25519 (RFC 8410), which is all that is looked at.
        let mut key = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        key.extend([7; 32]);
        Arc::new(LoadedCertificate::new(
            CertificateFiles::new("a.pem", "a.pem"),
            vec![CertificateDer::from(vec![0x30, 0])],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
            Vec::new(),
            WallTime::EPOCH..=WallTime::LATEST,
        ))
    }

    fn at(seconds: u64) {
        clock::set(Some(Instant::test(Duration::from_secs(seconds))));
    }

    fn heard(receiver: &mut UnboundedReceiver<HostDemand>) -> Vec<HostDemand> {
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    #[test]
    fn refused_names_give_their_places_back() {
        let (listener, mut receiver) = listener();
        at(1_000);
        for name in ["one.shops.test", "two.shops.test"] {
            assert_eq!(listener.look(name), NamedCertificate::Coming);
        }
        let fail = |name: &str| {
            listener.issued.update(name, |status| {
                (status.state, status.next_attempt) = (IssuanceState::Failed, Some(WallTime::LATEST));
            });
        };
        ["one.shops.test", "two.shops.test"].into_iter().for_each(fail);
        heard(&mut receiver);
        at(1_059);
        assert_eq!(
            listener.look("three.shops.test"),
            NamedCertificate::Unknown,
            "both have their places for a minute"
        );
        at(1_060);
        assert_eq!(listener.look("three.shops.test"), NamedCertificate::Coming);
        let [dropped, wanted] = [HostDemand::Dropped, HostDemand::Wanted];
        assert_eq!(
            heard(&mut receiver),
            [dropped("one.shops.test".into()), wanted("three.shops.test".into())],
            "the one that was there first"
        );
        let hosts = listener.issued.hosts();
        let hosts: Vec<&str> = hosts.iter().map(|(host, _)| &**host).collect();
        assert_eq!(hosts, ["a.example.test", "three.shops.test", "two.shops.test"]);
        // An order under way keeps its place, and so does a host of the config that was refused.
        fail("a.example.test");
        listener.issued.update("two.shops.test", |status| status.state = IssuanceState::Pending);
        at(9_000);
        assert_eq!(listener.look("four.shops.test"), NamedCertificate::Unknown);
    }

    #[test]
    fn unused_certificates_give_their_places_back() {
        let (listener, mut receiver) = listener();
        at(1_000);
        for name in ["one.shops.test", "two.shops.test"] {
            listener.look(name);
            listener.issued.install(name, certificate()).unwrap();
        }
        at(4_000);
        assert_eq!(listener.look("one.shops.test"), NamedCertificate::There);
        heard(&mut receiver);
        at(4_599);
        assert_eq!(listener.look("three.shops.test"), NamedCertificate::Unknown);
        at(4_600);
        assert_eq!(listener.issued.unused_for("one.shops.test"), Some(Duration::from_secs(600)));
        // A renewal is no use of it.
        listener.issued.install("two.shops.test", certificate()).unwrap();
        assert_eq!(listener.look("three.shops.test"), NamedCertificate::Coming);
        assert_eq!(heard(&mut receiver)[0], HostDemand::Dropped("two.shops.test".into()));
        assert!(listener.issued.installed("two.shops.test").is_none());
        assert!(listener.issued.installed("one.shops.test").is_some());
        // One that the config names now is not on demand any more.
        listener.issued.note_configured(|host| host != "three.shops.test");
        at(90_000);
        assert_eq!(listener.look("four.shops.test"), NamedCertificate::Coming, "there is room");
        assert!(listener.issued.installed("one.shops.test").is_some());
    }
}
