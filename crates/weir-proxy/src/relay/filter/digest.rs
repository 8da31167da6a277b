//! The digest of a body that passes as it is.

use aws_lc_rs::digest::{Context, SHA256};

/// What has passed so far.
pub(crate) struct RunningDigest {
    hash: Context,
    len: u64,
}

impl std::fmt::Debug for RunningDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningDigest").field("len", &self.len).finish_non_exhaustive()
    }
}

impl RunningDigest {
    pub(crate) fn new() -> Self {
        Self { hash: Context::new(&SHA256), len: 0 }
    }

    pub(crate) fn add(&mut self, data: &[u8]) {
        self.hash.update(data);
        self.len += data.len() as u64;
    }

    /// The length, and the first half of the SHA-256.
    pub(crate) fn value(&self) -> (u64, u128) {
        let digest = self.hash.clone().finish();
        let half = digest.as_ref().first_chunk().copied().unwrap_or_default();
        (self.len, u128::from_be_bytes(half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_whole_however_it_came() {
        let (mut one, mut two) = (RunningDigest::new(), RunningDigest::new());
        one.add(b"abc");
        two.add(b"a");
        two.add(b"bc");
        assert_eq!(one.value(), (3, 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223));
        assert_eq!(one.value(), two.value());
        two.add(b"d");
        assert_ne!(one.value().1, two.value().1);
    }
}
