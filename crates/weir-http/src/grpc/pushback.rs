//! `grpc-retry-pushback-ms`: when a server wants its call tried again, or that it is not (gRPC proposal A6, Pushback).
//!
//! What it asks for is read here; whether it is followed is decided elsewhere.

use std::time::Duration;

use super::number::number;

/// The largest signed 32-bit integer.
const MILLISECONDS_MAX: u32 = i32::MAX as u32;

/// What a server asks for in a response that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPushback {
    /// Try again when this time has passed.
    After(Duration),
    /// Do not try again.
    Never,
}

impl RetryPushback {
    /// Reads the value of a `grpc-retry-pushback-ms`: a decimal signed 32-bit integer without needless leading zeros.
    ///
    /// A value that is negative or anything else means [`RetryPushback::Never`].
    pub fn parse(value: &[u8]) -> Self {
        match number(value) {
            Some(milliseconds @ 0..=MILLISECONDS_MAX) => {
                Self::After(Duration::from_millis(milliseconds.into()))
            }
            _ => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_times() {
        for (value, milliseconds) in
            [("0", 0), ("1", 1), ("10", 10), ("999", 999), ("2147483647", 2_147_483_647)]
        {
            let expected = RetryPushback::After(Duration::from_millis(milliseconds));
            assert_eq!(RetryPushback::parse(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn other_values_forbid_another_attempt() {
        for value in [
            "",
            "-1",
            "-0",
            "-2147483648",
            "2147483648",
            "4294967296",
            "01",
            "+1",
            "1.5",
            "10ms",
            "1, 2",
            "never",
        ] {
            assert_eq!(RetryPushback::parse(value.as_bytes()), RetryPushback::Never, "{value}");
        }
    }
}
