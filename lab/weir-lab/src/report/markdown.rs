//! The report in words: verdicts first, then the table, what to know about it, and how to repeat it.

use weir_stats::table;

use super::summary::{SummaryRow, rows};
use super::verdict::verdicts;
use super::{memory, profile, remarks};
use crate::measure::metric::Metric;
use crate::report::summary::main_figure;
use crate::results::run::Run;

/// Verdicts, table and notes: the output on the terminal.
pub fn findings(run: &Run) -> String {
    let rows = rows(run);
    let mut text = format!("**{}**\n\n", run.scenario.question);
    if let Some(caveat) = run.caveat() {
        text.push_str(&format!("> {caveat}\n\n"));
    }
    for verdict in verdicts(run, &rows) {
        text.push_str(&format!("- {}\n", verdict.sentence));
    }
    for (target, why) in &run.cannot {
        text.push_str(&format!("- {target} cannot take part: {why}\n"));
    }
    for (target, failure) in &run.failed {
        text.push_str(&format!("- {target} FAILED and was left out from then on: {failure}\n"));
    }
    text.push('\n');
    text.push_str(&table::write(&cells(run, &rows), 1 + usize::from(has_cases(&rows))));
    text.push('\n');
    if let Some(cells) = memory::cells(&rows) {
        text.push_str(&format!(
            "Where the memory is:\n\n{}\n{}\n\n",
            table::write(&cells, 1),
            memory::CAPTION
        ));
    }
    for note in run.notes.iter().cloned().chain(profile::remarks(run)).chain(remarks::of(run, &rows)) {
        text.push_str(&format!("- {note}\n"));
    }
    text
}

/// The whole report.
pub fn report(run: &Run) -> String {
    let date = run.started.strftime("%Y-%m-%d %H:%M UTC");
    let mut text = format!("# {}, {date}\n\n{}", run.scenario.name, findings(run));
    text.push_str(&format!("\n## Machine\n\n{}\n\n", run.machine.sentence()));
    text.push_str(&format!("{}\n", remarks::placement(run)));
    text.push_str(&format!("Descriptors: {}. ", run.machine.descriptors));
    let settings: Vec<String> =
        run.machine.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    text.push_str(&format!("{}.\n\n## Versions and commands\n\n", settings.join(", ")));
    text.push_str(&format!("- weir-lab {}: `{}`\n", run.version, run.command));
    for (target, record) in &run.targets {
        text.push_str(&format!("- {target}: {}: `{}`\n", record.sentence(), record.command));
    }
    for (tool, version) in &run.tools {
        text.push_str(&format!("- {tool}: {version}\n"));
    }
    text.push_str(
        "\n## Configurations\n\nAs in the first round; ports and folders differ in the others.\n\n",
    );
    for (target, record) in &run.targets {
        for (file, _) in record.configs() {
            let name = format!("{}-{file}", target.replace('/', "-"));
            text.push_str(&format!("- {target}: [{file}](configs/{name})\n"));
        }
    }
    text
}

fn has_cases(rows: &[SummaryRow]) -> bool {
    rows.iter().any(|row| !row.case.is_empty())
}

fn cells(run: &Run, rows: &[SummaryRow]) -> Vec<Vec<String>> {
    let columns = run.scenario.columns();
    let main = main_figure(run, &columns);
    let has_cases = has_cases(rows);
    // A site has no peers.
    let is_alone = run.scenario.site.is_some();
    let has_limits = rows.iter().any(|row| row.limit.is_some());
    let has_faults = !columns.contains(&Metric::Failed);
    let mut heading: Vec<String> = vec!["target".to_owned()];
    if has_cases {
        heading.insert(0, "case".to_owned());
    }
    for metric in &columns {
        heading.push(metric.heading().to_owned());
        if Some(*metric) == main && !has_cases {
            heading.extend(["best", "min-max", "of best peer (95 %)"].map(str::to_owned));
            heading.truncate(heading.len() - usize::from(is_alone));
        }
    }
    if has_limits {
        heading.push("limit".to_owned());
    }
    if has_faults {
        heading.push("errors".to_owned());
    }
    let mut cells = vec![heading];
    for row in rows {
        let mut line = vec![row.target.clone()];
        if has_cases {
            line.insert(0, row.case.clone());
        }
        for metric in &columns {
            let spread = row.spreads.get(metric);
            line.push(spread.map_or(row.blank(*metric).to_owned(), |spread| metric.format(spread.median)));
            if Some(*metric) == main && !has_cases {
                line.extend(in_full(row, *metric));
                line.truncate(line.len() - usize::from(is_alone));
            }
        }
        if has_limits {
            line.push(row.limit.map_or("-", |limit| limit.label()).to_owned());
        }
        if has_faults {
            line.push(row.faults.to_string());
        }
        cells.push(line);
    }
    cells
}

/// Best, range and ratio of the main figure.
fn in_full(row: &SummaryRow, metric: Metric) -> [String; 3] {
    use crate::measure::metric::Better;
    let Some(spread) = row.spreads.get(&metric) else { return ["-", "-", "-"].map(str::to_owned) };
    let best = if metric.better() == Better::Lower { spread.min } else { spread.max };
    let ratio = row.ratios.get(&metric).map_or("-".to_owned(), |ratio| {
        if ratio.peer == row.target { "1 (best peer)".to_owned() } else { ratio.in_brief() }
    });
    [metric.format(best), format!("{}-{}", metric.format(spread.min), metric.format(spread.max)), ratio]
}
