//! Keys of affinity that nodes share in a store: what workers have learned, on its way there, and what they ask for.
//!
//! Workers write, the task of the store reads. Keys are in the store as hashes, servers by their names, which are the same on all nodes. Bounded: what does not
//! fit in is not told, and told again when the key is used later.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use tokio::sync::{Notify, oneshot};

/// Changes and questions that wait for the store.
const WAITING_MAX: usize = 4_096;

/// A hash of a key, in hexadecimal.
pub type SharedKey = String;

/// What a worker has for the store.
#[derive(Debug)]
pub enum AffinityChange {
    /// A key belongs to the server of this name.
    Told(SharedKey, Box<str>),
    /// A key belongs to no server.
    Forgotten(SharedKey),
    /// Which server does a key belong to?
    Asked(SharedKey, oneshot::Sender<Option<Box<str>>>),
}

/// What waits for the store, of one upstream.
#[derive(Debug, Default)]
pub struct AffinitySharing {
    state: Mutex<SharingQueue>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct SharingQueue {
    /// Counts the connections to the store; odd while there is one.
    connections: u64,
    waiting: Vec<AffinityChange>,
}

/// One connection to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharingConnection(u64);

impl AffinitySharing {
    /// The store can be asked from now on.
    pub fn begin(&self) -> SharingConnection {
        let mut state = self.lock();
        state.waiting.clear();
        state.connections = (state.connections + 1) | 1;
        SharingConnection(state.connections)
    }

    /// That connection has ended: what waits for it waits no more.
    pub fn end(&self, connection: SharingConnection) {
        let mut state = self.lock();
        if state.connections == connection.0 {
            state.connections += 1;
            state.waiting.clear();
        }
    }

    /// What waits, up to `count`.
    pub fn take(&self, count: usize) -> Vec<AffinityChange> {
        let mut state = self.lock();
        let count = count.min(state.waiting.len());
        state.waiting.drain(..count).collect()
    }

    /// Returns once something has come to wait.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Tells the other nodes that the key belongs to this server.
    pub(crate) fn tell(&self, key: &[u8], server: &str) {
        self.push(|| AffinityChange::Told(shared_key(key), server.into()));
    }

    /// Tells them that it belongs to none.
    pub(crate) fn forget(&self, key: &[u8]) {
        self.push(|| AffinityChange::Forgotten(shared_key(key)));
    }

    /// Asks which server the key belongs to; `None` when the store cannot be asked now.
    pub(crate) fn ask(&self, key: &[u8]) -> Option<oneshot::Receiver<Option<Box<str>>>> {
        let (answer, answered) = oneshot::channel();
        self.push(|| AffinityChange::Asked(shared_key(key), answer)).then_some(answered)
    }

    fn push(&self, change: impl FnOnce() -> AffinityChange) -> bool {
        let mut state = self.lock();
        let takes = state.connections % 2 == 1 && state.waiting.len() < WAITING_MAX;
        if takes {
            state.waiting.push(change());
            drop(state);
            self.changed.notify_one();
        }
        takes
    }

    fn lock(&self) -> MutexGuard<'_, SharingQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// SHA-256: what clients choose must not lead to the entry of another key.
fn shared_key(key: &[u8]) -> SharedKey {
    let mut hash = Context::new(&SHA256);
    hash.update(key);
    data_encoding::HEXLOWER.encode(hash.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_for_a_store_that_cannot_be_asked() {
        let sharing = AffinitySharing::default();
        assert!(sharing.ask(b"a").is_none());
        let first = sharing.begin();
        let mut asked = sharing.ask(b"a").expect("the store can be asked");
        sharing.tell(b"b", "one");
        let second = sharing.begin();
        assert_eq!(
            asked.try_recv(),
            Err(oneshot::error::TryRecvError::Closed),
            "it was asked on the first connection"
        );
        sharing.end(first);
        sharing.tell(b"b", "one");
        let waiting = sharing.take(10);
        let [AffinityChange::Told(key, server)] = &waiting[..] else { panic!("{waiting:?}") };
        assert_eq!((key.len(), &**server), (64, "one"));
        sharing.end(second);
        assert!(sharing.ask(b"a").is_none());
    }

    #[test]
    fn what_waits_is_bounded() {
        let sharing = AffinitySharing::default();
        sharing.begin();
        (0..2 * WAITING_MAX).for_each(|key| sharing.forget(&key.to_le_bytes()));
        assert!(sharing.ask(b"a").is_none());
        assert_eq!(sharing.take(usize::MAX).len(), WAITING_MAX);
        assert!(sharing.ask(b"a").is_some());
    }
}
