//! The benchmark client of grpc-go: calls of gRPC in a closed loop, on kept connections with a number of calls each.
//!
//! It ends at the first call that fails. Its server, of the same module, stands behind the targets.

use serde::{Deserialize, Serialize};

use super::{ToolOrder, ToolResult, number_after};

/// Its file: `go install` calls it `client`, so it has a folder of its own.
pub const NAME: &str = "grpc-benchmark/client";

/// The file of its server.
pub const SERVER: &str = "grpc-benchmark/server";

/// The method of its unary calls.
pub(super) const UNARY_PATH: &str = "/grpc.testing.BenchmarkService/UnaryCall";

/// The calls of a load of gRPC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrpcCalls {
    /// A call for each message and its answer.
    #[default]
    Unary,
    /// Calls that last: message and answer take turns on each.
    Stream,
}

/// Bytes of payload in the message of `unary_message`, and in its answer.
pub(super) const PAYLOAD: u8 = 100;

/// A `SimpleRequest` with its prefix: `response_size` (field 2), and `body` (field 2) of `payload` (field 3).
pub(super) fn unary_message() -> Vec<u8> {
    let mut message = vec![0, 0, 0, 0, PAYLOAD + 6, 0x10, PAYLOAD, 0x1a, PAYLOAD + 2, 0x12, PAYLOAD];
    message.extend([0; PAYLOAD as usize]);
    message
}

pub(super) fn args(order: &ToolOrder<'_>) -> Vec<String> {
    let port = order.authority.rsplit(':').next().unwrap_or_default();
    let calls = if order.calls == GrpcCalls::Unary { "unary" } else { "streaming" };
    let flags = [
        // It names the profiles that it writes.
        ("test_name", "weir-lab".to_owned()),
        ("port", port.to_owned()),
        ("rpc_type", calls.to_owned()),
        ("c", order.clients.to_string()),
        ("r", order.streams.to_string()),
        ("req", order.body.to_string()),
        ("resp", order.answer.to_string()),
        // Everything counts: the lab has warmed up before.
        ("w", "0".to_owned()),
        ("d", order.window.as_secs().max(1).to_string()),
    ];
    flags.into_iter().map(|(name, value)| format!("-{name}={value}")).collect()
}

/// Reads its output for `order`; `None` when that is not a result. It reports calls, or messages of a stream, per second.
pub(super) fn read(printed: &str, order: &ToolOrder<'_>) -> Option<ToolResult> {
    if let Some(line) = printed.lines().find(|line| line.contains(" FATAL: ")) {
        let mut result = ToolResult::default();
        result.faults.note_many("call", 1, || line.to_owned());
        return Some(result);
    }
    let rate = number_after(printed, "qps:")?;
    let times = printed.lines().find_map(|line| line.strip_prefix("Latency: (50/90/99 %ile): "))?;
    let times: Vec<Option<f64>> = times.split('/').map(micros).collect();
    let seconds = order.window.as_secs().max(1);
    Some(ToolResult {
        answered: (rate * seconds as f64).round() as u64,
        rate,
        p50: *times.first()?,
        p99: *times.get(2)?,
        ..ToolResult::default()
    })
}

/// A length of time as Go prints it, with one unit: `73.391µs`, `1.2s`.
fn micros(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let value: f64 = text.strip_suffix(unit)?.parse().ok()?;
    let factor = match unit {
        "ns" => 0.001,
        "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(value * factor)
}

#[cfg(test)]
mod tests {
    use super::{GrpcCalls, micros, read, unary_message};
    use crate::load::tool::ToolOrder;
    use std::path::Path;
    use std::time::Duration;

    fn order() -> ToolOrder<'static> {
        ToolOrder {
            authority: "127.0.0.1:8001",
            path: "/",
            body: 100,
            answer: 100,
            calls: GrpcCalls::Unary,
            clients: 10,
            streams: 10,
            is_secure: false,
            suite: None,
            rate: None,
            window: Duration::from_secs(2),
            dir: Path::new("/run"),
        }
    }

    #[test]
    fn a_good_run_is_read() {
        let printed = "qps: 58011\nLatency: (50/90/99 %ile): 73.391µs/114.329µs/2.759411ms\nClient CPU utilization: 335ms\n";
        let result = read(printed, &order()).unwrap();
        assert_eq!((result.answered, result.rate), (116_022, 58_011.0));
        assert_eq!((result.p50, result.p99), (Some(73.391), Some(2759.411)));
        assert!(result.faults.is_empty());
        assert_eq!([micros("9000ns"), micros("1.5s"), micros("1m2s")], [Some(9.0), Some(1_500_000.0), None]);
    }

    #[test]
    fn a_call_that_fails_is_a_fault() {
        let printed = "2026/11/25 12:53:13 FATAL: [benchmark] RPC failed: rpc error: code = Unavailable desc = closed\n";
        let result = read(printed, &order()).unwrap();
        assert_eq!((result.answered, result.faults.kinds["call"]), (0, 1));
        assert!(result.faults.examples[0].contains("Unavailable"));
        assert_eq!(read("flag provided but not defined: -x\n", &order()), None);
    }

    #[test]
    fn the_first_call_is_a_whole_message() {
        let message = unary_message();
        assert_eq!(message.len(), 5 + usize::from(message[4]));
        assert_eq!(message.len(), 111);
    }
}
