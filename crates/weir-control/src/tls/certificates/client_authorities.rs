//! The authorities of clients' certificates: files of authorities and of revoked certificates, read again when they change.
//!
//! Beside `certificates`, and by the same rules: files that cannot be used change nothing, and the log says why. When the trust
//! changes, also because a list became outdated, no earlier session is resumed without being verified anew.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{Authorities, CertificateError, Listener, ListenerTls, RevocationLists};
use weir_http::WallTime;

use super::files::{DATE_INTERVAL, FileStamp, stamp};
use weir_proxy::net::clock;
use weir_proxy::net::tls::client_certificates::ClientAuthorities;
use weir_proxy::net::tls::server_config::TlsServerConfig;
use weir_proxy::state::snapshot::ListenerPlan;

/// Keeps the authorities of the clients of one listener current, if it verifies them, until the task is dropped.
pub(super) async fn keep_current(plan: &ListenerPlan) {
    let (Some(server_config), Some(tls)) = (&plan.tls, &plan.config.tls) else { return };
    let Some(clients) = &tls.client_certificates else { return };
    // Without them there would be no server_config.
    let Ok(authorities) = ClientAuthorities::new(clients) else { return };
    let mut watch = ClientAuthorityWatch {
        listener: &plan.config,
        server_config,
        tls,
        authorities,
        stamps: [None; 2],
        logged: None,
    };
    loop {
        let outdated_in = watch.tell_outdated();
        let pause = tls.reload.unwrap_or(DATE_INTERVAL);
        tokio::time::sleep(outdated_in.map_or(pause, |left| left.min(pause))).await;
        if tls.reload.is_some() {
            watch.look().await;
        }
    }
}

/// The files of one listener and their state.
struct ClientAuthorityWatch<'a> {
    listener: &'a Listener,
    server_config: &'a TlsServerConfig,
    tls: &'a ListenerTls,
    authorities: ClientAuthorities,
    /// Of authorities and lists, as they were when they were last read.
    stamps: [Option<FileStamp>; 2],
    /// The end of the lists of which the log has spoken.
    logged: Option<WallTime>,
}

impl ClientAuthorityWatch<'_> {
    /// Reads changed files.
    async fn look(&mut self) {
        let mut authorities = self.authorities.clone();
        let mut changed = Vec::new();
        if let Some(file) = &authorities.authorities.file {
            let read = read_if_changed(file, &mut self.stamps[0], Authorities::load).await;
            if let Some(new) = self.usable(read).filter(|new| *new != authorities.authorities) {
                changed.push(file.clone());
                authorities.authorities = new;
            }
        }
        if let Some(lists) = &authorities.revocations {
            let read = read_if_changed(&lists.file, &mut self.stamps[1], RevocationLists::load).await;
            if let Some(new) = self.usable(read).filter(|new| new != lists) {
                changed.push(new.file.clone());
                authorities.revocations = Some(new);
            }
        }
        if changed.is_empty() {
            return;
        }
        let listener = &*self.listener.name;
        match self.server_config.replace_authorities(&authorities, self.tls) {
            Ok(()) => {
                self.authorities = authorities;
                for file in changed {
                    self.server_config.certificates.count_reload(true);
                    let file = file.display();
                    tracing::info!(listener, %file, "certificates of clients are verified by the changed file from now on");
                }
            }
            Err(error) => {
                self.server_config.certificates.count_reload(false);
                tracing::error!(listener, %error, "changed files for certificates of clients cannot be used; the old ones stay in use");
            }
        }
    }

    /// The content that was read, if it can be used.
    fn usable<T>(&self, read: Option<Result<Arc<T>, CertificateError>>) -> Option<Arc<T>> {
        read?
            .inspect_err(|error| {
                self.server_config.certificates.count_reload(false);
                let (listener, file) = (&*self.listener.name, error.file.display());
                tracing::error!(
                    listener, %file, reason = error.message,
                    "a file for certificates of clients has changed and cannot be used; the old one stays in use"
                );
            })
            .ok()
    }

    /// Says when a list is outdated, and ends the sessions of before; else how long it will last.
    fn tell_outdated(&mut self) -> Option<Duration> {
        let lists = self.authorities.revocations.as_ref()?;
        let left = lists.next_update - clock::date();
        if !left.is_zero() {
            return Some(left);
        }
        if self.logged.replace(lists.next_update) != Some(lists.next_update) {
            let (listener, file) = (&*self.listener.name, lists.file.display());
            tracing::error!(
                listener, %file, since = lists.next_update.seconds(),
                "a list of revoked certificates is outdated: clients with certificates of its authority are rejected"
            );
            if let Err(error) = self.server_config.replace_authorities(&self.authorities, self.tls) {
                tracing::error!(listener, %error, "sessions from before can still be resumed");
            }
        }
        None
    }
}

/// The content of a file, unless it is as `before`.
async fn read_if_changed<T: Send + Sync + 'static>(
    file: &Path,
    before: &mut Option<FileStamp>,
    load: fn(&Path) -> Result<Arc<T>, CertificateError>,
) -> Option<Result<Arc<T>, CertificateError>> {
    let (file, known) = (file.to_owned(), *before);
    // Not on this thread: it resolves names and serves the metrics, and a file may be far away.
    let looked = tokio::task::spawn_blocking(move || {
        let now = stamp(&file);
        (now, (known != Some(now)).then(|| load(&file)))
    });
    let (now, read) = looked.await.ok()?;
    *before = Some(now);
    read
}
