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

/// The length of the whole records in `wire`, if the session has skipped them all and waits for more; otherwise 0.
///
/// A record that could not be decrypted is all zeros but for its tag: the cryptography leaves nothing of it. One that could be, such as the
/// first part of a long message, has at least the byte that tells its type, so it is never taken for one that was skipped.
pub(super) fn skipped(wire: &[u8]) -> usize {
    let mut end = 0;
    while let Some(record) = whole_record(&wire[end..]) {
        if !is_skipped(record) {
            return 0;
        }
        end += record.len();
    }
    end
}

fn whole_record(wire: &[u8]) -> Option<&[u8]> {
    let &[_, _, _, high, low] = wire.first_chunk::<HEADER>()?;
    wire.get(..HEADER + usize::from(u16::from_be_bytes([high, low])))
}

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

        assert_eq!(skipped(&skipped_one), skipped_one.len());
        assert_eq!(skipped(&[&skipped_one[..], &skipped_one].concat()), 2 * skipped_one.len());
        // The rest of a record is still to come.
        assert_eq!(skipped(&[&skipped_one[..], &skipped_one[..30]].concat()), skipped_one.len());
        // rustls counts from the start of what it was given: as soon as it keeps anything of it, all of it stays.
        assert_eq!(skipped(&[&skipped_one[..], &fragment].concat()), 0);
        assert_eq!(skipped(&fragment), 0);
        assert_eq!(skipped(&record(22, &zeros)), 0);
        assert_eq!(skipped(&record(APPLICATION_DATA, &[0; TAG])), 0);
        assert_eq!(skipped(&[]), 0);
        assert_eq!(skipped(&skipped_one[..HEADER]), 0);
    }
}
