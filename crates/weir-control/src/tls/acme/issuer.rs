//! One issuer: its folder, its accounts at authorities, and how many orders run at a time.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::{Account, AccountCredentials, Error, ExternalAccountKey, NewAccount, Problem};
use serde_json::Value;
use tokio::sync::Semaphore;
use weir_config::{Dns, MaskedText};
use weir_http::WallTime;
use weir_proxy::net::clock;
use weir_proxy::net::tls::issued::{IssuedCertificates, Issuers};

use super::record::{AccountLog, OrderLog};
use super::requests::AcmeRequests;
use super::schedule::IssuanceFailure;
use super::store::{AcmeStore, StoreLock};

/// Orders that run at a time; those for hosts on demand do not delay others.
const ORDERS_AT_ONCE: usize = 4;
const ON_DEMAND_AT_ONCE: usize = 2;

/// How often and how long a lock is waited for that another node holds.
const LOCK_PAUSE: Duration = Duration::from_millis(200);
const LOCK_TRIES: u32 = 150;

/// The longest text of an error, in bytes: an authority may give a reason of any length, which each host keeps, the log has and the status page shows.
const TEXT_BYTES_MAX: usize = 1024;

/// The file with the moments when accounts were made.
const ACCOUNTS_MADE: &str = "made";

/// Why there is no certificate.
#[derive(Debug)]
pub(super) struct IssuanceError {
    pub(super) kind: IssuanceFailure,
    pub(super) text: String,
}

impl IssuanceError {
    /// One that is not the fault of what was asked for.
    pub(super) fn unreached(text: impl Into<String>) -> Self {
        Self { kind: IssuanceFailure::Unreached, text: text.into() }
    }

    /// With as much of its text as is kept.
    pub(super) fn bounded(self) -> Self {
        Self { text: bounded(self.text), ..self }
    }

    /// One that the authority, or the world as it sees it, has decided.
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self { kind: IssuanceFailure::Refused, text: text.into() }
    }
}

impl From<std::io::Error> for IssuanceError {
    fn from(error: std::io::Error) -> Self {
        Self::unreached(error.to_string())
    }
}

/// An issuer.
pub(super) struct Issuer {
    pub(super) issued: Arc<IssuedCertificates>,
    /// Where answers to challenges over HTTP go.
    pub(super) issuers: Arc<Issuers>,
    pub(super) store: AcmeStore,
    requests: AcmeRequests,
    dns: Rc<RefCell<Dns>>,
    accounts: RefCell<HashMap<Box<str>, Account>>,
    /// A permit for each order that may run: of hosts of the config and renewals, of hosts on demand that have no certificate.
    orders: [Semaphore; 2],
    /// The hosts of the config.
    configured: RefCell<HashSet<Box<str>>>,
}

