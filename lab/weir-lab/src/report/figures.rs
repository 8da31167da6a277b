//! The figures of a run as CSV (RFC 4180), in base units: µs, bytes, percent.
//!
//! `figures.csv` has a line for each measurement, `seconds.csv` one for each second of it: the raw data of a saved run, which are
//! read back. The first single requests are in a file for spreadsheets.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::load::Second;
use crate::measure::metric::Metric;
use crate::results::measurement::Measurement;
use crate::results::run::Run;

/// The columns before the figures. `void` names the figures that do not count.
const KEYS: &str = "case,target,round,limit,cpu-distance,void";

/// The beginning of the names of columns with the latency at a percentile.
const PERCENTILE: &str = "latency-p";

/// The file, its heading included: every measurement, including failed ones.
///
/// # Errors
/// When a figure has no name, which cannot be.
pub(super) fn csv(run: &Run) -> anyhow::Result<String> {
    let mut names: BTreeMap<Metric, String> = BTreeMap::new();
    let mut percentiles: Vec<f64> = Vec::new();
    for measurement in &run.measurements {
        for metric in measurement.values.keys() {
            names.insert(*metric, name_of(metric)?);
        }
        if percentiles.is_empty() {
            percentiles = measurement.percentiles.iter().map(|(percentile, _)| *percentile).collect();
        }
    }
    let mut text = KEYS.to_owned();
    names.values().for_each(|name| text.push_str(&format!(",{name}")));
    percentiles.iter().for_each(|percentile| text.push_str(&format!(",{PERCENTILE}{percentile}")));
    text.push_str("\r\n");
    for measurement in &run.measurements {
        let limit = measurement.limit.as_ref().map(name_of).transpose()?.unwrap_or_default();
        let distance = measurement.distance.map(short).unwrap_or_default();
        let void: Vec<&str> =
            measurement.void.iter().filter_map(|it| Some(names.get(it)?.as_str())).collect();
        text.push_str(&format!("{},{limit},{distance},{}", line_start(measurement), void.join(" ")));
        for metric in names.keys() {
            let value = measurement.values.get(metric).copied().map(short).unwrap_or_default();
            text.push_str(&format!(",{value}"));
        }
        for (index, _) in percentiles.iter().enumerate() {
            let value =
                measurement.percentiles.get(index).map(|(_, value)| short(*value)).unwrap_or_default();
            text.push_str(&format!(",{value}"));
        }
        text.push_str("\r\n");
    }
    Ok(text)
}

/// The measurements of the file, with the other data of some of them from `run.json`.
///
/// # Errors
/// Where it is not such a file.
pub(super) fn read(text: &str, known: &[Measurement]) -> anyhow::Result<Vec<Measurement>> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    let columns = heading.strip_prefix(KEYS).context("it does not begin with the names of its columns")?;
    let columns: Vec<&str> = columns.split(',').skip(1).collect();
    let line = |(number, line): (usize, &str)| {
        read_line(line, &columns, known).with_context(|| format!("line {}", number + 2))
    };
    lines.enumerate().map(line).collect()
}

fn read_line(line: &str, columns: &[&str], known: &[Measurement]) -> anyhow::Result<Measurement> {
    let fields = fields(line);
    let [case, target, round, limit, distance, void, figures @ ..] = &fields[..] else {
        anyhow::bail!("it has too few fields");
    };
    ensure!(figures.len() == columns.len(), "it has more or fewer fields than the heading");
    let round = round.parse().context("the round")?;
    let is_it = |it: &&Measurement| it.case == *case && it.target == *target && it.round == round;
    let mut measurement = known.iter().find(is_it).cloned().unwrap_or_default();
    (measurement.case, measurement.target, measurement.round) = (case.clone(), target.clone(), round);
    measurement.limit = if limit.is_empty() { None } else { Some(named(limit)?) };
    measurement.distance = if distance.is_empty() { None } else { Some(distance.parse()?) };
    measurement.void = void.split_whitespace().map(named).collect::<anyhow::Result<_>>()?;
    for (column, value) in columns.iter().zip(figures).filter(|(_, value)| !value.is_empty()) {
        let value = value.parse().with_context(|| (*column).to_owned())?;
        match column.strip_prefix(PERCENTILE).map(str::parse) {
            Some(Ok(percentile)) => measurement.percentiles.push((percentile, value)),
            _ => _ = measurement.values.insert(named(column)?, value),
        }
    }
    Ok(measurement)
}

