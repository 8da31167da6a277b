//! The planned hand-over of this node's traffic to another node, and the state of the node.
//!
//! First connections end with their next response, for some seconds; then idle ones are closed; then others are told to take over. This node serves
//! what still arrives all the while, so that nothing is lost. It can be taken back at any time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use weir_observe::WorkerShard;

use super::watcher::Availability;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::node_hand_over::NodeHandOver;
use weir_proxy::state::shared::Shared;

/// How long idle connections have to close, unless there is none.
const IDLE_CLOSING_TIME: Duration = Duration::from_millis(300);

/// How often it is looked whether the next step is due.
const LOOK: Duration = Duration::from_millis(10);

/// The state of this node towards others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeState {
    Serving,
    /// It serves, and leaves the address to the other node (`fail_back = "by-command"`).
    Standby,
    /// It is about to hand over: connections end.
    Closing,
    HandedOver,
    Stopping,
}

impl NodeState {
    /// The stable name, one of [`weir_observe::NODE_STATES`].
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Standby => "standby",
            Self::Closing => "closing",
            Self::HandedOver => "handed-over",
            Self::Stopping => "stopping",
        }
    }
}

/// The hand-over of a running proxy.
pub(crate) struct HandOver {
    shared: Arc<Shared>,
    shards: Vec<Arc<WorkerShard>>,
    queries: Arc<WorkerQueries>,
    /// Whether the other node has the address until this one is told to take it.
    is_standby: AtomicBool,
    /// Whether the process does not accept connections yet.
    is_starting: AtomicBool,
    /// Whether the process has no routes yet, since what names them has not answered.
    awaits_routes: AtomicBool,
    /// Whether it has no listener, since none of those that are wanted could be opened.
    lacks_listeners: AtomicBool,
    /// The task that goes from step to step.
    running: Mutex<Option<AbortHandle>>,
}

/// Where a hand-over is, and when its next step is due.
struct HandOverSteps {
    due: Instant,
}

