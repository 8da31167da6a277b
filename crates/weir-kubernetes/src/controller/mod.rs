//! The controller: for each Gateway of Weir's classes a Deployment of its own, with what belongs to it.
//!
//! Objects are made by server-side apply, owned by their Gateway, so that the garbage collection of the cluster removes them with it. What
//! others change is mended, what they delete is made again. The pods serve: routes, listeners and statuses are theirs, not the controller's.

mod reconcile;
mod watches;
mod known;
mod objects;
mod pods;
mod request;
mod accounts;
mod names;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use known::KnownCluster;
use reconcile::Reconciler;
pub use request::GatewayPods;

use crate::election::{ElectionSettings, take_part};
use crate::source::find_server;

/// Events that come together are taken together.
const SETTLING_TIME: Duration = Duration::from_millis(20);

/// The pause after an attempt that failed; it doubles to the longest one.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(500);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// What the controller makes.
#[derive(Debug, Clone)]
pub struct ControllerSettings {
    /// What the pods of all Gateways have in common.
    pub pods: GatewayPods,
    /// The ClusterRoleBinding whose subjects are the accounts of all Gateways; it exists, the controller keeps its subjects.
    pub accounts_binding: Box<str>,
    /// How the API server is found; `None`: by the usual rules, which are `KUBECONFIG`, `~/.kube/config` and the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// Which of several controllers works; `None`: this one does.
    pub election: Option<ElectionSettings>,
}

/// Why the controller has to end.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// There is no usable kubeconfig, and no account of a pod.
    #[error("no API server is known: {0}")]
    NoServer(String),
}

/// Keeps the objects of all Gateways as they are to be, until `stop` is ready.
///
/// # Errors
/// When no API server is known. One that does not answer is waited for.
pub async fn run(
    settings: ControllerSettings,
    stop: impl Future<Output = ()>,
) -> Result<(), ControllerError> {
    let config = find_server(settings.kubeconfig.as_deref()).await;
    let client = config.and_then(|config| Client::try_from(config).map_err(|error| error.to_string()));
    let client = client.map_err(ControllerError::NoServer)?;
    let (stopping, stopped) = watch::channel(false);
    let (leads, leadership) = watch::channel(settings.election.is_none());
    let election = take_part(client.clone(), settings.election.clone(), leads, stopped);
    // All that it knows is read anew after a panic.
    let make = || reconcile(client.clone(), settings.clone(), leadership.clone());
    let reconciling = async {
        tokio::select! {
            () = weir_tasks::keep("the objects of Gateways", make) => {}
            () = stop => {}
        }
        let _ended = stopping.send(true);
    };
    // The election ends last: it gives up the lease.
    tokio::join!(reconciling, election);
    Ok(())
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Keeps all objects as they are to be, while this process leads.
async fn reconcile(client: Client, settings: ControllerSettings, mut leadership: watch::Receiver<bool>) {
    let mut events = std::pin::pin!(watches::all(&client, &settings));
    let mut cluster = KnownCluster::new(&settings.pods);
    let mut reconciler = Reconciler::new(client, settings);
    let mut retry_pause = RETRY_PAUSE_MIN;
    let mut has_failed = false;
    loop {
        let accounts_due = reconciler.accounts_due().filter(|_| *leadership.borrow());
        tokio::select! {
            biased;
            changed = leadership.changed() => {
                if changed.is_err() {
                    return;
                }
                // Another process may have left something undone.
                cluster.note_all();
            }
            () = tokio::time::sleep(retry_pause), if has_failed => {}
            () = sleep_until(accounts_due), if accounts_due.is_some() => cluster.are_accounts_due = true,
            event = events.next() => match event {
                Some(Ok(event)) => cluster.take(event),
                Some(Err(error)) => {
                    tracing::warn!("{error}");
                    continue;
                }
                None => return,
            },
        }
        tokio::time::sleep(SETTLING_TIME).await;
        while let Some(Some(event)) = events.next().now_or_never() {
            match event {
                Ok(event) => cluster.take(event),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        if cluster.is_listed() && *leadership.borrow() {
            has_failed = !reconciler.run(&mut cluster).await;
            retry_pause = if has_failed { (retry_pause * 2).min(RETRY_PAUSE_MAX) } else { RETRY_PAUSE_MIN };
        }
    }
}
