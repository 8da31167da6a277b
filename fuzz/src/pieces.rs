//! An input in pieces: as a parser sees it grow, and as it is sent.

/// Inputs up to this length are also shown to a parser byte by byte, which costs the square of it.
const BYTEWISE_MAX: usize = 512;

/// How a parser sees `input` grow: lists of lengths, ascending, each ending with the whole.
pub(crate) fn growths(input: &[u8]) -> Vec<Vec<usize>> {
    let mut growths = vec![vec![input.len()]];
    if input.len() <= BYTEWISE_MAX {
        growths.push((0..=input.len()).collect());
    }
    let mut cuts = cuts(input);
    cuts.push(input.len());
    growths.push(cuts);
    growths
}

/// A few places in `input`, ascending, that depend on its bytes alone.
fn cuts(input: &[u8]) -> Vec<usize> {
    let mut state = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut cuts = Vec::new();
    for _ in 0..4 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        cuts.push((state >> 33) as usize % (input.len() + 1));
    }
    cuts.sort_unstable();
    cuts
}

/// `input` in the pieces in which it is sent: every other input whole, the rest cut at a few places.
pub(crate) fn pieces(input: &[u8]) -> Vec<&[u8]> {
    let mut cuts = cuts(input);
    if cuts[0].is_multiple_of(2) {
        return vec![input];
    }
    cuts.push(input.len());
    let mut start = 0;
    cuts.iter().map(|&end| &input[std::mem::replace(&mut start, end)..end]).collect()
}
