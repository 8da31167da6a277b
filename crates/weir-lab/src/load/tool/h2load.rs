//! `h2load`: kept connections of HTTP/2 with a number of streams each, a closed loop.

use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{ToolOrder, ToolResult, number};
use crate::load::exchange::OWN_FIELDS;

pub(super) fn args(order: &ToolOrder<'_>) -> Vec<String> {
    let scheme = if order.is_secure { "https" } else { "http" };
    let fields = OWN_FIELDS.lines().flat_map(|field| ["--header", field]).map(str::to_owned);
    let usual = [
        "--threads=1",
        &format!("--clients={}", order.clients),
        &format!("--max-concurrent-streams={}", order.streams),
        &format!("--duration={}", order.window.as_secs().max(1)),
        &format!("{scheme}://{}{}", order.authority, order.path),
    ]
    .map(str::to_owned);
    fields.chain(usual).collect()
}

/// Sends one request, to see whether a target answers at all.
///
/// # Errors
/// What is wrong, as the tool says it.
pub fn once(authority: &str, is_secure: bool) -> anyhow::Result<()> {
    let installed = super::installed(super::LoadTool::H2load);
    let installed = installed.with_context(|| format!("h2load is missing: {}", super::HOW_TO_GET))?;
    let scheme = if is_secure { "https" } else { "http" };
    let mut command = Command::new(&installed.program);
    let output =
        command.args(["--requests=1", "--clients=1", &format!("{scheme}://{authority}/")]).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let is_answered = read(&printed).is_some_and(|result| result.answered == 1);
    ensure!(is_answered, "h2load has no answer: {printed}");
    Ok(())
}

/// Reads its output; `None` when that is not a result. It tells no percentiles.
pub fn read(printed: &str) -> Option<ToolResult> {
    let line = |start: &str| printed.lines().find_map(|line| line.strip_prefix(start));
    let counts = line("requests: ")?;
    let count = |word: &str| {
        let mut parts = counts.split(", ").map(str::trim);
        parts.find_map(|part| Some(number(part.strip_suffix(word)?)? as u64))
    };
    let rate = line("finished in ")?.split(", ").find_map(|part| part.strip_suffix(" req/s"))?;
    let mut result = ToolResult { rate: number(rate)?, ..ToolResult::default() };
    let (started, done) = (count(" started")?, count(" done")?);
    result.answered = count(" succeeded")?;
    let failed = count(" failed")?;
    result.faults.note_many("status", failed, || format!("h2load: {failed} answers were not 2xx or 3xx"));
    for kind in ["errored", "timeout"] {
        let times = count(&format!(" {kind}"))?;
        result.faults.note_many(kind, times, || format!("h2load: {times} requests {kind}"));
    }
    if started > 0 && done == 0 {
        result.faults.note_many("connect", started, || "h2load: no answer at all".to_owned());
    }
    result.longest = line("time for request:").and_then(|times| micros(times.split_whitespace().nth(1)?));
    Some(result)
}

/// A time as it prints it: `204us`, `11.01ms`, `1.20s`.
fn micros(text: &str) -> Option<f64> {
    let value = number(text)?;
    match text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.') {
        "us" => Some(value),
        "ms" => Some(value * 1e3),
        "s" => Some(value * 1e6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    const GOOD: &str = include_str!("fixtures/h2load-1.52.0.txt");
    const STATUS: &str = include_str!("fixtures/h2load-1.52.0-404.txt");
    const REFUSED: &str = include_str!("fixtures/h2load-1.52.0-refused.txt");

    #[test]
    fn a_good_run_is_read() {
        let result = read(GOOD).unwrap();
        assert_eq!((result.answered, result.rate, result.longest), (32_351, 16_175.5, Some(11_010.0)));
        assert!(result.faults.is_empty());
    }

    #[test]
    fn faults_are_read() {
        let result = read(STATUS).unwrap();
        assert_eq!((result.answered, result.faults.kinds["status"]), (0, 20_936));
        let result = read(REFUSED).unwrap();
        assert_eq!((result.answered, result.faults.kinds["connect"]), (0, 20));
    }

    #[test]
    fn other_text_is_no_result() {
        assert_eq!(read("h2load: unknown option\n"), None);
        assert_eq!(read(""), None);
    }
}
