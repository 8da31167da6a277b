//! Messages to bytes: small functions that append to a buffer, without allocation of their own.
//!
//! They write what they are given. Names and values come from parsed heads or from the checked config, so neither can
//! hold a line end; debug builds check it.

use std::net::IpAddr;

use crate::bytes::{is_token, is_value_byte};
use crate::version::Version;

/// Appends `method target version` and the line end.
#[inline]
pub fn request_line(out: &mut Vec<u8>, method: &[u8], target: &[u8], version: Version) {
    debug_assert!(is_token(method) && target.iter().all(|byte| byte.is_ascii_graphic()));
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(target);
    out.push(b' ');
    out.extend_from_slice(version.as_str().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends `version status reason` and the line end.
#[inline]
pub fn status_line(out: &mut Vec<u8>, version: Version, status: u16, reason: &[u8]) {
    debug_assert!(reason.iter().all(|&byte| is_value_byte(byte)));
    out.extend_from_slice(version.as_str().as_bytes());
    out.push(b' ');
    decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// Appends `name: value` and the line end.
#[inline]
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(is_token(name) && value.iter().all(|&byte| is_value_byte(byte)));
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `name: value` with a decimal value, and the line end.
#[inline]
pub fn decimal_field(out: &mut Vec<u8>, name: &[u8], value: u64) {
    debug_assert!(is_token(name));
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    decimal(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `number` in decimal.
#[inline]
pub fn decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    let [tens, ones] = PAIRS[number as usize];
    at -= 1;
    digits[at] = ones;
    if tens != b'0' {
        at -= 1;
        digits[at] = tens;
    }
    out.extend_from_slice(&digits[at..]);
}

/// `00` to `99`: two digits for one division.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

/// Digits of percent-encoded bytes: upper case, as RFC 3986 section 2.1 asks for.
pub(crate) const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `number` in hexadecimal, lower case, without leading zeros.
#[inline]
pub fn hexadecimal(out: &mut Vec<u8>, number: u64) {
    let mut line = [0; CHUNK_SIZE_BYTES_MAX];
    let len = chunk_size(number, &mut line);
    out.extend_from_slice(&line[..len - 2]);
}

/// The 16 digits of a number, computed rather than looked up: eight at once, each in a byte of a word.
#[inline]
pub fn hexadecimal_16(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    let halves = [(number >> 32) as u32, number as u32];
    for (eight, half) in digits.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
        *eight = eight_digits(half);
    }
    digits
}

#[inline]
fn eight_digits(half: u32) -> [u8; 8] {
    let mut word = u64::from(half);
    word = (word | word << 16) & 0x0000_ffff_0000_ffff;
    word = (word | word << 8) & 0x00ff_00ff_00ff_00ff;
    word = (word | word << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // One in each byte that is ten or more.
    let letters = (word + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    let digits = word + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10);
    digits.to_be_bytes()
}

/// Appends `address` as text, an IPv4-mapped IPv6 address as the IPv4 address it stands for, without brackets.
#[inline]
pub fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => ipv4_address(out, address.octets()),
        IpAddr::V6(address) => ipv6_address(out, address.segments()),
    }
}

/// Appends an IPv4 address of these octets, in one piece: it stands in every request that goes on.
#[inline]
fn ipv4_address(out: &mut Vec<u8>, octets: [u8; 4]) {
    let mut text = [b'.'; 16];
    let mut len = 0;
    for octet in octets {
        let [tens, ones] = PAIRS[usize::from(octet % 100)];
        if octet >= 100 {
            text[len] = b'0' + octet / 100;
            len += 1;
        }
        if octet >= 10 {
            text[len] = tens;
            len += 1;
        }
        text[len] = ones;
        // Behind the digits stands the dot, which the last one does not need.
        text[len + 1] = b'.';
        len += 2;
    }
    out.extend_from_slice(&text[..len - 1]);
}

/// Appends an IPv6 address of these groups in its canonical form (RFC 5952 section 4).
fn ipv6_address(out: &mut Vec<u8>, groups: [u16; 8]) {
    let run = |start: usize| groups[start..].iter().take_while(|&&group| group == 0).count();
    // The longest run of zeros; the first of several.
    let start = (0..groups.len()).rev().max_by_key(|&start| run(start)).unwrap_or_default();
    let skipped = if run(start) > 1 { start..start + run(start) } else { 0..0 };
    for (index, &group) in groups.iter().enumerate() {
        if skipped.contains(&index) {
            if index == skipped.start {
                out.extend_from_slice(b"::");
            }
            continue;
        }
        if index > 0 && index != skipped.end {
            out.push(b':');
        }
        hexadecimal(out, u64::from(group));
    }
}

/// Longest line that [`chunk_size`] writes, in bytes.
pub const CHUNK_SIZE_BYTES_MAX: usize = 18;

/// What ends the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The last chunk of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes the line that starts a chunk of `len` bytes to the front of `line`. Gives the length of the line.
///
/// The data and [`CHUNK_END`] follow. A chunk of 0 bytes would end the body: see [`last_chunk`].
#[inline]
pub fn chunk_size(len: u64, line: &mut [u8; CHUNK_SIZE_BYTES_MAX]) -> usize {
    let digits = ((u64::BITS - (len | 1).leading_zeros()) as usize).div_ceil(4);
    let mut rest = len;
    for digit in line[..digits].iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 0xf) as usize];
        rest >>= 4;
    }
    line[digits..digits + 2].copy_from_slice(b"\r\n");
    digits + 2
}

