//! The table of the demo as text: a heading, a line for each server, a line for all.

use super::interval::{Interval, TableRow};

const HEADINGS: [&str; 9] =
    ["server", "state", "requests/s", "share", "P50", "P99", "errors", "in flight", "reuse"];

/// Columns of words stand to the left, those of numbers to the right.
const WORDS: usize = 2;

pub(super) fn render(interval: &Interval) -> String {
    let mut lines: Vec<[String; HEADINGS.len()]> = vec![HEADINGS.map(str::to_owned)];
    lines.extend(interval.servers.iter().chain([&interval.all]).map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column < WORDS { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn cells(row: &TableRow) -> [String; HEADINGS.len()] {
    [
        row.name.clone(),
        row.state.to_owned(),
        format!("{:.0}", row.rate),
        percent(Some(row.share)),
        milliseconds(row.p50),
        milliseconds(row.p99),
        row.errors.to_string(),
        row.in_flight.to_string(),
        percent(row.reuse),
    ]
}

fn percent(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.0} %", part * 100.0))
}

fn milliseconds(micros: Option<u64>) -> String {
    micros.map_or("-".to_owned(), |micros| format!("{:.1} ms", micros as f64 / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned() {
        let row = |name: &str, rate, p50| TableRow {
            name: name.to_owned(),
            state: "up",
            rate,
            share: 0.456,
            p50,
            p99: p50,
            errors: 0,
            in_flight: 1,
            reuse: Some(1.0),
        };
        let interval = Interval {
            servers: vec![row("quick-1", 137.4, Some(2_345)), row("slow", 9.5, None)],
            all: row("all", 146.9, Some(20_000)),
        };
        assert_eq!(
            render(&interval),
            "\
server   state  requests/s  share      P50      P99  errors  in flight  reuse
quick-1  up            137   46 %   2.3 ms   2.3 ms       0          1  100 %
slow     up             10   46 %        -        -       0          1  100 %
all      up            147   46 %  20.0 ms  20.0 ms       0          1  100 %
"
        );
    }
}
