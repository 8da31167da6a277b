//! Bytes per time for each key, over all that is sent for it: each sender takes a piece and learns when it may send that.
//!
//! Pieces follow each other in the order in which they were taken, so that senders of one key share its rate evenly, and none has to ask
//! again. Must not read a clock.

use super::buckets::{BucketTable, known};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Pieces in a second: longer ones make bursts, shorter ones small writes.
const PIECES_PER_SECOND: u64 = 16;

/// The largest piece: senders of a fast key take turns all the same.
const PIECE_BYTES_MAX: u64 = 256 * 1024;

/// The budgets of all keys.
#[derive(Debug)]
pub struct BandwidthLimit {
    bytes_per_second: u64,
    /// What a key may send at once after a pause, in time.
    depth_ns: u64,
    piece_bytes: usize,
    table: BucketTable,
}

impl BandwidthLimit {
    /// `bytes_per_second` for each key, and `burst_bytes` at once after a pause, both at least 1; buckets for about `keys_max` keys.
    pub fn new(bytes_per_second: u64, burst_bytes: u64, keys_max: usize) -> BandwidthLimit {
        let bytes_per_second = bytes_per_second.max(1);
        let piece = (bytes_per_second / PIECES_PER_SECOND).min(PIECE_BYTES_MAX).min(burst_bytes).max(1);
        BandwidthLimit {
            bytes_per_second,
            depth_ns: time_ns(burst_bytes, bytes_per_second),
            piece_bytes: usize::try_from(piece).unwrap_or(usize::MAX),
            table: BucketTable::new(keys_max),
        }
    }

    /// The default burst of a rate: an eighth of a second.
    pub const fn usual_burst(bytes_per_second: u64) -> u64 {
        if bytes_per_second < 8 { 1 } else { bytes_per_second / 8 }
    }

    /// How many of `wanted` bytes a sender takes next: what is left of the burst, and otherwise a piece.
    pub fn next_piece(&self, key: u64, wanted: usize, now_ns: u64) -> usize {
        let mut set = self.table.lock(key);
        let debt_ns = known(&mut set, key).map_or(0, |bucket| bucket.full_at_ns.saturating_sub(now_ns));
        let left_ns = u128::from(self.depth_ns.saturating_sub(debt_ns));
        let left = left_ns * u128::from(self.bytes_per_second) / u128::from(SECOND_NS);
        wanted.min(usize::try_from(left).unwrap_or(usize::MAX).max(self.piece_bytes))
    }

    /// Takes the next `len` bytes of `key`, which is a hash, at `now_ns`: how many nanoseconds later they may be sent.
    pub fn take(&self, key: u64, len: usize, now_ns: u64) -> u64 {
        let mut set = self.table.lock(key);
        let bucket = self.table.find(&mut set, key, now_ns);
        bucket.full_at_ns =
            bucket.full_at_ns.max(now_ns).saturating_add(time_ns(len as u64, self.bytes_per_second));
        (bucket.full_at_ns - now_ns).saturating_sub(self.depth_ns)
    }

    /// Gives back bytes that were taken and not sent.
    pub fn give_back(&self, key: u64, len: usize) {
        let mut set = self.table.lock(key);
        if let Some(bucket) = known(&mut set, key) {
            let time_ns = time_ns(len as u64, self.bytes_per_second);
            bucket.full_at_ns = bucket.full_at_ns.saturating_sub(time_ns);
        }
    }

    /// How many keys have used some of their budget.
    pub fn keys(&self, now_ns: u64) -> usize {
        self.table.keys(now_ns)
    }

    /// How many budgets were forgotten before they were whole again, since keys came that the table had no room for.
    pub fn evictions(&self) -> u64 {
        self.table.evictions()
    }
}

/// The time of so many bytes, in nanoseconds; at most a few hundred years.
fn time_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let time_ns = (u128::from(bytes) * u128::from(SECOND_NS)).div_ceil(u128::from(bytes_per_second));
    u64::try_from(time_ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whichever senders take pieces, and whenever: in any time, a key gets its rate and the burst, and all that it asks for below that.
        #[test]
        fn the_rate_holds_over_all_senders(
            rate in 1_u64..1 << 34,
            burst in 1_u64..1 << 24,
            takes in prop::collection::vec((0..3_u64, 1..100_000_usize, 0..200_000_000_u64), 1..100),
        ) {
            let limit = BandwidthLimit::new(rate, burst, 100);
            let (mut now_ns, mut sent) = (SECOND_NS, vec![Vec::new(); 3]);
            for (key, len, pause_ns) in takes {
                now_ns += pause_ns;
                let len = limit.next_piece(key + 7, len, now_ns);
                let at_ns = now_ns + limit.take(key + 7, len, now_ns);
                sent[key as usize].push((at_ns, len as u64));
            }
            for pieces in sent {
                prop_assert!(pieces.is_sorted_by_key(|(at_ns, _)| at_ns), "in the order in which they were taken");
                for (first, (start_ns, _)) in pieces.iter().enumerate() {
                    let mut bytes = 0;
                    for (at_ns, len) in &pieces[first..] {
                        bytes += len;
                        let passed = u128::from(at_ns - start_ns) * u128::from(rate) / u128::from(SECOND_NS);
                        // A nanosecond is rounded for the burst and for each piece.
                        let rounding = u128::from(rate).div_ceil(u128::from(SECOND_NS)) * 102 + 1;
                        prop_assert!(u128::from(bytes) <= passed + u128::from(burst) + u128::from(*len) + rounding);
                    }
                }
            }
        }
    }

    #[test]
    fn a_key_that_asks_for_less_than_its_rate_does_not_wait() {
        let limit = BandwidthLimit::new(1_000_000, 125_000, 10);
        assert_eq!(limit.next_piece(1, 1_000_000, 0), 125_000, "the burst");
        for piece in 0..1_000 {
            assert_eq!(limit.take(1, 60_000, piece * 60_000_000), 0);
        }
        // Another one may send its burst at once, and then waits for its rate.
        let waits: Vec<u64> = (0..4).map(|_| limit.take(2, 62_500, 0)).collect();
        assert_eq!(waits, [0, 0, 62_500_000, 125_000_000]);
        assert_eq!((limit.next_piece(2, 1_000_000, 0), limit.next_piece(2, 7, 0)), (62_500, 7));
        limit.give_back(2, 62_500);
        assert_eq!(limit.take(2, 62_500, 0), 125_000_000, "what was given back is taken again");
        assert_eq!((limit.keys(0), limit.evictions()), (2, 0));
    }
}
