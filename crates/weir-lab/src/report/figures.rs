//! All figures of all rounds as CSV (RFC 4180), one a line, in base units: µs, bytes, percent; those that do not count are void.

use super::Run;

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

/// A field in quotation marks, those in it doubled.
fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}
