//! The command line: `run`, `list`, `targets`, `report`, `compare`, `origin`, and the guard behind every child process.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use weir_stats::terminal::{INTERRUPTED, say, watch_for_interrupts};

use crate::load::tool::{self, LoadTool};
use crate::origin::command::OriginArgs;
use crate::placement::read_cpus;
use crate::process::{Job, Launcher, guard};
use crate::prove::{ProveArgs, prove};
use crate::relay::{self, RelayArgs};
use crate::report::compare::{self, RegressionVerdict};
use crate::report::{self, folder, markdown, verdict};
use crate::results::run::Run;
use crate::run::{self, Options};
use crate::scenario::{RunLength, catalogue};
use crate::site::command::{SiteArgs, SiteOptions};
use crate::suite::{self, SuiteArgs};
use crate::target::search::{self, SearchArgs};
use crate::topology::product::{PRODUCTS, Product};
use crate::topology::target::LabTarget;
use crate::topology::upstream::OriginKind;
use crate::{length, origin, plan};

/// Compares Weir with other balancers on this machine.
#[derive(Debug, Parser)]
#[command(name = "weir-lab", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Run a scenario and report.
    #[command(
        after_help = "Examples:\n  weir-lab run l7-keepalive\n  weir-lab run l7-short --rounds 15 --save\n  \
                            weir-lab run l7-keepalive --short --peers optional\n  \
                            weir-lab run l7-keepalive --targets direct,nginx --tool wrk\n  \
                            weir-lab run l7-keepalive --targets weir,caddy,caddy/as-shipped\n  \
                            weir-lab run l7-keepalive --target-path envoy=/opt/envoy/bin/envoy\n  \
                            weir-lab run l7-short --url http://192.0.2.7:8080/\n  \
                            weir-lab run --url https://shop.example/ --rate 500 --clients 200 --max-p99 250ms --save\n  \
                            weir-lab run --url http://127.0.0.1/ --rate 100x30s,100..2000x60s --pid \"$(cat /run/nginx.pid)\"\n  \
                            weir-lab run --url http://127.0.0.1/ --replay /var/log/nginx/access.log --speed 2"
    )]
    Run(RunArgs),
    /// List the scenarios and the questions they answer.
    List,
    /// List targets and tools: what is installed, and how to get the rest.
    Targets(SearchArgs),
    /// Run the comparisons of the field reports, or all scenarios, or some, and write one page above their reports. The same
    /// command resumes an interrupted suite.
    #[command(
        after_help = "Examples:\n  weir-lab suite reports --short\n  weir-lab suite reports --out reports-of-today\n  \
                            weir-lab suite all --only l7-keepalive,l7-short --out suite"
    )]
    Suite(SuiteArgs),
    /// Write the report of a saved run anew: HTML, Markdown, CSV.
    Report {
        /// Folder of the run, such as one below lab/runs.
        #[arg(required = true)]
        runs: Vec<PathBuf>,
    },
    /// Measure what a request and a client cost here, and answer whether a load will hold: cores, memory, limits, machines.
    #[command(after_help = "Examples:\n  weir-lab plan --rate 25000 --clients 5000 --body 1k\n  \
                            weir-lab plan --rate 2000 --clients 500 --keepalive no --tls --target haproxy\n  \
                            weir-lab plan --rate 8000 --clients 3000 --answer 20k --tls --core-hour 0.04\n  \
                            weir-lab plan --rate 5000 --clients 20000 --message 200")]
    Plan(PlanArgs),
    /// Compare two saved runs, figure by figure; a difference that may be chance is called that.
    #[command(
        after_help = "Exit status with --fail-on-regression: 0 nothing is worse, 3 something is, 4 the runs cannot be compared; 1 is \
                            an error, 2 a wrong command line.\n\nExamples:\n  weir-lab compare lab/runs/2026-11-29-site lab/runs/2026-11-30-site\n  \
                            weir-lab compare --fail-on-regression=10 before after"
    )]
    Compare {
        /// Folder of the earlier run.
        before: PathBuf,
        /// Folder of the later run.
        after: PathBuf,
        /// Say by the exit status whether a figure is worse by more than noise, and by more than so many percent.
        #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
        fail_on_regression: Option<f64>,
    },
    /// Print completions for a shell.
    #[command(
        after_help = "Examples:\n  weir-lab completions bash > /usr/share/bash-completion/completions/weir-lab"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page.
    #[command(after_help = "Examples:\n  weir-lab man > /usr/share/man/man1/weir-lab.1")]
    Man,
    /// Run the origin alone: the server that stands behind every target.
    Origin(OriginArgs),
    /// Measure what is known, such as a target slowed by 20 %, and say whether the lab has found it.
    #[command(after_help = "Examples:\n  weir-lab prove --short\n  weir-lab prove --save")]
    Prove(ProveArgs),
    /// Pass bytes to a server, at a known cost: the target `relay`.
    #[command(hide = true)]
    Relay(RelayArgs),
    /// Start a program and end its process tree when standard input closes.
    #[command(hide = true)]
    Guard {
        /// File for the program's output.
        #[arg(long)]
        log: PathBuf,
        /// CPU it may run on; may be repeated.
        #[arg(long = "cpu")]
        cpus: Vec<usize>,
        /// The program and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Name of a scenario (see `list`), or a .toml file. Without one, --url is any site that runs already.
    #[arg(required_unless_present = "url")]
    scenario: Option<String>,
    /// These targets instead of the scenario's.
    #[arg(long, value_delimiter = ',')]
    targets: Option<Vec<LabTarget>>,
    /// A site that runs already, such as `https://HOST:PORT/PATH`. With a scenario, one more target of it, `http://HOST:PORT/`, whose
    /// server has to be `weir-lab origin`.
    #[arg(long)]
    url: Option<String>,
    /// What the servers are: the lab's own, or a web server with the page as a file.
    #[arg(long, value_enum)]
    origin: Option<OriginKind>,
    /// Rounds instead of the scenario's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Length of each measurement window instead of the scenario's, such as `4s`.
    #[arg(long, visible_alias = "length", value_parser = length::read)]
    window: Option<Duration>,
    /// A run of a few seconds that shows that everything works; its figures mean nothing.
    #[arg(long)]
    short: bool,
    /// Whether all targets and tools of the scenario must be installed.
    #[arg(long, value_enum, default_value_t = Peers::Required)]
    peers: Peers,
    /// What plays the clients of a steady load.
    #[arg(long, value_enum, default_value_t = SteadyTool::Driver)]
    tool: SteadyTool,
    /// CPU of client and origin, and CPU of the target, such as `0,1`.
    #[arg(long, value_parser = read_cpus)]
    cpus: Option<(usize, usize)>,
    /// Profile each target with perf in one more round: a flame graph of where its CPU time goes.
    #[arg(long)]
    profile: bool,
    /// Save report, raw data and configurations in a new folder below this one.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "lab/runs")]
    save: Option<PathBuf>,
    /// Fail when a bar is missed.
    #[arg(long)]
    require_bars: bool,
    #[command(flatten)]
    programs: SearchArgs,
    #[command(flatten)]
    site: Box<SiteArgs>,
}

