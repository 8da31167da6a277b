//! The certificate of one host: read from its file, obtained when there is none, renewed in time.
//!
//! One task for each host. It never takes away a certificate that is there: an expired one is better than none, and the log, the status page
//! and the metrics say so.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{CertificateFiles, LoadedCertificate};
use weir_http::WallTime;
use weir_proxy::net::clock;
use weir_proxy::net::tls::issued::IssuanceState;
use weir_proxy::state::crashes::faults::{self, ControlFault};

use super::issuer::{IssuanceError, Issuer, shown_url};
use super::luck::luck;
use super::order;
use super::order::{ObtainedCertificate, WantedCertificate};
use super::record::HostRecord;
use super::schedule::{
    ExpiryAlarm, IssuanceFailure, expiry_alarm, renewal_at, renewal_info_pause, suggested_at,
};
use crate::tls::certificates::{FileStamp, stamp};

/// How often the file is looked at, which another node may have renewed.
const FILE_LOOK: Duration = Duration::from_secs(5);

/// By how much the clock of an authority may be ahead: one whose own clock is behind gets a certificate all the same.
const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(86_400);

/// How long a host on demand is renewed that no client asks for.
const UNUSED_MAX: Duration = Duration::from_secs(7 * 86_400);

/// The longest chain that an authority may issue. Public ones have two to four certificates and a few KiB; OpenSSL refuses more than 100 KiB in a
/// handshake.
const CHAIN_CERTIFICATES_MAX: usize = 10;
const CHAIN_BYTES_MAX: usize = 64 * 1024;

/// How long another node is left alone that has the lock.
const LOCKED_PAUSE: Duration = Duration::from_secs(1);

/// Keeps the certificate of a host current, until the task is dropped.
///
/// After a panic, which `begins_anew` says, it goes on where the one before was: only a start of Weir is a request to try again.
pub(super) async fn keep(issuer: Rc<Issuer>, host: Box<str>, begins_anew: bool) {
    let mut task = HostTask {
        record: read_record(&issuer, &host),
        issuer,
        host,
        stamp: None,
        loaded: None,
        luck: luck(),
        suggestion: None,
        warned: None,
    };
    if !begins_anew {
        task.record.try_again(now());
    }
    loop {
        faults::strike_control(ControlFault::Certificate);
        task.record = std::mem::take(&mut task.record).believed(now());
        task.look_at_file();
        task.ask_for_suggestion().await;
        let due = task.due();
        task.show(due);
        task.warn_of_expiry();
        let pause = match due.checked_since(now()).filter(|left| !left.is_zero()) {
            Some(left) => left.min(FILE_LOOK),
            None => task.attempt().await,
        };
        tokio::time::sleep(pause).await;
    }
}

struct HostTask {
    issuer: Rc<Issuer>,
    host: Box<str>,
    record: HostRecord,
    /// Of the file, as it was when it was last read.
    stamp: Option<FileStamp>,
    loaded: Option<Arc<LoadedCertificate>>,
    /// Where in the spread of renewals this one is.
    luck: f64,
    suggestion: Option<RenewalSuggestion>,
    /// When the log last warned of its end, and why.
    warned: Option<(WallTime, ExpiryAlarm)>,
}

impl Drop for HostTask {
    /// An attempt that is given up, since Weir stops or the config has changed, is none that has failed.
    fn drop(&mut self) {
        if self.record.is_open && !std::thread::panicking() {
            self.record.is_open = false;
            self.save_record();
        }
    }
}

/// What the authority last said about the renewal of a certificate.
struct RenewalSuggestion {
    window: Option<[WallTime; 2]>,
    at: Option<WallTime>,
    asked_again_at: WallTime,
}

impl HostTask {
    /// Reads the file if it has changed, and uses the certificate in it.
    fn look_at_file(&mut self) {
        let now = stamp(&self.issuer.store.certificate_path(&self.host));
        if self.stamp.replace(now) == Some(now) {
            return;
        }
        let host = &*self.host;
        match self.issuer.store.load_certificate(host) {
            Ok(None) => {}
            Ok(Some(loaded)) if self.loaded.as_ref() == Some(&loaded) => {}
            Ok(Some(loaded)) if !is_for(&loaded, host) => {
                tracing::error!(host, names = ?loaded.names, "the file of a certificate has one for other names, which is not used");
            }
            Ok(Some(loaded)) => match self.issuer.issued.install(host, Arc::clone(&loaded)) {
                Ok(()) => {
                    tracing::info!(
                        host,
                        expires = loaded.not_after.seconds(),
                        "a certificate is used from now on"
                    );
                    self.loaded = Some(loaded);
                    self.suggestion = None;
                    self.warned = None;
                    // Of the node that has obtained it.
                    self.record = read_record(&self.issuer, &self.host);
                    self.show(self.due());
                }
                Err(error) => tracing::error!(host, %error, "a certificate cannot be used"),
            },
            Err(error) => {
                tracing::error!(host, %error, "the file of a certificate cannot be used");
            }
        }
    }

