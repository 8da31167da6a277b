//! The certificate of one host: read from its file, obtained when there is none, renewed in time.
//!
//! One task for each host. It never takes away a certificate that is there: an expired one is better than none, and the log, the status page
//! and the metrics say so.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_config::LoadedCertificate;
use weir_proxy::net::clock;
use weir_proxy::net::tls::issued::IssuanceState;
use weir_proxy::state::faults::{self, ControlFault};

use super::issuer::{IssuanceError, Issuer};
use super::luck::luck;
use super::order::{self, WantedCertificate};
use super::record::HostRecord;
use super::schedule::{
    ExpiryAlarm, IssuanceFailure, expiry_alarm, renewal_at, renewal_info_pause, suggested_at,
};
use crate::certificates::{FileStamp, seconds, stamp};

/// How often the file is looked at, which another node may have renewed.
const FILE_LOOK: Duration = Duration::from_secs(5);

/// How long another node is left alone that has the lock.
const LOCKED_PAUSE: Duration = Duration::from_secs(1);

/// Keeps the certificate of a host current, until the task is dropped.
pub(super) async fn keep(issuer: Rc<Issuer>, host: Box<str>) {
    let mut task = HostTask {
        record: issuer.store.record(&host),
        issuer,
        host,
        stamp: None,
        loaded: None,
        luck: luck(),
        suggestion: None,
        warned: None,
    };
    // A start is an operator's request to try again, within the limits.
    task.record.next_attempt = 0;
    loop {
        faults::strike_control(ControlFault::Certificate);
        task.look_at_file();
        task.ask_for_suggestion().await;
        let due = task.due();
        task.show(due);
        task.warn_of_expiry();
        let pause = match due.duration_since(now()) {
            Ok(left) if !left.is_zero() => left.min(FILE_LOOK),
            _ => task.attempt().await,
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
    warned: Option<(SystemTime, ExpiryAlarm)>,
}

/// What the authority last said about the renewal of a certificate.
struct RenewalSuggestion {
    window: Option<[SystemTime; 2]>,
    at: Option<SystemTime>,
    asked_again_at: SystemTime,
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
            Ok(Some(loaded)) => match self.issuer.issued.install(host, Arc::clone(&loaded)) {
                Ok(()) => {
                    tracing::info!(
                        host,
                        expires = seconds(loaded.not_after),
                        "a certificate is used from now on"
                    );
                    self.loaded = Some(loaded);
                    self.suggestion = None;
                    self.warned = None;
                    // Of the node that has obtained it.
                    self.record = self.issuer.store.record(&self.host);
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
    fn due(&self) -> SystemTime {
        let Some(loaded) = &self.loaded else { return self.record.due() };
        let renewal = self.renewal(loaded);
        if self.record.failed > 0 { renewal.max(self.record.due()) } else { renewal }
    }

    /// When a certificate is to be renewed, whatever has failed.
    fn renewal(&self, loaded: &LoadedCertificate) -> SystemTime {
        let usual = || renewal_at(loaded.not_before, loaded.not_after, self.luck);
        self.suggestion.as_ref().and_then(|known| known.at).unwrap_or_else(usual)
    }

    /// One attempt, unless another node has been faster; returns how long to wait before the next look.
    async fn attempt(&mut self) -> Duration {
        let issuer = Rc::clone(&self.issuer);
        let Ok(_turn) = issuer.orders(&self.host).acquire().await else { return FILE_LOOK };
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
        // What another node has done meanwhile.
        let (stored, before): (HostRecord, _) = (issuer.store.record(&self.host), self.record.clone());
        if stored.failed > before.failed {
            self.record = stored;
        } else {
            self.record = stored;
            self.record.next_attempt = before.next_attempt;
        }
        self.look_at_file();
        if self.due() > now() {
            return Duration::ZERO;
        }
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
            let wanted = WantedCertificate { host: &self.host, ca, refused: self.record.refused, replaces };
            let obtained = order::obtain(issuer, &wanted).await;
            issuer.issued.update(&self.host, |status| status.ca = Some(ca.clone()));
            let saved = obtained.and_then(|obtained| {
                Ok(issuer.store.save_certificate(&self.host, &obtained.chain, &obtained.key)?)
            });
            match saved {
                Ok(()) => {
                    self.succeed(issuer, ca);
                    return;
                }
                Err(error) => {
                    let (host, error_text) = (&*self.host, &*error.text);
                    tracing::warn!(
                        host,
                        ca = &**ca,
                        error = error_text,
                        "an authority has not issued a certificate"
                    );
                    let text = format!("{ca}: {}", error.text);
                    failures.push(IssuanceError { text, ..error });
                }
            }
        }
        self.fail(&worst(failures));
    }

    fn succeed(&mut self, issuer: &Issuer, ca: &str) {
        let (host, renewed) = (&*self.host, self.loaded.is_some());
        tracing::info!(host, ca, renewed, "a certificate was obtained");
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
        let next_in_s = next.duration_since(now()).unwrap_or_default().as_secs();
        match &self.loaded {
            None => tracing::error!(host, reason, failed, next_in_s, "no certificate could be obtained"),
            Some(loaded) => {
                let expires = seconds(loaded.not_after);
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
    fn show(&self, due: SystemTime) {
        let failed = self.record.failed > 0;
        let state = match &self.loaded {
            None if failed && due > now() => IssuanceState::Failed,
            None => IssuanceState::Pending,
            Some(loaded) if loaded.not_after <= now() => IssuanceState::Expired,
            Some(_) if failed => IssuanceState::RenewalFailed,
            Some(_) => IssuanceState::Valid,
        };
        let (not_after, ca) = (self.loaded.as_ref().map(|loaded| loaded.not_after), self.ca());
        self.issuer.issued.update(&self.host, |status| {
            status.state = state;
            status.not_after = not_after;
            status.next_attempt = Some(due);
            if status.ca.is_none() {
                status.ca = Some(ca.into());
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
        let is_told = |(at, before): (SystemTime, ExpiryAlarm)| {
            before == alarm && now().duration_since(at).is_ok_and(|since| since < day)
        };
        if self.warned.is_some_and(is_told) {
            return;
        }
        self.warned = Some((now(), alarm));
        let (host, expires) = (&*self.host, seconds(loaded.not_after));
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

fn now() -> SystemTime {
    UNIX_EPOCH + clock::unix_now()
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
