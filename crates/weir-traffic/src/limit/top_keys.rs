//! The keys that are refused most: an estimate in little memory (the Space-Saving algorithm of Metwally, Agrawal and El Abbadi, 2005).
//!
//! A key that is not known takes the place of the one with the lowest count, and goes on from that count: frequent keys stay, and no count is too low.

use weir_sort::CompactSort as _;

/// Keys that are kept.
pub const TOP_KEYS_MAX: usize = 32;

/// Bytes of the text of a key that are kept.
pub const TOP_KEY_TEXT_MAX: usize = 96;

/// The most frequent keys.
#[derive(Debug, Default, Clone)]
pub struct TopKeys {
    keys: Vec<TopKey>,
}

/// A key and how often it was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopKey {
    /// The hash of the key.
    pub hash: u64,
    /// How often, at most.
    pub count: u64,
    /// The time of the last.
    pub last_ns: u64,
    /// The beginning of its text.
    pub text: Vec<u8>,
}

impl TopKeys {
    /// Counts a key.
    pub fn count(&mut self, hash: u64, text: &[u8], now_ns: u64) {
        if let Some(known) = self.keys.iter_mut().find(|key| key.hash == hash) {
            known.count += 1;
            known.last_ns = now_ns;
            return;
        }
        let text = &text[..text.len().min(TOP_KEY_TEXT_MAX)];
        if self.keys.len() < TOP_KEYS_MAX {
            self.keys.push(TopKey { hash, count: 1, last_ns: now_ns, text: text.to_vec() });
            return;
        }
        let rarest = self.keys.iter_mut().min_by_key(|key| (key.count, key.last_ns));
        let rarest = rarest.expect("the list is full");
        (rarest.hash, rarest.last_ns) = (hash, now_ns);
        rarest.count += 1;
        rarest.text.clear();
        rarest.text.extend_from_slice(text);
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &TopKeys) {
        for key in &other.keys {
            match self.keys.iter_mut().find(|known| known.hash == key.hash) {
                Some(known) => {
                    known.count += key.count;
                    known.last_ns = known.last_ns.max(key.last_ns);
                }
                None => self.keys.push(key.clone()),
            }
        }
    }

    /// The keys, the most frequent first.
    pub fn into_sorted(mut self) -> Vec<TopKey> {
        self.keys
            .sort_compact_by(|one, other| other.count.cmp(&one.count).then(other.last_ns.cmp(&one.last_ns)));
        self.keys.truncate(TOP_KEYS_MAX);
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_keys_stay_among_many_rare_ones() {
        let (mut top, mut now) = (TopKeys::default(), 0);
        for round in 0..1_000_u64 {
            for (hash, text) in [(1, &b"first"[..]), (2, b"second"), (1, b"first"), (100 + round, b"rare")] {
                now += 1;
                top.count(hash, text, now);
            }
        }
        let sorted = top.clone().into_sorted();
        assert_eq!(sorted.len(), TOP_KEYS_MAX);
        assert_eq!((sorted[0].text.as_slice(), sorted[0].count), (&b"first"[..], 2_000));
        assert_eq!((sorted[1].text.as_slice(), sorted[1].count), (&b"second"[..], 1_000));
        let mut both = top.clone();
        both.add(&top);
        assert_eq!(both.into_sorted()[0].count, 4_000);
    }

    #[test]
    fn the_text_of_a_key_is_bounded() {
        let mut top = TopKeys::default();
        top.count(1, &[b'a'; 1_000], 1);
        assert_eq!(top.into_sorted()[0].text.len(), TOP_KEY_TEXT_MAX);
    }
}
