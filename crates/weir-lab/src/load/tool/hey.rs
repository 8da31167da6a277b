//! `hey`: kept connections, a closed loop, latency percentiles in tenths of a millisecond.

use super::{ToolOrder, ToolResult, number, number_after};

pub(super) fn args(order: &ToolOrder<'_>) -> Vec<String> {
    [
        "-z",
        &format!("{}s", order.window.as_secs().max(1)),
        "-c",
        &order.clients.to_string(),
        "-t",
        "30",
        "-cpus",
        "1",
        "-disable-redirects",
        &format!("http://{}{}", order.authority, order.path),
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Reads what it prints; `None` when that is not a result.
pub fn read(printed: &str) -> Option<ToolResult> {
    let mut tally = ToolResult { rate: number_after(printed, "Requests/sec:")?, ..ToolResult::default() };
    for (status, count) in counts(printed, "Status code distribution:") {
        if (200.0..300.0).contains(&number(status)?) {
            tally.answered += count;
        } else {
            tally.faults.note_many("status", count, || format!("hey: {count} answers {status}"));
        }
    }
    // `[3]	Get "http://...": dial tcp ...: connection refused`
    for (_, count) in counts(printed, "Error distribution:") {
        tally.faults.note_many("failed", count, || format!("hey: {count} requests failed"));
    }
    let micros = |label: &str| {
        let seconds = number_after(printed, label)?;
        (tally.answered > 0).then_some(seconds * 1e6)
    };
    (tally.p50, tally.p99, tally.longest) = (micros("50% in"), micros("99% in"), micros("Slowest:"));
    // Its rate is that of all requests, failed ones included.
    let all = tally.answered + tally.faults.total;
    tally.rate *= tally.answered as f64 / all.max(1) as f64;
    Some(tally)
}

/// The lines `[what] number rest` below a heading: of statuses the number comes behind, of errors it stands in the brackets.
fn counts<'a>(printed: &'a str, heading: &str) -> Vec<(&'a str, u64)> {
    let lines = printed.split(heading).nth(1).unwrap_or_default().lines().skip(1);
    let of_line = |line: &'a str| {
        let (bracketed, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
        let count = if rest.trim().ends_with(" responses") { number(rest) } else { number(bracketed) };
        Some((bracketed, count? as u64))
    };
    lines.map_while(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::read;

    const GOOD: &str = include_str!("fixtures/hey-0.1.4.txt");
    const STATUS: &str = include_str!("fixtures/hey-0.1.4-503.txt");
    const REFUSED: &str = include_str!("fixtures/hey-0.1.4-refused.txt");

    #[test]
    fn a_good_run_is_read() {
        let tally = read(GOOD).unwrap();
        assert_eq!((tally.answered, tally.rate), (27_080, 13_498.575_1));
        assert!(tally.faults.is_empty());
        assert_eq!((tally.p50, tally.p99, tally.longest), (Some(2600.0), Some(14_200.0), Some(22_400.0)));
    }

    #[test]
    fn faults_are_read() {
        let tally = read(STATUS).unwrap();
        assert_eq!((tally.answered, tally.rate, tally.faults.kinds["status"]), (0, 0.0, 12_811));
        let tally = read(REFUSED).unwrap();
        assert_eq!((tally.answered, tally.faults.kinds["failed"], tally.p50), (0, 16_128, None));
    }

    #[test]
    fn other_text_is_no_result() {
        assert_eq!(read("Usage: hey [options...] <url>\n"), None);
        assert_eq!(read(""), None);
    }
}
