//! `traceparent` of W3C Trace Context, level 1: read strictly, and written.
//!
//! Whether a sender is trusted, and the treatment of `tracestate`, are decided elsewhere.

use crate::digits::hexadecimal_16;

/// Bytes of a `traceparent` of version 00, and the shortest of any other.
const LEN: usize = 55;

/// Where the dashes stand.
const DASHES: [usize; 3] = [2, 35, 52];

/// The trace context that one party passes to the next with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace; never 0.
    pub trace_id: u128,
    /// The span that the sender made the request in; never 0.
    pub span_id: u64,
    /// Whether the sender may have recorded it.
    pub is_sampled: bool,
}

impl Traceparent {
    /// Reads the value of a `traceparent`; `None` when it breaks a rule, by which the trace begins anew.
    ///
    /// Of versions to come, only the fields of version 00 are read (section 4.3 of the recommendation).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (head, more) = value.split_at_checked(LEN)?;
        let (version, flags) = (number(&head[..2])?, number(&head[53..])?);
        let ends_well = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => matches!(more, [] | [b'-', ..]),
        };
        if !ends_well || DASHES.iter().any(|at| head[*at] != b'-') {
            return None;
        }
        let (high, low) = (number(&head[3..19])?, number(&head[19..35])?);
        let trace_id = u128::from(high) << 64 | u128::from(low);
        let span_id = number(&head[36..52])?;
        (trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, is_sampled: flags & 1 != 0 })
    }

    /// Appends it as the value of a `traceparent`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"00-");
        out.extend_from_slice(&self.trace_id_digits());
        out.push(b'-');
        out.extend_from_slice(&hexadecimal_16(self.span_id));
        out.extend_from_slice(if self.is_sampled { b"-01" } else { b"-00" });
    }

    /// The trace id as it is written everywhere.
    pub fn trace_id_digits(&self) -> [u8; 32] {
        let mut digits = [0; 32];
        let (high, low) = digits.split_at_mut(16);
        high.copy_from_slice(&hexadecimal_16((self.trace_id >> 64) as u64));
        low.copy_from_slice(&hexadecimal_16(self.trace_id as u64));
        digits
    }
}

/// Up to 16 hexadecimal digits, which are lower case here.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Traceparent;

    const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
    const SPAN: u64 = 0x00f0_67aa_0ba9_02b7;

    fn sampled(value: &str) -> Option<bool> {
        let traceparent = Traceparent::parse(value.as_bytes())?;
        assert_eq!((traceparent.trace_id, traceparent.span_id), (TRACE, SPAN), "{value}");
        Some(traceparent.is_sampled)
    }

    #[test]
    fn valid_values_are_read() {
        for (value, expected) in [
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", false),
            // Other flags mean nothing yet.
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", true),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02", false),
            // Versions to come may have more behind.
            ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future", true),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-", false),
        ] {
            assert_eq!(sampled(value), Some(expected), "{value}");
        }
    }

    #[test]
    fn values_that_break_a_rule_are_not_read() {
        for value in [
            "",
            "00",
            // Too short, too long, more behind version 00.
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what",
            "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01x",
            // A version that there will never be.
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            // Nothing but zeros.
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            // Upper case, other letters, other separators.
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0A",
            "0X-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7 01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            // Two in one, as a proxy joins them.
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(sampled(value), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(trace_id in 1_u128.., span_id in 1_u64.., is_sampled: bool) {
            let traceparent = Traceparent { trace_id, span_id, is_sampled };
            let mut value = Vec::new();
            traceparent.write(&mut value);
            prop_assert_eq!(Traceparent::parse(&value), Some(traceparent));
            prop_assert_eq!(traceparent.trace_id_digits().to_vec(), format!("{trace_id:032x}").into_bytes());
            let expected = format!("00-{trace_id:032x}-{span_id:016x}-0{}", u8::from(is_sampled));
            prop_assert_eq!(String::from_utf8(value).unwrap(), expected);
        }

        #[test]
        fn one_byte_changed_is_refused_or_reads_as_written(at in 0..55_usize, byte: u8) {
            let mut value = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_vec();
            value[at] = byte;
            if let Some(traceparent) = Traceparent::parse(&value) {
                prop_assert!(byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte) || byte == b'-');
                let mut again = Vec::new();
                traceparent.write(&mut again);
                prop_assert_eq!(&again[3..52], &value[3..52]);
            }
        }

        #[test]
        fn no_bytes_panic(value in prop::collection::vec(any::<u8>(), 0..80)) {
            let _any = Traceparent::parse(&value);
        }
    }
}
