//! The explanation of a request: one value with all of its parts, in the order of the phases.
//!
//! Made by the same rules as on the data path; rendered by `text` and `json`.

use weir_config::{
    AffinitySettings, Config, FastcgiSettings, FixedResponse, Listener, PathForm, Redirect, Route,
    RouteAction, RouteSettings, SplitAction, SplitTarget, StaticFiles, Template, TemplateFacts as _,
    TemplatePart, Upstream, UpstreamIndex,
};
use weir_http::{Expectation, FieldName, Framing, Method, TargetForm, via_repeats};
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::Eligibility;
use weir_traffic::ServerId;
use weir_traffic::balance::{Excluded, HashKey, Pick, ServerCandidate};
use weir_traffic::hash_bytes;
use weir_traffic::route::{Considered, RouteOutcome, RouteRequest};

use super::known_sources::KnownSources;
use super::listener::ListenerChoice;
use super::request::{ExplainedRequest, lossy};
use super::steps::{Followed, WayEnd};

/// The explanation of a request.
pub(super) struct RequestExplanation<'a> {
    pub(super) request: &'a ExplainedRequest,
    /// What has happened to it on the way to its route.
    pub(super) steps: &'a [String],
    pub(super) listener: &'a Listener,
    pub(super) why: ListenerChoice,
    /// Every route of the listener; empty when the request does not get as far as that.
    pub(super) routes: Vec<(&'a Route, RouteOutcome)>,
    /// The route that takes it.
    pub(super) route: Option<&'a Route>,
    pub(super) disposition: Disposition<'a>,
    /// What to consider about the route, for a request that may have a body.
    pub(super) advice: Option<String>,
    /// What names servers that the config does not.
    pub(super) sources: &'a KnownSources,
}

/// The outcome.
pub(super) enum Disposition<'a> {
    /// Weir answers with an error.
    Refused(Failure),
    /// Weir answers itself, with this status: the client lets the request make no further hop (RFC 9110 section 7.6.2).
    LastHop(u16),
    /// The config has the answer: where the client is sent.
    Redirect { status: u16, location: String },
    /// The config has the answer.
    Respond(&'a FixedResponse),
    /// The response is a file, if there is one; else this upstream has it.
    Files { files: &'a StaticFiles, path: String, otherwise: Option<&'a Upstream> },
    /// It goes to one of these upstreams.
    Forward(ForwardedRequest<'a>),
}

/// The request as servers get it.
pub(super) struct ForwardedRequest<'a> {
    /// The request target.
    pub(super) target: String,
    /// Whether it differs from what the client sent.
    pub(super) rewritten: bool,
    /// The protocol of `Upgrade`, and whether the route allows it.
    pub(super) upgrade: Option<(String, bool)>,
    /// One, or the parts of a split.
    pub(super) destinations: Vec<UpstreamDestination<'a>>,
    /// Statuses of the parts of a split that Weir answers itself, with their shares of the requests in percent.
    pub(super) answers: Vec<(u16, f64)>,
}

/// An upstream that the request can go to.
pub(super) struct UpstreamDestination<'a> {
    pub(super) upstream: &'a Upstream,
    /// The share of the requests of this route in percent; 100 without a split.
    pub(super) percent: f64,
    /// What it has in place of the settings of the route.
    pub(super) settings: Option<&'a RouteSettings>,
    pub(super) key: Option<Key<'a>>,
    /// The cookie that keeps clients on their server, if one does.
    pub(super) cookie: Option<Cookie<'a>>,
    /// The server that the request names, where the upstream has such.
    pub(super) named: Option<RequestedServer>,
    /// The servers in the order in which they would be chosen.
    pub(super) candidates: Vec<(ServerCandidate, SharePercent)>,
}

/// What a server gets of the traffic in the long run, with every server up and equally quick: percent by weight.
pub(super) type SharePercent = f64;

/// The server that a request names.
pub(super) struct RequestedServer {
    /// What the text of the config comes to.
    pub(super) text: String,
    /// The server that this is; `None`: the list has none like it.
    pub(super) server: Option<String>,
}

impl RequestedServer {
    fn of(upstream: &Upstream, request: &ExplainedRequest) -> Option<Self> {
        let settings = upstream.dynamic.as_ref()?;
        let text = own_key(&settings.server, request).unwrap_or_default();
        let server = settings.allow.find(&text).map(|address| address.to_string());
        Some(Self { text: lossy(&text), server })
    }
}

