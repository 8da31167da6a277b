//! The thread that follows the API server.

use std::cell::OnceCell;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config as ClientConfig};
use tokio::sync::{Mutex, mpsc, watch};
use weir_config::Config;
use weir_gateway::GatewaySettings;
use weir_gateway::api::GatewayStatusAddress;
use weir_tasks::OwnedTask;

use crate::backoff::WatchBackoff;
use crate::cluster_loop::ClusterLoop;
use crate::cluster_state::ClusterState;
use crate::election::{ElectionSettings, take_part};
use crate::status_writer::StatusWriter;
use crate::update::UpdateSender;
use crate::watching::{WatchSettings, WatchedApis};

/// How long a connection to the API server may take to be established.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// What the source needs to know.
#[derive(Debug, Clone)]
pub struct SourceSettings {
    /// Of the translation.
    pub gateway: GatewaySettings,
    /// Whether Gateways are served, beside the Ingresses of `gateway`.
    pub gateways: bool,
    /// The addresses and names by which clients reach the Gateways.
    pub addresses: Vec<Box<str>>,
    /// How the API server is found; `None`: by the usual rules, which are `KUBECONFIG`, `~/.kube/config` and the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The namespaces that are watched; empty: all.
    pub namespaces: Vec<Box<str>>,
    /// The namespaces whose Secrets are read; empty: those of all that are watched.
    pub secrets_namespaces: Vec<Box<str>>,
    /// Who writes statuses; `None`: this process does not.
    pub election: Option<ElectionSettings>,
}

/// The running thread; stopped and waited for when dropped.
#[derive(Debug)]
pub struct KubernetesSource {
    state: ClusterState,
    stop: watch::Sender<bool>,
    bases: mpsc::UnboundedSender<Config>,
    thread: Option<JoinHandle<()>>,
}

impl KubernetesSource {
    /// Starts it; `updates` go to the owner of the proxy.
    ///
    /// # Errors
    /// When the system refuses a thread or an event loop.
    pub fn start(settings: SourceSettings, updates: UpdateSender) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (state, (stop, stopped)) = (ClusterState::default(), watch::channel(false));
        let shared = state.clone();
        let (bases, next_bases) = mpsc::unbounded_channel();
        let thread = std::thread::Builder::new().name("weir-kubernetes".into()).spawn(move || {
            runtime.block_on(follow(settings, updates, (shared, next_bases), stopped));
        })?;
        Ok(Self { state, stop, bases, thread: Some(thread) })
    }

    /// Other settings of the process, log and admin listener.
    pub fn set_base(&self, base: Config) {
        let _ended = self.bases.send(base);
    }

    /// What is known about it.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }
}

impl Drop for KubernetesSource {
    fn drop(&mut self) {
        let _ended = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Connects, and follows the API server until `stop`.
async fn follow(
    settings: SourceSettings,
    updates: UpdateSender,
    (state, bases): (ClusterState, mpsc::UnboundedReceiver<Config>),
    mut stop: watch::Receiver<bool>,
) {
    let client = OnceCell::new();
    let connected = || async {
        let _first = client.set(connect(settings.kubeconfig.as_deref()).await);
    };
    tokio::select! {
        () = weir_tasks::keep("the connection to the API server", connected) => {}
        _ = stop.wait_for(|stop| *stop) => return,
    }
    let Some(client) = client.into_inner() else { return };
    let (statuses, to_write) = mpsc::unbounded_channel();
    let (leads, leadership) = watch::channel(false);
    let watched = WatchSettings {
        client: client.clone(),
        apis: WatchedApis { gateways: settings.gateways, ingresses: settings.gateway.ingress.is_some() },
        namespaces: settings.namespaces,
        secrets_namespaces: settings.secrets_namespaces,
    };
    let _writer = OwnedTask::from(tokio::spawn(StatusWriter::new(client.clone(), to_write).keep()));
    let elected = take_part(client, settings.election, leads, stop);
    let addresses = settings.addresses.iter().map(|text| status_address(text)).collect();
    let gateway = GatewaySettings { addresses, ..settings.gateway };
    let cluster = ClusterLoop::new(watched, gateway, updates, statuses, leadership, bases, state);
    let cluster = Mutex::new(cluster);
    let followed = || async { cluster.lock().await.run().await };
    let tell = || {
        if let Ok(mut cluster) = cluster.try_lock() {
            cluster.note_panic();
        }
    };
    let followed = weir_tasks::keep_telling("the objects of Kubernetes", followed, tell);
    // The election ends last: it gives up the lease.
    tokio::pin!(elected);
    tokio::select! {
        () = followed => elected.await,
        () = &mut elected => {}
    }
}

fn status_address(text: &str) -> GatewayStatusAddress {
    let kind = if text.parse::<IpAddr>().is_ok() { "IPAddress" } else { "Hostname" };
    GatewayStatusAddress { r#type: Some(kind.into()), value: text.into() }
}

/// The client. It is tried again: a file that is not there yet may come.
async fn connect(kubeconfig: Option<&Path>) -> Client {
    let mut backoff = WatchBackoff::default();
    let mut told = String::new();
    loop {
        let found = find_server(kubeconfig).await.and_then(|mut config| {
            config.connect_timeout = Some(CONNECT_TIME);
            Client::try_from(config).map_err(|error| error.to_string())
        });
        match found {
            Ok(client) => return client,
            Err(why) => {
                if told != why {
                    tracing::error!(
                        why,
                        "no access to an API server of Kubernetes: name a file with `--kubeconfig` or KUBECONFIG, or run in a pod with a service account"
                    );
                    told = why;
                }
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }
}

/// Where the API server is.
pub(crate) async fn find_server(kubeconfig: Option<&Path>) -> Result<ClientConfig, String> {
    let Some(path) = kubeconfig else {
        return ClientConfig::infer().await.map_err(|error| error.to_string());
    };
    let file = Kubeconfig::read_from(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let options = KubeConfigOptions::default();
    ClientConfig::from_custom_kubeconfig(file, &options).await.map_err(|error| error.to_string())
}
