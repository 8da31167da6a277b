//! `weir-lab run --url URL`: the options, and what they come to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use clap::Args;
use hdrhistogram::Histogram;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};

use super::access_log::{self, LoggedRequests};
use super::arrivals::{DueTimes, RatePhase, RatePlan, RequestSpacing};
use super::driver::SitePlan;
use super::expectation::{AnswerExpectation, StatusSet};
use super::prepared::prepare;
use super::request::{GivenFields, SiteRequest, check_method, check_path};
use super::request_file;
use super::rounds::{self, SiteRun};
use super::site_url::SiteUrl;
use super::{export, report};
use crate::length;
use crate::load::TlsClient;
use crate::load::http3::setup::Http3Setup;
use crate::load::tls::ServerTrust;
use crate::placement;
use crate::results::run::Run;
use crate::scenario::site::SiteProtocol;

/// Heading of these options.
const HEADING: &str = "A site that runs already (--url without a scenario)";

/// What to ask a site for, when, and what to expect.
#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub struct SiteArgs {
    /// Ask for this path; may be repeated, and they take turns. Without it, that of the URL.
    #[arg(long, conflicts_with = "scenario")]
    path: Vec<String>,
    /// Ask for the paths in this file, one a line.
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    paths: Option<PathBuf>,
    /// Send the requests in this file, one a line as JSON: method, path, body, status.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "path", "paths", "method", "body"])]
    requests: Option<PathBuf>,
    /// Send the requests of an access log: Weir's JSON, or the combined or common format.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "path", "paths", "requests", "method", "body", "rate"])]
    replay: Option<PathBuf>,
    /// How fast a log is replayed: 1 is its own time, 2 is twice as fast, `max` is a closed loop.
    #[arg(long, default_value = "1", requires = "replay", value_parser = read_speed)]
    speed: ReplaySpeed,
    /// The method.
    #[arg(long, default_value = "GET", conflicts_with = "scenario")]
    method: String,
    /// A field of every request, `Name: value`; may be repeated. Host is the name that is asked for.
    #[arg(long, value_name = "FIELD", conflicts_with = "scenario")]
    field: Vec<String>,
    /// The body of every request.
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    body: Option<PathBuf>,
    /// What the clients speak.
    #[arg(long, value_enum, default_value_t, conflicts_with = "scenario")]
    protocol: SiteProtocol,
    /// Connect to this address in place of that of the URL.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "scenario")]
    connect: Option<String>,
    /// Trust the certificates of the authorities in this file, in place of those of the system.
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    ca: Option<PathBuf>,
    /// Trust any certificate.
    #[arg(long, conflicts_with_all = ["scenario", "ca"])]
    insecure: bool,
    /// Clients: connections at a time.
    #[arg(long, default_value_t = 10, conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// Requests at a time on each connection, with HTTP/2 and HTTP/3.
    #[arg(long, default_value_t = 1, conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..))]
    streams: u32,
    /// Open a connection for each request.
    #[arg(long, conflicts_with = "scenario")]
    no_keepalive: bool,
    /// Requests per second: `500`, or phases such as `100x10s,100..1000x30s,1000x10s`. Without it, a closed loop.
    #[arg(long, conflicts_with = "scenario")]
    rate: Option<RatePlan>,
    /// How requests of a rate are spaced.
    #[arg(long, value_enum, default_value_t, requires = "rate")]
    spacing: RequestSpacing,
    /// Number from which random times are drawn.
    #[arg(long, default_value_t = 1, requires = "rate")]
    seed: u64,
    /// Load before the window, which is not counted.
    #[arg(long, default_value = "2s", conflicts_with_all = ["scenario", "replay"], value_parser = length::read)]
    warm_up: Duration,
    /// A request that takes longer has failed.
    #[arg(long, default_value = "10s", conflicts_with = "scenario", value_parser = length::read)]
    timeout: Duration,
    /// A process of the site on this machine, with all that it has started: its CPU time and memory. May be repeated.
    #[arg(long, conflicts_with = "scenario")]
    pid: Vec<i32>,
    /// Statuses that are right, such as `200`, `2xx,404` or `any`. By default, those below 400; of a log, those like its own.
    #[arg(long, value_name = "STATUSES", conflicts_with = "scenario")]
    expect_status: Option<StatusSet>,
    /// Bytes that every answer must have.
    #[arg(long, value_name = "BYTES", conflicts_with = "scenario")]
    expect_length: Option<u64>,
    /// A text that every answer must have, in its body as it is sent.
    #[arg(long, value_name = "TEXT", conflicts_with = "scenario")]
    expect_text: Option<String>,
    /// Take any complete answer.
    #[arg(long, conflicts_with_all = ["scenario", "expect_status", "expect_length", "expect_text"])]
    no_checks: bool,
    /// Fail when the P99 latency of a phase is longer in any round.
    #[arg(long, value_name = "TIME", conflicts_with = "scenario", value_parser = length::read)]
    max_p99: Option<Duration>,
    /// Fail when a smaller share of the requests is answered as expected, in percent.
    #[arg(long, value_name = "PERCENT", conflicts_with = "scenario")]
    min_available: Option<f64>,
    /// Write all figures to this file as JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    json: Option<PathBuf>,
    /// Write the percentiles of all latencies into this folder, for the plotters of HdrHistogram.
    #[arg(long, value_name = "FOLDER", conflicts_with = "scenario")]
    hdr: Option<PathBuf>,
}

