//! Weights of a source, 0 to 65535, as weights of servers, 1 to 256: shares stay what they are as nearly as that allows. Pure.

/// The largest weight of a server.
const LARGEST: f64 = 256.0;

/// Scales shares by the largest. Whole ones that fit stay as they are. A share of 0 among others becomes the smallest there is: RFC 2782
/// wants such a record to have "a very small chance of being selected".
pub(crate) fn scaled(shares: &[f64]) -> Vec<u16> {
    let largest = shares.iter().copied().fold(0.0, f64::max);
    let fits = |share: &f64| (1.0..=LARGEST).contains(share) && share.fract() == 0.0;
    if shares.iter().all(fits) {
        return shares.iter().map(|share| *share as u16).collect();
    }
    if largest <= 0.0 {
        return vec![1; shares.len()];
    }
    shares.iter().map(|share| (share / largest * LARGEST).round().clamp(1.0, LARGEST) as u16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_weights() {
        for (shares, weights) in [
            (&[1.0, 3.0][..], &[1, 3][..]),
            (&[10.0, 256.0], &[10, 256]),
            (&[0.0, 0.0], &[1, 1]),
            (&[0.0, 10.0], &[1, 256]),
            (&[100.0, 1000.0], &[26, 256]),
            (&[1.0, 65535.0], &[1, 256]),
            (&[5.0, 2.5], &[256, 128]),
            (&[], &[]),
        ] {
            assert_eq!(scaled(shares), weights, "{shares:?}");
        }
    }
}
