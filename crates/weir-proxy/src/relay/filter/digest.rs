//! The digest of a body that passes as it is: of what is sent, and, where that is asked for, of what it is without its content coding.

use aws_lc_rs::digest::{Context, SHA256};

use crate::compression::{CodecLease, Operation};
use crate::net::clock;

/// Decoded bytes that are made at a time.
const MADE_MAX: usize = 16 * 1024;

/// Decoded bytes that one piece of a body may become: of more, the worker has other things to do.
const PIECE_DECODED_MAX: usize = 4 << 20;

/// What has passed so far.
pub(crate) struct RunningDigest {
    sent: BodyHash,
    decoding: Decoding,
}

/// A hash, and the bytes in it.
#[derive(Clone)]
struct BodyHash {
    hash: Context,
    len: u64,
}

/// What becomes of a content coding.
enum Decoding {
    /// There is none, or what is sent is what counts.
    Unneeded,
    Running(Box<UncodedBody>),
    /// It could not be decoded, or there is no room for that.
    GivenUp,
}

/// A body without its content coding.
struct UncodedBody {
    lease: CodecLease,
    hash: BodyHash,
    made: Vec<u8>,
}

impl std::fmt::Debug for RunningDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningDigest").field("len", &self.sent.len).finish_non_exhaustive()
    }
}

impl RunningDigest {
    pub(crate) fn new() -> Self {
        Self { sent: BodyHash::new(), decoding: Decoding::Unneeded }
    }

    /// That of a body with a content coding. Without a decoder, there is none.
    pub(crate) fn decoding(lease: Option<CodecLease>) -> Self {
        let body = |lease| Box::new(UncodedBody { lease, hash: BodyHash::new(), made: vec![0; MADE_MAX] });
        let decoding = lease.map_or(Decoding::GivenUp, |lease| Decoding::Running(body(lease)));
        Self { sent: BodyHash::new(), decoding }
    }

    pub(crate) fn add(&mut self, data: &[u8]) {
        self.sent.add(data);
        if let Decoding::Running(body) = &mut self.decoding
            && body.add(data).is_none()
        {
            self.decoding = Decoding::GivenUp;
        }
    }

    /// The length, and the first half of the SHA-256.
    pub(crate) fn value(&self) -> (u64, u128) {
        self.sent.value()
    }

    /// The same of the body without its content coding; `None` if that is not known.
    pub(crate) fn decoded_value(&self) -> Option<(u64, u128)> {
        match &self.decoding {
            Decoding::Unneeded => Some(self.sent.value()),
            Decoding::Running(body) => Some(body.hash.value()),
            Decoding::GivenUp => None,
        }
    }
}

impl UncodedBody {
    /// `None` if it cannot be decoded, or is too much.
    fn add(&mut self, data: &[u8]) -> Option<()> {
        let began = clock::now();
        let (mut rest, mut decoded) = (data, 0);
        let outcome = loop {
            let Ok(progress) = self.lease.step(rest, Operation::Write, &mut self.made) else { break None };
            self.hash.add(&self.made[..progress.produced]);
            rest = &rest[progress.consumed..];
            decoded += progress.produced;
            if progress.is_done {
                break Some(());
            }
            let is_stuck = progress.consumed == 0 && progress.produced == 0;
            if is_stuck || decoded > PIECE_DECODED_MAX {
                break None;
            }
        };
        self.lease.stock().charge(clock::now().nanos_since(began));
        outcome
    }
}

impl BodyHash {
    fn new() -> Self {
        Self { hash: Context::new(&SHA256), len: 0 }
    }

    fn add(&mut self, data: &[u8]) {
        self.hash.update(data);
        self.len += data.len() as u64;
    }

    fn value(&self) -> (u64, u128) {
        let digest = self.hash.clone().finish();
        let half = digest.as_ref().first_chunk().copied().unwrap_or_default();
        (self.len, u128::from_be_bytes(half))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_http::ContentCoding;
    use weir_observe::{ShardSizes, WorkerShard};

    use super::*;
    use crate::compression::{CodecStock, CompressionLimits};

    #[test]
    fn it_is_that_of_the_whole_however_it_came() {
        let (mut one, mut two) = (RunningDigest::new(), RunningDigest::new());
        one.add(b"abc");
        two.add(b"a");
        two.add(b"bc");
        assert_eq!(one.value(), (3, 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223));
        assert_eq!(one.value(), two.value());
        assert_eq!(one.decoded_value(), Some(one.value()));
        two.add(b"d");
        assert_ne!(one.value().1, two.value().1);
    }

    const LIMITS: CompressionLimits = CompressionLimits { time: 100, codecs_max: 1 };

    fn stock() -> std::rc::Rc<CodecStock> {
        CodecStock::new(&Arc::new(WorkerShard::new(ShardSizes { listeners: 0, servers: &[] })))
    }

    /// `hello` as gzip writes it.
    const HELLO: [u8; 25] =
        [31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0];

    #[test]
    fn a_coding_is_taken_off() {
        let mut plain = RunningDigest::new();
        plain.add(b"hello");
        for piece in [1, 7, 25] {
            let stock = stock();
            let mut coded = RunningDigest::decoding(stock.decoder(ContentCoding::Gzip, LIMITS).ok());
            HELLO.chunks(piece).for_each(|piece| coded.add(piece));
            assert_eq!(coded.decoded_value(), Some(plain.value()));
            assert_eq!(coded.value().0, 25);
        }
    }

    #[test]
    fn what_cannot_be_decoded_has_none() {
        let stock = stock();
        let lease = stock.decoder(ContentCoding::Gzip, LIMITS).ok();
        assert!(stock.decoder(ContentCoding::Gzip, LIMITS).is_err(), "there is one place");
        let mut broken = RunningDigest::decoding(lease);
        broken.add(b"no gzip");
        assert_eq!(broken.decoded_value(), None);
        assert_eq!(RunningDigest::decoding(None).decoded_value(), None);
    }
}
