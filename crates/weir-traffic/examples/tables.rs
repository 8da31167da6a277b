//! What a table of counters costs: time for each counted request, and memory for each entry.
//!
//! `cargo run --profile dist -p weir-traffic --example tables`; with a number, so many requests of 1 000 keys and nothing else, for a count of
//! instructions.

use std::hint::black_box;
use std::time::{Duration, Instant};

use weir_traffic::table::{CounterTable, ExchangeResult, StoredCounter, TableCounter};

const ROUNDS: usize = 5;
const REQUESTS: u64 = 2_000_000;

fn main() {
    let stored = ["http_req_rate(10s)", "http_err_rate(10s)", "gpc0", "conn_cur", "bytes_out_rate(1m)"];
    let stored: Vec<StoredCounter> = stored.iter().map(|text| text.parse().expect("a counter")).collect();
    if let Some(requests) = std::env::args().nth(1).and_then(|count| count.parse::<u64>().ok()) {
        let table = CounterTable::new(&stored, 2_000_000, Duration::from_secs(600));
        (0..requests).for_each(|nth| request(&table, scattered(nth % 1_000), 2 + nth / 1_000));
        return;
    }
    for keys in [1_000_u64, 100_000, 1_000_000] {
        let before = resident_bytes();
        let table = CounterTable::new(&stored, 2_000_000, Duration::from_secs(600));
        for key in 0..keys {
            request(&table, scattered(key), 1);
        }
        let bytes = resident_bytes().saturating_sub(before);
        let nanos = |ask: &dyn Fn(u64)| {
            let round = |_| {
                #[expect(clippy::disallowed_methods, reason = "an example measures time")]
                let began = Instant::now();
                (0..REQUESTS).for_each(ask);
                began.elapsed().as_nanos() as f64 / REQUESTS as f64
            };
            (0..ROUNDS).map(round).fold(f64::MAX, f64::min)
        };
        let counted = nanos(&|nth| request(&table, scattered(nth % keys), 2 + nth / 1_000));
        let asked = nanos(&|nth| {
            black_box(table.value(scattered(nth % keys), TableCounter::RequestRate, 2 + nth / 1_000));
        });
        println!(
            "{keys} keys: {counted:.0} ns for a request, {asked:.0} ns for a question, {} bytes for an entry",
            bytes / keys
        );
    }
}

fn request(table: &CounterTable, key: u64, now_ms: u64) {
    if table.begin(key, true, now_ms, || b"192.0.2.123".to_vec()) {
        table.finish(key, ExchangeResult { status: 200, bytes_in: 100, bytes_out: 1_000 }, now_ms);
    }
}

/// A number like a hash.
fn scattered(key: u64) -> u64 {
    let key = (key ^ key >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (key ^ key >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
