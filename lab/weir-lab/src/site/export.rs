//! Latencies as the plotters of HdrHistogram read them: percentiles with their times in milliseconds, a file for each phase.

use std::path::Path;

use anyhow::Context as _;
use hdrhistogram::Histogram;

/// Nanoseconds of a millisecond.
const MILLI: f64 = 1e6;

/// How finely percentiles are taken: so many for each halving of what is left until 100 %.
const TICKS: u32 = 5;

/// The text of a file.
pub(super) fn percentiles(latency: &Histogram<u64>) -> String {
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut total = 0;
    for step in latency.iter_quantiles(TICKS) {
        total += step.count_since_last_iteration();
        let (value, at) = (step.value_iterated_to() as f64 / MILLI, step.quantile_iterated_to());
        if at < 1.0 {
            text.push_str(&format!("{value:12.3} {at:2.12} {total:10} {:14.2}\n", 1.0 / (1.0 - at)));
        } else {
            text.push_str(&format!("{value:12.3} {at:2.12} {total:10}\n"));
        }
    }
    let milli = |value: f64| value / MILLI;
    text.push_str(&format!(
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n#[Max     = {:12.3}, Total count    = {:12}]\n\
         #[Buckets = {:12}, SubBuckets     = {:12}]\n",
        milli(latency.mean()),
        milli(latency.stdev()),
        milli(latency.max() as f64),
        latency.len(),
        latency.buckets(),
        // As many as three digits take.
        2048
    ));
    text
}

/// Writes a file for each of these, in `folder`.
///
/// # Errors
/// When one cannot be written.
pub(super) fn write(latencies: &[(String, Histogram<u64>)], folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (case, latency) in latencies {
        let name: String =
            case.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        let name = if name.is_empty() { "latency".to_owned() } else { format!("latency-{name}") };
        let file = folder.join(format!("{name}.hgrm"));
        std::fs::write(&file, percentiles(latency))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::percentiles;
    use crate::load::driver::histogram;

    #[test]
    fn percentiles_rise_to_the_longest() {
        let mut latency = histogram();
        (1..=1000).for_each(|millis| latency.record(millis * 1_000_000).unwrap());
        let text = percentiles(&latency);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| line.starts_with(' ') && !line.contains("Value"))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] < pair[1][1]), "{text}");
        let last = rows.last().unwrap();
        assert!((last[0] - 1000.0).abs() < 1.0 && last[1] == 1.0 && last[2] == 1000.0, "{text}");
        assert!(rows.iter().any(|row| row[1] == 0.5 && (row[0] - 500.0).abs() < 1.0), "{text}");
        assert!(text.contains("Total count    =         1000]"), "{text}");
    }
}
