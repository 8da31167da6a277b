//! An explanation for people: one line for each thing, its label in front.

use std::fmt::Write as _;

use weir_config::{FastcgiSettings, FixedResponse, OnFull, Route, StaticFiles, Upstream};
use weir_observe::Failure;
use weir_traffic::ServerTier;
use weir_traffic::balance::ServerCandidate;
use weir_traffic::route::{RouteOutcome, RouteRequest as _};

use super::explanation::{
    Disposition, ForwardedRequest, RequestExplanation, SharePercent, UpstreamDestination,
};
use super::request::lossy;
use super::{listener, rules, sentence};

/// Columns of the label, the space behind it included.
const LABEL: usize = 11;

pub(super) fn render(explanation: &RequestExplanation<'_>) -> String {
    let mut page = ExplanationText(String::new());
    push_request(&mut page, explanation);
    page.line(
        "listener",
        &format!("{}: {}", listener::describe(explanation.listener), explanation.why.sentence()),
    );
    for (place, step) in explanation.steps.iter().enumerate() {
        page.line(if place == 0 { "steps" } else { "" }, step);
    }
    push_routes(&mut page, explanation);
    rules::lines(explanation).iter().for_each(|(label, text)| page.line(label, text));
    match &explanation.disposition {
        Disposition::Refused(failure) => push_refused(&mut page, *failure),
        Disposition::LastHop(status) => {
            page.line("answer", &format!("{status} by Weir itself: Max-Forwards is 0"));
        }
        Disposition::Redirect { status, location } => push_redirect(&mut page, *status, location),
        Disposition::Respond(fixed) => push_respond(&mut page, fixed),
        Disposition::Files { files, path, otherwise } => {
            push_files(&mut page, files, path, *otherwise, explanation.fastcgi());
        }
        Disposition::Forward(forward) => push_forward(&mut page, explanation, forward),
    }
    page.0
}

/// Lines with labels; a label that would be repeated is left out.
struct ExplanationText(String);

