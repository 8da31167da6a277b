//! A line on its way into a header block: its name in lower case, and its hash.

use crate::bytes::words::{WORD_BYTES, repeat, word_of_few};

/// Makes lower case of the letters of a name.
#[inline]
pub(super) fn make_lower_case(name: &mut [u8]) {
    let (words, _) = name.as_chunks_mut();
    for word in words {
        *word = lower_case(*word);
    }
    match name.last_chunk_mut() {
        // Some letters of it are in lower case already.
        Some(last) => *last = lower_case(*last),
        None => name.make_ascii_lowercase(),
    }
}

#[inline]
fn lower_case(word: [u8; WORD_BYTES]) -> [u8; WORD_BYTES] {
    let word = u64::from_le_bytes(word);
    let low = word & repeat(0x7f);
    // The top bit is set from A on, and from behind Z on.
    let from_a = low + repeat(0x80 - b'A');
    let behind_z = low + repeat(0x80 - b'Z' - 1);
    let upper = from_a & !behind_z & !word & repeat(0x80);
    (word | upper >> 2).to_le_bytes()
}

/// A hash of a line. It need not withstand anyone: see `EncoderTable`.
#[inline]
pub(crate) fn hash(line: &[u8]) -> u32 {
    let (words, rest) = line.as_chunks();
    let mut hash = line.len() as u64;
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    hash = match line.last_chunk() {
        // Some bytes of it come in for a second time, which does no harm.
        Some(last) => mix(hash, u64::from_le_bytes(*last)),
        None => mix(hash, word_of_few(rest)),
    };
    (hash ^ hash >> 32) as u32
}

#[inline]
const fn mix(hash: u64, word: u64) -> u64 {
    // The golden ratio; the rotation brings its good upper bits down to where the next word comes in.
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn lines_that_differ_a_little_have_other_hashes() {
        let lines = (0..10_000).map(|number| format!("content-length: {number}\r\n"));
        let hashes: HashSet<u32> = lines.map(|line| hash(line.as_bytes())).collect();
        assert!(hashes.len() > 9_990, "{}", hashes.len());
        assert_ne!(hash(b"x: \r\n"), hash(b"x: \0\r\n"));
    }

    proptest! {
        #[test]
        fn letters_become_lower_case(name in vec(any::<u8>(), 0..40)) {
            let mut lower = name.clone();
            make_lower_case(&mut lower);
            prop_assert_eq!(lower, name.to_ascii_lowercase());
        }
    }
}