    /// The authority of the certificate that there is.
    fn ca(&self) -> &str {
        let ca = &self.issuer.issued.issuer.ca;
        let known = self.record.ca.as_deref().and_then(|known| ca.iter().find(|ca| ***ca == *known));
        known.or(ca.first()).map_or("", |ca| ca)
    }

    /// Asks the authority when to renew, if it is time to.
    async fn ask_for_suggestion(&mut self) {
        let Some(loaded) = &self.loaded else { return };
        if self.suggestion.as_ref().is_some_and(|known| now() < known.asked_again_at) {
            return;
        }
        let asked = order::suggested_window(&self.issuer, self.ca(), loaded).await;
        let before = self.suggestion.take();
        let life = [loaded.not_before, loaded.not_after];
        self.suggestion = Some(match asked {
            Some((window, pause)) => {
                // The same window, the same moment in it: it is chosen once.
                let known =
                    before.filter(|before| before.window == Some(window)).and_then(|before| before.at);
                let at = known.unwrap_or_else(|| suggested_at(window, life, luck()));
                RenewalSuggestion {
                    window: Some(window),
                    at: Some(at),
                    asked_again_at: now() + renewal_info_pause(pause),
                }
            }
            None => RenewalSuggestion {
                window: before.as_ref().and_then(|before| before.window),
                at: before.as_ref().and_then(|before| before.at),
                asked_again_at: now() + renewal_info_pause(Duration::from_secs(3600)),
            },
        });
    }

    /// When the next attempt is due.
    fn due(&self) -> WallTime {
        let renewal = self.loaded.as_ref().map_or(WallTime::EPOCH, |loaded| self.renewal(loaded));
        let life = self.loaded.as_ref().map(|loaded| [loaded.not_before, loaded.not_after]);
        let allowed = match self.record.failed {
            0 => self.record.next_order(life),
            _ => self.record.due(),
        };
        renewal.max(allowed)
    }

    /// When a certificate is to be renewed, whatever has failed.
    fn renewal(&self, loaded: &LoadedCertificate) -> WallTime {
        let usual = || renewal_at(loaded.not_before, loaded.not_after, self.luck);
        self.suggestion.as_ref().and_then(|known| known.at).unwrap_or_else(usual)
    }

    /// One attempt, unless another node has been faster; returns how long to wait before the next look.
    async fn attempt(&mut self) -> Duration {
        let issuer = Rc::clone(&self.issuer);
        if issuer.is_on_demand(&self.host)
            && issuer.issued.unused_for(&self.host).is_some_and(|unused| unused >= UNUSED_MAX)
        {
            let host = &*self.host;
            tracing::info!(
                host,
                "a certificate on demand is not renewed: no client has asked for its host for a week"
            );
            issuer.issued.drop_host(host);
            return FILE_LOOK;
        }
        let Ok(_turn) = issuer.orders(&self.host, self.loaded.is_some()).acquire().await else {
            return FILE_LOOK;
        };
        let locked = issuer.store.prepare().and_then(|()| issuer.store.lock(&self.host));
        let _lock = match locked {
            Ok(Some(lock)) => lock,
            Ok(None) => return LOCKED_PAUSE,
            Err(error) => {
                let folder = issuer.issued.issuer.directory.display();
                self.fail(&IssuanceError::unreached(format!(
                    "the folder `{folder}` cannot be used: {error}"
                )));
                return Duration::ZERO;
            }
        };
        // What another node has done meanwhile, or this one before it has panicked.
        let stored = issuer.store.record::<HostRecord>(&self.host).believed(now());
        let before = std::mem::replace(&mut self.record, stored);
        if self.record.is_open {
            self.fail(&IssuanceError::refused("the attempt before has ended without an outcome"));
            return Duration::ZERO;
        }
        if self.record.failed <= before.failed {
            self.record.next_attempt = before.next_attempt;
        }
        self.look_at_file();
        if self.due() > now() {
            return Duration::ZERO;
        }
        if let Err(error) = issuer.ask(&self.host).await {
            self.fail(&error);
            return Duration::ZERO;
        }
        self.record.note_begin(now());
        // A certificate that cannot be stored would be ordered again and again.
        if let Err(error) = issuer.store.save_record(&self.host, &self.record) {
            let folder = issuer.issued.issuer.directory.display();
            self.fail(&IssuanceError::unreached(format!("nothing can be stored in `{folder}`: {error}")));
            return Duration::ZERO;
        }
        issuer.issued.update(&self.host, |status| {
            status.state = match status.state {
                IssuanceState::Valid | IssuanceState::RenewalFailed => IssuanceState::Renewing,
                IssuanceState::Failed => IssuanceState::Pending,
                other => other,
            };
        });
        self.order(&issuer).await;
        Duration::ZERO
    }