impl Issuer {
    pub(super) fn new(
        issued: &Arc<IssuedCertificates>,
        issuers: &Arc<Issuers>,
        dns: &Rc<RefCell<Dns>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            issued: Arc::clone(issued),
            issuers: Arc::clone(issuers),
            store: AcmeStore::new(&issued.issuer.directory),
            requests: AcmeRequests::start(issued.issuer.ca_root.clone()),
            dns: Rc::clone(dns),
            accounts: RefCell::default(),
            orders: [ORDERS_AT_ONCE, ON_DEMAND_AT_ONCE].map(Semaphore::new),
            configured: RefCell::default(),
        })
    }

    /// Takes note of the hosts of the config; all others are on demand.
    pub(super) fn follow(&self, hosts: HashSet<Box<str>>) {
        *self.configured.borrow_mut() = hosts;
    }

    /// Whether a host is not in the config, but a client has asked for it.
    pub(super) fn is_on_demand(&self, host: &str) -> bool {
        !self.configured.borrow().contains(host)
    }

    /// The permits for orders of this host: those that clients invent delay no renewal.
    pub(super) fn orders(&self, host: &str, is_renewal: bool) -> &Semaphore {
        &self.orders[usize::from(!is_renewal && self.is_on_demand(host))]
    }

    /// Why there is to be no certificate for a host on demand, if what the config names says so.
    ///
    /// # Errors
    /// That, or that it cannot be asked.
    pub(super) async fn ask(&self, host: &str) -> Result<(), IssuanceError> {
        let Some(url) = self.issued.issuer.on_demand_ask.as_ref().filter(|_| self.is_on_demand(host)) else {
            return Ok(());
        };
        match self.requests.ask(url.exposed(), host).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(IssuanceError::refused("what `on_demand_ask` names permits no certificate for it"))
            }
            Err(error) => {
                Err(IssuanceError::unreached(format!("what `on_demand_ask` names cannot be asked: {error}")))
            }
        }
    }

    /// The resolvers of the config that is followed.
    pub(super) fn dns(&self) -> Dns {
        self.dns.borrow().clone()
    }

    /// The account at an authority, made if there is none yet.
    pub(super) async fn account(&self, ca: &str) -> Result<Account, IssuanceError> {
        if let Some(known) = self.accounts.borrow().get(ca) {
            return Ok(known.clone());
        }
        // The client of the library expects a URL without a look.
        if ca.parse::<http::Uri>().is_err() {
            return Err(IssuanceError::refused("its URL cannot be used"));
        }
        let lock = self.lock(&AcmeStore::account_lock(ca)).await?;
        let builder = Account::builder_with_http(Box::new(self.requests.clone()));
        let account = match self.store.account(ca, "account").and_then(|stored| credentials(stored, ca)) {
            Some(credentials) => {
                builder.from_credentials(credentials).await.map_err(|error| self.failed(&error))?
            }
            None => {
                let contact = self.issued.issuer.email.as_ref().map(|email| format!("mailto:{email}"));
                let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
                let new = NewAccount {
                    contact: &contact,
                    terms_of_service_agreed: true,
                    only_return_existing: false,
                };
                let accounts = &self.issued.issuer.external_accounts;
                let external = accounts.iter().find(|account| *account.ca == *ca);
                let external = external
                    .map(|external| ExternalAccountKey::new(external.key_id.to_string(), &external.key.0));
                let made = builder.create(&new, ca.to_owned(), external.as_ref()).await;
                let (account, credentials) = made.map_err(|error| self.failed(&error))?;
                self.store.save_account(ca, "account", &credentials)?;
                let mut log: AccountLog = self.store.account(ca, ACCOUNTS_MADE).unwrap_or_default();
                log.note(clock::date());
                self.store.save_account(ca, ACCOUNTS_MADE, &log)?;
                let (ca, account_id) = (&*shown_url(ca), &*shown_url(account.id()));
                tracing::info!(ca, account = account_id, "an account was made at an authority");
                account
            }
        };
        drop(lock);
        self.accounts.borrow_mut().insert(ca.into(), account.clone());
        Ok(account)
    }

    /// Forgets the account at an authority that does not know it: one for tests forgets all when it ends. Another order may have made a new one
    /// meanwhile, which stays.
    ///
    /// # Errors
    /// When several were made lately, and it does not know any of them.
    pub(super) fn forget_account(&self, ca: &str, unknown: &Account) -> Result<(), IssuanceError> {
        if self.accounts.borrow().get(ca).is_none_or(|known| known.id() != unknown.id()) {
            return Ok(());
        }
        let mut log: AccountLog = self.store.account(ca, ACCOUNTS_MADE).unwrap_or_default();
        if let Some(allowed) = log.next_allowed(clock::date()) {
            let text = "the authority does not know the account, although several were made within an hour";
            return Err(IssuanceError {
                kind: IssuanceFailure::Limited(Some(allowed)),
                text: text.to_owned(),
            });
        }
        let shown = &*shown_url(ca);
        tracing::warn!(ca = shown, "the authority does not know the account any more: a new one is made");
        self.accounts.borrow_mut().remove(ca);
        self.store.forget_account(ca);
        Ok(())
    }

    /// Takes note of an order at an authority.
    ///
    /// # Errors
    /// When there have been too many, or the folder cannot be used.
    pub(super) async fn begin_order(
        &self,
        ca: &str,
        (host, is_renewal): (&str, bool),
        now: WallTime,
    ) -> Result<(), IssuanceError> {
        let _lock = self.lock(&AcmeStore::account_lock(ca)).await?;
        let mut log: OrderLog = self.store.account(ca, "orders").unwrap_or_default();
        let orders_max = self.issued.issuer.orders_max;
        let is_on_demand = !is_renewal && self.is_on_demand(host);
        log.begin(now, orders_max, is_on_demand).map_err(|allowed| {
            let share = if is_on_demand { ", of which hosts on demand have three fifths" } else { "" };
            let text =
                format!("the limit of orders in three hours is reached (`orders_max` = {orders_max}{share})");
            IssuanceError { kind: IssuanceFailure::Limited(Some(allowed)), text }
        })?;
        Ok(self.store.save_account(ca, "orders", &log)?)
    }

    async fn lock(&self, name: &str) -> Result<StoreLock, IssuanceError> {
        for _ in 0..LOCK_TRIES {
            if let Some(lock) = self.store.lock(name)? {
                return Ok(lock);
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        Err(IssuanceError::unreached(format!("`{name}` in the ACME folder stays locked by another node")))
    }

    /// What an error of the client means for the next attempt.
    pub(super) fn failed(&self, error: &Error) -> IssuanceError {
        let retry_after = self.requests.take_retry_after();
        match error {
            Error::Api(problem) => {
                IssuanceError { kind: kind_of(problem, retry_after), text: text_of(problem) }
            }
            Error::Json(error) => {
                IssuanceError::unreached(format!("the response of the authority is not as expected: {error}"))
            }
            Error::Unsupported(what) => {
                IssuanceError::refused(format!("the authority does not support {what}"))
            }
            other => IssuanceError::unreached(other.to_string()),
        }
    }
}

/// The URL of an authority as it is shown and logged.
pub(super) fn shown_url(ca: &str) -> String {
    bounded(MaskedText::from(ca).to_string())
}

/// As much of a text as is kept.
fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" ...");
    }
    text
}

