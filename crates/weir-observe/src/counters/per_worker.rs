//! The counters of each worker for one part, made when that worker has something to count: most parts of a large config are never used.

use std::sync::{Arc, OnceLock};

/// The shards of one part, by worker. A clone is the same: shards made under one config are there in the next.
#[derive(Debug)]
pub struct PerWorker<T>(Arc<[OnceLock<Arc<T>>]>);

impl<T: Default> PerWorker<T> {
    /// Without counts, for this many workers.
    pub fn new(workers: usize) -> PerWorker<T> {
        PerWorker((0..workers).map(|_| OnceLock::new()).collect())
    }

    /// That of a worker, for the worker itself. The first call allocates.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn of(&self, worker: usize) -> &Arc<T> {
        self.0[worker].get_or_init(Arc::default)
    }
}

impl<T> PerWorker<T> {
    /// The shards of the workers that have counted something.
    pub fn used(&self) -> impl Iterator<Item = &Arc<T>> {
        self.0.iter().filter_map(OnceLock::get)
    }

    /// Whether any worker has counted something.
    pub fn is_used(&self) -> bool {
        self.used().next().is_some()
    }
}

/// That of each worker, all of them used.
impl<T> FromIterator<Arc<T>> for PerWorker<T> {
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(shards: I) -> PerWorker<T> {
        PerWorker(shards.into_iter().map(OnceLock::from).collect())
    }
}

impl<T> Clone for PerWorker<T> {
    fn clone(&self) -> PerWorker<T> {
        PerWorker(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::counter::Counter;

    #[test]
    fn only_workers_that_count_have_something() {
        let parts = PerWorker::<Counter>::new(3);
        let of_the_next_config = parts.clone();
        assert!(!parts.is_used());
        of_the_next_config.of(1).increment();
        parts.of(1).increment();
        assert_eq!(parts.used().map(|counter| counter.value()).collect::<Vec<_>>(), [2]);
        assert!(of_the_next_config.is_used());
    }
}
