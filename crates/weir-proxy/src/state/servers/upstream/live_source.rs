//! What the source of the servers of an upstream has said, and when: for operators. It outlives plans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

/// The source of the servers of an upstream; nothing is known of it where the config names them.
#[derive(Debug, Default)]
pub struct LiveSource {
    said: ArcSwapOption<SourceStatement>,
    changes: AtomicU64,
}

/// What a source said last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStatement {
    /// The source in words, such as `dns app.example:8080`.
    pub source: Box<str>,
    /// When it said so, in milliseconds since 1970.
    pub said_at_ms: u64,
    /// Whether it does not answer now: the servers are those that it named last.
    pub is_stale: bool,
    /// Why, or what is wrong with its answer.
    pub problem: Option<Box<str>>,
    /// What it says beside the servers that has no effect.
    pub remark: Option<Box<str>>,
}

impl LiveSource {
    /// Takes note of what it says.
    pub fn tell(&self, statement: SourceStatement) {
        self.said.store(Some(Arc::new(statement)));
    }

    /// Counts a change of servers.
    pub fn count_change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// What it said last; `None`: nothing yet.
    pub fn said(&self) -> Option<Arc<SourceStatement>> {
        self.said.load_full()
    }

    /// How often it has named other servers.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}