/// The hash key of the request.
pub(super) struct Key<'a> {
    pub(super) key: &'a HashKey,
    /// What it is made of, where the config says so, and what that comes to.
    pub(super) template: Option<&'a Template>,
    pub(super) made: Option<Vec<u8>>,
    /// Whether the request has one; without it, the least loaded server is chosen.
    pub(super) present: bool,
}

/// The cookie that keeps a client on its server.
pub(super) struct Cookie<'a> {
    pub(super) affinity: &'a AffinitySettings,
    /// The key of the request, where there is one.
    pub(super) key: Option<String>,
    /// The server that the cookie of the request stands for.
    pub(super) server: Option<ServerId>,
}

impl<'a> RequestExplanation<'a> {
    pub(super) fn new(
        config: &'a Config,
        listener: &'a Listener,
        why: ListenerChoice,
        followed: &'a Followed,
        sources: &'a KnownSources,
    ) -> Self {
        let request = &followed.request;
        let mut explanation = Self {
            request,
            steps: &followed.steps,
            sources,
            listener,
            why,
            routes: Vec::new(),
            route: None,
            disposition: Disposition::Refused(Failure::weir(Phase::Route, Cause::NoRoute)),
            advice: None,
        };
        if let Some(failure) = refused_at_request(config, listener, request) {
            explanation.disposition = Disposition::Refused(failure);
            return explanation;
        }
        if request.head().max_forwards(request.text()) == Some(0) {
            explanation.disposition =
                Disposition::LastHop(if request.head().method() == Method::Options { 200 } else { 405 });
            return explanation;
        }
        let taken = match &followed.end {
            WayEnd::Route(taken) => *taken,
            WayEnd::Redirect(status, location) => {
                explanation.disposition =
                    Disposition::Redirect { status: *status, location: location.clone() };
                return explanation;
            }
            WayEnd::Refused(failure) => {
                explanation.disposition = Disposition::Refused(*failure);
                return explanation;
            }
        };
        explanation.routes = considered(listener, request);
        if let Some(route) = taken.map(|place| &*listener.routes[place]) {
            explanation.route = Some(route);
            if matches!(request.head().method(), Method::Post | Method::Put | Method::Patch) {
                explanation.advice = weir_config::upload_advice(config, listener, route);
            }
            explanation.disposition = disposition(config, listener, route, request);
        }
        explanation
    }
}

impl<'a> RequestExplanation<'a> {
    /// How the request goes to servers of FastCGI.
    pub(super) fn fastcgi(&self) -> Option<&'a FastcgiSettings> {
        self.route.and_then(|route| route.fastcgi.as_deref())
    }
}

/// Why a request is refused before routing.
fn refused_at_request(config: &Config, listener: &Listener, request: &ExplainedRequest) -> Option<Failure> {
    let refuse = |cause| Some(Failure::client(Phase::Request, cause));
    if let Some(rule) = request.broken {
        return refuse(Cause::Rule(rule));
    }
    if request.has_bad_client_address() {
        return refuse(Cause::ClientAddressBad);
    }
    if request.head().expectation() == Expectation::Unknown {
        return refuse(Cause::ExpectationFailed);
    }
    let own_name = config.process.name.as_ref()?.as_bytes();
    let mut vias = request.head().fields().all(FieldName::Via);
    let is_elsewhere = |comment: &[u8]| {
        let mut others = config.listeners.iter().map(|other| &other.name);
        comment != listener.name.as_bytes() && others.any(|other| other.as_bytes() == comment)
    };
    if vias.any(|field| via_repeats(field.value.of(request.text()), own_name, is_elsewhere)) {
        return refuse(Cause::LoopDetected);
    }
    None
}

fn considered<'a>(listener: &'a Listener, request: &ExplainedRequest) -> Vec<(&'a Route, RouteOutcome)> {
    let table = listener.route_table().expect("the config check has found every tie");
    let all = table.explain(request).into_iter();
    all.map(|Considered { route, outcome }| (&*listener.routes[route.index()], outcome)).collect()
}

