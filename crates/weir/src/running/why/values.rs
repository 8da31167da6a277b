//! Numbers of an answer as a report shows them.

use serde_json::Value;

/// A count; 0 where there is none.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Milliseconds with as many digits as mean something.
pub(super) fn millis(value: &Value) -> String {
    let millis = value.as_f64().unwrap_or(0.0);
    if millis < 100.0 { format!("{millis:.3}") } else { format!("{millis:.0}") }
}
