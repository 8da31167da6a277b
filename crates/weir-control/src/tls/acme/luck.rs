//! Random numbers that spread attempts in time and keep names of files apart: never for secrets.

/// A random number; 0 where the system has none, which only spreads less.
pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    let _none = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}

/// A random number between 0 and 1.
pub(super) fn luck() -> f64 {
    (random() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luck_is_between_0_and_1() {
        let drawn: Vec<f64> = (0..1000).map(|_| luck()).collect();
        assert!(drawn.iter().all(|luck| (0.0..1.0).contains(luck)));
        assert!(drawn.iter().any(|luck| *luck < 0.5) && drawn.iter().any(|luck| *luck > 0.5));
    }
}
