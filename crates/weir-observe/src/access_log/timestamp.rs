//! Points in time as text, in UTC, computed from microseconds since 1970 and nothing else.

/// A point in time: microseconds since 1970-01-01 00:00:00 UTC, leap seconds not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMicros(pub u64);

const MICROS_PER_SECOND: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Date and time of day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Civil {
    year: u64,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    micros: u32,
}

impl UnixMicros {
    /// `2000-10-10T13:55:36.123456Z` (RFC 3339).
    pub fn write_rfc3339(self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        let Civil { year, month, day, hour, minute, second, micros } = self.civil();
        write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }

    /// Appends what [`write_rfc3339`](UnixMicros::write_rfc3339) writes.
    pub fn append_rfc3339(self, out: &mut Vec<u8>) {
        let mut scratch = super::field::Scratch::new();
        if let super::field::Value::Bytes(bytes) = scratch.fill(|out| self.write_rfc3339(out)) {
            out.extend_from_slice(bytes);
        }
    }

    /// `10/Oct/2000:13:55:36 +0000`, as in the common log format.
    pub fn write_clf(self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        let Civil { year, month, day, hour, minute, second, .. } = self.civil();
        let month = MONTHS[usize::from(month - 1)];
        write!(out, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
    }

    /// `10/Oct/2000:13:55:36.123`, as in HAProxy's log.
    pub fn write_haproxy(self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        let Civil { year, month, day, hour, minute, second, micros } = self.civil();
        let (month, millis) = (MONTHS[usize::from(month - 1)], micros / 1000);
        write!(out, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02}.{millis:03}")
    }

    /// `971186136.123456`: seconds since 1970.
    pub fn write_seconds(self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        write!(out, "{}.{:06}", self.0 / MICROS_PER_SECOND, self.0 % MICROS_PER_SECOND)
    }

    /// The proleptic Gregorian date, by counting from 1 March of year 0 so that the leap day comes last in its year
    /// (after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    fn civil(self) -> Civil {
        let seconds = self.0 / MICROS_PER_SECOND;
        let (days, time) = (seconds / SECONDS_PER_DAY + 719_468, seconds % SECONDS_PER_DAY);
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Civil {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month: month as u8,
            day: (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u8,
            hour: (time / 3600) as u8,
            minute: (time / 60 % 60) as u8,
            second: (time % 60) as u8,
            micros: (self.0 % MICROS_PER_SECOND) as u32,
        }
    }
}