impl HandOver {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        shards: &[Arc<WorkerShard>],
        queries: &Arc<WorkerQueries>,
        is_standby: bool,
    ) -> Self {
        Self {
            is_standby: AtomicBool::new(is_standby),
            is_starting: AtomicBool::new(true),
            awaits_routes: AtomicBool::new(false),
            lacks_listeners: AtomicBool::new(false),
            shared: Arc::clone(shared),
            shards: shards.to_vec(),
            queries: Arc::clone(queries),
            running: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> NodeState {
        match self.shared.node_hand_over.load() {
            _ if self.shared.stop_announced.load(Ordering::Relaxed) => NodeState::Stopping,
            NodeHandOver::Done => NodeState::HandedOver,
            NodeHandOver::Closing | NodeHandOver::ClosingIdle => NodeState::Closing,
            NodeHandOver::None if self.is_standby() => NodeState::Standby,
            NodeHandOver::None => NodeState::Serving,
        }
    }

    /// Whether the other node has the address until this one is told to take it.
    pub(crate) fn is_standby(&self) -> bool {
        self.is_standby.load(Ordering::Relaxed)
    }

    /// Whether the process does not accept connections yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.is_starting.load(Ordering::Relaxed)
    }

    /// Says whether the process does not accept connections yet.
    pub(crate) fn set_starting(&self, is_starting: bool) {
        self.is_starting.store(is_starting, Ordering::Relaxed);
    }

    /// Whether the process has no routes yet.
    pub(crate) fn awaits_routes(&self) -> bool {
        self.awaits_routes.load(Ordering::Relaxed)
    }

    /// Says whether the process has no routes yet.
    pub(crate) fn set_awaits_routes(&self, awaits: bool) {
        self.awaits_routes.store(awaits, Ordering::Relaxed);
    }

    /// Whether none of the listeners that are wanted could be opened.
    pub(crate) fn lacks_listeners(&self) -> bool {
        self.lacks_listeners.load(Ordering::Relaxed)
    }

    /// Says whether none of the listeners that are wanted could be opened.
    pub(crate) fn set_lacks_listeners(&self, lacks: bool) {
        self.lacks_listeners.store(lacks, Ordering::Relaxed);
    }

    /// What others are to be told about the node.
    pub(crate) fn availability(&self) -> Availability {
        match self.state() {
            NodeState::Stopping if self.shared.stopping.load(Ordering::Relaxed) => Availability::Unavailable,
            NodeState::Stopping | NodeState::HandedOver | NodeState::Standby => Availability::HandedOver,
            NodeState::Closing if self.is_standby() => Availability::HandedOver,
            NodeState::Closing | NodeState::Serving => Availability::Available,
        }
    }

    /// Client connections that are open, and of these, tunnels.
    pub(crate) fn connections(&self) -> (u64, u64) {
        let sum = |of: fn(&WorkerShard) -> i64| {
            u64::try_from(self.shards.iter().map(|shard| of(shard)).sum::<i64>()).unwrap_or(0)
        };
        (sum(|shard| shard.connections_open.value()), sum(|shard| shard.tunnels_open.value()))
    }

    /// Begins, on the runtime of the caller, and lets connections end for `delay`; without an effect where it has begun.
    pub(crate) fn begin(self: &Arc<Self>, delay: Duration, requester: &str) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.node_hand_over.load() != NodeHandOver::None {
            return;
        }
        let steps = tokio::sync::Mutex::new(self.start(delay, requester));
        let hand_over = Arc::clone(self);
        let task = tokio::spawn(async move {
            // After a panic it goes on with the step that it was about to take.
            let go_on = || async {
                let mut steps = steps.lock().await;
                while !hand_over.go_on(&mut steps) {
                    tokio::time::sleep(LOOK).await;
                }
            };
            weir_tasks::keep("the hand-over of this node", go_on).await;
        });
        *running = Some(task.abort_handle());
    }

    /// The same on the thread of the caller, who waits, until `hurry` says that there is no more time.
    pub(crate) fn carry_out(&self, delay: Duration, requester: &str, mut hurry: impl FnMut() -> bool) {
        self.halt();
        if self.shared.node_hand_over.load() == NodeHandOver::Done {
            return;
        }
        let mut steps = self.start(delay, requester);
        while !hurry() && !self.go_on(&mut steps) {
            clock::pause(LOOK);
        }
    }

    /// Ends with the state that a hand-over has had in the process before.
    pub(crate) fn resume(&self) {
        self.enter(NodeHandOver::Done);
        tracing::warn!("this node has handed over to another one: `weir ctl take-back` ends that");
    }

    /// This node is to serve again.
    pub(crate) fn take_back(&self, requester: &str) {
        self.halt();
        let was_standby = self.is_standby.swap(false, Ordering::SeqCst);
        if self.shared.node_hand_over.load() == NodeHandOver::None && !was_standby {
            return;
        }
        self.shared.node_hand_over.store(NodeHandOver::None);
        // A stop that begins meanwhile says so again behind this.
        self.shared.places.ends.store(self.shared.stopping.load(Ordering::SeqCst), Ordering::SeqCst);
        tracing::warn!(who = requester, "taken back: this node serves again");
    }

    fn halt(&self) {
        if let Some(task) = self.running.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }

    fn start(&self, delay: Duration, requester: &str) -> HandOverSteps {
        let (connections, tunnels) = self.connections();
        tracing::warn!(
            who = requester,
            ?delay,
            connections,
            tunnels,
            "about to hand over to another node: connections end with their next response"
        );
        self.enter(NodeHandOver::Closing);
        HandOverSteps { due: clock::now() + delay }
    }

    /// Goes on if it is time; whether that was the last step.
    fn go_on(&self, steps: &mut HandOverSteps) -> bool {
        let (connections, tunnels) = self.connections();
        if clock::now() < steps.due && connections > 0 {
            return false;
        }
        match self.shared.node_hand_over.load() {
            NodeHandOver::Closing => {
                self.enter(NodeHandOver::ClosingIdle);
                steps.due = clock::now() + IDLE_CLOSING_TIME;
                false
            }
            NodeHandOver::ClosingIdle => {
                self.enter(NodeHandOver::Done);
                tracing::warn!(
                    connections,
                    tunnels,
                    "handed over: another node is to serve, and this one serves what still arrives"
                );
                true
            }
            NodeHandOver::None | NodeHandOver::Done => true,
        }
    }

    fn enter(&self, step: NodeHandOver) {
        self.shared.node_hand_over.store(step);
        self.shared.places.ends.store(true, Ordering::SeqCst);
        // Connections that wait notice the step when they are woken.
        self.queries.wake_all();
    }
}