/// What all runs have.
#[derive(Debug)]
pub struct SiteOptions {
    /// The URL.
    pub url: String,
    /// Rounds.
    pub rounds: Option<u32>,
    /// The length of the window, where no phase has one.
    pub window: Option<Duration>,
    /// A run of a few seconds.
    pub short: bool,
    /// Set when the user wants it to end.
    pub interrupted: Arc<AtomicBool>,
}

/// How fast a log is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ReplaySpeed {
    Times(f64),
    Max,
}

fn read_speed(text: &str) -> Result<ReplaySpeed, String> {
    match text.parse() {
        _ if text == "max" => Ok(ReplaySpeed::Max),
        Ok(times) if times > 0.0 && f64::is_finite(times) => Ok(ReplaySpeed::Times(times)),
        _ => Err("how many times as fast as the log, such as 1, 2 or 0.5; or `max`".to_owned()),
    }
}

/// Rounds and window without options.
const ROUNDS: u32 = 3;
const WINDOW: Duration = Duration::from_secs(10);

/// Where systems have the certificates that they trust.
const ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A connection of QUIC that hears nothing for so long is over.
const QUIC_IDLE: Duration = Duration::from_secs(30);

/// The requests of a run, the order in which they are sent, and when they are due.
struct SiteLoad {
    requests: Vec<SiteRequest>,
    order: Vec<u32>,
    due: DueTimes,
    is_closed: bool,
    warm_up: Duration,
    phases: Vec<(String, Duration)>,
    /// In words: what, and when.
    words: (String, String),
    note: Option<String>,
}

impl SiteArgs {
    /// Runs the load; gives the run and writes what was asked for besides.
    ///
    /// # Errors
    /// When an option makes no sense, the first request fails, or it was interrupted.
    pub fn run(&self, options: &SiteOptions) -> anyhow::Result<Run> {
        placement::raise_descriptor_limit();
        let url: SiteUrl = options.url.parse()?;
        let (load, plan) = self.plan(&url, options)?;
        let seen = rounds::probe(&plan, &options.interrupted)
            .with_context(|| format!("{url} by {}", self.protocol.name()))?;
        let rounds = if options.short { 1 } else { options.rounds.unwrap_or(ROUNDS) };
        let names: Vec<String> = load.phases.iter().map(|(name, _)| name.clone()).collect();
        let length: Duration = plan.warm_up + plan.phases.iter().sum::<Duration>();
        eprintln!(
            "{url}: the first answer has status {} and {} bytes; {rounds} rounds of {:.0} s",
            seen.status,
            seen.len,
            length.as_secs_f64()
        );
        let site = SiteRun {
            plan: &plan,
            names: &names,
            rounds,
            pids: &self.pid,
            interrupted: Arc::clone(&options.interrupted),
        };
        let figures = site.measure()?;
        let run = report::run(&self.described(&url, &load), rounds, options.short, figures.measurements);
        self.write(&run, &figures.latencies)?;
        Ok(run)
    }