/// The stored account at an authority, which is asked at the URL of the config, whatever the file has.
fn credentials(mut stored: Value, ca: &str) -> Option<AccountCredentials> {
    stored["directory"] = match &mut stored {
        Value::Object(_) => ca.into(),
        _ => return None,
    };
    serde_json::from_value(stored).ok()
}

/// Whether the authority does not know the account (RFC 8555 section 6.7).
pub(super) fn is_unknown_account(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if is_type(problem, "accountDoesNotExist"))
}

fn is_type(problem: &Problem, name: &str) -> bool {
    problem.r#type.as_deref().and_then(|kind| kind.strip_prefix("urn:ietf:params:acme:error:")) == Some(name)
}

fn kind_of(problem: &Problem, retry_after: Option<WallTime>) -> IssuanceFailure {
    if is_type(problem, "rateLimited") || problem.status == Some(429) {
        return IssuanceFailure::Limited(retry_after);
    }
    let is_fault = ["serverInternal", "badNonce"].iter().any(|name| is_type(problem, name));
    match is_fault || problem.status.is_some_and(|status| status >= 500) {
        true => IssuanceFailure::Unreached,
        false => IssuanceFailure::Refused,
    }
}

/// The words of the authority.
pub(super) fn text_of(problem: &Problem) -> String {
    let mut text = problem.detail.clone().unwrap_or_else(|| "the authority gives no reason".to_owned());
    for part in &problem.subproblems {
        if let Some(detail) = &part.detail {
            text.push_str(&format!("; {detail}"));
        }
    }
    match &problem.r#type {
        Some(kind) => format!("{text} ({})", kind.trim_start_matches("urn:ietf:params:acme:error:")),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, status: u16) -> Problem {
        let text =
            format!(r#"{{"type": "urn:ietf:params:acme:error:{kind}", "detail": "no", "status": {status}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn texts_have_a_limit() {
        let short = "e".repeat(TEXT_BYTES_MAX);
        assert_eq!(bounded(short.clone()), short);
        for letter in ["e", "\u{e9}", "\u{1f600}"] {
            let text = IssuanceError::refused(format!("x{}", letter.repeat(10_000))).bounded().text;
            assert!(text.len() > TEXT_BYTES_MAX - 4 && text.len() <= TEXT_BYTES_MAX + 4, "{}", text.len());
            assert!(text.ends_with(&format!("{letter} ...")));
        }
    }

    #[test]
    fn problems_say_when_to_try_again() {
        for (kind, status, expected) in [
            ("rateLimited", 429, IssuanceFailure::Limited(None)),
            ("serverInternal", 500, IssuanceFailure::Unreached),
            ("badNonce", 400, IssuanceFailure::Unreached),
            ("malformed", 503, IssuanceFailure::Unreached),
            ("unauthorized", 403, IssuanceFailure::Refused),
            ("connection", 400, IssuanceFailure::Refused),
        ] {
            assert_eq!(kind_of(&problem(kind, status), None), expected, "{kind}");
        }
        assert_eq!(text_of(&problem("connection", 400)), "no (connection)");
        assert!(is_unknown_account(&Error::Api(problem("accountDoesNotExist", 400))));
    }
}
