//! What of a gRPC call concerns a proxy: that it is one, its deadline, its status, and when it may be repeated.
//!
//! By the documents of gRPC: PROTOCOL-HTTP2.md, http-grpc-status-mapping.md, and proposal A6 (retries). Must not look into messages.

use std::time::Duration;

use crate::digits::decimal;

/// The status of a call, from the field `grpc-status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcStatus(u8);

/// The names of the statuses, by their numbers, in lower case with hyphens.
pub const GRPC_STATUS_NAMES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid-argument",
    "deadline-exceeded",
    "not-found",
    "already-exists",
    "permission-denied",
    "resource-exhausted",
    "failed-precondition",
    "aborted",
    "out-of-range",
    "unimplemented",
    "internal",
    "unavailable",
    "data-loss",
    "unauthenticated",
];

impl GrpcStatus {
    /// `UNKNOWN`: also what a status beyond those that are defined counts as.
    pub const UNKNOWN: GrpcStatus = GrpcStatus(2);

    /// `CANCELLED`.
    pub const CANCELLED: GrpcStatus = GrpcStatus(1);

    /// `INTERNAL`.
    pub const INTERNAL: GrpcStatus = GrpcStatus(13);

    /// The status with this number.
    pub const fn from_number(number: u8) -> GrpcStatus {
        if (number as usize) < GRPC_STATUS_NAMES.len() { GrpcStatus(number) } else { GrpcStatus::UNKNOWN }
    }

    /// The value of a `grpc-status`: a decimal number; anything else counts as `UNKNOWN`.
    pub fn parse(value: &[u8]) -> GrpcStatus {
        let is_number = !value.is_empty() && value.len() <= 2 && value.iter().all(u8::is_ascii_digit);
        let number = value.iter().fold(0, |number, digit| number * 10 + u32::from(digit.wrapping_sub(b'0')));
        match u8::try_from(number) {
            Ok(number) if is_number => GrpcStatus::from_number(number),
            _ => GrpcStatus::UNKNOWN,
        }
    }

    /// Its number, below 17.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its name in lower case with hyphens.
    pub const fn name(self) -> &'static str {
        GRPC_STATUS_NAMES[self.0 as usize]
    }

    /// The status for an answer that a proxy gives with this status of HTTP (http-grpc-status-mapping.md; 504 is a deadline that has passed,
    /// and 413 and 431 are too much of something, as gRPC's own libraries have it).
    pub const fn of_http(status: u16) -> GrpcStatus {
        GrpcStatus(match status {
            400 => 13,
            401 => 16,
            403 => 7,
            404 | 405 | 501 => 12,
            408 | 504 => 4,
            413 | 431 => 8,
            499 => 1,
            429 | 502 | 503 => 14,
            500 => 13,
            _ => 2,
        })
    }

    /// The status of HTTP that says most nearly the same of a server: what ejection goes by.
    pub const fn as_http(self) -> u16 {
        match self.0 {
            0 => 200,
            1 => 499,
            3 | 9 | 11 => 400,
            4 => 504,
            5 => 404,
            6 | 10 => 409,
            7 => 403,
            8 => 429,
            12 => 501,
            14 => 503,
            16 => 401,
            _ => 500,
        }
    }
}

/// Whether a request with this `Content-Type` is a gRPC call: `application/grpc`, with or without `+proto` and the like. gRPC-Web is another
/// protocol.
pub fn is_grpc(content_type: &[u8]) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    content_type.split_at_checked(TYPE.len()).is_some_and(|(front, rest)| {
        front.eq_ignore_ascii_case(TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
    })
}

/// The value of `grpc-timeout`: at most eight digits and a unit. `None` when it is none.
pub fn parse_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// What a server says of another attempt (`grpc-retry-pushback-ms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushback {
    /// Not before this time has passed.
    After(Duration),
    /// Not at all: it is negative, or no number.
    Never,
}

