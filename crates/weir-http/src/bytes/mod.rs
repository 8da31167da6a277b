//! Classes of bytes, and the scans every parser here is made of.
//!
//! Classes are tables of 256 entries, filled by the compiler from the grammar. Scans answer one question: where does
//! the run of allowed bytes end? The caller decides about the byte there.

pub(crate) mod words;

use words::{ANSWER, WORD_BYTES, below, below_lowest, equal, find, lowest, repeat, word_of_few};

/// Which bytes belong to a class.
type ByteClass = [bool; 256];

/// Bytes of a token (RFC 9110 section 5.6.2).
static TOKEN: ByteClass = class(b"!#$%&'*+-.^_`|~");

/// Bytes of a request target: those of RFC 3986, and brackets, which browsers send bare in queries (WHATWG URL, query
/// percent-encode set) and servers take for names of parameters.
static TARGET: ByteClass = class(b"!$%&'()*+,-./:;=?@[]_~");

/// Bytes of a registered name (RFC 3986 section 3.2.2) without `%`, and without `,`, which
/// would make one Host look like a list.
static HOST: ByteClass = class(b"-._~!$&'()*+;=");

/// Letters, digits and the bytes of `others`.
const fn class(others: &[u8]) -> ByteClass {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
}

/// Whether a token may contain `byte`.
#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Whether `bytes` is a token: not empty, token bytes only.
#[inline]
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Length of the run of token bytes that `bytes` starts with.
#[inline]
pub(crate) fn token_run(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(bytes.len())
}

/// Whether a request target may contain `byte`.
#[inline]
pub(crate) fn is_target_byte(byte: u8) -> bool {
    TARGET[byte as usize]
}

/// Length of the run of target bytes that `bytes` starts with.
#[inline(always)]
pub(crate) fn target_run(bytes: &[u8]) -> usize {
    let run = target_run_without_tilde(bytes);
    if bytes.get(run) == Some(&b'~') { target_run_from(bytes, run) } else { run }
}

/// Goes on from a tilde at `run`.
#[cold]
fn target_run_from(bytes: &[u8], mut run: usize) -> usize {
    while bytes.get(run) == Some(&b'~') {
        run += 1 + target_run_without_tilde(&bytes[run + 1..]);
    }
    run
}

/// Length of the run of target bytes but `~`, which looks like the ones that end it.
#[inline(always)]
fn target_run_without_tilde(bytes: &[u8]) -> usize {
    find(bytes, |word| {
        below(word, 0x21)
            | equal(word & repeat(0xfe), b'"') // and '#'
            | equal(word & repeat(0x9d), 0x1c) // '<', '>', '\\', '^', '|', and '~'
            | equal(word & repeat(0xfd), b'}') // and DEL
            | equal(word, b'{')
            | equal(word, b'`')
            | word // above DEL
    })
}

/// Length of the path that a target starts with, up to `?`, and whether it may have another spelling: it contains `%`, or two of
/// `/` and `.` in a row, of which not all mean one.
#[inline(always)]
pub(crate) fn path_run(target: &[u8]) -> (usize, bool) {
    let (mut rest, mut mark_before, mut odd) = (target, 0, 0);
    loop {
        let (word, tail) = match rest.split_first_chunk() {
            Some((word, tail)) => (u64::from_le_bytes(*word), Some(tail)),
            // Zeros fill the last word up; they are none of these bytes.
            None => (word_of_few(rest), None),
        };
        let end = equal(word, b'?') & ANSWER;
        let mark = equal(word | repeat(1), b'/') & ANSWER; // and '.'
        let found = equal(word, b'%') & ANSWER | (mark << 8 | mark_before) & mark;
        if end != 0 {
            let len = target.len() - rest.len() + lowest(end);
            return (len, odd | (found & below_lowest(end)) != 0);
        }
        odd |= found;
        let Some(tail) = tail else { return (target.len(), odd != 0) };
        rest = tail;
        mark_before = mark >> (8 * (WORD_BYTES - 1));
    }
}

/// Whether `byte` means itself in a URI, encoded or not (RFC 3986 section 2.3).
#[inline]
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Length of the run of bytes of a registered name, `%` excepted, that `bytes` starts with.
#[inline]
pub(crate) fn host_run(bytes: &[u8]) -> usize {
    // Without a branch for each byte.
    let all_of = |word: &&[u8; WORD_BYTES]| word.iter().fold(true, |all, &byte| all & is_host_byte(byte));
    let whole = bytes.as_chunks().0.iter().take_while(all_of).count() * WORD_BYTES;
    let rest = &bytes[whole..];
    whole + rest.iter().position(|&byte| !is_host_byte(byte)).unwrap_or(rest.len())
}

