//! `siege`: one thread per client, a new connection per request by default; prints JSON.

use anyhow::Context as _;

use super::{ToolOrder, ToolResult, number_after};

/// Name of its configuration file.
const RC: &str = "siegerc";

/// Clients of one process: with their descriptors it stays well below FD_SETSIZE.
pub(super) const CLIENTS_MAX: usize = 500;

/// Writes its configuration, once for all processes.
pub(super) fn prepare(order: &ToolOrder<'_>) -> anyhow::Result<()> {
    // Its limit of 255 clients is lifted, and it is not to give up after 1024 failures; a request may take 30 s.
    let text = format!(
        "verbose = false\nlogging = false\njson_output = true\nlimit = {CLIENTS_MAX}\ntimeout = 30\nfailures = 1000000000\n"
    );
    std::fs::write(order.dir.join(RC), text).context("cannot write siege's configuration")
}

pub(super) fn args(order: &ToolOrder<'_>) -> Vec<String> {
    vec![
        "--rc".to_owned(),
        order.dir.join(RC).display().to_string(),
        "--benchmark".to_owned(),
        format!("--concurrent={}", order.clients),
        format!("--time={}S", order.window.as_secs().max(1)),
        format!("http://{}{}", order.authority, order.path),
    ]
}

/// Reads its output; `None` when that is not a result.
pub fn read(printed: &str) -> Option<ToolResult> {
    let json = &printed[printed.rfind("{\t\"transactions\"")?..];
    let field = |name: &str| number_after(json, &format!("\"{name}\":"));
    let failed = field("failed_transactions")? as u64;
    let mut tally = ToolResult {
        answered: field("transactions")? as u64,
        rate: field("transaction_rate")?,
        longest: Some(field("longest_transaction")? * 1e6),
        ..ToolResult::default()
    };
    let reason = printed.lines().find(|line| line.contains("error")).unwrap_or("failed transactions");
    let reason = reason.replace(|letter: char| letter.is_control(), "");
    tally.faults.note_many("failed", failed, || format!("siege: {reason}"));
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::read;

    const GOOD: &str = include_str!("fixtures/siege-4.0.7.txt");
    const STATUS: &str = include_str!("fixtures/siege-4.0.7-503.txt");

    #[test]
    fn a_good_run_is_read() {
        let tally = read(GOOD).unwrap();
        assert_eq!((tally.answered, tally.rate, tally.longest), (470, 1468.75, Some(50_000.0)));
        assert!(tally.faults.is_empty());
    }

    #[test]
    fn faults_are_read() {
        let tally = read(STATUS).unwrap();
        assert_eq!((tally.answered, tally.faults.total), (0, 1542));
        let with_errors =
            format!("[error] socket: unable to connect sock.c:282: Connection refused\n{STATUS}");
        assert!(read(&with_errors).unwrap().faults.examples[0].contains("Connection refused"));
    }

    #[test]
    fn other_text_is_no_result() {
        assert_eq!(read("siege: unrecognized option\n"), None);
    }
}