impl Pushback {
    /// The value of the field.
    pub fn parse(value: &[u8]) -> Pushback {
        let is_number = !value.is_empty() && value.len() <= 9 && value.iter().all(u8::is_ascii_digit);
        if !is_number {
            return Pushback::Never;
        }
        let millis = value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        Pushback::After(Duration::from_millis(millis))
    }
}

/// Appends the value of a `grpc-status`.
pub fn write_status(status: GrpcStatus, out: &mut Vec<u8>) {
    decimal(out, status.number().into());
}

/// Appends the value of a `grpc-message`: percent-encoded but for the printable characters of ASCII.
pub fn write_message(message: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in message {
        match byte {
            b'%' | ..0x20 | 0x7f.. => {
                out.extend_from_slice(&[
                    b'%',
                    DIGITS[usize::from(byte >> 4)],
                    DIGITS[usize::from(byte & 15)],
                ]);
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_with_names() {
        for (value, number) in
            [("0", 0), ("14", 14), ("16", 16), ("17", 2), ("99", 2), ("", 2), ("-1", 2), ("007", 2), ("a", 2)]
        {
            assert_eq!(GrpcStatus::parse(value.as_bytes()).number(), number, "{value}");
        }
        assert_eq!(GrpcStatus::from_number(4).name(), "deadline-exceeded");
        assert_eq!(GrpcStatus::from_number(200), GrpcStatus::UNKNOWN);
        let mut out = Vec::new();
        write_status(GrpcStatus::from_number(14), &mut out);
        assert_eq!(out, b"14");
    }

    #[test]
    fn statuses_of_http_and_back() {
        for (http, name) in [
            (502, "unavailable"),
            (504, "deadline-exceeded"),
            (413, "resource-exhausted"),
            (403, "permission-denied"),
            (404, "unimplemented"),
            (418, "unknown"),
        ] {
            assert_eq!(GrpcStatus::of_http(http).name(), name, "{http}");
        }
        for number in 0..17 {
            let http = GrpcStatus::from_number(number).as_http();
            assert!(number == 0 && http == 200 || (400..600).contains(&http), "{number}: {http}");
        }
    }

    #[test]
    fn only_grpc_is_grpc() {
        for content_type in [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC;charset=utf-8",
            "application/grpc ;a=b",
        ] {
            assert!(is_grpc(content_type.as_bytes()), "{content_type}");
        }
        for content_type in
            ["application/grpc-web", "application/grpc-web-text", "application/grpcx", "application/json", ""]
        {
            assert!(!is_grpc(content_type.as_bytes()), "{content_type}");
        }
    }

    #[test]
    fn timeouts_have_a_unit() {
        for (value, expected) in [
            ("1H", Some(3_600_000_000_000)),
            ("2M", Some(120_000_000_000)),
            ("3S", Some(3_000_000_000)),
            ("100m", Some(100_000_000)),
            ("7u", Some(7_000)),
            ("99999999n", Some(99_999_999)),
            ("0S", Some(0)),
            ("99999999H", Some(99_999_999 * 3_600_000_000_000)),
            ("999999999S", None),
            ("10", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1.5S", None),
            ("1s", None),
        ] {
            assert_eq!(parse_timeout(value.as_bytes()).map(|time| time.as_nanos()), expected, "{value}");
        }
    }

    #[test]
    fn pushback_that_is_no_number_forbids_a_retry() {
        assert_eq!(Pushback::parse(b"0"), Pushback::After(Duration::ZERO));
        assert_eq!(Pushback::parse(b"1500"), Pushback::After(Duration::from_millis(1500)));
        for value in ["-1", "", "1s", "9999999999"] {
            assert_eq!(Pushback::parse(value.as_bytes()), Pushback::Never, "{value}");
        }
    }

    #[test]
    fn messages_are_printable() {
        let mut out = Vec::new();
        write_message("100 % ä\n".as_bytes(), &mut out);
        assert_eq!(out, b"100 %25 %C3%A4%0A");
    }
}
