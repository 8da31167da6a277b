//! Settings that several parts of a configuration have in common: most parts of a large one say nothing but what is different about them.

use std::sync::Arc;

/// The settings met last.
#[derive(Debug)]
pub(crate) struct Alike<T>(Vec<Arc<T>>);

/// How many are compared with the next ones.
const KEPT_MAX: usize = 8;

impl<T> Default for Alike<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Alike<T> {
    /// The same settings, kept once where they are equal to some that were met lately.
    pub(crate) fn share(&mut self, settings: T) -> Arc<T> {
        if let Some(known) = self.0.iter().rposition(|known| **known == settings) {
            let known = self.0.remove(known);
            self.0.push(Arc::clone(&known));
            return known;
        }
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        let settings = Arc::new(settings);
        self.0.push(Arc::clone(&settings));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_equal_is_kept_once() {
        let mut alike = Alike::default();
        let first = alike.share("a".to_owned());
        for number in 0..KEPT_MAX - 1 {
            alike.share(number.to_string());
        }
        assert!(Arc::ptr_eq(&first, &alike.share("a".to_owned())));
        for number in 0..KEPT_MAX {
            alike.share(format!("other {number}"));
        }
        assert!(!Arc::ptr_eq(&first, &alike.share("a".to_owned())), "it was met too long ago");
    }
}
