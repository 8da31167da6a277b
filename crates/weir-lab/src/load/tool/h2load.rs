//! `h2load`, here with HTTP/1.1: kept connections, a closed loop; of latency it tells the mean and the longest.

use super::{ToolOrder, ToolResult, number, number_after};

pub(super) fn args(order: &ToolOrder<'_>) -> Vec<String> {
    [
        "--h1",
        "--threads=1",
        &format!("--clients={}", order.clients),
        &format!("--duration={}", order.window.as_secs().max(1)),
        "--connection-active-timeout=30",
        &format!("http://{}{}", order.authority, order.path),
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Reads what it prints; `None` when that is not a result.
pub fn read(printed: &str) -> Option<ToolResult> {
    let counts = printed.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let count = |word: &str| {
        let part = counts.split(", ").find(|part| part.ends_with(word))?;
        number(part).map(|count| count as u64)
    };
    let mut tally = ToolResult::default();
    let statuses = printed.lines().find_map(|line| line.strip_prefix("status codes: "))?;
    tally.answered = number(statuses)? as u64;
    let other = count(" done")?.saturating_sub(tally.answered);
    tally.faults.note_many("status", other, || format!("h2load: {}", statuses.trim()));
    for word in [" errored", " timeout"] {
        let failed = count(word)?;
        tally.faults.note_many("failed", failed, || format!("h2load: {}", counts.trim()));
    }
    // Its rate is that of all answers, whatever they say.
    let rate = number_after(printed, "finished in ").and_then(|_| {
        let line = printed.lines().find(|line| line.starts_with("finished in "))?;
        number(line.split(", ").nth(1)?)
    })?;
    tally.rate = rate * tally.answered as f64 / count(" done")?.max(1) as f64;
    let times = printed.lines().find_map(|line| line.strip_prefix("time for request:"))?;
    tally.longest = times.split_whitespace().nth(1).and_then(micros).filter(|_| tally.answered > 0);
    Some(tally)
}

/// A time as it prints it: `43us`, `8.70ms`, `1.20s`.
fn micros(text: &str) -> Option<f64> {
    let factor = match text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.') {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(number(text)? * factor)
}

#[cfg(test)]
mod tests {
    use super::read;

    const GOOD: &str = include_str!("fixtures/h2load-1.52.0.txt");
    const STATUS: &str = include_str!("fixtures/h2load-1.52.0-503.txt");
    const REFUSED: &str = include_str!("fixtures/h2load-1.52.0-refused.txt");

    #[test]
    fn a_good_run_is_read() {
        let tally = read(GOOD).unwrap();
        assert_eq!((tally.answered, tally.rate), (55_904, 27_952.0));
        assert!(tally.faults.is_empty());
        assert_eq!((tally.p50, tally.p99, tally.longest), (None, None, Some(12_670.0)));
    }

    #[test]
    fn faults_are_read() {
        let tally = read(STATUS).unwrap();
        assert_eq!((tally.answered, tally.rate, tally.faults.kinds["status"]), (0, 0.0, 45_953));
        // It does not count connections that nobody took: there is no answer, and that is all it says.
        let tally = read(REFUSED).unwrap();
        assert_eq!((tally.answered, tally.faults.total, tally.longest), (0, 0, None));
    }

    #[test]
    fn other_text_is_no_result() {
        assert_eq!(read("starting benchmark...\n"), None);
        assert_eq!(read(""), None);
    }
}
