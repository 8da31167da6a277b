//! Eight bytes compared at once: so a head costs a third of a table lookup per byte.
//!
//! A question about the bytes of a word is answered by a word with the top bit set in every byte where the answer is yes.
//! The arithmetic carries upwards, so bits above the lowest yes may be wrong: only the lowest counts. Nothing here knows
//! what the bytes mean.

/// Bytes per word.
pub(crate) const WORD_BYTES: usize = 8;

/// The bits of an answer that count.
pub(crate) const ANSWER: u64 = repeat(0x80);

/// A word of eight times `byte`.
#[inline]
pub(crate) const fn repeat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; WORD_BYTES])
}

/// Which bytes of `word` are below `limit`, which is at most 0x80.
#[inline]
pub(crate) const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(repeat(limit)) & !word
}

/// Which bytes of `word` are equal to `byte`.
#[inline]
pub(crate) const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ repeat(byte), 1)
}

/// Index of the lowest byte with yes; 8 when there is none. `answer` has no bits but those of [`ANSWER`].
#[inline]
pub(crate) const fn lowest(answer: u64) -> usize {
    answer.trailing_zeros() as usize / WORD_BYTES
}

/// The bytes below the lowest one with yes. `answer` is not zero and has no bits but those of [`ANSWER`].
#[inline]
pub(crate) const fn below_lowest(answer: u64) -> u64 {
    ((answer & answer.wrapping_neg()) >> 7).wrapping_sub(1)
}

/// Index of the first of `bytes` for which `question` is answered with yes; their number when there is none.
#[inline(always)]
pub(crate) fn find(bytes: &[u8], question: impl Fn(u64) -> u64) -> usize {
    let mut rest = bytes;
    while let Some((word, tail)) = rest.split_first_chunk() {
        let answer = question(u64::from_le_bytes(*word)) & ANSWER;
        if answer != 0 {
            return bytes.len() - rest.len() + lowest(answer);
        }
        rest = tail;
    }
    // Zeros fill the last word up; a match there is no byte.
    bytes.len() - rest.len() + lowest(question(word_of_few(rest)) & ANSWER).min(rest.len())
}

/// The word of fewer than eight bytes, zeros above.
#[inline]
pub(crate) fn word_of_few(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() < WORD_BYTES);
    let at = |place: usize| u64::from(bytes[place]) << (8 * place);
    // Without a loop: where two halves or three bytes overlap, they are the same.
    match (bytes.first_chunk(), bytes.last_chunk(), bytes.len()) {
        (Some(first), Some(last), len) => {
            let last = u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4));
            u64::from(u32::from_le_bytes(*first)) | last
        }
        (_, _, 0) => 0,
        (_, _, len) => at(0) | at(len / 2) | at(len - 1),
    }
}
