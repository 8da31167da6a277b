//! What is worked out of an object once, when it is asked for: it belongs to the object and says nothing that the object does not.

use std::fmt;
use std::sync::OnceLock;

/// A value that is worked out once. Two objects are the same whether it is there or not.
pub(crate) struct Memo<T>(OnceLock<T>);

impl<T> Memo<T> {
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(make)
    }
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

/// The clone of an object may be changed.
impl<T> Clone for Memo<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> PartialEq for Memo<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Memo<T> {}

impl<T> fmt::Debug for Memo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memo")
    }
}
