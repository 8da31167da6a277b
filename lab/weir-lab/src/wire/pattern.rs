//! The bytes every origin body is made of, so that the driver can check a body without having been sent it.
//!
//! One fixed run of letters, repeated. The period is a prime near 4 KiB: a proxy that drops, repeats or swaps a
//! buffer of any usual size (a power of two) shifts the pattern and is found out.

use std::sync::LazyLock;

/// Length after which the pattern repeats, in bytes.
pub const PERIOD: usize = 4099;

/// Longest run [`run`] hands out, in bytes.
pub const RUN_MAX: usize = 64 * 1024;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0x57656972_u32;
    let period: Vec<u8> = (0..PERIOD)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (state >> 24) as u8 % 26
        })
        .collect();
    period.iter().copied().cycle().take(PERIOD + RUN_MAX).collect()
});

/// The pattern from byte `position` on: `len` bytes, at most [`RUN_MAX`].
pub fn run(position: u64, len: usize) -> &'static [u8] {
    let start = (position % PERIOD as u64) as usize;
    &BYTES[start..start + len.min(RUN_MAX)]
}

/// Whether `bytes` are the pattern from byte `position` on.
pub fn matches(position: u64, bytes: &[u8]) -> bool {
    let mut position = position;
    bytes.chunks(RUN_MAX).all(|part| {
        let same = part == run(position, part.len());
        position += part.len() as u64;
        same
    })
}

#[cfg(test)]
mod tests {
    use super::{PERIOD, RUN_MAX, matches, run};

    #[test]
    fn runs_continue_each_other() {
        let whole = run(0, 20_000);
        assert!(matches(0, whole));
        for cut in [1, 612, PERIOD - 1, PERIOD, PERIOD + 1, 16_384] {
            assert_eq!(&whole[cut..], run(cut as u64, 20_000 - cut), "cut at {cut}");
            assert!(matches(cut as u64, &whole[cut..]));
        }
    }

    #[test]
    fn a_shift_by_a_buffer_size_is_seen() {
        for shift in [1, 512, 1024, 4096, 8192, 16_384, 32_768, 65_536] {
            assert!(!matches(shift, run(0, 612)), "shift by {shift}");
        }
    }

    #[test]
    fn one_wrong_byte_is_seen_past_the_longest_run() {
        let mut body: Vec<u8> = Vec::new();
        while body.len() < 3 * RUN_MAX {
            body.extend_from_slice(run(body.len() as u64, 1000));
        }
        assert!(matches(0, &body));
        body[2 * RUN_MAX + 7] ^= 1;
        assert!(!matches(0, &body));
    }
}
