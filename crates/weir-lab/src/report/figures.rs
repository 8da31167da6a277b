//! All figures of all rounds as CSV (RFC 4180), one a line, in base units: µs, bytes, percent; those that do not count are void.
//! What happened second by second, and single requests, are files of their own.

use crate::load::Second;
use crate::results::measurement::Measurement;
use crate::results::run::Run;

/// The file, its heading included.
///
/// # Errors
/// When a figure has no name, which cannot be.
pub(super) fn csv(run: &Run) -> anyhow::Result<String> {
    let mut text = String::from("case,target,round,figure,value,counts\r\n");
    for measurement in run.measurements.iter().filter(|measurement| measurement.failure.is_none()) {
        for (metric, value) in &measurement.values {
            let name = serde_json::to_value(metric)?;
            let name = name.as_str().unwrap_or_default();
            let case = quoted(&measurement.case);
            let counts = if measurement.void.contains(metric) { "void" } else { "yes" };
            let line = format!(
                "{case},{},{},{name},{value},{counts}\r\n",
                quoted(&measurement.target),
                measurement.round
            );
            text.push_str(&line);
        }
    }
    Ok(text)
}

/// What happened second by second; `None` where nothing was noted.
pub(super) fn seconds(run: &Run) -> Option<String> {
    let mut text = String::from("case,target,round,second,requests,errors,p50,p99\r\n");
    let heading = text.len();
    for measurement in run.measurements.iter().filter(|measurement| measurement.failure.is_none()) {
        let start = line_start(measurement);
        for (number, second) in (1_u32..).zip(&measurement.seconds) {
            let Second { requests, errors, p50, p99 } = second;
            text.push_str(&format!("{start},{number},{requests},{errors},{p50},{p99}\r\n"));
        }
    }
    (text.len() > heading).then_some(text)
}

/// The response time of each request; `None` where none was noted.
pub(super) fn requests(run: &Run) -> Option<String> {
    let mut text = String::from("case,target,round,request,response-time\r\n");
    let heading = text.len();
    for measurement in run.measurements.iter().filter(|measurement| measurement.failure.is_none()) {
        let start = line_start(measurement);
        for (number, micros) in (1_u32..).zip(&measurement.responses) {
            text.push_str(&format!("{start},{number},{micros}\r\n"));
        }
    }
    (text.len() > heading).then_some(text)
}

fn line_start(measurement: &Measurement) -> String {
    format!("{},{},{}", quoted(&measurement.case), quoted(&measurement.target), measurement.round)
}

/// A field in quotation marks, those in it doubled.
fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}