fn disposition<'a>(
    config: &'a Config,
    listener: &'a Listener,
    route: &'a Route,
    request: &ExplainedRequest,
) -> Disposition<'a> {
    let head = request.head();
    if head.method() == Method::Connect && !route.allow_connect {
        return Disposition::Refused(Failure::client(Phase::Route, Cause::ConnectNotAllowed));
    }
    if let (Framing::Length(len), Some(max)) = (head.body(), route.body_size)
        && len > max.bytes()
    {
        return Disposition::Refused(Failure::client(Phase::Route, Cause::BodyTooLarge));
    }
    let mut answers = Vec::new();
    let parts: Vec<(UpstreamIndex, f64, Option<&RouteSettings>)> = match &route.action {
        RouteAction::Redirect(redirect) => {
            let location = location(redirect, request);
            return Disposition::Redirect { status: redirect.status, location };
        }
        // It has been followed to the route that it names.
        RouteAction::Then(_) => return Disposition::Refused(Failure::weir(Phase::Route, Cause::NoRoute)),
        RouteAction::Respond(fixed) => return Disposition::Respond(fixed),
        RouteAction::Files(files) => {
            let path = file_path(listener, route, files, request);
            let otherwise = files.otherwise.map(|upstream| config.upstream(upstream));
            return Disposition::Files { files, path, otherwise };
        }
        RouteAction::Upstream(upstream) => {
            let named = RequestedServer::of(config.upstream(*upstream), request);
            if named.is_some_and(|named| named.server.is_none()) {
                return Disposition::Refused(Failure::weir(Phase::Connect, Cause::ServerNotAllowed));
            }
            vec![(*upstream, 100.0, None)]
        }
        RouteAction::Split(parts) => {
            let Some(parts) = taken_parts(config, route, parts, request) else {
                return Disposition::Refused(Failure::weir(Phase::Route, Cause::UnknownUpstream));
            };
            answers.extend(parts.iter().filter_map(|(part, share)| match part.to {
                SplitAction::Respond(status) => Some((status, *share)),
                SplitAction::Upstream(_) => None,
            }));
            let destination = |(part, share): (&'a SplitTarget, f64)| {
                Some((part.upstream()?, share, part.settings.as_deref()))
            };
            parts.into_iter().filter_map(destination).collect()
        }
    };
    let destination = |(upstream, percent, settings)| UpstreamDestination {
        settings,
        ..UpstreamDestination::new(config.upstream(upstream), percent, request)
    };
    let (target, rewritten) = target(listener, route, request);
    Disposition::Forward(ForwardedRequest {
        target,
        rewritten,
        upgrade: upgrade(route, request),
        destinations: parts.into_iter().map(destination).collect(),
        answers,
    })
}

/// The path of a request below the folder of a route with files.
fn file_path(listener: &Listener, route: &Route, files: &StaticFiles, request: &ExplainedRequest) -> String {
    match &files.alias {
        None => {
            let (target, _) = target(listener, route, request);
            target.split('?').next().unwrap_or_default().to_owned()
        }
        Some(alias) => {
            let mut path = Vec::new();
            alias.apply(request.path(), None, &mut path);
            lossy(&path)
        }
    }
}

/// The targets of a split that may have the request, with their shares in percent; `None` when it names none of them.
fn taken_parts<'a>(
    config: &Config,
    route: &Route,
    parts: &'a [SplitTarget],
    request: &ExplainedRequest,
) -> Option<Vec<(&'a SplitTarget, f64)>> {
    if let Some(template) = &route.split_by {
        return Some(vec![(named_target(config, parts, (template, request))?, 100.0)]);
    }
    let total: u64 = parts.iter().map(|part| u64::from(part.weight)).sum();
    Some(parts.iter().map(|part| (part, percent(part.weight.into(), total))).collect())
}

/// The target of a split that the request names, or the answer to requests that name none.
fn named_target<'a>(
    config: &Config,
    parts: &'a [SplitTarget],
    (template, request): (&Template, &ExplainedRequest),
) -> Option<&'a SplitTarget> {
    let name = own_key(template, request).unwrap_or_default();
    let is_named = |part: &&SplitTarget| {
        part.upstream().is_some_and(|index| config.upstream(index).name.as_bytes() == name)
    };
    parts.iter().find(is_named).or_else(|| parts.iter().find(|part| part.upstream().is_none()))
}