/// Appends the last chunk with `trailers` as names and values.
pub fn last_chunk<'a>(out: &mut Vec<u8>, trailers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        field(out, name, value);
    }
    out.extend_from_slice(b"\r\n");
}

/// Length of a date in IMF-fixdate, in bytes.
pub const DATE_BYTES: usize = 29;

/// The HTTP date (IMF-fixdate, RFC 9110 section 5.6.7) of `unix_seconds`, seconds since 1970-01-01 in UTC.
///
/// Times after the year 9999 give its last second: the format has four digits.
pub fn date(unix_seconds: u64) -> [u8; DATE_BYTES] {
    const LAST: u64 = 253_402_300_799;
    let seconds = unix_seconds.min(LAST);
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days);
    let mut date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let weekday = (days % 7) as usize * 3;
    date[..3].copy_from_slice(&b"ThuFriSatSunMonTueWed"[weekday..weekday + 3]);
    two_digits(&mut date[5..7], day);
    let month = (month as usize - 1) * 3;
    date[8..11].copy_from_slice(&b"JanFebMarAprMayJunJulAugSepOctNovDec"[month..month + 3]);
    two_digits(&mut date[12..14], year / 100);
    two_digits(&mut date[14..16], year % 100);
    two_digits(&mut date[17..19], second_of_day / 3600);
    two_digits(&mut date[20..22], second_of_day / 60 % 60);
    two_digits(&mut date[23..25], second_of_day % 60);
    date
}

/// Writes `number` below 100 with two digits.
fn two_digits(to: &mut [u8], number: u64) {
    to[0] = b'0' + (number / 10) as u8;
    to[1] = b'0' + (number % 10) as u8;
}

/// Year, month (1-12) and day (1-31) of a day since 1970-01-01 in the Gregorian calendar.
///
/// Years start on 1 March here, so that the leap day comes last and months follow a fixed pattern of 153 days in five.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097; // 400 years
    const DAYS_TO_EPOCH: u64 = 719_468; // from 0000-03-01 to 1970-01-01
    let shifted = days + DAYS_TO_EPOCH;
    let (era, day_of_era) = (shifted / DAYS_PER_ERA, shifted % DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;
    use std::time::{Duration, SystemTime};

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("what is written is ASCII")
    }

    #[test]
    fn lines() {
        assert_eq!(
            written(|out| request_line(out, b"GET", b"/a?b", Version::Http11)),
            "GET /a?b HTTP/1.1\r\n"
        );
        assert_eq!(
            written(|out| status_line(out, Version::Http10, 404, b"Not Found")),
            "HTTP/1.0 404 Not Found\r\n"
        );
        assert_eq!(written(|out| status_line(out, Version::Http11, 299, b"")), "HTTP/1.1 299 \r\n");
        assert_eq!(written(|out| field(out, b"X", b"y z")), "X: y z\r\n");
        assert_eq!(written(|out| decimal_field(out, b"Content-Length", 0)), "Content-Length: 0\r\n");
        let trailers: [(&[u8], &[u8]); 2] = [(b"A", b"1"), (b"B", b"")];
        assert_eq!(written(|out| last_chunk(out, trailers)), "0\r\nA: 1\r\nB: \r\n\r\n");
        assert_eq!(written(|out| last_chunk(out, [])).as_bytes(), LAST_CHUNK);
    }

    #[test]
    fn addresses() {
        let rows = [
            ("0.0.0.0", "0.0.0.0"),
            ("192.168.100.255", "192.168.100.255"),
            ("2001:db8::1", "2001:db8::1"),
            ("::", "::"),
            ("::1", "::1"),
            ("1::", "1::"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ];
        for (given, expected) in rows {
            assert_eq!(written(|out| address(out, given.parse().expect("an address"))), expected);
        }
    }

    #[test]
    fn dates() {
        let rows = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(date(seconds), *expected.as_bytes(), "{seconds}");
        }
    }

    #[test]
    fn every_digit_in_every_place() {
        for number in (0..64).step_by(4).flat_map(|shift| (0..16).map(move |digit: u64| digit << shift)) {
            assert_eq!(&hexadecimal_16(number)[..], format!("{number:016x}").as_bytes());
        }
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_standard_library(number in any::<u64>(), shift in 0..64) {
            let number = number >> shift;
            prop_assert_eq!(written(|out| decimal(out, number)), number.to_string());
            prop_assert_eq!(written(|out| hexadecimal(out, number)), format!("{number:x}"));
            prop_assert_eq!(&hexadecimal_16(number)[..], &format!("{number:016x}").into_bytes()[..]);
            let mut line = [0; CHUNK_SIZE_BYTES_MAX];
            let len = chunk_size(number, &mut line);
            prop_assert_eq!(line[..len].to_vec(), format!("{number:x}\r\n").into_bytes());
        }

        #[test]
        fn addresses_are_those_of_the_standard_library(bits in any::<u128>(), zeros in any::<u8>()) {
            let mut groups = Ipv6Addr::from(bits).segments();
            for (index, group) in groups.iter_mut().enumerate() {
                if zeros >> index & 1 == 1 {
                    *group = 0;
                }
            }
            let v6 = IpAddr::from(groups);
            prop_assert_eq!(written(|out| address(out, v6)), v6.to_canonical().to_string());
            let v4 = IpAddr::from((bits as u32).to_be_bytes());
            prop_assert_eq!(written(|out| address(out, v4)), v4.to_string());
        }

        #[test]
        fn dates_are_those_of_another_implementation(seconds in 0_u64..253_402_300_800) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            prop_assert_eq!(date(seconds).to_vec(), httpdate::fmt_http_date(time).into_bytes());
        }
    }
}
