//! ApacheBench, `ab -k`: HTTP/1.0 with keep-alive; ends at the first connection error.

use super::{ToolOrder, ToolResult, number, number_after};

pub(super) fn args(order: &ToolOrder<'_>) -> Vec<String> {
    [
        "-q",
        "-k",
        "-c",
        &order.clients.to_string(),
        "-t",
        &order.window.as_secs().max(1).to_string(),
        // After -t, which sets it to 50 000. It reserves memory for this many results.
        "-n",
        "5000000",
        "-s",
        "30",
        &format!("http://{}{}", order.authority, order.path),
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Reads its output; `None` when that is not a result.
pub fn read(printed: &str) -> Option<ToolResult> {
    let Some(complete) = number_after(printed, "Complete requests:") else { return read_aborted(printed) };
    let failed = number_after(printed, "Failed requests:")? as u64;
    let wrong = number_after(printed, "Non-2xx responses:").unwrap_or(0.0) as u64;
    let mut tally =
        ToolResult { rate: number_after(printed, "Requests per second:")?, ..ToolResult::default() };
    let parts = printed.lines().find(|line| line.trim().starts_with("(Connect:")).unwrap_or("(all)");
    tally.faults.note_many("failed", failed, || format!("ab: {failed} failed {}", parts.trim()));
    tally.faults.note_many("status", wrong, || format!("ab: {wrong} answers were not 2xx"));
    tally.answered = (complete as u64).saturating_sub(failed + wrong);
    tally.p50 = percentile(printed, "50%");
    tally.p99 = percentile(printed, "99%");
    tally.longest = percentile(printed, "100%");
    Some(tally)
}

/// It gave up at a connection error, and says only how many requests it had done.
fn read_aborted(printed: &str) -> Option<ToolResult> {
    let reason = printed[printed.find("apr_")?..].lines().next()?;
    let answered = number_after(printed, "Total of").unwrap_or(0.0) as u64;
    let mut tally = ToolResult { answered, ..ToolResult::default() };
    tally.faults.note_many("aborted", 1, || format!("ab: {}", reason.trim()));
    Some(tally)
}

/// A line of its table, in whole milliseconds, as µs.
fn percentile(printed: &str, label: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.trim().strip_prefix(label))?;
    Some(number(line)? * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::read;

    const GOOD: &str = include_str!("fixtures/ab-2.3.txt");
    const STATUS: &str = include_str!("fixtures/ab-2.3-503.txt");
    const FAILED: &str = include_str!("fixtures/ab-2.3-failed.txt");
    const REFUSED: &str = include_str!("fixtures/ab-2.3-refused.txt");

    #[test]
    fn a_good_run_is_read() {
        let tally = read(GOOD).unwrap();
        assert_eq!((tally.answered, tally.rate), (36_993, 36_983.79));
        assert!(tally.faults.is_empty());
        assert_eq!((tally.p50, tally.p99, tally.longest), (Some(1000.0), Some(7000.0), Some(10_000.0)));
    }

    #[test]
    fn faults_are_read() {
        let tally = read(STATUS).unwrap();
        assert_eq!((tally.answered, tally.faults.kinds["status"]), (0, 200));
        let tally = read(FAILED).unwrap();
        assert_eq!((tally.answered, tally.faults.kinds["failed"]), (115, 85));
        assert!(tally.faults.examples[0].contains("Length: 85"), "{:?}", tally.faults.examples);
        let tally = read(REFUSED).unwrap();
        assert_eq!((tally.answered, tally.faults.total), (0, 1));
        assert!(tally.faults.examples[0].contains("Connection refused"));
    }

    #[test]
    fn other_text_is_no_result() {
        assert_eq!(read("ab: wrong number of arguments\n"), None);
    }
}
