//! What the owner of the proxy is to carry out, and what it is told about the source.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;
use weir_config::{Config, Server};

use crate::cluster_state::ClusterReport;

/// Something for the owner of the proxy to carry out.
#[derive(Debug)]
pub struct KubernetesUpdate {
    /// What is to change.
    pub change: KubernetesChange,
    /// Where the outcome is sent: why it could not be carried out.
    pub outcome: oneshot::Sender<Result<(), ChangeRefusal>>,
}

/// Why a change could not be carried out; then nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRefusal {
    /// The cause, in a sentence.
    pub why: String,
    /// The listener that is the cause, where it is known.
    pub listener: Option<Box<str>>,
}

impl ChangeRefusal {
    /// Without a listener that would be its cause.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), listener: None }
    }
}

/// What is to change.
#[derive(Debug)]
pub enum KubernetesChange {
    /// Another configuration, with all servers.
    Config {
        /// It.
        config: Box<Config>,
        /// Whether it has everything that the objects declare: nothing of them is held back.
        is_whole: bool,
    },
    /// Other servers of some upstreams, by the name of each.
    Servers(Vec<(Box<str>, Vec<Server>)>),
    /// Nothing: the state of the source is another one.
    Report(Box<ClusterReport>),
}

/// Takes updates; false when there is no owner any more.
#[derive(Clone)]
pub struct UpdateSender(Arc<dyn Fn(KubernetesUpdate) -> bool + Send + Sync>);

impl UpdateSender {
    /// By this function.
    pub fn new(send: impl Fn(KubernetesUpdate) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    /// Has a change carried out without waiting for the outcome.
    pub(crate) fn tell(&self, change: KubernetesChange) {
        let (outcome, _answer) = oneshot::channel();
        let _ending = (self.0)(KubernetesUpdate { change, outcome });
    }

    /// Has a change carried out and waits for the outcome; `None`: there is no owner any more.
    pub(crate) async fn carry_out(&self, change: KubernetesChange) -> Option<Result<(), ChangeRefusal>> {
        let (outcome, answer) = oneshot::channel();
        if !(self.0)(KubernetesUpdate { change, outcome }) {
            return None;
        }
        answer.await.ok()
    }
}

impl fmt::Debug for UpdateSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpdateSender(..)")
    }
}
