//! `wrk`: kept connections, a closed loop, latency percentiles.

use super::{ToolOrder, ToolResult, number, number_after};
use crate::load::exchange::OWN_FIELDS;

pub(super) fn args(order: &ToolOrder<'_>) -> Vec<String> {
    let fields = OWN_FIELDS.lines().flat_map(|field| ["--header", field]).map(str::to_owned);
    let usual = [
        "--threads",
        "1",
        "--connections",
        &order.clients.to_string(),
        "--duration",
        &format!("{}s", order.window.as_secs().max(1)),
        "--timeout",
        "30s",
        "--latency",
        &format!("http://{}{}", order.authority, order.path),
    ]
    .map(str::to_owned);
    fields.chain(usual).collect()
}

/// Reads its output; `None` when that is not a result.
pub fn read(printed: &str) -> Option<ToolResult> {
    let line = printed.lines().find(|line| line.contains(" requests in "))?;
    let all = number(line)? as u64;
    let mut tally = ToolResult { rate: number_after(printed, "Requests/sec:")?, ..ToolResult::default() };
    let wrong = number_after(printed, "Non-2xx or 3xx responses:").unwrap_or(0.0) as u64;
    tally.faults.note_many("status", wrong, || format!("wrk: {wrong} answers were not 2xx or 3xx"));
    if let Some(errors) = printed.lines().find_map(|line| line.trim().strip_prefix("Socket errors:")) {
        for part in errors.split(',') {
            let (kind, count) = part.trim().split_once(' ')?;
            tally.faults.note_many(kind, number(count)? as u64, || format!("wrk: {}", errors.trim()));
        }
    }
    tally.answered = all.saturating_sub(wrong);
    let distribution = printed.split("Latency Distribution").nth(1).unwrap_or_default();
    tally.p50 = percentile(distribution, "50%");
    tally.p99 = percentile(distribution, "99%");
    // Columns of the first table: average, deviation, maximum.
    tally.longest = printed
        .lines()
        .find_map(|line| line.trim().strip_prefix("Latency  "))
        .and_then(|line| line.split_whitespace().nth(2))
        .and_then(micros);
    Some(tally)
}

fn percentile(distribution: &str, label: &str) -> Option<f64> {
    let line = distribution.lines().find_map(|line| line.trim().strip_prefix(label))?;
    micros(line.trim())
}

/// A time as it prints it: `412.00us`, `1.01ms`, `2.50s`, `1.20m`.
fn micros(text: &str) -> Option<f64> {
    let value = number(text)?;
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(value * factor)
}

#[cfg(test)]
mod tests {
    use super::{micros, read};

    const GOOD: &str = include_str!("fixtures/wrk-4.1.0.txt");
    const STATUS: &str = include_str!("fixtures/wrk-4.1.0-503.txt");
    const SOCKET: &str = include_str!("fixtures/wrk-4.1.0-server-gone.txt");

    #[test]
    fn a_good_run_is_read() {
        let tally = read(GOOD).unwrap();
        assert_eq!((tally.answered, tally.rate), (111_993, 55_332.81));
        assert!(tally.faults.is_empty());
        assert_eq!((tally.p50, tally.p99, tally.longest), (Some(412.0), Some(5550.0), Some(9490.0)));
    }

    #[test]
    fn faults_are_read() {
        let tally = read(STATUS).unwrap();
        assert_eq!((tally.answered, tally.faults.kinds["status"]), (0, 20_406));
        let tally = read(SOCKET).unwrap();
        assert_eq!((tally.answered, tally.faults.total), (6743, 1999));
        assert_eq!((tally.faults.kinds["read"], tally.faults.kinds["write"]), (8, 1991));
    }

    #[test]
    fn other_text_is_no_result() {
        assert_eq!(read("unable to connect to 127.0.0.1:43471 Connection refused\n"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn times_have_units() {
        for (text, value) in [
            ("412.00us", Some(412.0)),
            ("1.01ms", Some(1010.0)),
            ("2.50s", Some(2.5e6)),
            ("1.00m", Some(6e7)),
            ("3", None),
        ] {
            assert_eq!(micros(text), value, "{text}");
        }
    }
}
