//! Texts of objects. The same few (names of namespaces and kinds, types and reasons of conditions) are in most of ten thousand objects: what was
//! read lately is not kept twice.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A text that its copies share.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedText(Arc<str>);

impl SharedText {
    /// The text, kept once with an equal one that was read lately.
    pub(crate) fn recent(text: &str) -> Self {
        RECENT.with_borrow_mut(|recent| recent.share(text))
    }

    /// The text, for as long as it is borrowed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for SharedText {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for SharedText {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.0, f)
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Box<str>> for SharedText {
    fn from(text: Box<str>) -> Self {
        Self(text.into())
    }
}

impl From<SharedText> for Box<str> {
    fn from(text: SharedText) -> Self {
        (*text.0).into()
    }
}

impl From<&SharedText> for Box<str> {
    fn from(text: &SharedText) -> Self {
        (*text.0).into()
    }
}

impl PartialEq<str> for SharedText {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for SharedText {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = SharedText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<SharedText, E> {
        Ok(SharedText::recent(text))
    }
}

thread_local! {
    static RECENT: RefCell<RecentTexts> = RefCell::new(RecentTexts::new());
}

/// Texts that are remembered. One that is read again and again comes back after another took its slot.
const SLOTS: usize = 1024;
/// Longer texts are rarely the same.
const LEN_MAX: usize = 128;

/// The texts that this thread has read lately, each in the slot that its hash says.
struct RecentTexts {
    slots: Box<[Arc<str>]>,
    hashes: RandomState,
}

impl RecentTexts {
    fn new() -> Self {
        Self { slots: vec![Arc::default(); SLOTS].into(), hashes: RandomState::new() }
    }

    fn share(&mut self, text: &str) -> SharedText {
        if text.len() > LEN_MAX {
            return text.into();
        }
        let slot = &mut self.slots[self.hashes.hash_one(text) as usize % SLOTS];
        if **slot != *text {
            *slot = text.into();
        }
        SharedText(Arc::clone(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SharedText {
        serde_json::from_str(&format!("{text:?}")).expect("a JSON string")
    }

    #[test]
    fn a_text_that_was_read_lately_is_shared() {
        let (first, other) = (read("namespace-a"), read("namespace-b"));
        assert!(Arc::ptr_eq(&first.0, &read("namespace-a").0));
        assert_eq!((first.as_str(), other.as_str()), ("namespace-a", "namespace-b"));
        let long = "x".repeat(LEN_MAX + 1);
        assert!(!Arc::ptr_eq(&read(&long).0, &read(&long).0), "a long one is not remembered");
    }

    #[test]
    fn many_texts_are_told_apart() {
        let texts: Vec<_> = (0..4 * SLOTS).map(|number| read(&format!("name-{number}"))).collect();
        for (number, text) in texts.iter().enumerate() {
            assert_eq!(*text, *format!("name-{number}"));
        }
        let escaped: SharedText = serde_json::from_str(r#""with \u00e9""#).expect("a JSON string");
        assert_eq!(escaped, *"with é");
    }
}
