//! The date of a message, in the one format that is written: IMF-fixdate (RFC 9110 section 5.6.7).

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
    use std::time::{Duration, SystemTime};

    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

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

    proptest! {
        #[test]
        fn dates_are_those_of_another_implementation(seconds in 0_u64..253_402_300_800) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            prop_assert_eq!(date(seconds).to_vec(), httpdate::fmt_http_date(time).into_bytes());
        }
    }
}
