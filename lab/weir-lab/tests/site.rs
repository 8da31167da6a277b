//! `weir-lab run --url` against a site of nginx, which is not the lab's own: every protocol that distributions have, logs that it wrote
//! itself, and what goes wrong. Rates are low, so that a machine which is busy with other things changes nothing.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use weir_lab::measure::metric::Metric;
use weir_lab::process::{Guarded, Job, Launcher};
use weir_lab::report::folder;
use weir_lab::results::run::Run;
use weir_lab::target::certificate::{NAME, TargetCertificate};
use weir_lab::topology::listener::CertificateKey;

const LIMIT: Duration = Duration::from_secs(60);

/// A site, with what it needs in a folder of its own.
struct Site {
    dir: tempfile::TempDir,
    nginx: Guarded,
    plain: SocketAddr,
    secure: SocketAddr,
    /// The certificate that it shows.
    certificate: PathBuf,
}

fn free_addr() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn start() -> Site {
    let dir = tempfile::tempdir().unwrap();
    let certificate = TargetCertificate::make(CertificateKey::EcdsaP256, dir.path()).unwrap();
    std::fs::write(dir.path().join("index.html"), "a".repeat(5000) + "Welcome back").unwrap();
    let (plain, secure, at) = (free_addr(), free_addr(), dir.path().display());
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {at}/{name};"))
        .concat();
    let config = format!(
        "daemon off; worker_processes 1; pid {at}/pid; error_log {at}/error.log;
        events {{ worker_connections 1024; }}
        http {{ access_log {at}/access.log combined; root {at}; {temporary}
            server {{ listen {plain}; location = /gone {{ return 410; }} location = /slow {{ limit_rate 1; }}
                location = /echo {{ return 200 \"$request_method $content_length $http_x_a $host\"; }} }}
            server {{ listen {secure} ssl http2; ssl_certificate {}; ssl_certificate_key {};
                location = /echo {{ proxy_pass http://{plain}; }} }} }}",
        certificate.certificate.display(),
        certificate.key.display()
    );
    let file = dir.path().join("nginx.conf");
    std::fs::write(&file, config).unwrap();
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"].map(PathBuf::from).into_iter().find(|it| it.exists());
    let args = ["-e", "stderr", "-c", &file.display().to_string()].map(str::to_owned).to_vec();
    let job = Job { program: program.unwrap(), args, log: dir.path().join("log"), ..Job::default() };
    let launcher = Launcher { program: PathBuf::from(env!("CARGO_BIN_EXE_weir-lab")), prefix: Vec::new() };
    let mut nginx = Guarded::start(&launcher, &job).unwrap();
    nginx.wait_listening(plain, LIMIT).unwrap();
    Site { dir, nginx, plain, secure, certificate: certificate.certificate }
}

impl Site {
    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// One short round with these options: the exit status, the saved run, and what was said.
fn run(dir: &Path, url: &str, options: &[&str]) -> (Option<i32>, Option<Run>, String) {
    let saved = tempfile::tempdir_in(dir).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(["run", "--url", url, "--rounds", "1"])
        .args(options)
        .arg(format!("--save={}", saved.path().display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let folders = std::fs::read_dir(saved.path()).into_iter().flatten().flatten();
    let run = folders.map(|saved| folder::load(&saved.path()).unwrap()).next();
    (output.status.code(), run, said)
}

/// The same, which must go well: the figures of the only phase.
fn figures(dir: &Path, url: &str, options: &[&str]) -> (weir_lab::results::measurement::Measurement, String) {
    let (code, run, said) = run(dir, url, options);
    assert_eq!(code, Some(0), "{said}");
    let mut run = run.unwrap();
    assert_eq!(run.measurements.len(), 1, "{said}");
    (run.measurements.remove(0), said)
}

const SHORT: [&str; 4] = ["--window", "1s", "--warm-up", "100ms"];

#[test]
fn a_site_is_asked_by_every_protocol() {
    let site = start();
    let (plain, secure) = (format!("http://{}/", site.plain), format!("https://{NAME}/"));
    let connect = site.secure.to_string();
    let ca = site.certificate.display().to_string();
    let pid = site.nginx.pid().to_string();
    let tls = ["--connect", &connect, "--ca", &ca];
    for (url, options) in [
        (&plain, vec!["--pid", &pid]),
        (&plain, vec!["--no-keepalive", "--rate", "50"]),
        (&secure, [&tls[..], &["--rate", "50"]].concat()),
        (&secure, [&tls[..], &["--no-keepalive", "--rate", "50"]].concat()),
        (&secure, [&tls[..], &["--protocol", "http2", "--clients", "2", "--streams", "5"]].concat()),
        (&secure, vec!["--connect", &connect, "--insecure", "--protocol", "http2", "--rate", "50"]),
    ] {
        let checks = ["--expect-text", "Welcome back", "--expect-length", "5012"];
        let (it, said) = figures(site.dir.path(), url, &[&options[..], &SHORT, &checks].concat());
        assert_eq!((it.values[&Metric::Failed], it.values[&Metric::Availability]), (0.0, 100.0), "{said}");
        assert!(it.values[&Metric::P50] > 0.0 && it.values[&Metric::BytesPerSecond] > 0.0, "{said}");
        assert_eq!(it.values.contains_key(&Metric::CpuPerRequest), options[0] == "--pid", "{said}");
        if options.contains(&"--rate") {
            assert_eq!(it.values[&Metric::RequestsPerSecond], 50.0, "{said}");
        }
    }
}

#[test]
fn method_fields_and_body_arrive_as_given() {
    let site = start();
    let body = site.file("body");
    // More than the windows of HTTP/2 have at first.
    std::fs::write(&body, vec![b'x'; 200_000]).unwrap();
    let body = body.display().to_string();
    let own = ["--path", "/echo", "--method", "PUT", "--body", &body, "--field", "X-A: b"];
    let load = [&own[..], &["--expect-text", "PUT 200000 b"], &SHORT, &["--rate", "20"]].concat();
    figures(site.dir.path(), &format!("http://{}/", site.plain), &load);
    let secure = format!("https://{}/", site.secure);
    figures(site.dir.path(), &secure, &[&load[..], &["--insecure", "--protocol", "http2"]].concat());
    let host = ["--path", "/echo", "--field", "Host: shop.example", "--expect-text", "shop.example"];
    figures(site.dir.path(), &format!("http://{}/", site.plain), &[&host[..], &SHORT].concat());
}

#[test]
fn answers_that_are_not_as_expected_are_failures() {
    let site = start();
    let url = format!("http://{}/", site.plain);
    let (code, run, said) = run(
        site.dir.path(),
        &url,
        &[&SHORT[..], &["--path", "/", "--path", "/gone", "--rate", "40"]].concat(),
    );
    let run = run.unwrap();
    assert_eq!((code, run.measurements[0].values[&Metric::Failed]), (Some(0), 20.0), "{said}");
    assert_eq!(run.measurements[0].values[&Metric::Availability], 50.0, "{said}");
    assert!(said.contains("statuses: 200 x 20, 410 x 20"), "{said}");
    let (code, _, said) = self::run(site.dir.path(), &format!("{url}gone"), &SHORT);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("the first request fails: status 410") && said.contains("--expect-status"),
        "{said}"
    );
    let (code, _, said) = self::run(site.dir.path(), &format!("https://{}/", site.secure), &SHORT);
    assert_eq!(code, Some(1));
    assert!(said.contains("--insecure"), "{said}");
}

#[test]
fn requests_without_an_answer_are_slow_and_not_forgotten() {
    let site = start();
    std::fs::write(site.file("slow"), "x".repeat(5000)).unwrap();
    let (url, late) = (format!("http://{}/", site.plain), ["--timeout", "300ms", "--rate", "20"]);
    let load = [&SHORT[..], &late, &["--path", "/", "--path", "/slow", "--clients", "4"]].concat();
    let (code, run, said) = run(site.dir.path(), &url, &load);
    let values = &run.unwrap().measurements[0].values;
    assert_eq!((code, values[&Metric::Failed]), (Some(0), 10.0), "{said}");
    assert!(values[&Metric::P99] > 300_000.0 && said.contains("had no answer in time"), "{said}");
}

#[test]
fn a_log_that_the_site_wrote_is_replayed() {
    let site = start();
    let url = format!("http://{}/", site.plain);
    let load = ["--path", "/", "--path", "/gone", "--rate", "20", "--expect-status", "any"];
    figures(site.dir.path(), &url, &[&SHORT[..], &load].concat());
    let log = std::fs::read_to_string(site.file("access.log")).unwrap();
    let copy = site.file("replay.log");
    std::fs::write(&copy, format!("{log}nonsense\n")).unwrap();
    let copy = copy.display().to_string();
    let requests = log.lines().count() as f64;
    for speed in ["1", "20"] {
        let (it, said) = figures(site.dir.path(), &url, &["--replay", &copy, "--speed", speed]);
        // 410 is what the log has.
        assert_eq!(it.values[&Metric::Failed], 0.0, "{said}");
        let answered: f64 = ["200 x ", "410 x "]
            .map(|status| {
                said.split(status).nth(1).unwrap().split([',', '\n']).next().unwrap().parse::<f64>().unwrap()
            })
            .iter()
            .sum();
        assert_eq!(answered, requests, "{said}");
        assert!(said.contains("1 lines of another format"), "{said}");
    }
    let (it, said) = figures(site.dir.path(), &url, &["--replay", &copy, "--speed", "max", "--window", "1s"]);
    assert!(it.values[&Metric::RequestsPerSecond] > 0.0 && it.values[&Metric::Failed] == 0.0, "{said}");
}

#[test]
fn phases_are_cases_and_figures_are_exported() {
    let site = start();
    let (json, hdr) = (site.file("run.json").display().to_string(), site.file("hdr").display().to_string());
    let load =
        ["--rate", "20x500ms,20..60x500ms,100x200ms", "--warm-up", "100ms", "--json", &json, "--hdr", &hdr];
    let (code, run, said) = run(site.dir.path(), &format!("http://{}/", site.plain), &load);
    assert_eq!(code, Some(0), "{said}");
    let cases: Vec<String> = run.unwrap().measurements.into_iter().map(|it| it.case).collect();
    assert_eq!(cases, ["1: 20/s", "2: 20 to 60/s", "3: 100/s"], "{said}");
    let figures: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(figures["measurements"][2]["values"]["requests-per-second"], 100.0);
    let percentiles = std::fs::read_to_string(Path::new(&hdr).join("latency-3--100-s.hgrm")).unwrap();
    assert!(percentiles.contains("Total count    =           20]"), "{percentiles}");
}

#[test]
fn runs_are_compared_by_exit_status() {
    let site = start();
    let compared = |before: &Path, after: &Path| {
        let command = ["compare", "--fail-on-regression=20"];
        let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
            .args(command)
            .args([before, after])
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let saved = |rounds: &str, path: &str, name: &str| {
        let root = site.file(name);
        let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
            .args(["run", "--url", &format!("http://{}{path}", site.plain), "--rounds", rounds])
            .args(["--window", "300ms", "--warm-up", "100ms", "--rate", "20", "--path", "/", "--path", path])
            .arg(format!("--save={}", root.display()))
            .args(["--expect-status", if name == "worse" { "200" } else { "any" }])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read_dir(root).unwrap().next().unwrap().unwrap().path()
    };
    let (few, good) = (saved("1", "/gone", "few"), saved("3", "/gone", "good"));
    assert_eq!(compared(&few, &good).0, Some(4));
    // Half of the answers are no longer right.
    let (code, said) = compared(&good, &saved("3", "/gone", "worse"));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("availability was 100.000 % and is 50.000 %"), "{said}");
}
