//! Early data (0-RTT, RFC 8446 section 4.2.10) that Weir refuses and skips.
//!
//! Weir offers no client to send any. A client does so all the same with a ticket of a server that had the address before; it then has to
//! be answered as if it had not, and sends its request again behind the handshake. rustls skips such records but leaves them where they
//! are, and would try, and count, each of them again with whatever arrives next. Must not look into what it skips.

/// Bytes of refused early data, its records whole, that a client may send: four full records. Above that the handshake fails. OpenSSL
/// skips one record of 16 KiB.
pub(super) const SKIPPED_MAX: u32 = 64 * 1024 + 1024;

/// Type of a record that is encrypted, and the length of its header (RFC 8446 section 5.2).
const APPLICATION_DATA: u8 = 23;
const HEADER: usize = 5;

/// The tag behind the ciphertext, in all suites of TLS 1.3.
const TAG: usize = 16;

/// Whether records of a handshake may be skipped. As long as they may, rustls is given one at a time.
///
/// Once it has kept a whole record, the first part of a long message, none is skipped any more: rustls moves the parts of a message
/// together where they are, and keeps count of bytes from the first of them on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skips {
    May,
    Never,
}

impl Skips {
    /// How much of `wire` rustls is to be given: the first record, if it is whole and may have to be skipped; otherwise everything.
    pub(super) fn alone(self, wire: &[u8]) -> Option<usize> {
        if self == Self::Never {
            return None;
        }
        let &[_, _, _, high, low] = wire.first_chunk::<HEADER>()?;
        let len = HEADER + usize::from(u16::from_be_bytes([high, low]));
        (len <= wire.len()).then_some(len)
    }

    /// How many bytes of `record` can be dropped: rustls got it alone, has processed it, and keeps `kept` bytes of it.
    pub(super) fn judge(&mut self, record: &[u8], kept: usize) -> usize {
        if kept == 0 {
            return 0;
        }
        if kept == record.len() && is_skipped(record) {
            return kept;
        }
        *self = Self::Never;
        0
    }
}

/// Whether rustls has skipped it. A record that could not be decrypted is all zeros but for its tag: the cryptography leaves nothing of
/// it. One that could be, and was alone, has at least the byte that tells its type.
fn is_skipped(record: &[u8]) -> bool {
    let (header, body) = record.split_at(HEADER);
    let Some(sealed) = body.len().checked_sub(TAG) else { return false };
    header[0] == APPLICATION_DATA && sealed > 0 && body[..sealed].iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(typ: u8, body: &[u8]) -> Vec<u8> {
        let len = u16::try_from(body.len()).expect("a record is short").to_be_bytes();
        [&[typ, 3, 3, len[0], len[1]], body].concat()
    }

    #[test]
    fn only_what_is_all_zeros_is_skipped() {
        let mut zeros = vec![0; 40];
        zeros.extend([7; TAG]);
        let skipped_one = record(APPLICATION_DATA, &zeros);
        let mut fragment = zeros.clone();
        fragment[39] = 22;
        let fragment = record(APPLICATION_DATA, &fragment);

        let judged = |record: &[u8], kept: usize| {
            let mut skips = Skips::May;
            (skips.judge(record, kept), skips)
        };
        let len = skipped_one.len();
        assert_eq!(judged(&skipped_one, len), (len, Skips::May));
        assert_eq!(judged(&skipped_one, 0), (0, Skips::May), "it was taken in");
        assert_eq!(judged(&skipped_one, len - 1), (0, Skips::Never));
        assert_eq!(judged(&fragment, len), (0, Skips::Never));
        assert_eq!(judged(&record(22, &zeros), len), (0, Skips::Never));
        let nothing = record(APPLICATION_DATA, &[0; TAG]);
        assert_eq!(judged(&nothing, nothing.len()), (0, Skips::Never));
    }

    #[test]
    fn whole_records_are_given_one_at_a_time() {
        let first = record(22, b"hello");
        let wire = [&first[..], &record(APPLICATION_DATA, &[1; 40])].concat();
        assert_eq!(Skips::May.alone(&wire), Some(first.len()));
        assert_eq!(Skips::Never.alone(&wire), None);
        assert_eq!(Skips::May.alone(&first[..first.len() - 1]), None);
        assert_eq!(Skips::May.alone(&first[..HEADER - 1]), None);
    }
}
