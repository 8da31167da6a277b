//! `h2load`: kept connections of HTTP/2 or HTTP/3 with a number of streams each, a closed loop.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{ToolOrder, ToolResult, grpc_client, number};
use crate::load::exchange::OWN_FIELDS;
use crate::origin::PAGE_LEN;
use crate::wire::pattern;

/// The file of a body, in the folder of the order.
const BODY: &str = "h2load.body";

/// Writes the body of the requests, if they have one.
pub(super) fn prepare(order: &ToolOrder<'_>) -> anyhow::Result<()> {
    let body = pattern::run(0, pattern::PERIOD).iter().copied().cycle().take(order.body);
    if order.body > 0 {
        std::fs::write(order.dir.join(BODY), body.collect::<Vec<u8>>())
            .context("cannot write the body for h2load")?;
    }
    Ok(())
}

pub(super) fn args(order: &ToolOrder<'_>) -> Vec<String> {
    let scheme = if order.is_secure { "https" } else { "http" };
    let body = format!("--data={}", order.dir.join(BODY).display());
    let post = ["--header=Content-Type: text/plain".to_owned(), body];
    let post = post.into_iter().filter(|_| order.body > 0);
    let fields = OWN_FIELDS.lines().flat_map(|field| ["--header", field]).map(str::to_owned);
    let usual = [
        "--threads=1",
        &format!("--clients={}", order.clients),
        &format!("--max-concurrent-streams={}", order.streams),
        &format!("--duration={}", order.window.as_secs().max(1)),
        &format!("{scheme}://{}{}", order.authority, order.path),
    ]
    .map(str::to_owned);
    let http3 = order.suite.map(|suite| {
        // One suite and one group, as the driver offers them.
        [
            "--alpn-list=h3".to_owned(),
            format!("--tls13-ciphers={}", suite.name()),
            "--groups=X25519".to_owned(),
        ]
    });
    fields.chain(post).chain(http3.into_iter().flatten()).chain(usual).collect()
}

/// Asks for the page once, to see whether a target answers at all.
///
/// # Errors
/// What is wrong, as the tool says it.
pub fn once(authority: &str, is_secure: bool) -> anyhow::Result<()> {
    let scheme = if is_secure { "https" } else { "http" };
    first(&[format!("{scheme}://{authority}/")], PAGE_LEN)
}

/// The same with a call of gRPC. `dir`: a folder for its message.
///
/// # Errors
/// What is wrong, as the tool says it.
pub fn call_once(authority: &str, dir: &Path) -> anyhow::Result<()> {
    let message = dir.join(BODY);
    std::fs::write(&message, grpc_client::unary_message())?;
    let fields = ["--header=content-type: application/grpc", "--header=te: trailers"].map(str::to_owned);
    let url = format!("http://{authority}{}", grpc_client::UNARY_PATH);
    // A call that fails has an answer without a body.
    let answer_min = u64::from(grpc_client::PAYLOAD);
    first(&[&fields[..], &[format!("--data={}", message.display()), url]].concat(), answer_min)
}

/// One request, with an answer of at least so many bytes.
fn first(args: &[String], answer_min: u64) -> anyhow::Result<()> {
    let installed = super::installed(super::LoadTool::H2load);
    let installed = installed.with_context(|| format!("h2load is missing: {}", super::HOW_TO_GET))?;
    let output =
        Command::new(&installed.program).args(["--requests=1", "--clients=1"]).args(args).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let is_whole = |result: &ToolResult| result.body_bytes >= Some(answer_min);
    let is_answered = read(&printed).is_some_and(|result| result.answered == 1 && is_whole(&result));
    ensure!(is_answered, "h2load has no answer: {printed}");
    Ok(())
}

/// Reads its output; `None` when that is not a result. It tells no percentiles.
pub fn read(printed: &str) -> Option<ToolResult> {
    let line = |start: &str| printed.lines().find_map(|line| line.strip_prefix(start));
    let counts = line("requests: ")?;
    let count = |word: &str| {
        let mut parts = counts.split(", ").map(str::trim);
        parts.find_map(|part| Some(number(part.strip_suffix(word)?)? as u64))
    };
    let rate = line("finished in ")?.split(", ").find_map(|part| part.strip_suffix(" req/s"))?;
    let mut result = ToolResult { rate: number(rate)?, ..ToolResult::default() };
    let (started, done) = (count(" started")?, count(" done")?);
    result.answered = count(" succeeded")?;
    let failed = count(" failed")?;
    result.faults.note_many("status", failed, || format!("h2load: {failed} answers were not 2xx or 3xx"));
    for kind in ["errored", "timeout"] {
        let times = count(&format!(" {kind}"))?;
        result.faults.note_many(kind, times, || format!("h2load: {times} requests {kind}"));
    }
    if started > 0 && done == 0 {
        result.faults.note_many("connect", started, || "h2load: no answer at all".to_owned());
    }
    result.body_bytes =
        line("traffic: ").and_then(|traffic| number(traffic.rsplit_once('(')?.1)).map(|bytes| bytes as u64);
    result.longest = line("time for request:").and_then(|times| micros(times.split_whitespace().nth(1)?));
    Some(result)
}

/// A time as it prints it: `204us`, `11.01ms`, `1.20s`.
fn micros(text: &str) -> Option<f64> {
    let value = number(text)?;
    match text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.') {
        "us" => Some(value),
        "ms" => Some(value * 1e3),
        "s" => Some(value * 1e6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{ToolOrder, args, read};
    use crate::load::tool::grpc_client::GrpcCalls;
    use crate::topology::listener::Suite;
    use std::path::Path;
    use std::time::Duration;

    const GOOD: &str = include_str!("fixtures/h2load-1.52.0.txt");
    const STATUS: &str = include_str!("fixtures/h2load-1.52.0-404.txt");
    const REFUSED: &str = include_str!("fixtures/h2load-1.52.0-refused.txt");

    #[test]
    fn a_good_run_is_read() {
        let result = read(GOOD).unwrap();
        assert_eq!((result.answered, result.rate, result.longest), (32_351, 16_175.5, Some(11_010.0)));
        assert_eq!(result.body_bytes, Some(19_798_812));
        assert!(result.faults.is_empty());
    }

    #[test]
    fn faults_are_read() {
        let result = read(STATUS).unwrap();
        assert_eq!((result.answered, result.faults.kinds["status"]), (0, 20_936));
        let result = read(REFUSED).unwrap();
        assert_eq!((result.answered, result.faults.kinds["connect"]), (0, 20));
    }

    #[test]
    fn http3_is_spoken_where_there_is_a_suite_for_it() {
        let order = ToolOrder {
            authority: "127.0.0.1:1",
            path: "/",
            body: 0,
            answer: 612,
            calls: GrpcCalls::default(),
            clients: 4,
            streams: 10,
            is_secure: true,
            suite: None,
            rate: None,
            window: Duration::from_secs(2),
            dir: Path::new("/"),
        };
        assert!(!args(&order).iter().any(|arg| arg.contains("h3")));
        let http3 = args(&ToolOrder { suite: Some(Suite::Tls13Aes128), ..order });
        for arg in ["--alpn-list=h3", "--tls13-ciphers=TLS_AES_128_GCM_SHA256", "--clients=4"] {
            assert!(http3.iter().any(|other| other == arg), "{arg}: {http3:?}");
        }
        assert_eq!(http3.last().map(String::as_str), Some("https://127.0.0.1:1/"));
    }

    #[test]
    fn other_text_is_no_result() {
        assert_eq!(read("h2load: unknown option\n"), None);
        assert_eq!(read(""), None);
    }
}