    /// Whether bars were given, which decide the exit status.
    pub fn has_bars(&self) -> bool {
        self.max_p99.is_some() || self.min_available.is_some()
    }

    fn described(&self, url: &SiteUrl, load: &SiteLoad) -> report::SiteDescription {
        report::SiteDescription {
            url: url.to_string(),
            protocol: self.protocol,
            clients: self.clients as usize,
            streams: self.streams as usize,
            requests: load.words.0.clone(),
            load: load.words.1.clone(),
            checks: self.checks_in_words(),
            is_open_loop: !load.is_closed,
            has_process: !self.pid.is_empty(),
            keeps_connections: !self.no_keepalive,
            warm_up: load.warm_up,
            window: load.phases.iter().map(|(_, length)| *length).sum(),
            max_p99: self.max_p99,
            min_available: self.min_available,
            notes: load.note.iter().cloned().collect(),
        }
    }

    fn checks_in_words(&self) -> String {
        if self.no_checks {
            return "nothing".to_owned();
        }
        let status = match (&self.expect_status, self.replay.is_some()) {
            (Some(statuses), _) => format!("status {statuses}"),
            (None, true) => "a status like that of the log".to_owned(),
            (None, false) => "a status below 400".to_owned(),
        };
        let len = self.expect_length.map(|len| format!("{len} bytes"));
        let text = self.expect_text.as_ref().map(|text| format!("`{text}` in the body"));
        [Some(status), len, text].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The load, and the plan of the driver.
    fn plan(&self, url: &SiteUrl, options: &SiteOptions) -> anyhow::Result<(SiteLoad, SitePlan)> {
        let is_http1 = self.protocol == SiteProtocol::Http1;
        ensure!(
            !is_http1 || self.streams == 1,
            "--streams is for HTTP/2 and HTTP/3: add --protocol http2, or use --clients"
        );
        ensure!(is_http1 || !self.no_keepalive, "--no-keepalive is for HTTP/1.1");
        ensure!(self.protocol != SiteProtocol::Http3 || url.is_secure, "HTTP/3 is for https:// only");
        ensure!(
            url.is_secure || (self.ca.is_none() && !self.insecure),
            "--ca and --insecure are for https:// only"
        );
        for pid in &self.pid {
            ensure!(rounds::is_running(*pid), "there is no process {pid} on this machine (--pid)");
        }
        let fields = GivenFields::read(&url.authority, &self.field)?;
        let load = self.load(url, options)?;
        let closes = self.no_keepalive;
        let prepared = |it: &SiteRequest| prepare(it, &fields, self.protocol, url.is_secure, closes);
        let target = match &self.connect {
            None => url.addr()?,
            Some(connect) => {
                let other: SiteUrl = format!("http://{connect}").parse().context("--connect")?;
                other.addr().context("--connect")?
            }
        };
        let secure = self.secure(url)?;
        let quic = (self.protocol == SiteProtocol::Http3).then_some(secure.as_ref()).flatten();
        let plan = SitePlan {
            target,
            protocol: self.protocol,
            quic: quic.map(|tls| Http3Setup::new(tls, QUIC_IDLE)).transpose()?,
            secure,
            requests: load.requests.iter().map(prepared).collect(),
            order: load.order.clone(),
            clients: self.clients as usize,
            streams: self.streams as usize,
            due: load.due.clone(),
            is_closed: load.is_closed,
            warm_up: load.warm_up,
            phases: load.phases.iter().map(|(_, length)| *length).collect(),
            timeout: self.timeout,
            requests_max: None,
        };
        Ok((load, plan))
    }

    fn secure(&self, url: &SiteUrl) -> anyhow::Result<Option<TlsClient>> {
        if !url.is_secure {
            return Ok(None);
        }
        let trust = match (&self.ca, self.insecure) {
            (_, true) => ServerTrust::Anyone,
            (Some(file), _) => ServerTrust::Roots(roots(file)?),
            (None, _) => {
                let file = ROOTS.iter().map(Path::new).find(|file| file.exists());
                ServerTrust::Roots(roots(
                    file.context("this system has no list of authorities: give --ca FILE, or --insecure")?,
                )?)
            }
        };
        let name =
            ServerName::try_from(url.host.clone()).context("the host of the URL is no name for TLS")?;
        let protocol: &[u8] = if self.protocol == SiteProtocol::Http2 { b"h2" } else { b"http/1.1" };
        // Connections that are kept have no use for sessions; others resume them, as browsers do.
        TlsClient::of_site(trust, name, protocol, self.no_keepalive).map(Some)
    }

    fn expectation(&self, usual: StatusSet) -> AnswerExpectation {
        let status = match (&self.expect_status, self.no_checks) {
            (_, true) => "any".parse().unwrap_or(usual),
            (Some(status), _) => status.clone(),
            (None, _) => usual,
        };
        let text = self.expect_text.as_ref().map(|text| text.as_bytes().into());
        AnswerExpectation { status, len: self.expect_length, text }
    }

    fn load(&self, url: &SiteUrl, options: &SiteOptions) -> anyhow::Result<SiteLoad> {
        let window = options.window.unwrap_or(WINDOW);
        let window = if options.short { window.min(Duration::from_secs(1)) } else { window };
        if let Some(file) = &self.replay {
            return self.replayed(&access_log::read_file(file)?, window);
        }
        let requests = self.asked(url)?;
        let warm_up = if options.short { self.warm_up.min(Duration::from_millis(200)) } else { self.warm_up };
        let what = match &requests[..] {
            [one] => format!("{} {}", one.method, one.path),
            several => format!("{} different requests in turn", several.len()),
        };
        let order = (0..requests.len() as u32).collect();
        let Some(RatePlan(phases)) = &self.rate else {
            return Ok(SiteLoad {
                requests,
                order,
                due: DueTimes::never(),
                is_closed: true,
                warm_up,
                phases: vec![(String::new(), window)],
                words: (what, "as fast as answers come".to_owned()),
                note: None,
            });
        };
        let with_length = |phase: &RatePhase| (*phase, phase.length.unwrap_or(window));
        let counted: Vec<(RatePhase, Duration)> = phases.iter().map(with_length).collect();
        let first = counted[0].0;
        let before = RatePhase { to: first.from, ..first };
        let due: Vec<_> = std::iter::once((before, warm_up)).chain(counted.iter().copied()).collect();
        let name = |(number, (phase, _)): (usize, &(RatePhase, Duration))| match counted.len() {
            1 => String::new(),
            _ => format!("{}: {}", number + 1, phase.name()),
        };
        let spacing = if self.spacing == RequestSpacing::Poisson { ", at random" } else { "" };
        let rates: Vec<String> = counted.iter().map(|(phase, _)| phase.name()).collect();
        Ok(SiteLoad {
            requests,
            order,
            due: DueTimes::of(&due, self.spacing, self.seed),
            is_closed: false,
            warm_up,
            phases: counted
                .iter()
                .enumerate()
                .map(name)
                .zip(counted.iter().map(|(_, length)| *length))
                .collect(),
            words: (what, format!("{}{spacing}", rates.join(", then "))),
            note: None,
        })
    }

    /// The requests of the options, or of a file.
    fn asked(&self, url: &SiteUrl) -> anyhow::Result<Vec<SiteRequest>> {
        let expected = self.expectation(StatusSet::usual());
        if let Some(file) = &self.requests {
            let read = |file: &Path| {
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
            };
            return request_file::read(&read(file)?, &expected).with_context(|| file.display().to_string());
        }
        check_method(&self.method)?;
        let body = match &self.body {
            None => Bytes::new(),
            Some(file) => {
                std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?.into()
            }
        };
        let mut paths = self.path.clone();
        if let Some(file) = &self.paths {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            paths.extend(request_file::paths(&text).with_context(|| file.display().to_string())?);
        }
        if paths.is_empty() {
            paths.push(url.path.clone());
        }
        paths.iter().try_for_each(|path| check_path(path))?;
        let request = |path: String| SiteRequest {
            method: self.method.clone(),
            path,
            body: body.clone(),
            expected: expected.clone(),
        };
        Ok(paths.into_iter().map(request).collect())
    }

    /// The requests of a log; the same ones are prepared once.
    fn replayed(&self, log: &LoggedRequests, window: Duration) -> anyhow::Result<SiteLoad> {
        let mut requests: Vec<SiteRequest> = Vec::new();
        let mut known = std::collections::HashMap::new();
        let mut order = Vec::with_capacity(log.requests.len());
        for logged in &log.requests {
            let key = (&*logged.method, &*logged.path, logged.status);
            let number = *known.entry(key).or_insert_with(|| {
                requests.push(SiteRequest {
                    method: logged.method.clone(),
                    path: logged.path.clone(),
                    body: Bytes::new(),
                    expected: self.expectation(logged.statuses()),
                });
                requests.len() as u32 - 1
            });
            order.push(number);
        }
        let what = format!("the {} requests of a log, {} different ones", order.len(), requests.len());
        let note = access_log::remark(log);
        let (phases, due, is_closed, load) = match self.speed {
            ReplaySpeed::Max => (window, DueTimes::never(), true, "as fast as answers come".to_owned()),
            ReplaySpeed::Times(times) => {
                let due: Vec<u64> = log.requests.iter().map(|it| (it.due as f64 / times) as u64).collect();
                // Half a second more, so that the last one is inside.
                let length = Duration::from_nanos(due.last().copied().unwrap_or_default())
                    + Duration::from_millis(500);
                if length > REPLAY_MAX {
                    bail!(
                        "the log has {:.0} h at this speed; cut it, or give a higher --speed",
                        length.as_secs_f64() / 3600.0
                    );
                }
                let speed = if times == 1.0 {
                    "in its own time".to_owned()
                } else {
                    format!("{times} times as fast as it was")
                };
                (length, DueTimes::listed(due), false, speed)
            }
        };
        Ok(SiteLoad {
            requests,
            order,
            due,
            is_closed,
            warm_up: Duration::ZERO,
            phases: vec![(String::new(), phases)],
            words: (what, load),
            note,
        })
    }

    /// Writes what was asked for beside the report.
    fn write(&self, run: &Run, latencies: &[(String, Histogram<u64>)]) -> anyhow::Result<()> {
        if let Some(file) = &self.json {
            let text = serde_json::to_string_pretty(run)?;
            std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
        }
        if let Some(folder) = &self.hdr {
            export::write(latencies, folder)?;
        }
        Ok(())
    }
}

/// The longest replay.
const REPLAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// The certificates in a file.
fn roots(file: &Path) -> anyhow::Result<RootCertStore> {
    let unreadable = || format!("cannot read certificates from {}", file.display());
    let found: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_file_iter(file).with_context(unreadable)?.collect();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.with_context(unreadable)?);
    ensure!(added > 0, "there is no certificate in {}", file.display());
    Ok(roots)
}
