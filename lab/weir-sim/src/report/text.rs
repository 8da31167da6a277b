//! The figures as tables for the terminal and for Markdown.

use weir_stats::table;

use super::{Report, RequestFigures, TimeFigures, VariantFigures};

/// The question, and the results.
pub(crate) fn findings(report: &Report) -> String {
    let Report { name, question, length_s, balancers, servers, .. } = report;
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut text = format!(
        "{name}: {question}\n\n{} and {} over {length_s} s. Times are in ms.\n\n",
        plural(*balancers as usize, "balancer"),
        plural(*servers, "server")
    );
    text.push_str(&table::write(&responses(report), 2));
    text.push('\n');
    text.push_str(&table::write(&servers_table(report), 1));
    text.push('\n');
    text.push_str(&table::write(&fleet_table(report), 1));
    for lines in [failures(report), verdicts(report)] {
        if !lines.is_empty() {
            text.push('\n');
            text.push_str(&lines);
        }
    }
    text
}

const RESPONSES: [&str; 13] = [
    "variant",
    "clients",
    "answered/s",
    "in time/s",
    "failed",
    "retries",
    "mean",
    "P50",
    "P95",
    "P99",
    "max",
    "wait mean",
    "wait max",
];

fn responses(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![RESPONSES.map(str::to_owned).to_vec()];
    for variant in &report.variants {
        if variant.groups.len() != 1 {
            rows.push(response_row(variant, "all", &variant.total));
        }
        for group in &variant.groups {
            rows.push(response_row(variant, &group.clients, &group.figures));
        }
    }
    rows
}

fn response_row(variant: &VariantFigures, clients: &str, figures: &RequestFigures) -> Vec<String> {
    let TimeFigures { mean, p50, p95, p99, max } = figures.response_ms;
    let times = [mean, p50, p95, p99, max, figures.wait_ms.mean, figures.wait_ms.max];
    let mut row = vec![
        variant.name.clone(),
        clients.to_owned(),
        number(figures.per_second),
        number(figures.in_time_per_second),
        figures.failed.to_string(),
        figures.retries.to_string(),
    ];
    row.extend(times.map(number));
    row
}

const SERVERS: [&str; 8] =
    ["variant", "working", "requests min", "mean", "max", "most at once", "of one balancer", "overtaken"];

fn servers_table(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![SERVERS.map(str::to_owned).to_vec()];
    for variant in &report.variants {
        let servers = &variant.servers;
        rows.push(vec![
            variant.name.clone(),
            format!("{:.3}", servers.working_mean),
            servers.requests_min.to_string(),
            number(servers.requests_mean),
            servers.requests_max.to_string(),
            servers.most_at_once.to_string(),
            variant.in_flight_most.to_string(),
            variant.overtaken.to_string(),
        ]);
    }
    rows
}

const FLEET: [&str; 11] = [
    "variant",
    "attempts per request",
    "worst",
    "new connections/s",
    "share",
    "open at the end",
    "at one server",
    "ejections",
    "of sound servers",
    "failed trials",
    "probes/s",
];

fn fleet_table(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![FLEET.map(str::to_owned).to_vec()];
    for variant in &report.variants {
        let fleet = &variant.fleet;
        rows.push(vec![
            variant.name.clone(),
            format!("{:.3}", fleet.attempts_per_request),
            format!("{:.2}", fleet.attempts_per_request_max),
            number(fleet.connections_new_per_second),
            format!("{:.1} %", 100.0 * fleet.connections_new_share),
            fleet.connections_open.to_string(),
            fleet.connections_per_server_max.to_string(),
            fleet.ejections.to_string(),
            fleet.ejections_wrong.to_string(),
            fleet.trials_failed.to_string(),
            number(fleet.probes_per_second),
        ]);
    }
    rows
}

fn failures(report: &Report) -> String {
    let failed = report.variants.iter().filter(|variant| variant.total.failed > 0);
    let lines = failed.map(|variant| {
        let failures = &variant.total.failures;
        let reasons: Vec<String> = failures.iter().map(|(code, count)| format!("{count} {code}")).collect();
        let share = 100.0 * variant.total.failed as f64 / variant.total.begun.max(1) as f64;
        format!(
            "failed with {}: {} ({share:.2} % of {})\n",
            variant.name,
            reasons.join(", "),
            variant.total.begun
        )
    });
    lines.collect()
}

/// Changes of health that are listed one by one; further ones are omitted.
const VERDICTS_LISTED: usize = 6;

fn verdicts(report: &Report) -> String {
    let mut text = String::new();
    for variant in &report.variants {
        let listed = variant.verdicts.iter().take(VERDICTS_LISTED);
        let mut parts: Vec<String> = listed
            .map(|it| {
                format!("server {} {} at {:.3} s", it.server, if it.up { "up" } else { "down" }, it.at_s)
            })
            .collect();
        if variant.verdicts.len() > VERDICTS_LISTED {
            parts.push("...".to_owned());
        }
        if !parts.is_empty() {
            text.push_str(&format!("health with {}: {}\n", variant.name, parts.join(", ")));
        }
    }
    text
}

/// Three significant digits, or all before the point.
fn number(value: f64) -> String {
    let decimals = match value {
        value if value == 0.0 || value >= 1000.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}