    /// Asks one authority after the other.
    async fn order(&mut self, issuer: &Issuer) {
        let mut failures: Vec<IssuanceError> = Vec::new();
        for ca in &issuer.issued.issuer.ca {
            let replaces = self.loaded.as_deref().filter(|_| self.record.ca.as_deref() == Some(&**ca));
            let (host, is_renewal, refused) = (&*self.host, self.loaded.is_some(), self.record.refused);
            let wanted = WantedCertificate { host, ca, refused, is_renewal, replaces };
            let obtained = order::obtain(issuer, &wanted).await;
            let shown = shown_url(ca);
            issuer.issued.update(&self.host, |status| status.ca = Some(shown.as_str().into()));
            let saved = obtained.and_then(|obtained| self.save(issuer, &obtained));
            let saved = saved.map_err(IssuanceError::bounded);
            match saved {
                Ok(()) => {
                    self.succeed(issuer, ca);
                    return;
                }
                Err(error) => {
                    let (host, error_text) = (&*self.host, &*error.text);
                    tracing::warn!(
                        host,
                        ca = &*shown,
                        error = error_text,
                        "an authority has not issued a certificate"
                    );
                    let text = format!("{shown}: {}", error.text);
                    failures.push(IssuanceError { text, ..error });
                }
            }
        }
        self.fail(&worst(failures));
    }

    /// Stores a certificate that clients can be shown; what is there stays otherwise.
    fn save(&self, issuer: &Issuer, obtained: &ObtainedCertificate) -> Result<(), IssuanceError> {
        let file = issuer.store.certificate_path(&self.host);
        let files = CertificateFiles::new(file.clone(), file);
        let unusable = |why: &str| IssuanceError::refused(format!("the certificate cannot be used: {why}"));
        let loaded = files.load_texts(obtained.chain.as_bytes(), obtained.key.as_bytes());
        let loaded = loaded.map_err(|error| unusable(&error.message))?;
        match why_not(&loaded, &self.host, now()) {
            Some(why) => Err(unusable(&why)),
            None => Ok(issuer.store.save_certificate(&self.host, &obtained.chain, &obtained.key)?),
        }
    }

    fn succeed(&mut self, issuer: &Issuer, ca: &str) {
        let (host, renewed, shown) = (&*self.host, self.loaded.is_some(), &*shown_url(ca));
        tracing::info!(host, ca = shown, renewed, "a certificate was obtained");
        self.record.note_success(ca);
        self.save_record();
        issuer.issuers.count_order(true);
        issuer.issued.update(&self.host, |status| {
            status.obtained += 1;
            status.last_error = None;
        });
        self.look_at_file();
    }

    fn fail(&mut self, error: &IssuanceError) {
        let next = self.record.note_failure(now(), error.kind, error.text.clone(), luck());
        self.save_record();
        // Before the log: a reader of it finds the state that it speaks of.
        self.issuer.issuers.count_order(false);
        self.issuer.issued.update(&self.host, |status| {
            status.failed += 1;
            status.last_error = Some(error.text.as_str().into());
        });
        self.show(self.due());
        let (host, reason, failed) = (&*self.host, &*error.text, self.record.failed);
        let next_in_s = (next - now()).as_secs();
        match &self.loaded {
            None => tracing::error!(host, reason, failed, next_in_s, "no certificate could be obtained"),
            Some(loaded) => {
                let expires = loaded.not_after.seconds();
                tracing::error!(
                    host,
                    reason,
                    failed,
                    next_in_s,
                    expires,
                    "a certificate could not be renewed; the one of before stays in use"
                );
            }
        }
    }

    fn save_record(&self) {
        if let Err(error) = self.issuer.store.save_record(&self.host, &self.record) {
            let host = &*self.host;
            tracing::warn!(host, %error, "the record of a host cannot be written: after a restart its limits begin anew");
        }
    }

