//! A simulation on disk: the report, the figures as JSON, single requests as CSV, the plots, and the file it was made from.
//!
//! The same file and seed give the same bytes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::{Report, millis, plot, seconds, text};
use crate::tally::RequestTally;

/// Writes everything into `folder`, which is made if need be.
///
/// # Errors
/// When something cannot be written.
pub(crate) fn write(
    folder: &Path,
    report: &Report,
    tallies: &[RequestTally],
    model: &str,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let save = |name: &str, content: &str| {
        std::fs::write(folder.join(name), content).with_context(|| format!("cannot write {name}"))
    };
    save("report.md", &markdown(report))?;
    save("figures.json", &(serde_json::to_string(report)? + "\n"))?;
    save("requests.csv", &requests(report, tallies))?;
    save("distribution.svg", &plot::distribution(report)?)?;
    save("over-time.svg", &plot::over_time(report)?)?;
    save("goodput.svg", &plot::goodput(report)?)?;
    save("server-load.svg", &plot::server_load(report)?)?;
    save("attempts.svg", &plot::attempts(report)?)?;
    save("simulation.toml", model)
}

fn markdown(report: &Report) -> String {
    let Report { name, seed, .. } = report;
    format!(
        "# {name}\n\n```\nweir-sim {name}.toml --seed {seed} --out .\n```\n\n{}\n\
         That command also makes plots (`distribution.svg`, `over-time.svg`, `goodput.svg`, `server-load.svg`, `attempts.svg`), `figures.json` with all figures, and\n\
         `requests.csv` with a sample of single requests, the same ones for every variant. The guide to the simulator\n\
         describes the columns.\n",
        text::findings(report)
    )
}

fn requests(report: &Report, tallies: &[RequestTally]) -> String {
    let mut csv = String::from(
        "variant,class,client,request,began_s,response_ms,wait_ms,line_ms,attempts,server,outcome\n",
    );
    for (variant, tally) in report.variants.iter().zip(tallies) {
        for sample in tally.samples() {
            let server = sample.server.map(|server| server.to_string()).unwrap_or_default();
            let outcome = sample.failure.map_or("answered", |failure| failure.code());
            let name = variant.name.replace('"', "\"\"");
            writeln!(
                csv,
                "\"{name}\",{},{},{},{:.6},{:.3},{:.3},{:.3},{},{server},{outcome}",
                sample.class,
                sample.client,
                sample.index,
                seconds(sample.began),
                millis(sample.response),
                millis(sample.waited),
                millis(sample.in_line),
                sample.attempts,
            )
            .expect("a text takes everything");
        }
    }
    csv
}
