//! One proof, from the file to the report.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::setpriority_process;
use weir_config::CheckedConfig;
use weir_import::{ResultFault, SourceFiles, SourceFormat, import};

use crate::arguments::ProofArguments;
use crate::client::ProofClient;
use crate::clock::{pause, wait_until};
use crate::compare::{ProofOutcome, differences};
use crate::file_system::enter_copy;
use crate::logs;
use crate::original::{OriginalFacts, haproxy, nginx};
use crate::program::{self, ProofProgram};
use crate::report::{DeclaredLosses, ProofReport};
use crate::requests::{ProofRequest, requests};
use crate::rules::{DifferenceCase, DifferenceVerdict, judge};
use crate::servers::ProofServers;
use crate::world;

/// The config of Weir within the copy of the file system.
const IMPORTED: &str = "/run/weir-proof/weir.toml";

/// The files beside the original.
struct Beside(PathBuf);

impl SourceFiles for Beside {
    fn read(&self, path: &str) -> std::io::Result<String> {
        fs::read_to_string(self.0.join(path))
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let Some((folder, name)) = pattern.rsplit_once('/') else { return Vec::new() };
        let Some((before, after)) = name.split_once('*') else { return Vec::new() };
        let entries = fs::read_dir(self.0.join(folder)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let fits = |name: &String| name.starts_with(before) && name.ends_with(after);
        let mut found: Vec<String> = names.filter(fits).map(|name| format!("{folder}/{name}")).collect();
        found.sort();
        found
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }
}

/// Whether nothing was found that is not meant.
pub(crate) fn prove(arguments: &ProofArguments, sockets: &[String]) -> anyhow::Result<bool> {
    let file = &arguments.file;
    let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let format = arguments.format(&text)?;
    let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let facts = match format {
        SourceFormat::Nginx => nginx::facts(file, &text),
        SourceFormat::Haproxy => haproxy::facts(&text),
        SourceFormat::Caddy => bail!("a Caddyfile cannot be proved yet"),
        SourceFormat::Traefik => bail!("a config of Traefik cannot be proved yet"),
    };
    let imported =
        import(format, &[&name], &Beside(folder.clone())).map_err(|error| anyhow::anyhow!("{error}"))?;
    let product = if format == SourceFormat::Nginx { "nginx" } else { "haproxy" };
    let peer = match &arguments.program {
        Some(program) => program.clone(),
        None => program::find(product)?,
    };
    let weir = enter(arguments, &folder, sockets)?;
    let servers = world::prepare(&facts)?;
    fs::write(IMPORTED, &imported.toml)?;
    // A config that is given has its files beside it.
    let config = arguments.config.as_deref().unwrap_or(Path::new(IMPORTED));
    world::write_secrets(config)?;
    let asked = requests(&facts, arguments.requests, arguments.seed);
    let original = match format {
        SourceFormat::Nginx => program::nginx(&peer, file, &facts, &text),
        _ => program::haproxy(&peer, file),
    };
    let theirs = outcomes(original, &facts, &servers, &asked).context("the original")?;
    let their_logs = logs::take(&facts, &servers);
    let ours = outcomes(program::weir(&weir, config), &facts, &servers, &asked);
    let ours = ours.with_context(|| match &arguments.config {
        Some(config) => config.display().to_string(),
        None => "the imported config".to_owned(),
    })?;
    let our_logs = logs::take(&facts, &servers);
    let mut report = ProofReport::new(&name, &text);
    // A config that is given says nothing of what it lacks.
    let declared = match arguments.config.is_some() {
        true => DeclaredLosses::default(),
        false => DeclaredLosses::of(&imported.report),
    };
    let judged = judge_all(&facts, &asked, (&theirs, &ours), &declared, &mut report);
    logs::compare(&their_logs, &our_logs, (&declared, &judged), &mut report);
    if arguments.json {
        println!("{:#}", report.to_json());
    } else {
        print!("{report}");
    }
    Ok(report.count(DifferenceVerdict::Defect) == 0)
}

/// Enters the copy of the file system, with the files beside the configs; returns where Weir is.
fn enter(arguments: &ProofArguments, folder: &Path, sockets: &[String]) -> anyhow::Result<PathBuf> {
    let weir = arguments.weir.as_deref().context("the program of Weir is not named")?;
    let mut beside = siblings(folder);
    if let Some(folder) = arguments.config.as_deref().and_then(Path::parent) {
        beside.extend(siblings(folder));
    }
    world::raise_limits();
    // What runs on this machine goes first.
    setpriority_process(None, 5)?;
    let weir = enter_copy(weir, sockets)?;
    for (path, bytes) in beside.into_iter().filter(|(path, _)| !path.exists()) {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        fs::write(path, bytes)?;
    }
    Ok(weir)
}

/// The files of the folder: it may be one that the copy of the file system does not have.
fn siblings(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let small = |path: &PathBuf| path.metadata().is_ok_and(|about| about.is_file() && about.len() < 1 << 20);
    // A folder of all sorts is not taken as a whole.
    let files = entries.filter(small).take(500);
    files.filter_map(|path| fs::read(&path).ok().map(|bytes| (path, bytes))).collect()
}

/// What becomes of all requests with one program.
fn outcomes(
    command: Command,
    facts: &OriginalFacts,
    servers: &ProofServers,
    asked: &[ProofRequest],
) -> anyhow::Result<Vec<ProofOutcome>> {
    let output = Path::new("/run/weir-proof/output");
    let program = ProofProgram::start(command, facts, output)?;
    // Probes of servers, and all endpoints.
    pause(Duration::from_millis(1200));
    servers.take();
    let client = ProofClient::new()?;
    let mut outcomes: Vec<ProofOutcome> = asked
        .iter()
        .map(|request| {
            let answer = client.ask(request, &facts.endpoints[request.endpoint]);
            ProofOutcome { answer, seen: Vec::new() }
        })
        .collect();
    // What is mirrored may come late.
    pause(Duration::from_millis(300));
    for seen in servers.take() {
        if let Some(outcome) = seen.number().and_then(|number| outcomes.get_mut(number)) {
            outcome.seen.push(seen);
        }
    }
    drop(program);
    wait_until(Duration::from_secs(5), || {
        facts.endpoints.iter().all(|endpoint| {
            std::net::TcpStream::connect(std::net::SocketAddr::new(endpoint.address, endpoint.port)).is_err()
        })
    });
    Ok(outcomes)
}

/// Returns the methods and targets of requests that have another status or body, whose lines in logs differ therefore.
fn judge_all(
    facts: &OriginalFacts,
    asked: &[ProofRequest],
    (theirs, ours): (&[ProofOutcome], &[ProofOutcome]),
    declared: &DeclaredLosses,
    report: &mut ProofReport,
) -> BTreeSet<String> {
    let mut judged = BTreeSet::new();
    report.requests = asked.len();
    for ((request, their), our) in asked.iter().zip(theirs).zip(ours) {
        let found = differences(facts, their, our);
        let mut is_same = true;
        for difference in found {
            if matches!(&*difference.aspect, "status" | "body") {
                judged.insert(format!("{} {}", request.method, request.target));
            }
            let case = DifferenceCase {
                host: &request.host,
                method: &request.method,
                target: &request.target,
                fields: &request.fields,
                difference: &difference,
                theirs: their,
                ours: our,
            };
            let line = report.line_of(&difference, request, facts);
            let is_told = |line: &u32| facts.is_near(*line, &declared.lines);
            let (verdict, rule) = match judge(&case) {
                Some(rule) => (rule.verdict, rule.name),
                // What was asked for in general may meet any line.
                None if (line == 0 && !declared.lines.is_empty())
                    || is_told(&line)
                    || request.lines.iter().any(is_told)
                    || declared.lines.contains(&request.host_line) =>
                {
                    (DifferenceVerdict::Declared, "report")
                }
                None if declared.closes && matches!(our.answer.status(), 501 | 508) => {
                    (DifferenceVerdict::Declared, "report")
                }
                None => (DifferenceVerdict::Defect, "no rule"),
            };
            is_same &= verdict <= DifferenceVerdict::Deliberate;
            report.add(verdict, rule, line, &request.summary(), &difference);
        }
        report.same += usize::from(is_same);
    }
    judged
}
