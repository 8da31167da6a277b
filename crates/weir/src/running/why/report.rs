//! The report on one exchange for people: one line for each thing, its label in front, in the order in which it happened.

use serde_json::Value;

use super::values::{millis, number};
use crate::output::{counted, lasting, shown};

/// Columns of the label, the space behind it included.
const LABEL: usize = 11;

/// Columns of a text, label excluded.
const WIDTH: usize = 100;

/// Columns of the longest bar.
const BAR: f64 = 40.0;

pub(super) fn text(exchange: &Value) -> String {
    let mut page = ReportText(String::new());
    what_came_in(&mut page, exchange);
    where_it_went(&mut page, exchange);
    how_long_it_waited(&mut page, exchange);
    let attempts = exchange["attempt_list"].as_array().map_or(&[][..], Vec::as_slice);
    for (at, attempt) in attempts.iter().enumerate() {
        let left_out = number(&exchange["attempts_omitted"]);
        if at + 1 == attempts.len() && at > 0 && left_out > 0 {
            page.line("", &format!("({} in between not kept)", counted(left_out as usize, "attempt")));
        }
        one_attempt(&mut page, at, attempt);
    }
    if exchange["running"].is_null() {
        how_it_ended(&mut page, exchange);
    } else {
        what_it_waits_for(&mut page, exchange);
    }
    why_it_failed(&mut page, exchange);
    where_the_time_went(&mut page, exchange);
    page.0
}

/// Lines with labels.
struct ReportText(String);

impl ReportText {
    /// A labelled line; long text goes on below.
    fn line(&mut self, label: &str, text: &str) {
        let mut label = label;
        let mut rest = text;
        loop {
            let end = match rest.char_indices().nth(WIDTH) {
                None => rest.len(),
                Some((at, _)) => rest[..at].rfind(' ').unwrap_or(at),
            };
            self.0.push_str(format!("{label:<LABEL$}{}", &rest[..end]).trim_end());
            self.0.push('\n');
            rest = rest[end..].trim_start();
            if rest.is_empty() {
                return;
            }
            label = "";
        }
    }
}

fn what_came_in(page: &mut ReportText, exchange: &Value) {
    let (id, other) = (shown(&exchange["id"]), shown(&exchange["number"]));
    let id = if id == other { id } else { format!("{id} ({other})") };
    let (at, total) = (shown(&exchange["time"]), millis(&exchange["total_ms"]));
    match (exchange["running"].is_null(), exchange["kind"].as_str()) {
        (true, _) => page.line("exchange", &format!("{id}, at {at}, took {total} ms")),
        (false, Some("idle")) => {
            page.line("connection", &format!("{id}, open since {at}, for {total} ms by now"));
        }
        (false, _) => page.line("exchange", &format!("{id}, at {at}, still running, for {total} ms by now")),
    }
    let (method, path, host) =
        (shown(&exchange["method"]), shown(&exchange["path"]), shown(&exchange["host"]));
    let asked = match (exchange["kind"].as_str(), method.is_empty()) {
        (Some("idle"), _) => match number(&exchange["requests"]) {
            0 => "none has come on this connection yet".to_owned(),
            requests => format!("none at the moment; {} came before", counted(requests as usize, "request")),
        },
        (Some("no-request"), _) => "no request on this connection".to_owned(),
        (Some("connection"), _) if host.is_empty() => "a TCP connection".to_owned(),
        (Some("connection"), _) => format!("a TCP connection for {host} (SNI)"),
        (_, true) if path.is_empty() => "no request could be read".to_owned(),
        (_, true) => format!("no request could be read; it began with {path:?}"),
        (kind, false) => {
            let tunnel = if kind == Some("tunnel") { ", which became a tunnel" } else { "" };
            let cut = if exchange["words_cut"] == true { " (cut)" } else { "" };
            format!("{method} {path} for {host}{cut}{tunnel}")
        }
    };
    page.line("request", &asked);
    if !exchange["normal_path"].is_null() {
        page.line("path", &format!("matched as {}, its normal form", shown(&exchange["normal_path"])));
    }
    let (client, peer) = (shown(&exchange["client"]), shown(&exchange["peer"]));
    let through = if client == peer || peer.is_empty() {
        String::new()
    } else {
        format!(", through the trusted proxy {peer}")
    };
    let tls = match (exchange["transport"].as_str(), exchange["tls"] == true) {
        (Some("quic"), _) => " over QUIC (HTTP/3)",
        (_, true) => " with TLS",
        (_, false) => "",
    };
    page.line("client", &format!("{client}{through}, on listener {}{tls}", named(&exchange["listener"])));
    if !exchange["trace_id"].is_null() {
        page.line("trace", &shown(&exchange["trace_id"]));
    }
}