impl ExplanationText {
    fn line(&mut self, label: &str, text: &str) {
        let line = format!("{label:<LABEL$}{text}");
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

fn push_request(page: &mut ExplanationText, explanation: &RequestExplanation<'_>) {
    let request = explanation.request;
    let target = &request.url.target;
    let host = lossy_host(explanation);
    let shown = if explanation.listener.protocol.routes_requests() {
        format!("{} {target} for {host}", request.method)
    } else {
        format!("a connection with the server name {host} (SNI)")
    };
    page.line("request", &shown);
    if let Some(path) = request.normal_path() {
        page.line("path", &format!("matched as {path}, its normal form"));
    }
    let client = request.source();
    let from = if client == request.from {
        client.to_string()
    } else {
        format!("{client}, as the trusted proxy {} says", request.from)
    };
    page.line("client", &from);
}

fn lossy_host(explanation: &RequestExplanation<'_>) -> String {
    let host = explanation.request.host();
    if host.is_empty() { explanation.request.url.authority.clone() } else { lossy(host) }
}

fn push_routes(page: &mut ExplanationText, explanation: &RequestExplanation<'_>) {
    if explanation.routes.is_empty() {
        return;
    }
    if explanation.route.is_none() {
        page.line("route", "none takes the request");
    }
    let is_taken = |route: &Route| explanation.route.is_some_and(|taken| std::ptr::eq(taken, route));
    if let Some(taken) =
        explanation.route.filter(|_| !explanation.routes.iter().any(|(one, _)| is_taken(one)))
    {
        page.line("route", &format!("{}: takes the request by its name", taken.name));
    }
    for (route, outcome) in &explanation.routes {
        let (label, indent) = if is_taken(route) { ("route", "") } else { ("", "not ") };
        let sentence = match (is_taken(route), outcome) {
            (true, RouteOutcome::Chosen) => sentence::outcome(outcome, route, explanation.request),
            (true, _) => "takes the request by its name".to_owned(),
            (false, RouteOutcome::Chosen) => format!("matches, and leads on: {}", route.matches),
            (false, _) => sentence::outcome(outcome, route, explanation.request),
        };
        page.line(label, &format!("{indent}{}: {sentence}", route.name));
    }
}

fn push_refused(page: &mut ExplanationText, failure: Failure) {
    let explanation = failure.explanation();
    page.line(
        "answer",
        &format!("{} {} (phase {})", failure.log_status(), failure.reason(), failure.phase.name()),
    );
    page.line("", explanation.happened);
    page.line("", explanation.change);
}

fn push_redirect(page: &mut ExplanationText, status: u16, location: &str) {
    page.line("answer", &format!("{status} from the config, without a server"));
    page.line("location", location);
}

fn push_respond(page: &mut ExplanationText, fixed: &FixedResponse) {
    page.line("answer", &format!("{} from the config, without a server", fixed.status));
    if !fixed.body.is_empty() {
        page.line("body", &format!("{} bytes of {}", fixed.body.len(), fixed.content_type));
    }
}

fn push_files(
    page: &mut ExplanationText,
    files: &StaticFiles,
    path: &str,
    otherwise: Option<&Upstream>,
    fastcgi: Option<&FastcgiSettings>,
) {
    page.line("files", &format!("below {}", files.root.display()));
    page.line("path", path);
    let tried: Vec<String> = files.try_files.iter().map(ToString::to_string).collect();
    page.line("tried", &tried.join(", "));
    if let (Some(fastcgi), Some(upstream)) = (fastcgi, otherwise) {
        page.line("scripts", &format!("{}; run by upstream {}", sentence::scripts(fastcgi), upstream.name));
        if fastcgi.script.is_none() {
            page.line("otherwise", "404; 405 for other methods than GET and HEAD on files that are sent");
        }
        return;
    }
    match otherwise {
        Some(upstream) => page.line(
            "otherwise",
            &format!("upstream {}, also for other methods than GET and HEAD", upstream.name),
        ),
        None => page.line("otherwise", &sentence::fallback(files)),
    }
}

fn push_forward(
    page: &mut ExplanationText,
    explanation: &RequestExplanation<'_>,
    forward: &ForwardedRequest<'_>,
) {
    let how = if forward.rewritten { ", rewritten" } else { ", as it came" };
    if explanation.listener.protocol.routes_requests() {
        page.line("target", &format!("{}{how}", forward.target));
    }
    if let Some((protocol, passes)) = &forward.upgrade {
        let sentence =
            if *passes { "is passed on" } else { "is not passed on: the request goes on without it" };
        page.line("upgrade", &format!("{protocol} {sentence}"));
    }
    let route = explanation.route.expect("what is forwarded has a route");
    let changes = sentence::changes(&route.request_headers);
    let host = sentence::forward_host(&route.forward_host).into_iter();
    for change in host.chain(sentence::without_headers(route)).chain(changes) {
        page.line("header", &change);
    }
    if let Some(fastcgi) = explanation.fastcgi() {
        page.line("scripts", &sentence::scripts(fastcgi));
    }
    if let Some(asked) = sentence::accel(route) {
        page.line("obeyed", &asked);
    }
    let is_part = forward.destinations.len() + forward.answers.len() > 1;
    for destination in &forward.destinations {
        push_destination(page, explanation, destination, is_part);
    }
    for (status, percent) in &forward.answers {
        let share = sentence::percent(*percent);
        page.line("answer", &format!("{status}, {share} of the requests, drawn for each"));
    }
}

fn push_destination(
    page: &mut ExplanationText,
    explanation: &RequestExplanation<'_>,
    destination: &UpstreamDestination<'_>,
    is_part: bool,
) {
    let upstream = destination.upstream;
    let part = if is_part {
        format!(", {} of the requests, drawn for each", sentence::percent(destination.percent))
    } else {
        String::new()
    };
    page.line("upstream", &format!("{}{part}", upstream.name));
    if let Some(source) = explanation.sources.sentence(upstream) {
        page.line("source", &source);
    }
    for change in sentence::own_changes(explanation, destination) {
        page.line("header", &change);
    }
    if let Some(protocol) = sentence::protocol(upstream) {
        page.line("protocol", &protocol);
    }
    match &destination.named {
        Some(named) => page.line("server", &sentence::named_server(named)),
        None => {
            let balance = &upstream.balance;
            page.line("balance", &format!("{}: {}", balance.name(), sentence::policy(balance)));
        }
    }
    if let Some(key) = &destination.key {
        let name = sentence::key_name(key);
        let value = sentence::key_value(key, explanation.request);
        let line = match (key.present, value, destination.candidates.first()) {
            (false, ..) => format!("{name}: the request has none, so the least loaded server is chosen"),
            (true, value, Some((first, _))) => {
                let value = value.map_or(String::new(), |value| format!(" {value:?}"));
                format!("{name}{value} belongs to {}", destination.server(first.server).name)
            }
            (true, _, None) => name,
        };
        page.line("key", &line);
    }
    if let Some(cookie) = &destination.cookie {
        let server = cookie.server.map(|server| &*destination.server(server).name);
        let label = if cookie.affinity.key().is_some() { "affinity" } else { "cookie" };
        page.line(label, &sentence::cookie(cookie, server));
    }
    if let Some(tls) = &upstream.tls {
        page.line("tls", &sentence::tls(tls));
    }
    page.line("health", &sentence::health(upstream.health.as_ref()));
    let widths = widths(destination);
    for (index, (candidate, share)) in destination.candidates.iter().enumerate() {
        page.line(if index == 0 { "servers" } else { "" }, &server(destination, candidate, *share, widths));
    }
}

/// Columns of name and address.
fn widths(destination: &UpstreamDestination<'_>) -> (usize, usize) {
    let servers = || destination.upstream.servers.iter();
    let longest = |lens: &mut dyn Iterator<Item = usize>| lens.max().unwrap_or(0);
    (
        longest(&mut servers().map(|server| server.name.len())),
        longest(&mut servers().map(|server| server.address.to_string().len())),
    )
}

fn server(
    destination: &UpstreamDestination<'_>,
    candidate: &ServerCandidate,
    share: SharePercent,
    widths: (usize, usize),
) -> String {
    let server = destination.server(candidate.server);
    let address = server.address.to_string();
    let mut line = format!("{:<width$}", server.name, width = widths.0);
    if destination.upstream.servers.iter().any(|server| *server.name != *server.address.to_string()) {
        let _infallible = write!(line, "  {address:<width$}", width = widths.1);
    }
    let _infallible = write!(line, "  weight {:<3}  {:>6}", candidate.weight, sentence::percent(share));
    if candidate.max_requests > 0 {
        let _infallible = write!(line, "  at most {} requests", candidate.max_requests);
    }
    if let Some(source) = server.source_address {
        let _infallible = write!(line, "  from {source}");
    }
    match candidate.tier {
        ServerTier::Primary => {}
        ServerTier::Backup if destination.upstream.when_full == OnFull::Backup => {
            line.push_str("  backup, also when others are full");
        }
        ServerTier::Backup => line.push_str("  backup"),
        ServerTier::LastResort => line.push_str("  last resort"),
    }
    let _infallible = write!(line, "  {}", candidate.eligibility.sentence());
    line
}
