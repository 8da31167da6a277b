//! `weir-lab suite`: which scenarios, how long, and where their reports go.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, ValueEnum};

use super::Summary;
use crate::load::tool::LoadTool;
use crate::placement::read_cpus;
use crate::process::Launcher;
use crate::run::Options;
use crate::scenario::{RunLength, Scenario, catalogue};
use crate::target::search::{ProgramSearch, SearchArgs};
use crate::topology::product::Product;
use crate::topology::target::LabTarget;

/// The suites there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum SuiteName {
    /// Every scenario of `weir-lab list`.
    #[default]
    All,
    /// The comparisons of the field reports, with their figures beside those measured here.
    Reports,
    /// What HTTP/3 costs: requests, large answers, uploads.
    Http3,
}

/// What plays the clients of loads that more than one program can play.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum SuiteTool {
    /// The lab's own driver, which checks every answer.
    #[default]
    Driver,
    /// h2load, for HTTP/3.
    H2load,
}

/// See the module.
#[derive(Debug, Args)]
pub(crate) struct SuiteArgs {
    /// Which scenarios.
    #[arg(value_enum, default_value_t)]
    suite: SuiteName,
    /// Folder for the reports, by default named after the suite; what is there already is not run again.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only these scenarios; by default all of the suite.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<String>>,
    /// Only these targets.
    #[arg(long, value_delimiter = ',')]
    targets: Option<Vec<LabTarget>>,
    /// Rounds instead of those of each scenario.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Few rounds and short windows: figures for a first impression, in about half an hour.
    #[arg(long, conflicts_with = "trial")]
    short: bool,
    /// Runs of a few seconds each that show that everything works; their figures mean nothing.
    #[arg(long)]
    trial: bool,
    /// What plays the clients of HTTP/3.
    #[arg(long, value_enum, default_value_t)]
    tool: SuiteTool,
    /// CPU of client and origin, and CPU of the target, such as `0,1`.
    #[arg(long, value_parser = read_cpus)]
    cpus: Option<(usize, usize)>,
    /// Where programs are.
    #[command(flatten)]
    pub(crate) programs: SearchArgs,
}

impl SuiteArgs {
    /// Runs it.
    ///
    /// # Errors
    /// As [`super::run`], and when there is no such scenario.
    pub(crate) fn run(
        &self,
        launcher: &Launcher,
        programs: ProgramSearch,
        interrupted: &Arc<AtomicBool>,
    ) -> anyhow::Result<Summary> {
        anyhow::ensure!(
            self.tool == SuiteTool::Driver || self.suite == SuiteName::Http3,
            "`--tool h2load` is for the suite `http3`: other loads have one tool each"
        );
        let options = Options {
            launcher: launcher.clone(),
            targets: self.targets.clone(),
            rounds: self.rounds,
            window: None,
            length: self.length(),
            // A product that is missing is a sentence in the report, not the end of a long run.
            peers_optional: true,
            programs,
            url: None,
            tool: match self.tool {
                SuiteTool::Driver => LoadTool::Driver,
                SuiteTool::H2load => LoadTool::H2load,
            },
            cpus: self.cpus,
            profile: false,
            interrupted: Arc::clone(interrupted),
        };
        super::run(self.scenarios()?, &options, &self.out(), &|line| eprintln!("{line}"))
    }

    fn length(&self) -> RunLength {
        match (self.short, self.trial) {
            (true, _) => RunLength::Brief,
            (_, true) => RunLength::Trial,
            _ => RunLength::Full,
        }
    }

    fn scenarios(&self) -> anyhow::Result<Vec<Scenario>> {
        let mut scenarios = match (&self.only, self.suite) {
            (Some(names), _) => find(names.iter().map(String::as_str))?,
            (None, SuiteName::Reports) => find(catalogue::REPORTS.iter().copied())?,
            (None, SuiteName::Http3) => find(catalogue::HTTP3.iter().copied())?,
            (None, SuiteName::All) => catalogue::all()?,
        };
        if self.suite == SuiteName::Reports {
            // No report is about it.
            let others = |targets: &mut Vec<LabTarget>| targets.retain(|it| it.product != Product::Caddy);
            scenarios.iter_mut().for_each(|scenario| others(&mut scenario.optional));
        }
        Ok(scenarios)
    }

    /// Each length has its own folder: a brief run must not replace a whole one.
    fn out(&self) -> PathBuf {
        let name = match (self.suite, self.tool) {
            (SuiteName::Reports, _) => "suite-reports",
            (SuiteName::Http3, SuiteTool::Driver) => "suite-http3",
            (SuiteName::Http3, SuiteTool::H2load) => "suite-http3-h2load",
            (SuiteName::All, _) => "suite-all",
        };
        let length = match self.length() {
            RunLength::Full => "",
            RunLength::Brief => "-short",
            RunLength::Trial => "-trial",
        };
        self.out.clone().unwrap_or_else(|| format!("{name}{length}").into())
    }
}

fn find<'a>(names: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<Scenario>> {
    names.map(catalogue::find).collect()
}

#[cfg(test)]
mod tests {
    use super::SuiteArgs;
    use crate::scenario::catalogue;
    use clap::Parser;

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        args: SuiteArgs,
    }

    fn args(line: &str) -> SuiteArgs {
        TestCommand::parse_from(format!("suite {line}").split_whitespace()).args
    }

    #[test]
    fn each_suite_and_length_has_its_scenarios_and_its_folder() {
        for (line, count, out) in [
            ("", catalogue::all().unwrap().len(), "suite-all"),
            ("reports", 18, "suite-reports"),
            ("http3", 6, "suite-http3"),
            ("http3 --tool h2load --short", 6, "suite-http3-h2load-short"),
            ("reports --short", 18, "suite-reports-short"),
            ("--trial", catalogue::all().unwrap().len(), "suite-all-trial"),
            ("reports --only bulk,ladder --out x", 2, "x"),
        ] {
            let args = args(line);
            assert_eq!(args.scenarios().unwrap().len(), count, "{line}");
            assert_eq!(args.out().display().to_string(), out, "{line}");
        }
        let caddy = "caddy".parse().unwrap();
        assert!(args("reports").scenarios().unwrap().iter().all(|it| !it.optional.contains(&caddy)));
        assert!(args("--only nothing").scenarios().is_err());
    }
}
