//! Times of conditions and maps on this machine: `cargo run --profile dist -p weir-conditions --example conditions_and_maps`.
//!
//! A condition of five comparisons, and a map with a million entries: how long it takes to build, to ask, and what it takes in memory. It compares
//! with nothing, so its figures are for one machine.

#![expect(clippy::disallowed_methods, reason = "a program of its own that measures time")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use weir_conditions::{
    Expression, Facts, MapKind, MapMatch, NameError, Names, ValueMap, ValueMapBuilder, ValueType,
};

/// What an exchange of this program has.
#[derive(Debug, Clone, Copy)]
enum Value {
    Method,
    Path,
    UserAgent,
    ClientAddress,
    Status,
}

struct ExampleNames;

impl Names for ExampleNames {
    type Value = Value;

    fn resolve(&self, parts: &[&str]) -> Result<(Value, ValueType), NameError> {
        match parts {
            ["method"] => Ok((Value::Method, ValueType::Text)),
            ["path"] => Ok((Value::Path, ValueType::Text)),
            ["header", "user-agent"] => Ok((Value::UserAgent, ValueType::Text)),
            ["client_address"] => Ok((Value::ClientAddress, ValueType::Address)),
            ["status"] => Ok((Value::Status, ValueType::Number)),
            _ => Err(NameError { message: format!("there is no `{}`", parts.join(".")), help: None }),
        }
    }
}

struct Exchange;

impl Facts<Value> for Exchange {
    fn any_text(&self, value: &Value, mut passes: impl FnMut(&[u8]) -> bool) -> bool {
        passes(match value {
            Value::Method => b"GET",
            Value::Path => b"/api/v1/users/42/orders",
            Value::UserAgent => b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            Value::ClientAddress | Value::Status => b"",
        })
    }

    fn is_present(&self, _value: &Value) -> bool {
        true
    }

    fn number(&self, _value: &Value) -> Option<i64> {
        Some(503)
    }

    fn address(&self, _value: &Value) -> Option<IpAddr> {
        Some(Ipv4Addr::new(192, 0, 2, 7).into())
    }

    fn flag(&self, _value: &Value) -> bool {
        true
    }
}

const FIVE: &str = r#"method in ["GET", "HEAD"] && path.startsWith("/api/") && header["user-agent"].contains("Firefox")
    && client_address in ["192.0.2.0/24", "10.0.0.0/8"] && status >= 500"#;

const TIMES: u32 = 1_000_000;
const ENTRIES: u32 = 1_000_000;

/// How long one takes, in nanoseconds: the least of five rounds.
fn nanos(mut once: impl FnMut(u32) -> bool) -> u128 {
    let mut round = || {
        let began = Instant::now();
        assert!((0..TIMES).all(|number| black_box(once(number))), "the answer is known");
        began.elapsed()
    };
    (0..5).map(|_| round()).min().unwrap_or(Duration::ZERO).as_nanos() / u128::from(TIMES)
}

fn key(number: u32) -> String {
    format!("customer-{number}.shop.example.com")
}

fn main() {
    let five = Expression::new(FIVE, &ExampleNames).expect("it is well-formed");
    println!("a condition of five comparisons: {} ns", nanos(|_| five.holds(black_box(&Exchange))));

    let entries: Vec<(String, String)> =
        (0..ENTRIES).map(|number| (key(number), format!("backend-{}", number % 1000))).collect();
    let began = Instant::now();
    let mut builder = ValueMapBuilder::<()>::new();
    builder.reserve(MapKind::Exact, entries.len());
    for (key, value) in &entries {
        builder.insert_text(MapKind::Exact, key, value.as_bytes()).expect("it is new");
    }
    let map: ValueMap<()> = builder.build();
    println!(
        "a map of {ENTRIES} hosts: built in {} ms, {} MB",
        began.elapsed().as_millis(),
        map.heap_bytes() / 1_000_000
    );
    let asked: Vec<String> =
        (0..1024_u32).map(|number| key(number.wrapping_mul(2_654_435_761) % ENTRIES)).collect();
    let once = |number: u32| {
        let key = &asked[(number % 1024) as usize];
        matches!(map.get(black_box(key.as_bytes())), Some(MapMatch::Text(_)))
    };
    println!("a lookup in it: {} ns", nanos(once));
}