fn where_it_went(page: &mut ReportText, exchange: &Value) {
    if exchange["names_known"] == false {
        page.line("config", "of so many reloads ago that its names are not kept any more");
    }
    if !exchange["route"].is_null() {
        page.line(
            "route",
            &format!("{}, which takes {}", shown(&exchange["route"]), shown(&exchange["rule"])),
        );
    }
    if let Some(result) = exchange["cache"].as_str() {
        page.line("cache", &format!("{}{}", cached(result), reason_of_cache(exchange)));
    }
    if !exchange["upstream"].is_null() {
        let kept = match exchange["affinity"].as_str() {
            Some("kept") => ", the client was kept on its server",
            Some("moved") => ", the client was moved from its server",
            Some("new") => ", the client was bound to its server",
            _ => "",
        };
        page.line(
            "upstream",
            &format!(
                "{}, which chooses by {}{kept}",
                shown(&exchange["upstream"]),
                shown(&exchange["balance"])
            ),
        );
    }
    if !exchange["source"].is_null() {
        page.line("source", &source(&exchange["source"]));
    }
}

/// What names the servers of the upstream, and how long before or after the beginning of the exchange it did so last.
fn source(source: &Value) -> String {
    let age_ms = source["age_ms"].as_i64().unwrap_or(0);
    let (age, when) = (lasting(age_ms.unsigned_abs() / 1000), if age_ms < 0 { "after" } else { "before" });
    let mut text = format!(
        "{} names the servers; it did so last {age} {when} the exchange began",
        shown(&source["name"])
    );
    if source["is_stale"] == true {
        text.push_str("; it does not answer now");
    }
    if let Some(problem) = source["problem"].as_str() {
        text.push_str(&format!(": {problem}"));
    }
    text
}

fn how_long_it_waited(page: &mut ReportText, exchange: &Value) {
    let (waited, ahead) =
        (exchange["queue"]["waited_ms"].as_f64().unwrap_or(0.0), number(&exchange["queue"]["ahead"]));
    if waited > 0.0 || ahead > 0 {
        let behind =
            if ahead > 0 { format!(", behind {}", counted(ahead as usize, "other")) } else { String::new() };
        page.line(
            "queue",
            &format!(
                "waited {} ms{behind}, for a server with a free slot",
                millis(&exchange["queue"]["waited_ms"])
            ),
        );
    }
}

fn one_attempt(page: &mut ReportText, at: usize, attempt: &Value) {
    if attempt["no_server"] == true {
        page.line("servers", "none took it:");
        return candidates(page, attempt);
    }
    let connection = match &attempt["connection"] {
        Value::Null => "no connection came about".to_owned(),
        made if made["reused"] == true => {
            let carried = counted(number(&made["carried"]) as usize, "exchange");
            format!("on a kept connection, {} ms old, which had carried {carried}", millis(&made["age_ms"]))
        }
        _ => "on a new connection".to_owned(),
    };
    page.line(
        &format!("attempt {}", at + 1),
        &format!("on {} after {} ms, {connection}", named(&attempt["server"]), millis(&attempt["began_ms"])),
    );
    candidates(page, attempt);
    let after = if attempt["lasted_ms"].is_null() {
        String::new()
    } else {
        format!(" after {} ms", millis(&attempt["lasted_ms"]))
    };
    if let Some(status) = attempt["refused_status"].as_u64() {
        page.line("", &format!("failed{after}: the server answered {status}, a status of `retry.on_status`"));
    } else if !attempt["failure"].is_null() {
        let failure = &attempt["failure"];
        let sent = match (attempt["sent_any"] == true, attempt["received_any"] == true) {
            (false, _) => "; nothing of the request was sent",
            (true, false) => "; the request was sent, nothing came back",
            (true, true) => "; part of an answer came back",
        };
        page.line(
            "",
            &format!("failed{after}: {} ({}){sent}", shown(&failure["reason"]), shown(&failure["happened"])),
        );
    }
    if let Some(decision) = attempt["decision"].as_str() {
        page.line("", decided(decision));
    }
}

/// The candidates of an attempt: which server was chosen, and why not another one.
fn candidates(page: &mut ReportText, attempt: &Value) {
    let all = attempt["candidates"].as_array().map_or(&[][..], Vec::as_slice);
    let load = |candidate: &Value| format!("{} in flight", number(&candidate["in_flight"]));
    let mut notes = Vec::new();
    for candidate in all {
        let weight = match number(&candidate["weight"]) {
            1 => String::new(),
            weight => format!(", weight {weight}"),
        };
        let server = named(&candidate["server"]);
        notes.push(match (candidate["chosen"] == true, candidate["eligible"] == true) {
            (true, _) => format!("{server} had {}{weight}", load(candidate)),
            (false, true) => format!("{server} was eligible, with {}{weight}", load(candidate)),
            (false, false) => format!(
                "{server} was not eligible, with {}{weight}: {}",
                load(candidate),
                shown(&candidate["eligibility"])
            ),
        });
    }
    let servers = number(&attempt["servers"]) as usize;
    if servers > all.len() {
        notes.push(format!("{} more were not noted", servers - all.len()));
    }
    if servers > 1 {
        page.line("", &notes.join("; "));
    } else if let Some(only) = notes.first() {
        page.line("", &format!("{only}; there was no other server"));
    }
}

