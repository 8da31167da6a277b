//! The list of failures, and the message for an unknown id.

use serde_json::Value;

use super::values::{millis, number};
use crate::output::shown;

/// Why an id may not be known.
pub(super) fn unknown(id: &str, response: &Value) -> String {
    let kept = &response["kept"];
    let (exchanges, failures) = (number(&kept["exchanges_per_worker"]), number(&kept["failures_per_worker"]));
    if exchanges == 0 && failures == 0 {
        return format!("{id} is not known: this Weir keeps nothing, its `recorder` is off");
    }
    let since = shown(&kept["since"]);
    let silent = match number(&response["silent_workers"]) {
        0 => String::new(),
        silent => format!(", or one of {silent} workers has it that did not answer in time"),
    };
    format!(
        "{id} is not known: it may be older than the last {exchanges} exchanges and {failures} failures of a worker, \
         be from before this Weir started ({since}), or have gone through another instance{silent}"
    )
}

/// The last failures, one a line.
pub(super) fn list(response: &Value) -> String {
    let failures = response["failures"].as_array().map_or(&[][..], Vec::as_slice);
    if failures.is_empty() {
        return format!("No failure since {}.\n", shown(&response["kept"]["since"]));
    }
    let mut text = String::new();
    for line in failures {
        let asked = [&line["method"], &line["host"], &line["path"]].map(shown);
        let asked = match asked {
            [method, _, _] if method.is_empty() => format!("a {}", shown(&line["kind"])),
            [method, host, path] => format!("{method} {host}{path}"),
        };
        text.push_str(&format!(
            "{}  {:<28} {:>10} ms  {}  {}\n",
            shown(&line["time"]),
            shown(&line["failure"]["reason"]),
            millis(&line["total_ms"]),
            shown(&line["id"]),
            asked,
        ));
    }
    text.push_str("\nTo explain one: weir why ID\n");
    text
}
