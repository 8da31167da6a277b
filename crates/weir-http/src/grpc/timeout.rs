//! `grpc-timeout`: the time that a client gives to a call, read and written (`PROTOCOL-HTTP2.md`, Requests).
//!
//! A value is relative to the moment at which the request is sent; the deadline is computed elsewhere.

use std::time::Duration;

use crate::digits::decimal;

/// The most that 8 digits can say.
const VALUE_MAX: u64 = 99_999_999;

/// Digits of the longest TimeoutValue.
const DIGITS_MAX: usize = 8;

/// What is wrong with the value of a `grpc-timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrpcTimeoutError {
    /// It does not end in one of `H`, `M`, `S`, `m`, `u` and `n`.
    BadUnit,
    /// There is no number before the unit.
    NoDigits,
    /// The number has more than 8 digits.
    TooManyDigits,
    /// A byte before the unit is not a digit.
    BadDigit,
}

/// Reads the value of a `grpc-timeout`.
///
/// The specification asks for a positive number. 0 is read as well: libraries send it when the deadline has passed already.
///
/// # Errors
///
/// What is wrong with the value, when it is not one to eight digits and a unit.
pub fn parse_timeout(value: &[u8]) -> Result<Duration, GrpcTimeoutError> {
    let Some((&unit, digits)) = value.split_last() else { return Err(GrpcTimeoutError::BadUnit) };
    let of_unit: fn(u64) -> Duration = match unit {
        b'H' => |hours| Duration::from_secs(hours * 3_600),
        b'M' => |minutes| Duration::from_secs(minutes * 60),
        b'S' => Duration::from_secs,
        b'm' => Duration::from_millis,
        b'u' => Duration::from_micros,
        b'n' => Duration::from_nanos,
        _ => return Err(GrpcTimeoutError::BadUnit),
    };
    match digits.len() {
        0 => return Err(GrpcTimeoutError::NoDigits),
        1..=DIGITS_MAX => {}
        _ => return Err(GrpcTimeoutError::TooManyDigits),
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(GrpcTimeoutError::BadDigit);
    }
    Ok(of_unit(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))))
}

/// Appends `timeout` as the value of a `grpc-timeout`, in the finest unit that fits into 8 digits.
///
/// It is rounded down, so that no server works longer than its client waits, and is never 0 unless `timeout` is. More than 99 999 999
/// hours are written as so many.
pub fn write_timeout(out: &mut Vec<u8>, timeout: Duration) {
    let (value, unit) = match timeout.as_secs() {
        0 if u64::from(timeout.subsec_nanos()) <= VALUE_MAX => (timeout.subsec_nanos().into(), b'n'),
        seconds @ 0..100 => (seconds * 1_000_000 + u64::from(timeout.subsec_micros()), b'u'),
        seconds @ 100..100_000 => (seconds * 1_000 + u64::from(timeout.subsec_millis()), b'm'),
        seconds @ 100_000..=VALUE_MAX => (seconds, b'S'),
        seconds if seconds / 60 <= VALUE_MAX => (seconds / 60, b'M'),
        seconds => ((seconds / 3_600).min(VALUE_MAX), b'H'),
    };
    decimal(out, value);
    out.push(unit);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn written(timeout: Duration) -> String {
        let mut out = Vec::new();
        write_timeout(&mut out, timeout);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_read() {
        for (value, timeout) in [
            ("1H", Duration::from_secs(3_600)),
            ("2M", Duration::from_secs(120)),
            ("3S", Duration::from_secs(3)),
            ("4m", Duration::from_millis(4)),
            ("5u", Duration::from_micros(5)),
            ("6n", Duration::from_nanos(6)),
            ("0S", Duration::ZERO),
            ("0n", Duration::ZERO),
            ("00000001S", Duration::from_secs(1)),
            ("99999999n", Duration::from_nanos(99_999_999)),
            ("99999999H", Duration::from_secs(99_999_999 * 3_600)),
        ] {
            assert_eq!(parse_timeout(value.as_bytes()), Ok(timeout), "{value}");
        }
    }

    #[test]
    fn other_values_are_errors() {
        for (value, error) in [
            ("", GrpcTimeoutError::BadUnit),
            ("1", GrpcTimeoutError::BadUnit),
            ("12345678", GrpcTimeoutError::BadUnit),
            ("1s", GrpcTimeoutError::BadUnit),
            ("1h", GrpcTimeoutError::BadUnit),
            ("1N", GrpcTimeoutError::BadUnit),
            ("1U", GrpcTimeoutError::BadUnit),
            ("1S ", GrpcTimeoutError::BadUnit),
            ("1ms ", GrpcTimeoutError::BadUnit),
            ("S", GrpcTimeoutError::NoDigits),
            ("123456789n", GrpcTimeoutError::TooManyDigits),
            ("000000001S", GrpcTimeoutError::TooManyDigits),
            ("1mm", GrpcTimeoutError::BadDigit),
            ("-1S", GrpcTimeoutError::BadDigit),
            ("+1S", GrpcTimeoutError::BadDigit),
            ("1.5S", GrpcTimeoutError::BadDigit),
            ("1 S", GrpcTimeoutError::BadDigit),
            (" 1S", GrpcTimeoutError::BadDigit),
            ("1S, 1S", GrpcTimeoutError::BadDigit),
        ] {
            assert_eq!(parse_timeout(value.as_bytes()), Err(error), "{value}");
        }
        for byte in 0..=255 {
            assert_eq!(parse_timeout(&[b'1', byte]).is_ok(), b"HMSmun".contains(&byte), "{byte}");
            assert_eq!(parse_timeout(&[byte, b'S']).is_ok(), byte.is_ascii_digit(), "{byte}");
        }
    }

    #[test]
    fn the_finest_unit_that_fits_is_written() {
        for (timeout, value) in [
            (Duration::ZERO, "0n"),
            (Duration::from_nanos(1), "1n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_999), "100000u"),
            (Duration::new(99, 999_999_999), "99999999u"),
            (Duration::new(100, 999_999), "100000m"),
            (Duration::new(99_999, 999_999_999), "99999999m"),
            (Duration::new(100_000, 999_999_999), "100000S"),
            (Duration::from_secs(99_999_999), "99999999S"),
            (Duration::from_secs(100_000_000), "1666666M"),
            (Duration::from_secs(99_999_999 * 60 + 59), "99999999M"),
            (Duration::from_secs(100_000_000 * 60), "1666666H"),
            (Duration::from_secs(100_000_000 * 3_600), "99999999H"),
            (Duration::MAX, "99999999H"),
        ] {
            assert_eq!(written(timeout), value);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_and_is_no_later(
            seconds: u64,
            nanoseconds in 0..1_000_000_000_u32,
            shift in 0..64,
        ) {
            let timeout = Duration::new(seconds >> shift, nanoseconds);
            let value = written(timeout);
            prop_assert!(value.len() <= DIGITS_MAX + 1, "{value}");
            let read = parse_timeout(value.as_bytes()).unwrap();
            prop_assert!(read <= timeout);
            prop_assert_eq!(read.is_zero(), timeout.is_zero());
            if timeout.as_secs() / 3_600 < VALUE_MAX {
                // At least six digits are exact.
                prop_assert!((timeout - read).as_secs_f64() <= timeout.as_secs_f64() / 1e5, "{value}");
            }
            prop_assert_eq!(written(read), value);
        }

        #[test]
        fn no_bytes_panic(value in proptest::collection::vec(any::<u8>(), 0..12)) {
            let _any = parse_timeout(&value);
        }
    }
}
