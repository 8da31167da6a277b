//! `vegeta`: a constant rate whether or not the target keeps up, latency from the intended start; without a rate, a closed loop.
//!
//! Two processes and a pipe: `attack` writes down every request, `report` reads that and prints JSON.

use std::path::Path;

use serde_json::Value;

use super::{ToolOrder, ToolResult};

/// Arguments of the shell that connects the two.
pub(super) fn args(program: &Path, order: &ToolOrder<'_>) -> Vec<String> {
    let (ToolOrder { authority, path, clients, .. }, program) = (order, program.display());
    // Rate 0 is as fast as its workers can.
    let rate = order.rate.map_or_else(|| "0".to_owned(), |rate| format!("{rate:.0}"));
    let line = format!(
        "echo 'GET http://{authority}{path}' | '{program}' -cpus=1 attack -rate={rate} -duration={}ms -timeout=30s -redirects=-1 \
         -workers={clients} -max-workers={clients} -max-connections={clients} -connections={clients} | '{program}' report -type=json",
        order.window.as_millis()
    );
    vec!["-c".to_owned(), line]
}

/// Reads its output; `None` when that is not a result.
pub fn read(printed: &str) -> Option<ToolResult> {
    let report: Value = serde_json::from_str(printed[printed.find("{\"latencies\"")?..].trim()).ok()?;
    let mut tally = ToolResult { rate: report["throughput"].as_f64()?, ..ToolResult::default() };
    let first = report["errors"][0].as_str().unwrap_or("no reason");
    for (status, count) in report["status_codes"].as_object()? {
        let count = count.as_u64()?;
        match status.as_str() {
            // No answer.
            "0" => tally.faults.note_many("failed", count, || format!("vegeta: {first}")),
            good if good.starts_with('2') => tally.answered += count,
            _ => tally.faults.note_many("status", count, || format!("vegeta: {count} answers {status}")),
        }
    }
    let micros = |name: &str| {
        let nanos = report["latencies"][name].as_f64()?;
        (tally.answered > 0).then_some(nanos / 1000.0)
    };
    (tally.p50, tally.p99, tally.longest) = (micros("50th"), micros("99th"), micros("max"));
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::{args, read};
    use crate::load::tool::ToolOrder;
    use std::path::Path;
    use std::time::Duration;

    const GOOD: &str = include_str!("fixtures/vegeta-12.12.0.txt");
    const STATUS: &str = include_str!("fixtures/vegeta-12.12.0-404.txt");
    const REFUSED: &str = include_str!("fixtures/vegeta-12.12.0-refused.txt");

    #[test]
    fn a_good_run_is_read() {
        let tally = read(GOOD).unwrap();
        assert_eq!((tally.answered, tally.rate.round()), (999, 357.0));
        assert!(tally.faults.is_empty());
        assert_eq!(
            [tally.p50, tally.p99, tally.longest],
            [Some(853.151), Some(1_228_617.666), Some(2_057_933.812)]
        );
    }

    #[test]
    fn faults_are_read() {
        let tally = read(STATUS).unwrap();
        assert_eq!((tally.answered, tally.rate, tally.faults.kinds["status"]), (0, 0.0, 100));
        let tally = read(REFUSED).unwrap();
        assert_eq!((tally.answered, tally.faults.kinds["failed"], tally.p50), (0, 100, None));
        assert!(tally.faults.examples[0].contains("connection refused"), "{}", tally.faults);
    }

    #[test]
    fn other_text_is_no_result() {
        for text in ["", "Usage: vegeta [global flags]", "{\"latencies\":", "{\"latencies\":{}}"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_rate_is_constant_and_without_one_the_loop_is_closed() {
        let window = Duration::from_millis(1500);
        let order = ToolOrder {
            authority: "127.0.0.1:1",
            path: "/",
            body: 0,
            answer: 0,
            calls: super::super::grpc_client::GrpcCalls::Unary,
            clients: 7,
            streams: 1,
            is_secure: false,
            suite: None,
            rate: None,
            window,
            dir: Path::new("/"),
        };
        let line = |rate| args(Path::new("/bin/vegeta"), &ToolOrder { rate, ..order })[1].clone();
        assert!(line(None).contains(" -rate=0 -duration=1500ms ") && line(None).contains(" -max-workers=7 "));
        assert!(line(Some(99.6)).contains(" -rate=100 "));
    }
}
