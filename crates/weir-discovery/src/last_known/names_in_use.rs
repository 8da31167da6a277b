//! The addresses of names that servers have, beside those of sources: they are in the state file, too. They are resolved elsewhere; here they are
//! looked at when they have changed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::Notify;

/// The addresses of names.
pub type KnownAddresses = BTreeMap<Box<str>, Vec<IpAddr>>;

/// Gives the names of servers in use, and their addresses.
type Collect = dyn Fn() -> KnownAddresses + Send + Sync;

/// The names of servers in use, and when they have other addresses.
#[derive(Clone)]
pub struct NamesInUse {
    collect: Arc<Collect>,
    changed: Arc<Notify>,
}

impl NamesInUse {
    /// `collect` gives the addresses in use; `changed` is notified when they are others.
    pub fn new(collect: impl Fn() -> KnownAddresses + Send + Sync + 'static, changed: Arc<Notify>) -> Self {
        Self { collect: Arc::new(collect), changed }
    }

    pub(crate) fn addresses(&self) -> KnownAddresses {
        (self.collect)()
    }

    /// Waits until there are others than when this was last called.
    pub(crate) async fn wait_for_change(&self) {
        self.changed.notified().await;
    }
}

impl Default for NamesInUse {
    /// No name is in use.
    fn default() -> Self {
        Self::new(KnownAddresses::new, Arc::default())
    }
}

impl fmt::Debug for NamesInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamesInUse").finish_non_exhaustive()
    }
}