#[derive(Debug, Args)]
struct PlanArgs {
    #[command(flatten)]
    planned: plan::PlannedLoad,
    /// A measurement of a few seconds that shows that everything works; its figures mean nothing.
    #[arg(long)]
    short: bool,
    /// CPU of client and origin, and CPU of the target, such as `0,1`.
    #[arg(long, value_parser = read_cpus)]
    cpus: Option<(usize, usize)>,
    #[command(flatten)]
    programs: SearchArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peers {
    /// A missing one is an error.
    Required,
    /// Missing peers and tools are left out, with a note.
    Optional,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SteadyTool {
    /// The lab's own driver, which checks every answer.
    Driver,
    /// wrk.
    Wrk,
    /// vegeta, which holds a rate.
    Vegeta,
    /// h2load, which plays HTTP/2 in any case, and HTTP/3 when asked for.
    H2load,
}

/// Runs the command line `args`; `launcher` starts the same program again.
pub fn main(args: impl Iterator<Item = String>, launcher: &Launcher) -> ExitCode {
    let result = match Cli::parse_from(args).command {
        LabCommand::Run(args) => run_scenario(&args, launcher),
        LabCommand::List => list(),
        LabCommand::Targets(programs) => targets(&programs),
        LabCommand::Suite(args) => run_suite(&args, launcher),
        LabCommand::Plan(args) => plan_load(&args, launcher),
        LabCommand::Report { runs } => rewrite_reports(&runs),
        LabCommand::Compare { before, after, fail_on_regression } => {
            compare_runs(&before, &after, fail_on_regression)
        }
        LabCommand::Prove(args) => prove_lab(&args, launcher),
        LabCommand::Completions { shell } => completions(shell).and_then(|script| print(&script)),
        LabCommand::Man => manual_page().and_then(|page| print(&page)),
        LabCommand::Relay(args) => relay::serve(&args).map(|()| ExitCode::SUCCESS),
        LabCommand::Origin(args) => origin::command::serve(&args).map(|()| ExitCode::SUCCESS),
        LabCommand::Guard { log, cpus, command } => run_guard(log, cpus, command),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weir-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn completions(shell: Shell) -> anyhow::Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir-lab", &mut script);
    Ok(String::from_utf8(script)?)
}

fn manual_page() -> anyhow::Result<String> {
    let mut page = Vec::new();
    Man::new(Cli::command()).manual("Weir").render(&mut page)?;
    Ok(String::from_utf8(page)?)
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    say(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

fn run_scenario(args: &RunArgs, launcher: &Launcher) -> anyhow::Result<ExitCode> {
    let Some(name) = &args.scenario else { return run_site(args) };
    let mut scenario = catalogue::find(name)?;
    scenario.upstream.origin = args.origin.unwrap_or(scenario.upstream.origin);
    scenario.check()?;
    let interrupted = watch_for_interrupts()?;
    let options = Options {
        launcher: launcher.clone(),
        targets: args.targets.clone(),
        rounds: args.rounds,
        window: args.window,
        length: if args.short { RunLength::Trial } else { RunLength::Full },
        peers_optional: args.peers == Peers::Optional,
        programs: args.programs.search(),
        url: args.url.as_deref().map(str::parse).transpose()?,
        tool: match args.tool {
            SteadyTool::Driver => LoadTool::Driver,
            SteadyTool::Wrk => LoadTool::Wrk,
            SteadyTool::Vegeta => LoadTool::Vegeta,
            SteadyTool::H2load => LoadTool::H2load,
        },
        cpus: args.cpus,
        profile: args.profile,
        interrupted: Arc::clone(&interrupted),
    };
    let run = match run::run(&scenario, &options) {
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            eprintln!("weir-lab: interrupted");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        result => result?,
    };
    conclude(&run, args, args.require_bars)
}

/// Runs a load on a site that runs already.
fn run_site(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let of_scenarios = [
        ("--targets", args.targets.is_some()),
        ("--origin", args.origin.is_some()),
        ("--cpus", args.cpus.is_some()),
        ("--profile", args.profile),
        ("--tool", args.tool != SteadyTool::Driver),
    ];
    if let Some((option, _)) = of_scenarios.into_iter().find(|(_, is_given)| *is_given) {
        bail!("{option} is for scenarios, and there is none: name one before --url, or leave the option out");
    }
    let interrupted = watch_for_interrupts()?;
    let options = SiteOptions {
        url: args.url.clone().unwrap_or_default(),
        rounds: args.rounds,
        window: args.window,
        short: args.short,
        interrupted: Arc::clone(&interrupted),
    };
    let run = match args.site.run(&options) {
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            eprintln!("weir-lab: interrupted");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        result => result?,
    };
    conclude(&run, args, args.site.has_bars())
}

/// Reports, saves where that is wanted, and says with which status the program ends.
fn conclude(run: &Run, args: &RunArgs, requires_bars: bool) -> anyhow::Result<ExitCode> {
    say(&markdown::findings(run))?;
    if let Some(root) = &args.save {
        save(run, root)?;
    }
    let verdicts = verdict::verdicts(run, &report::summary::rows(run));
    let missed = verdicts.iter().any(|verdict| verdict.is_met == Some(false));
    let failed = !run.failed.is_empty() || (requires_bars && missed && !run.short);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn save(run: &Run, root: &Path) -> anyhow::Result<()> {
    let folder = folder::save(run, root).context("cannot save the run")?;
    say(&format!("Saved in {}", folder.display()))?;
    Ok(())
}

fn run_suite(args: &SuiteArgs, launcher: &Launcher) -> anyhow::Result<ExitCode> {
    let interrupted = watch_for_interrupts()?;
    let programs = args.programs.search();
    match args.run(launcher, programs, &interrupted) {
        Err(error) if interrupted.load(Ordering::Relaxed) => {
            eprintln!("weir-lab: {error:#}");
            Ok(ExitCode::from(INTERRUPTED))
        }
        summary => {
            let suite::Summary { page, failures, missed } = summary?;
            println!("{}: {missed} bars missed, {failures} failures", page.display());
            Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn plan_load(args: &PlanArgs, launcher: &Launcher) -> anyhow::Result<ExitCode> {
    let interrupted = watch_for_interrupts()?;
    let options = Options {
        launcher: launcher.clone(),
        targets: None,
        rounds: None,
        window: None,
        length: if args.short { RunLength::Trial } else { RunLength::Full },
        peers_optional: false,
        programs: args.programs.search(),
        url: None,
        tool: LoadTool::Driver,
        cpus: args.cpus,
        profile: false,
        interrupted: Arc::clone(&interrupted),
    };
    match plan::plan(&args.planned, &options) {
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            eprintln!("weir-lab: interrupted");
            Ok(ExitCode::from(INTERRUPTED))
        }
        page => {
            print!("{}", page?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn rewrite_reports(runs: &[PathBuf]) -> anyhow::Result<ExitCode> {
    for run in runs {
        folder::rewrite(run)?;
        println!("{}", run.join("report.html").display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit status where a later run is worse, and where that cannot be said.
const WORSE: u8 = 3;
const INCOMPARABLE: u8 = 4;

fn compare_runs(before: &Path, after: &Path, percent: Option<f64>) -> anyhow::Result<ExitCode> {
    let (before, after) = (folder::load(before)?, folder::load(after)?);
    say(compare::compare(&before, &after).trim_end())?;
    let Some(percent) = percent else { return Ok(ExitCode::SUCCESS) };
    Ok(match compare::regression(&before, &after, percent) {
        RegressionVerdict::None => ExitCode::SUCCESS,
        RegressionVerdict::Worse(figures) => {
            eprintln!("weir-lab: worse than before:\n  {}", figures.join("\n  "));
            ExitCode::from(WORSE)
        }
        RegressionVerdict::Incomparable(why) => {
            eprintln!("weir-lab: cannot compare: {why}");
            ExitCode::from(INCOMPARABLE)
        }
    })
}

fn list() -> anyhow::Result<ExitCode> {
    let scenarios = catalogue::all()?;
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    for scenario in scenarios {
        let from = match &scenario.reports[..] {
            [] => String::new(),
            reports => format!(" (report {})", reports.join(", ")),
        };
        say(&format!("{:<width$}  {}{from}", scenario.name, scenario.question))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn targets(programs: &SearchArgs) -> anyhow::Result<ExitCode> {
    let found = search::find_products(&programs.search())?;
    for product in PRODUCTS {
        let says = match found.get(product.name()) {
            Some(it) => {
                let tls = it.tls_library.as_deref().unwrap_or("unknown");
                let http3 = if it.has_http3 { "; HTTP/3" } else { "" };
                format!("{} ({}; TLS library: {tls}{http3})", it.version, it.program.display())
            }
            None if product == Product::Direct => "no target, the baseline".to_owned(),
            None if matches!(product, Product::Relay | Product::Url) => product.how_to_get().to_owned(),
            None => format!("missing: {}", product.how_to_get()),
        };
        say(&format!("{:<8} {says}", product.name()))?;
    }
    let tools = [LoadTool::Wrk, LoadTool::Ab, LoadTool::Siege, LoadTool::Vegeta, LoadTool::H2load];
    for tool in tools.into_iter().chain([LoadTool::GrpcClient]) {
        let says = match tool::installed(tool) {
            Some(it) => format!("{} ({})", it.version, it.program.display()),
            None => format!("missing: {}", tool::HOW_TO_GET),
        };
        say(&format!("{:<8} {says}", tool.name()))?;
    }
    let says = match tool::installed_for(LoadTool::H2load, true) {
        Ok(it) => format!("{} ({})", it.version, it.program.display()),
        Err(error) => format!("missing: {error}"),
    };
    say(&format!("{:<8} {says}", "for HTTP/3"))?;
    Ok(ExitCode::SUCCESS)
}

fn prove_lab(args: &ProveArgs, launcher: &Launcher) -> anyhow::Result<ExitCode> {
    let interrupted = watch_for_interrupts()?;
    match prove(args, launcher, &interrupted) {
        Err(_) if interrupted.load(Ordering::Relaxed) => Ok(ExitCode::from(INTERRUPTED)),
        all_hold => Ok(if all_hold? { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
    }
}

fn run_guard(log: PathBuf, cpus: Vec<usize>, command: Vec<String>) -> anyhow::Result<ExitCode> {
    let mut words = command.into_iter();
    let program = words.next().map(PathBuf::from).unwrap_or_default();
    guard::run(&Job { program, args: words.collect(), cpus, log, ..Job::default() })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn completions_and_the_manual_page_know_the_commands() {
        for text in
            [completions(Shell::Bash), completions(Shell::Zsh), completions(Shell::Fish), manual_page()]
        {
            let text = text.expect("it is made from the command line");
            for command in ["suite", "compare", "targets"] {
                assert!(text.contains(command), "{command} is missing in:\n{text}");
            }
        }
    }
}