/// The fields of a line; those in quotation marks may hold commas.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_none() => is_quoted = false,
            '"' if !is_quoted => is_quoted = true,
            ',' if !is_quoted => fields.push(String::new()),
            letter => fields.last_mut().expect("there is always one").push(letter),
        }
    }
    fields
}

/// Digits of a number that are kept: more than can be measured.
const DIGITS: usize = 7;

/// A number to so many digits. The others are cut off, never rounded: 99.999999 % of the requests are not all of them.
pub(super) fn short(value: f64) -> String {
    let digits = format!("{value:e}");
    let Some((mantissa, exponent)) = digits.split_once('e') else { return value.to_string() };
    let sign = usize::from(value < 0.0);
    let kept = &mantissa[..mantissa.len().min(sign + DIGITS + 1)];
    format!("{kept}e{exponent}").parse().unwrap_or(value).to_string()
}

/// The name of a figure or a limit, as in all data of the lab.
fn name_of<T: Serialize>(value: &T) -> anyhow::Result<String> {
    let name = serde_json::to_value(value)?;
    name.as_str().map(str::to_owned).context("it has no name")
}

fn named<T: DeserializeOwned>(name: &str) -> anyhow::Result<T> {
    serde_json::from_value(name.into()).with_context(|| format!("`{name}` is unknown"))
}

/// The figures second by second; `None` where none were noted.
pub(super) fn seconds(run: &Run) -> Option<String> {
    let mut text = String::from("case,target,round,second,requests,errors,p50,p99\r\n");
    let heading = text.len();
    for measurement in run.measurements.iter().filter(|measurement| measurement.failure.is_none()) {
        let start = line_start(measurement);
        for (number, second) in (1_u32..).zip(&measurement.seconds) {
            let Second { requests, errors, p50, p99 } = second;
            text.push_str(&format!(
                "{start},{number},{requests},{errors},{},{}\r\n",
                short(*p50),
                short(*p99)
            ));
        }
    }
    (text.len() > heading).then_some(text)
}

/// Reads what [`seconds`] has written into the measurements that it is of.
///
/// # Errors
/// Where it is not such a file.
pub(super) fn read_seconds(text: &str, measurements: &mut [Measurement]) -> anyhow::Result<()> {
    for (number, line) in (1_usize..).zip(text.lines()).skip(1) {
        let fields = fields(line);
        let [case, target, round, _, requests, errors, p50, p99] = &fields[..] else {
            anyhow::bail!("line {number}: it has more or fewer fields than the heading");
        };
        let round = round.parse::<u32>()?;
        let second = Second {
            requests: requests.parse()?,
            errors: errors.parse()?,
            p50: p50.parse()?,
            p99: p99.parse()?,
        };
        let own =
            measurements.iter_mut().find(|it| it.case == *case && it.target == *target && it.round == round);
        own.with_context(|| format!("line {number}: there is no such measurement"))?.seconds.push(second);
    }
    Ok(())
}

/// The response time of each of the first requests; `None` where none was noted.
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

#[cfg(test)]
mod tests {
    use super::{fields, short};

    #[test]
    fn fields_in_quotation_marks_hold_anything() {
        assert_eq!(fields(r#""a ""b"", c",weir,,7"#), [r#"a "b", c"#, "weir", "", "7"]);
        assert_eq!(fields(""), [""]);
    }

    #[test]
    fn numbers_have_seven_digits_and_are_not_rounded() {
        for (value, text) in [
            (117_647.058_8, "117647"),
            (15_007_744.0, "15007740"),
            (0.710_823_79, "0.7108237"),
            (99.999_999_9, "99.99999"),
            (-1.5, "-1.5"),
            (0.0, "0"),
            (-12_345_678.0, "-12345670"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
