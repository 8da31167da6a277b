//! The thread that asks sources of servers; what they say goes to the owner of the proxy as a command.
//!
//! On a thread of its own: a source that is slow to answer, or answers a thousand times per second, delays neither health checks nor
//! figures. Sets that come while the owner is busy are handed over together.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, Notify};
use weir_config::{Config, ServerAddress, Upstream};
use weir_discovery::{
    DiscoveryConfig, DiscoveryOutput, FragmentSet, NamesInUse, RememberedServers, ServerSet,
};

use crate::system::threads;
use crate::workers::commands::{CommandSender, CommandsUnderWay};

/// Commands that the owner of the proxy has not carried out yet: beyond that, sets are gathered.
const COMMANDS_MAX: usize = 2;

/// Changes of keys that hold routes within this time are one change.
const ROUTES_COALESCING: Duration = Duration::from_millis(20);

/// How long is waited for the owner, before sets are gathered further.
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// The running thread; stopped and waited for when dropped.
#[derive(Debug)]
pub(crate) struct DiscoveryThread {
    configs: UnboundedSender<DiscoveryConfig>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl DiscoveryThread {
    /// Starts it, if the config names any source, or has names of servers stored; what is `known` is in use until a source answers.
    ///
    /// # Errors
    /// When the system refuses a thread or an event loop.
    pub(crate) fn start(
        config: &Config,
        (known, names): (RememberedServers, NamesInUse),
        commands: CommandSender,
    ) -> io::Result<Option<Self>> {
        if !Self::is_needed(config) {
            return Ok(None);
        }
        let first = DiscoveryConfig::new(config);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (configs, next) = unbounded_channel();
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("weir-discovery".into()).spawn(move || {
            let _registration = threads::register();
            let ((servers, said), (fragments, routes)) = (unbounded_channel(), unbounded_channel());
            let output = DiscoveryOutput { servers, fragments };
            let (said, routes) = (PendingChange::new(said), PendingChange::new(routes));
            let hand_over = || async { said.lock().await.hand_over(&commands).await };
            let hand_over_routes = || async { routes.lock().await.hand_over(&commands).await };
            runtime.block_on(async {
                tokio::select! {
                    ((), (), ()) = async {
                        tokio::join!(
                            weir_discovery::run(next, known, names, output),
                            weir_tasks::keep("the hand-over of servers", hand_over),
                            weir_tasks::keep("the hand-over of routes", hand_over_routes)
                        )
                    } => {}
                    () = stopped.notified() => {}
                }
            });
        })?;
        let started = Self { configs, stop, thread: Some(thread) };
        let _ended = started.configs.send(first);
        Ok(Some(started))
    }

    /// Whether the config names any source, or a file for the addresses of names.
    pub(crate) fn is_needed(config: &Config) -> bool {
        let has_name = |upstream: &Arc<Upstream>| {
            upstream.servers.iter().any(|server| matches!(server.address, ServerAddress::Name { .. }))
        };
        !config.route_sources.is_empty()
            || config.upstreams.iter().any(|upstream| upstream.discovery.is_some())
            || config.discovery.state_file.is_some() && config.upstreams.iter().any(has_name)
    }

    /// Asks the sources of another config.
    pub(crate) fn follow(&self, config: &Config) {
        let _ended = self.configs.send(DiscoveryConfig::new(config));
    }
}

impl Drop for DiscoveryThread {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// What is said on its way to the owner of the proxy: it outlives a panic.
struct PendingChange<T> {
    said: UnboundedReceiver<T>,
    in_hand: Vec<T>,
}

impl<T> PendingChange<T> {
    fn new(said: UnboundedReceiver<T>) -> Mutex<Self> {
        Mutex::new(Self { said, in_hand: Vec::new() })
    }

    /// Whether there is something in hand, once there is.
    async fn wait(&mut self) -> bool {
        if self.in_hand.is_empty() {
            self.in_hand.extend(self.said.recv().await);
        }
        !self.in_hand.is_empty()
    }
}

impl PendingChange<ServerSet> {
    /// Hands over what sources say, until they end or there is no owner any more; of several sets of one upstream the last.
    async fn hand_over(&mut self, commands: &CommandSender) {
        let under_way = CommandsUnderWay::default();
        while self.wait().await {
            loop {
                while let Ok(set) = self.said.try_recv() {
                    self.in_hand.retain(|known| known.upstream != set.upstream);
                    self.in_hand.push(set);
                }
                if under_way.count() < COMMANDS_MAX {
                    break;
                }
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            if !commands.set_servers(std::mem::take(&mut self.in_hand), under_way.one_more()) {
                return;
            }
        }
    }
}

impl PendingChange<FragmentSet> {
    /// Hands over what stores of routes say, until they end or there is no owner any more; of several words of one store the last.
    async fn hand_over(&mut self, commands: &CommandSender) {
        let under_way = CommandsUnderWay::default();
        while self.wait().await {
            tokio::time::sleep(ROUTES_COALESCING).await;
            loop {
                while let Ok(set) = self.said.try_recv() {
                    // Keys are not forgotten for a problem that came later.
                    self.in_hand.retain(|known| {
                        known.source != set.source || known.fragments.is_some() && set.fragments.is_none()
                    });
                    self.in_hand.push(set);
                }
                if under_way.count() == 0 {
                    break;
                }
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            if !commands.set_fragments(std::mem::take(&mut self.in_hand), under_way.one_more()) {
                return;
            }
        }
    }
}