/// Whether a registered name may contain `byte` without percent-encoding.
#[inline]
pub(crate) fn is_host_byte(byte: u8) -> bool {
    HOST[byte as usize]
}

/// Whether a field value may contain `byte`: no control byte but HTAB (RFC 9110 section 5.5).
#[inline]
pub(crate) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= 0x20 && byte != 0x7f)
}

/// Length of the run of field value bytes that `bytes` starts with.
#[inline]
pub(crate) fn value_run(bytes: &[u8]) -> usize {
    let mut run = visible_run(bytes);
    while bytes.get(run) == Some(&b'\t') {
        run += 1 + visible_run(&bytes[run + 1..]);
    }
    run
}

/// Length of the run of field value bytes without HTAB that `bytes` starts with.
#[inline(always)]
pub(crate) fn visible_run(bytes: &[u8]) -> usize {
    // DEL is the only byte below 0x80 that one more takes there.
    find(bytes, |word| {
        (word.wrapping_sub(repeat(0x20)) | (word & repeat(0x7f)).wrapping_add(repeat(1))) & !word
    })
}

/// Whether `byte` is optional white space: SP or HTAB.
#[inline]
pub(crate) fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `bytes` without SP and HTAB around them.
#[inline]
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_space(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}

/// The elements of a comma-separated list without quoting, trimmed, the empty ones included.
#[inline]
pub(crate) fn elements(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    /// The run of `bytes` for which `allowed` holds, found one by one.
    fn naive_run(bytes: &[u8], allowed: impl Fn(u8) -> bool) -> usize {
        bytes.iter().position(|&byte| !allowed(byte)).unwrap_or(bytes.len())
    }

    fn assert_runs(bytes: &[u8]) {
        assert_eq!(value_run(bytes), naive_run(bytes, is_value_byte), "{bytes:?}");
        assert_eq!(
            visible_run(bytes),
            naive_run(bytes, |byte| is_value_byte(byte) && byte != b'\t'),
            "{bytes:?}"
        );
        assert_eq!(target_run(bytes), naive_run(bytes, is_target_byte), "{bytes:?}");
        assert_eq!(token_run(bytes), naive_run(bytes, is_token_byte), "{bytes:?}");
        let len = naive_run(bytes, |byte| byte != b'?');
        let odd = bytes[..len].contains(&b'%')
            || bytes[..len].windows(2).any(|pair| pair.iter().all(|byte| b"/.".contains(byte)));
        assert_eq!(path_run(bytes), (len, odd), "{bytes:?}");
    }

    /// Each byte at each place in a word, with each neighbour that arithmetic could carry into it.
    #[test]
    fn runs_end_at_the_right_byte_whatever_it_is() {
        for byte in 0..=255 {
            for place in 0..17 {
                for filler in *b"a~ \x21\x80\xff/.%" {
                    let mut bytes = [filler; 17];
                    bytes[place] = byte;
                    assert_runs(&bytes);
                }
            }
        }
    }

    #[test]
    fn classes_follow_the_grammar() {
        let members = |class: fn(u8) -> bool| (0..=255).filter(|&byte| class(byte)).collect::<Vec<u8>>();
        let alphanumeric = (0..=255_u8).filter(u8::is_ascii_alphanumeric);
        let mut token: Vec<u8> = alphanumeric.chain(*b"!#$%&'*+-.^_`|~").collect();
        token.sort_unstable();
        assert_eq!(members(is_token_byte), token);
        let target: Vec<u8> = (0x21..=0x7e).filter(|byte| !b"\"#<>\\^`{|}".contains(byte)).collect();
        assert_eq!(members(is_target_byte), target);
        let value: Vec<u8> = std::iter::once(9).chain(0x20..=0x7e).chain(0x80..=0xff).collect();
        assert_eq!(members(is_value_byte), value);
        assert!(is_token(b"a-1") && !is_token(b"") && !is_token(b"a b"));
        assert!(is_space(b' ') && is_space(b'\t') && !is_space(b'\r'));
    }

    #[test]
    fn lists_are_split_and_trimmed() {
        assert_eq!(trim(b" \t a b\t "), b"a b");
        assert_eq!(trim(b" \t "), b"");
        let parts: Vec<_> = elements(b"a, b\t,, c d ,").collect();
        assert_eq!(parts, [b"a".as_slice(), b"b", b"", b"c d", b""]);
    }

    proptest! {
        #[test]
        fn runs_are_those_of_the_bytes_one_by_one(
            bytes in vec(prop_oneof![8 => 0x20_u8..0x7f, 1 => any::<u8>()], 0..80),
        ) {
            assert_runs(&bytes);
            prop_assert_eq!(host_run(&bytes), naive_run(&bytes, is_host_byte));
        }
    }
}
