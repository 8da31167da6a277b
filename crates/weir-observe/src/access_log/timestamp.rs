//! Points in time as text, in UTC, computed from microseconds since 1970 and nothing else.
//!
//! Each style has a fixed width, so a time is an array and costs no allocation.

/// A point in time: microseconds since 1970-01-01 00:00:00 UTC, leap seconds not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixMicros(pub u64);

const MICROS_PER_SECOND: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
/// The last second of the year 9999: later times are shown as this one, as four digits hold no more.
const SECONDS_MAX: u64 = 253_402_300_799;
const MONTHS: [[u8; 3]; 12] = [
    *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct", *b"Nov",
    *b"Dec",
];

/// Date and time of day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl UnixMicros {
    /// `2000-10-10T13:55:36.123456Z` (RFC 3339).
    pub fn rfc3339(self) -> [u8; 27] {
        let civil = self.civil();
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        write_digits(&mut text[0..4], civil.year);
        write_digits(&mut text[5..7], civil.month);
        write_digits(&mut text[8..10], civil.day);
        write_digits(&mut text[11..13], civil.hour);
        write_digits(&mut text[14..16], civil.minute);
        write_digits(&mut text[17..19], civil.second);
        write_digits(&mut text[20..26], self.0 % MICROS_PER_SECOND);
        text
    }

    /// `10/Oct/2000:13:55:36 +0000`, as in the common log format.
    pub fn clf(self) -> [u8; 26] {
        let mut text = *b"00/Jan/0000:00:00:00 +0000";
        self.write_log_time(&mut text);
        text
    }

    /// `10/Oct/2000:13:55:36.123`, as in HAProxy's log.
    pub fn haproxy(self) -> [u8; 24] {
        let mut text = *b"00/Jan/0000:00:00:00.000";
        self.write_log_time(&mut text);
        write_digits(&mut text[21..24], self.0 % MICROS_PER_SECOND / 1000);
        text
    }

    /// The part that both log styles begin with.
    fn write_log_time(self, text: &mut [u8]) {
        let civil = self.civil();
        write_digits(&mut text[0..2], civil.day);
        text[3..6].copy_from_slice(&MONTHS[civil.month as usize - 1]);
        write_digits(&mut text[7..11], civil.year);
        write_digits(&mut text[12..14], civil.hour);
        write_digits(&mut text[15..17], civil.minute);
        write_digits(&mut text[18..20], civil.second);
    }

    /// The proleptic Gregorian date. Years are taken to begin in March, so that the leap day is the last of its year
    /// (after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    fn civil(self) -> Civil {
        let seconds = (self.0 / MICROS_PER_SECOND).min(SECONDS_MAX);
        let (days, time) = (seconds / SECONDS_PER_DAY + 719_468, seconds % SECONDS_PER_DAY);
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Civil {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: time / 3600,
            minute: time / 60 % 60,
            second: time % 60,
        }
    }
}

/// Fills a field with the last decimal digits of a number.
fn write_digits(field: &mut [u8], mut number: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text<const N: usize>(bytes: [u8; N]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn known_times() {
        let cases: &[(u64, &str)] = &[
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399_999_999, "2000-02-28T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (951_868_800_000_001, "2000-03-01T00:00:00.000001Z"),
            (971_186_136_123_456, "2000-10-10T13:55:36.123456Z"),
            (1_709_164_800_000_000, "2024-02-29T00:00:00.000000Z"),
            (1_735_689_599_000_000, "2024-12-31T23:59:59.000000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (253_402_300_799_000_000, "9999-12-31T23:59:59.000000Z"),
            (u64::MAX, "9999-12-31T23:59:59.551615Z"),
        ];
        for (micros, expected) in cases {
            assert_eq!(text(UnixMicros(*micros).rfc3339()), *expected, "{micros}");
        }
        let time = UnixMicros(971_186_136_123_456);
        assert_eq!(text(time.clf()), "10/Oct/2000:13:55:36 +0000");
        assert_eq!(text(time.haproxy()), "10/Oct/2000:13:55:36.123");
    }

    proptest! {
        /// Counting days up from 1970 one month at a time comes to the same date.
        #[test]
        fn dates_agree_with_counting(day in 0u64..200_000) {
            let mut left = day;
            let (mut year, mut month) = (1970u64, 1u64);
            loop {
                let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
                let length = match month {
                    2 if leap => 29,
                    2 => 28,
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
                if left < length {
                    break;
                }
                left -= length;
                (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            }
            let civil = UnixMicros(day * SECONDS_PER_DAY * MICROS_PER_SECOND).civil();
            prop_assert_eq!((civil.year, civil.month, civil.day), (year, month, left + 1));
        }
    }
}