/// The request target that servers get, and whether it is another than the one that came.
fn target(listener: &Listener, route: &Route, request: &ExplainedRequest) -> (String, bool) {
    let head = request.head();
    let no_path = matches!(head.target_form(), TargetForm::Authority | TargetForm::Asterisk);
    let keeps_path = head.is_path_normal() || listener.paths.forward == PathForm::AsReceived;
    if no_path || keeps_path && route.rewrite.is_none() {
        return (lossy(head.target().of(request.text())), false);
    }
    let (path, query) =
        (head.normal_path(request.text()), head.query().map(|query| query.of(request.text())));
    let mut target = Vec::new();
    match &route.rewrite {
        Some(rewrite) => _ = rewrite.apply(path, query, &mut target),
        None => {
            target.extend_from_slice(path);
            if let Some(query) = query {
                target.push(b'?');
                target.extend_from_slice(query);
            }
        }
    }
    let rewritten = target != head.target().of(request.text());
    (lossy(&target), rewritten)
}

fn upgrade(route: &Route, request: &ExplainedRequest) -> Option<(String, bool)> {
    let protocol = request.head().upgrade()?.of(request.text());
    let known = route.upgrades.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(protocol));
    let plain = !request.head().fields().contains(FieldName::Http2Settings);
    Some((lossy(protocol), known && plain))
}

fn location(redirect: &Redirect, request: &ExplainedRequest) -> String {
    let mut location = Vec::new();
    let path = request.head().normal_path(request.text());
    let query = request.head().query().map(|query| query.of(request.text()));
    redirect.write_location(&mut location, request.host(), path, query);
    lossy(&location)
}

impl<'a> UpstreamDestination<'a> {
    fn new(upstream: &'a Upstream, percent: f64, request: &ExplainedRequest) -> Self {
        // Any seed will do: the order of equal servers is not explained.
        let balancer = upstream.balancer(0);
        let made = upstream.hash_template.as_ref().and_then(|template| own_key(template, request));
        let hash = match &made {
            Some(text) => Some(hash_bytes(text)),
            None => balancer.hash_key().and_then(|key| key.hash(request)),
        };
        let candidates = balancer.candidates(&Pick { hash, excluded: Excluded::NONE, random: 0, now_ms: 0 });
        let key = upstream.balance.hash_key().map(|key| Key {
            key,
            template: upstream.hash_template.as_ref(),
            made,
            present: hash.is_some(),
        });
        let cookie = upstream.affinity.as_ref().map(|affinity| {
            let cookies = request.head().fields().all(FieldName::Cookie);
            let bond = upstream
                .affinity([0, 0])
                .map(|ready| ready.lookup(cookies.map(|field| field.value.of(request.text())), 0));
            let key = affinity.key().and_then(|template| own_key(template, request));
            let key = key.map(|key| lossy(&key));
            Cookie { affinity, key, server: bond.unwrap_or_default().server }
        });
        let named = RequestedServer::of(upstream, request);
        Self { upstream, percent, settings: None, key, cookie, named, candidates: with_shares(candidates) }
    }

    /// The server as the config has it.
    pub(super) fn server(&self, id: ServerId) -> &'a weir_config::Server {
        &self.upstream.servers[id.index()]
    }
}

/// The key that a template comes to for the request; `None` where all of its values are empty.
fn own_key(template: &Template, request: &ExplainedRequest) -> Option<Vec<u8>> {
    let (mut key, mut has_value) = (Vec::new(), false);
    for part in template.parts() {
        match part {
            TemplatePart::Literal(text) => key.extend_from_slice(text.as_bytes()),
            TemplatePart::Value(value) => {
                let start = key.len();
                request.write_nth(value, 0, &mut key);
                has_value |= key.len() > start;
            }
        }
    }
    has_value.then_some(key)
}

fn with_shares(candidates: Vec<ServerCandidate>) -> Vec<(ServerCandidate, SharePercent)> {
    let weight = |candidate: &ServerCandidate| match candidate.eligibility {
        Eligibility::Eligible | Eligibility::Bounded | Eligibility::Full => u64::from(candidate.weight),
        _ => 0,
    };
    let total = candidates.iter().map(weight).sum();
    candidates.into_iter().map(|candidate| (candidate, percent(weight(&candidate), total))).collect()
}

fn percent(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 * 100.0 / total as f64 }
}
