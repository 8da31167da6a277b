//! The thread that obtains certificates: a task for each host of each issuer, from its first config to its last.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_config::{Acme, Dns};
use weir_proxy::net::tls::issued::{HostDemand, IssuedCertificates, Issuers, TokenLookup};
use weir_proxy::state::crashes::faults::{self, ControlFault};
use weir_proxy::state::snapshot::Snapshot;
use weir_tasks::OwnedTask;

use super::host;
use super::issuer::Issuer;
use crate::system::threads;

/// The running thread; stopped and waited for when dropped.
#[derive(Debug)]
pub(crate) struct AcmeThread {
    configs: UnboundedSender<AcmeConfig>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// What of a config is followed.
#[derive(Default)]
struct AcmeConfig {
    /// The listeners whose certificates are obtained.
    listeners: Vec<(Arc<IssuedCertificates>, Acme)>,
    dns: Dns,
}

impl AcmeThread {
    /// Starts it, if there is a certificate to obtain.
    ///
    /// # Errors
    /// When the system refuses a thread or an event loop.
    pub(crate) fn start(snapshot: &Snapshot) -> io::Result<Option<Self>> {
        let Some(issuers) = snapshot.issuers.clone() else { return Ok(None) };
        let (configs, next) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("weir-acme".into()).spawn(move || {
            let _registration = threads::register();
            // Connections stay on their thread.
            tokio::task::LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = run(next, issuers) => {}
                    () = stopped.notified() => {}
                }
            });
            // What blocks, such as a program that sets records, is not waited for.
            runtime.shutdown_background();
        })?;
        let started = Self { configs, stop, thread: Some(thread) };
        started.follow(snapshot);
        Ok(Some(started))
    }

    /// Goes by the next config.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        let listeners = snapshot.listeners.iter();
        let issued = listeners.filter_map(|plan| plan.tls.as_ref()?.certificates.issued());
        let config = issued.map(|issued| (Arc::clone(&issued.issued), issued.config.clone()));
        let config = AcmeConfig { listeners: config.collect(), dns: snapshot.dns.clone() };
        let _ended = self.configs.send(config);
    }
}

impl Drop for AcmeThread {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

async fn run(configs: UnboundedReceiver<AcmeConfig>, issuers: Arc<Issuers>) {
    let (lookups, next_lookups) = unbounded_channel();
    issuers.set_lookups(lookups);
    let tasks = AcmeTasks {
        issuers,
        configs,
        config: AcmeConfig::default(),
        dns: Rc::default(),
        next_lookups,
        running: HashMap::new(),
    };
    let tasks = tokio::sync::Mutex::new(tasks);
    weir_tasks::keep("the issuers of certificates", || async { tasks.lock().await.run().await }).await;
}

/// The tasks of all issuers, by the address of what they hold.
struct AcmeTasks {
    issuers: Arc<Issuers>,
    configs: UnboundedReceiver<AcmeConfig>,
    /// The one that is followed.
    config: AcmeConfig,
    /// The resolvers, for all issuers.
    dns: Rc<RefCell<Dns>>,
    next_lookups: UnboundedReceiver<TokenLookup>,
    running: HashMap<usize, IssuerTasks>,
}

/// The tasks of one issuer.
struct IssuerTasks {
    issuer: Rc<Issuer>,
    hosts: Rc<RefCell<HashMap<Box<str>, OwnedTask>>>,
    /// Takes the hosts that clients ask for.
    _on_demand: OwnedTask,
}

impl AcmeTasks {
    /// Goes by each config; after a panic, by the one that it was about to go by.
    async fn run(&mut self) {
        self.follow();
        loop {
            tokio::select! {
                config = self.configs.recv() => match config {
                    Some(config) => self.config = config,
                    None => return,
                },
                Some(lookup) = self.next_lookups.recv() => {
                    self.look_up(lookup);
                    continue;
                }
            }
            faults::strike_control(ControlFault::Issuers);
            self.follow();
        }
    }

    fn follow(&mut self) {
        *self.dns.borrow_mut() = self.config.dns.clone();
        let config = &self.config.listeners;
        let address = |issued: &Arc<IssuedCertificates>| Arc::as_ptr(issued).addr();
        self.running.retain(|known, _| config.iter().any(|(issued, _)| address(issued) == *known));
        for (issued, _) in config {
            let start = || IssuerTasks::new(issued, &self.issuers, &self.dns);
            let tasks = self.running.entry(address(issued)).or_insert_with(start);
            let of_issuer = config.iter().filter(|(other, _)| Arc::ptr_eq(other, issued));
            tasks.follow(&of_issuer.map(|(_, acme)| acme).collect::<Vec<_>>());
        }
    }

    /// Looks for the answer to a challenge that another node may have been given.
    fn look_up(&self, lookup: TokenLookup) {
        let found = self.running.values().find_map(|tasks| tasks.issuer.store.token(&lookup.token));
        let _gone = lookup.answer.send(found);
    }
}

impl IssuerTasks {
    fn new(issued: &Arc<IssuedCertificates>, issuers: &Arc<Issuers>, dns: &Rc<RefCell<Dns>>) -> Self {
        let issuer = Issuer::new(issued, issuers, dns);
        let hosts: Rc<RefCell<HashMap<Box<str>, OwnedTask>>> = Rc::default();
        let (wanted, next_wanted) = unbounded_channel::<HostDemand>();
        issued.set_wanted(wanted);
        let on_demand = tokio::task::spawn_local({
            let (issuer, hosts) = (Rc::clone(&issuer), Rc::clone(&hosts));
            let next_wanted = tokio::sync::Mutex::new(next_wanted);
            async move {
                let take = || async {
                    while let Some(demand) = next_wanted.lock().await.recv().await {
                        match demand {
                            HostDemand::Wanted(host) => {
                                tracing::info!(host = &*host, "a client asks for a host that is on demand");
                                start(&issuer, &mut hosts.borrow_mut(), &host);
                            }
                            HostDemand::Dropped(host) => {
                                // What the task does when it is given up comes before its files go.
                                drop(hosts.borrow_mut().remove(&host));
                                issuer.store.forget_host(&host);
                            }
                        }
                    }
                };
                weir_tasks::keep("the hosts on demand", take).await;
            }
        });
        Self { issuer, hosts, _on_demand: on_demand.into() }
    }

    fn follow(&self, listeners: &[&Acme]) {
        let is_wanted = |host: &str| {
            listeners
                .iter()
                .any(|acme| acme.hosts.iter().any(|own| **own == *host) || acme.is_on_demand(host))
        };
        let configured = || listeners.iter().flat_map(|acme| &acme.hosts);
        self.issuer.follow(configured().cloned().collect());
        let mut hosts = self.hosts.borrow_mut();
        hosts.retain(|host, _| is_wanted(host));
        self.issuer.issued.retain(is_wanted);
        self.issuer.issued.note_configured(|host| !self.issuer.is_on_demand(host));
        for host in configured() {
            start(&self.issuer, &mut hosts, host);
        }
    }
}

fn start(issuer: &Rc<Issuer>, hosts: &mut HashMap<Box<str>, OwnedTask>, host: &str) {
    hosts.entry(host.into()).or_insert_with(|| {
        let (issuer, host): (_, Box<str>) = (Rc::clone(issuer), host.into());
        let task = tokio::task::spawn_local(async move {
            // Begun anew, it reads what the one before has stored.
            let begins_anew = Cell::new(false);
            let make = || host::keep(Rc::clone(&issuer), host.clone(), begins_anew.replace(true));
            weir_tasks::keep("the certificate of a host", make).await;
        });
        task.into()
    });
}
