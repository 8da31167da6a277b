//! Rates of requests: `"10/s"`, `"100/m"`, `"5/10s"`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weir_traffic::limit::{RateError, TokenRate};

use super::{ValueError, parse_duration, print_duration};

/// A number of requests per time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RequestFrequency {
    /// How many.
    pub requests: u32,
    /// In which time: a millisecond to a day.
    pub period: Duration,
}

impl RequestFrequency {
    /// A number of requests per time.
    ///
    /// # Errors
    /// When there can be no such rate.
    pub fn new(requests: u32, period: Duration) -> Result<Self, RateError> {
        TokenRate::new(requests, period, requests)?;
        Ok(Self { requests, period })
    }

    /// The rate, with as many at once after a pause as it has in its time.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn tokens(self) -> Result<TokenRate, RateError> {
        TokenRate::new(self.requests, self.period, self.requests)
    }
}

/// The longest time.
const PERIOD_MAX: Duration = Duration::from_secs(86_400);

impl FromStr for RequestFrequency {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong =
            |message: String| ValueError::new(message).help("write for example `10/s`, `100/m` or `5/10s`");
        let Some((number, unit)) = text.split_once('/') else {
            return Err(wrong(format!("`{text}` is not a rate of requests: it has no `/`")));
        };
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let requests = number.parse::<u32>().ok().filter(|_| is_number);
        let Some(requests) = requests.filter(|requests| (1..=1_000_000_000).contains(requests)) else {
            return Err(
                wrong(format!("`{number}` is not a number from 1 to 1000000000")).range(0..number.len())
            );
        };
        let whole =
            if unit.starts_with(|c: char| c.is_ascii_digit()) { unit.to_owned() } else { format!("1{unit}") };
        let period = parse_duration(&whole).ok().filter(|period| !period.is_zero() && *period <= PERIOD_MAX);
        let Some(period) = period else {
            let message = format!("`{unit}` is not a time of at most a day");
            return Err(wrong(message).range(number.len() + 1..text.len()));
        };
        if period.as_nanos() < u128::from(requests) {
            return Err(wrong(format!("`{text}` is more than a billion requests a second")));
        }
        Ok(Self { requests, period })
    }
}

impl fmt::Display for RequestFrequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = print_duration(self.period);
        let unit = period.strip_prefix('1').filter(|unit| unit.bytes().all(|byte| byte.is_ascii_lowercase()));
        write!(f, "{}/{}", self.requests, unit.unwrap_or(&period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_printed() {
        for (text, requests, millis) in [
            ("10/s", 10, 1_000),
            ("100/m", 100, 60_000),
            ("1000/h", 1_000, 3_600_000),
            ("5/10s", 5, 10_000),
            ("1/90s", 1, 90_000),
            ("1/d", 1, 86_400_000),
            ("2/100ms", 2, 100),
        ] {
            let rate = RequestFrequency { requests, period: Duration::from_millis(millis) };
            assert_eq!((text.parse(), rate.to_string().as_str()), (Ok(rate), text));
        }
        assert_eq!("1/1m30s".parse::<RequestFrequency>().unwrap().to_string(), "1/90s");
        assert_eq!("10/1s".parse::<RequestFrequency>().unwrap().to_string(), "10/s");
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, message, range) in [
            ("10", "`10` is not a rate of requests: it has no `/`", None),
            ("0/s", "`0` is not a number from 1 to 1000000000", Some(0..1)),
            ("+1/s", "`+1` is not a number from 1 to 1000000000", Some(0..2)),
            ("10r/s", "`10r` is not a number from 1 to 1000000000", Some(0..3)),
            ("10/", "`` is not a time of at most a day", Some(3..3)),
            ("10/sec", "`sec` is not a time of at most a day", Some(3..6)),
            ("1/2d", "`2d` is not a time of at most a day", Some(2..4)),
            ("1/0s", "`0s` is not a time of at most a day", Some(2..4)),
            ("1000000000/1ms", "`1000000000/1ms` is more than a billion requests a second", None),
        ] {
            let error = text.parse::<RequestFrequency>().expect_err(text);
            assert_eq!((error.message.as_str(), error.range), (message, range), "{text}");
        }
    }
}
