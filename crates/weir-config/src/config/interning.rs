//! Sharing of equal settings: most parts of a large configuration differ in few keys.

use std::sync::Arc;

/// The settings met last.
#[derive(Debug)]
pub struct Interner<T>(Vec<Arc<T>>);

/// How many are compared with the next ones.
const KEPT_MAX: usize = 8;

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Interner<T> {
    /// The same settings, kept once where they are equal to some that were met lately.
    pub fn intern(&mut self, settings: T) -> Arc<T> {
        self.known(&settings).unwrap_or_else(|| self.keep(Arc::new(settings)))
    }

    /// The same for settings that are shared already.
    pub fn share(&mut self, settings: &mut Arc<T>) {
        *settings = self.known(settings).unwrap_or_else(|| self.keep(Arc::clone(settings)));
    }

    fn known(&mut self, settings: &T) -> Option<Arc<T>> {
        let place = self.0.iter().rposition(|known| **known == *settings)?;
        let known = self.0.remove(place);
        self.0.push(Arc::clone(&known));
        Some(known)
    }

    fn keep(&mut self, settings: Arc<T>) -> Arc<T> {
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push(Arc::clone(&settings));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once() {
        let mut interner = Interner::default();
        let first = interner.intern("a".to_owned());
        for number in 0..KEPT_MAX - 1 {
            interner.intern(number.to_string());
        }
        assert!(Arc::ptr_eq(&first, &interner.intern("a".to_owned())));
        for number in 0..KEPT_MAX {
            interner.intern(format!("other {number}"));
        }
        assert!(!Arc::ptr_eq(&first, &interner.intern("a".to_owned())), "it was met too long ago");
    }
}