fn decided(decision: &str) -> &'static str {
    match decision {
        "again" => "then: tried again",
        "again-for-part" => {
            "then: asked again for the part that the client wants, the whole cannot be stored"
        }
        "again-without-conditions" => {
            "then: asked again without conditions, it had confirmed another version than the stored one"
        }
        "again-on-new-connection" => "then: tried again on a new connection, the kept one had died",
        "response-started" => "then: not tried again, the client had part of the answer",
        "not-idempotent" => {
            "then: not tried again, the server may have acted on it and the method is not idempotent"
        }
        "body-not-replayable" => "then: not tried again, part of the body was gone",
        "not-configured" => "then: not tried again, `retry.on` of the upstream does not name this",
        "attempts-exhausted" => "then: not tried again, all attempts that the config allows were used",
        "time-limit" => "then: not tried again, too much time had gone by",
        "no-other-server" => "then: not retried, there was no other server",
        "budget-exhausted" => "then: not tried again, the retry budget of the upstream was used up",
        _ => "then: not tried again",
    }
}

/// The current state, and the side that it waits for.
fn what_it_waits_for(page: &mut ReportText, exchange: &Value) {
    let running = &exchange["running"];
    if let Some(status) = exchange["status"].as_u64() {
        page.line("answer", &format!("{status}, on its way to the client"));
    }
    if exchange["kind"] != "idle" {
        let bytes = |key: &str| counted(number(&exchange[key]) as usize, "byte");
        page.line("so far", &format!("{} from the client, {} to it", bytes("bytes_in"), bytes("bytes_out")));
    }
    let (state, since) = (shown(&running["state"]), millis(&running["state_ms"]));
    page.line("now", &format!("waits for {}; state {state} for {since} ms", shown(&running["waits_for"])));
    page.line("to end it", &format!("weir ctl end {}", shown(&running["connection"])));
}

fn how_it_ended(page: &mut ReportText, exchange: &Value) {
    let (bytes_in, bytes_out) = (number(&exchange["bytes_in"]), number(&exchange["bytes_out"]));
    let bytes = format!(
        "{} from the client, {} to it",
        counted(bytes_in as usize, "byte"),
        counted(bytes_out as usize, "byte")
    );
    match (exchange["status"].as_u64(), exchange["answered_by"].as_str()) {
        (Some(status), Some("weir")) => page.line("answer", &format!("{status} by Weir itself; {bytes}")),
        (Some(status), Some("cache")) => page.line("answer", &format!("{status} from the cache; {bytes}")),
        (Some(status), _) => page.line("answer", &format!("{status} by the server; {bytes}")),
        (None, _) => page.line("answer", &format!("none; {bytes}")),
    }
    let party = match exchange["ended"]["by"].as_str() {
        Some("client") => "the client",
        Some("server") => "the server",
        _ => "Weir",
    };
    let how = match exchange["ended"]["how"].as_str() {
        Some("kept") => "in order; the connection of the client went on".to_owned(),
        Some("reset") => format!("{party} reset the connection (RST)"),
        Some("time-limit") => format!("{party} ended it: a time limit had passed"),
        Some("never-opened") => "no connection to the server came about".to_owned(),
        Some("refused") => format!("{party} rejected it or broke it off"),
        _ => format!("{party} closed the connection first (FIN)"),
    };
    page.line("ended", &how);
}

fn why_it_failed(page: &mut ReportText, exchange: &Value) {
    let failure = &exchange["failure"];
    if failure.is_null() {
        return;
    }
    let [reason, phase, party, cause] = ["reason", "phase", "party", "cause"].map(|key| shown(&failure[key]));
    page.line("failure", &format!("{reason}: phase {phase}, party {party}, cause {cause}"));
    page.line("", &shown(&failure["happened"]));
    if !exchange["stopped_by"].is_null() {
        page.line("stopped by", &shown(&exchange["stopped_by"]));
    }
    page.line("to change", &shown(&failure["change"]));
    page.line("read", &shown(&failure["read"]));
}

/// What the cache did, as a sentence.
fn cached(result: &str) -> &'static str {
    match result {
        "hit" => "hit: the response was stored, and fresh",
        "stale" => "stale: the stored response was used although it was no longer fresh",
        "revalidated" => "revalidated: the server has confirmed the stored response",
        "collapsed" => "collapsed: another request fetched the response meanwhile",
        "bypass" => "bypass: the request has nothing to do with the cache",
        _ => "miss: there was no stored response",
    }
}

fn reason_of_cache(exchange: &Value) -> String {
    exchange["cache_reason"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default()
}

fn where_the_time_went(page: &mut ReportText, exchange: &Value) {
    let phases = exchange["phases"].as_array().map_or(&[][..], Vec::as_slice);
    let longest = phases.iter().filter_map(|phase| phase["ms"].as_f64()).fold(0.0, f64::max);
    if longest <= 0.0 {
        return;
    }
    page.0.push('\n');
    for phase in phases {
        let share = phase["ms"].as_f64().unwrap_or(0.0) / longest;
        let bar = "#".repeat(((share * BAR).round() as usize).max(1));
        page.line(&shown(&phase["phase"]), &format!("{:>12} ms  {bar}", millis(&phase["ms"])));
    }
}

fn named(name: &Value) -> String {
    if name.is_null() { "(name not kept)".to_owned() } else { shown(name) }
}