    /// Shows how it stands.
    fn show(&self, due: WallTime) {
        let failed = self.record.failed > 0;
        let state = match &self.loaded {
            None if failed && due > now() => IssuanceState::Failed,
            None => IssuanceState::Pending,
            Some(loaded) if loaded.not_after <= now() => IssuanceState::Expired,
            Some(_) if failed => IssuanceState::RenewalFailed,
            Some(_) => IssuanceState::Valid,
        };
        let (not_after, ca) = (self.loaded.as_ref().map(|loaded| loaded.not_after), shown_url(self.ca()));
        self.issuer.issued.update(&self.host, |status| {
            status.state = state;
            status.not_after = not_after;
            status.next_attempt = Some(due);
            if status.ca.is_none() {
                status.ca = Some(ca.as_str().into());
            }
            if failed && status.last_error.is_none() {
                status.last_error = self.record.last_error.as_deref().map(Into::into);
            }
        });
    }

    /// Warns once a day when a certificate comes to its end that was to be renewed by now.
    fn warn_of_expiry(&mut self) {
        let Some(loaded) = &self.loaded else { return };
        let life = [loaded.not_before, loaded.not_after];
        let failed = self.record.failed;
        let Some(alarm) = expiry_alarm(life, self.renewal(loaded), failed, now()) else { return };
        let day = Duration::from_secs(86_400);
        let is_told = |(at, before): (WallTime, ExpiryAlarm)| {
            before == alarm && now().checked_since(at).is_some_and(|since| since < day)
        };
        if self.warned.is_some_and(is_told) {
            return;
        }
        self.warned = Some((now(), alarm));
        let (host, expires) = (&*self.host, loaded.not_after.seconds());
        match alarm {
            ExpiryAlarm::Expired => {
                tracing::error!(host, expires, "a certificate has expired: clients refuse it");
            }
            ExpiryAlarm::Late => {
                tracing::warn!(host, expires, failed, "a certificate expires soon and has not been renewed");
            }
        }
    }
}

/// What several failures mean: the one that asks for the longest pause.
fn worst(mut failures: Vec<IssuanceError>) -> IssuanceError {
    let rank = |error: &IssuanceError| match error.kind {
        IssuanceFailure::Unreached => 0,
        IssuanceFailure::Limited(_) => 1,
        IssuanceFailure::Refused => 2,
    };
    let kind = failures.iter().max_by_key(|error| rank(error)).map(|error| error.kind);
    let text = failures.drain(..).map(|error| error.text).collect::<Vec<_>>().join("; ");
    IssuanceError { kind: kind.unwrap_or(IssuanceFailure::Unreached), text }
}

/// What is remembered of a host; an attempt that is open may be one that another node makes.
fn read_record(issuer: &Issuer, host: &str) -> HostRecord {
    let mut stored = issuer.store.record::<HostRecord>(host).believed(now());
    stored.is_open = false;
    stored
}

/// Whether a certificate is for a host.
fn is_for(certificate: &LoadedCertificate, host: &str) -> bool {
    let wildcard = host.split_once('.').map(|(_, parent)| format!("*.{parent}"));
    certificate.names.iter().any(|name| **name == *host || wildcard.as_deref() == Some(name))
}

/// Why clients would refuse a certificate that an authority has just issued for a host.
fn why_not(certificate: &LoadedCertificate, host: &str, now: WallTime) -> Option<String> {
    if !is_for(certificate, host) {
        return Some(format!("it is for {}", certificate.names.join(", ")));
    }
    if certificate.not_after <= now {
        return Some("it has expired".to_owned());
    }
    let (count, bytes) =
        (certificate.chain.len(), certificate.chain.iter().map(|one| one.len()).sum::<usize>());
    if count > CHAIN_CERTIFICATES_MAX || bytes > CHAIN_BYTES_MAX {
        return Some(format!("its chain has {count} certificates and {bytes} bytes, which clients refuse"));
    }
    (certificate.not_before > now + CLOCK_AHEAD_MAX).then(|| "it is not valid yet".to_owned())
}

fn now() -> WallTime {
    clock::date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_that_of_the_worst_failure_and_the_text_names_all() {
        let unreached = || IssuanceError::unreached("a: away");
        let refused = || IssuanceError::refused("b: no");
        let both = worst(vec![refused(), unreached()]);
        assert_eq!((both.kind, &*both.text), (IssuanceFailure::Refused, "b: no; a: away"));
        assert_eq!(worst(vec![unreached()]).kind, IssuanceFailure::Unreached);
        let limited = IssuanceError { kind: IssuanceFailure::Limited(None), text: String::new() };
        assert_eq!(worst(vec![limited, unreached()]).kind, IssuanceFailure::Limited(None));
    }
}
