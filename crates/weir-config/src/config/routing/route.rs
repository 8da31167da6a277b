//! `[[listener.NAME.route]]`: matching requests and the action for them.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use weir_traffic::queue::PriorityClass;
use weir_traffic::retry::RetryPolicy;
use weir_traffic::rewrite::Rewrite;
use weir_traffic::route::{HostPattern, RouteMatch};

use crate::config::RouteFault;
use crate::config::{
    AccelField, Access, AccessList, AccessLog, BodyRewrite, Checked, CheckedParts, Compression,
    CookieRewrite, Cors, ErrorPage, FastcgiSettings, FilesFallback, ForwardHost, FoundFaults, KeyLimit,
    LocationRewrite, Mirror, PageText, RewriteRule, RouteCache, StaticFiles, TrackedTable, UpstreamIndex,
};
use crate::config::{CACHED_RULES_MAX, HeaderChanges, RULES_MAX};
use crate::key::{choice, section};
use crate::order::Stage;
use crate::value::{
    HeaderName, HeaderTemplate, HeaderValue, Size, Template, TemplatePart, TemplateValue, WhenCondition,
};

/// One rule of a listener: the requests that it matches and its action.
pub type Route = Checked<RouteParts>;

/// What makes up a [`Route`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RouteParts {
    /// The name in logs and metrics; unique in its listener. Default: made from host and path.
    pub name: Arc<str>,
    /// The requests that it matches.
    pub matches: Arc<RouteMatch>,
    /// The condition that it matches by, besides. Its text is that of [`RouteMatch::condition`].
    pub condition: Option<WhenCondition>,
    /// The action for these requests.
    pub action: RouteAction,
    /// The rest, shared between routes with equal settings: its fields are read and set as if they were here.
    pub settings: Arc<RouteSettings>,
}

/// A limit where it is used.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LimitUse {
    /// The limit.
    pub limit: Arc<KeyLimit>,
    /// Only of requests to this upstream; `None`: of all.
    pub upstream: Option<UpstreamIndex>,
    /// The status of its refusals here; `None`: its own.
    pub status: Option<u16>,
}

impl LimitUse {
    /// A limit of all requests of a route.
    pub fn new(limit: Arc<KeyLimit>) -> Self {
        Self { limit, upstream: None, status: None }
    }
}

/// The settings of a route other than its match and its action.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RouteSettings {
    /// The rewrite of the path before the request goes to the server; `None` leaves it unchanged.
    pub rewrite: Option<Rewrite>,
    /// What chooses the target of a split, by the name of its upstream; `None`: chance does, by the weights.
    pub split_by: Option<Template>,
    /// Whether only requests from inside of the listener take it. Default: no.
    pub internal: bool,
    /// Rewrites of path and query before all else. Default: none.
    pub rewrites: Vec<RewriteRule>,
    /// The lists that its requests are looked up in: those of its listener, then its own. Default: none.
    pub lists: Vec<Arc<AccessList>>,
    /// The limits that its requests are under: those of its listener, its own, and those of its upstreams. Default: none.
    pub limited_by: Vec<LimitUse>,
    /// The tables that count its requests: those of its listener, then its own. Default: none.
    pub tracked: Vec<Arc<TrackedTable>>,
    /// What `{vars.NAME}` stands for, by name: variables of its listener and its own. Default: none.
    pub vars: Vec<(Box<str>, Template)>,
    /// Changes to the headers of the request before it goes to the server.
    pub request_headers: HeaderChanges,
    /// Changes to the headers of the response before it goes to the client; Weir's own answers included.
    pub response_headers: HeaderChanges,
    /// What scripts of other origins may do. Default: nothing is said about that.
    pub cors: Option<Box<Cors>>,
    /// What requests have to prove. Default: nothing.
    pub access: Option<Box<Access>>,
    /// Which responses are stored. Default: none.
    pub cache: Option<Box<RouteCache>>,
    /// How many ranges of a file or a stored response a request may ask for. Default: 32.
    pub max_ranges: u32,
    /// How responses are compressed. Default: not at all.
    pub compression: Option<Box<Compression>>,
    /// How the bodies of responses are rewritten. Default: not at all.
    pub rewrite_body: Option<Arc<BodyRewrite>>,
    /// How the URLs in `Location` and `Refresh` of servers are rewritten. Default: not at all.
    pub rewrite_location: Option<Arc<LocationRewrite>>,
    /// How cookies that servers set are changed: all rules that are for one, in their order. Default: not at all.
    pub rewrite_cookies: Vec<CookieRewrite>,
    /// Which fields of servers for the proxy in front of them count. Default: none, and none of them passes.
    pub x_accel: Vec<AccelField>,
    /// The route of its listener below whose folder a file lies that a server names in `X-Sendfile`. Default: the field does not count.
    pub x_sendfile: Option<Arc<str>>,
    /// Pages in place of Weir's own, the first that fits; those of the listener included.
    pub error_pages: Vec<ErrorPage>,
    /// The `Host` that the server gets. Default: the client's.
    pub forward_host: ForwardHost,
    /// Whether the server gets the header fields of the client. Default: yes.
    pub forward_headers: bool,
    /// Copies of its requests for other upstreams. Default: none.
    pub mirrors: Vec<Mirror>,
    /// How bodies are taken in before a server is chosen; `None`: they are sent as they come.
    pub buffer_requests: Option<RequestBuffering>,
    /// How responses are taken in; `None`: as fast as the client takes them.
    pub buffer_responses: Option<ResponseBuffering>,
    /// Which requests leave the queue of the upstream first.
    pub queue_priority: QueuePriority,
    /// Whether TLS passes through to its servers, on a TCP listener with TLS. Default: no, it ends at the listener.
    pub tls_passthrough: bool,
    /// Whether `CONNECT` is forwarded (RFC 9110 section 9.3.6). Default: no, it is answered 501.
    pub allow_connect: bool,
    /// Whether calls of gRPC-Web are translated to gRPC. Default: no, they pass as they are.
    pub grpc_web: bool,
    /// Protocols that a client may upgrade to, in lower case. Default: `websocket`.
    pub upgrades: Vec<Box<str>>,
    /// How its requests go to servers of FastCGI; `None`: its servers speak HTTP.
    pub fastcgi: Option<Box<FastcgiSettings>>,
    /// Where its exchanges have their lines. Default: in the access log of the listener.
    pub access_log: RouteAccessLog,
    /// Time limits of the exchange.
    pub timeouts: RouteTimeouts,
    /// Which failed attempts are repeated. Default: as the upstream says.
    pub retry: Option<Box<RetryPolicy>>,
    /// The largest request body: that of the listener unless the route has its own.
    pub body_size: Option<Size>,
}

/// Where the exchanges of a route have their lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteAccessLog {
    /// In the access log of the listener.
    OfListener,
    /// Nowhere; failures in that of the listener.
    OnlyFailures,
    /// In one of its own, which has a format.
    Own(Box<AccessLog>),
}

impl RouteAccessLog {
    /// The log that only this route, and routes with an equal one, write to.
    pub fn own(&self) -> Option<&AccessLog> {
        match self {
            Self::Own(log) => Some(log),
            Self::OfListener | Self::OnlyFailures => None,
        }
    }
}

impl Route {
    /// A route of all requests to one upstream with the defaults of the product.
    pub fn to_upstream(name: &str, upstream: UpstreamIndex) -> Self {
        Self::assume(RouteParts::new(name, Arc::default(), RouteAction::Upstream(upstream)))
    }

    /// A route whose requests are all answered 500: in place of one that cannot be as it was meant to.
    pub fn refusing(name: &str, matches: Arc<RouteMatch>) -> Self {
        let refusal = RouteAction::Respond(Box::new(FixedResponse::empty(500)));
        Self::assume(RouteParts::new(name, matches, refusal))
    }
}

impl RouteParts {
    /// Those of a route with the defaults of the product.
    pub fn new(name: &str, matches: Arc<RouteMatch>, action: RouteAction) -> Self {
        Self { name: name.into(), matches, condition: None, action, settings: Arc::default() }
    }

    /// Whether it is reached by its name alone: an internal one that says nothing of what it matches.
    pub fn is_only_named(&self) -> bool {
        self.internal && *self.matches == RouteMatch::default()
    }

    /// The names of the routes of its listener that its requests may go on with.
    pub fn targets(&self) -> impl Iterator<Item = &Arc<str>> {
        let then = match &self.action {
            RouteAction::Then(name) => Some(name),
            RouteAction::Files(files) => match &files.fallback {
                Some(FilesFallback::Target(target)) => target.route(),
                Some(FilesFallback::Status(_)) | None => None,
            },
            _ => None,
        };
        let pages = self.error_pages.iter().filter_map(ErrorPage::target_route);
        then.into_iter().chain(&self.x_sendfile).chain(pages)
    }

    /// Whether servers may send its requests on to other routes.
    pub fn obeys_redirects(&self) -> bool {
        self.x_accel.contains(&AccelField::Redirect) || self.x_sendfile.is_some()
    }

    /// The hosts for which the listener shows a certificate: none where TLS passes through to servers, which show theirs.
    pub fn certified_hosts(&self) -> &[HostPattern] {
        if self.tls_passthrough { &[] } else { &self.matches.hosts }
    }
}

impl CheckedParts for RouteParts {
    fn place(&self) -> String {
        format!("route `{}`", self.name)
    }

    fn check(&self, faults: &mut FoundFaults) {
        let asked = self.condition.as_ref().map(WhenCondition::text);
        if asked != self.matches.condition.as_deref() {
            faults.extend([RouteFault::OtherCondition]);
        }
        faults.extend(self.condition.iter().flat_map(late_values).map(RouteFault::late_value));
        self.action.check(faults);
        self.settings.check(faults);
    }
}

/// The values of a condition that are not known when the route is chosen.
pub(crate) fn late_values(condition: &WhenCondition) -> impl Iterator<Item = &TemplateValue> {
    condition.values().filter(|value| value.stage() > Stage::RequestHead)
}

impl RouteSettings {
    /// What may not hold of the rules for headers, those of the listener included: of requests, and of responses.
    pub(crate) fn rule_faults(&self) -> [(&'static str, Option<RouteFault>); 2] {
        let too_many = |changes: &HeaderChanges| {
            let count = changes.rules.len();
            (count > RULES_MAX).then_some(RouteFault::TooManyRules { count, max: RULES_MAX })
        };
        let count = self.request_headers.rules_by_request().count();
        let is_above = self.cache.is_some() && count > CACHED_RULES_MAX;
        let cached = RouteFault::TooManyCachedRules { count, max: CACHED_RULES_MAX };
        let is_mixed = self.cache.is_some() && self.request_headers.mixes_stages();
        let of_cache = is_above.then_some(cached).or(is_mixed.then_some(RouteFault::MixedCachedRule));
        [
            ("request_headers", too_many(&self.request_headers).or(of_cache)),
            ("response_headers", too_many(&self.response_headers)),
        ]
    }

    fn check(&self, faults: &mut FoundFaults) {
        faults.extend(self.request_headers.faults());
        faults.extend(self.response_headers.faults());
        faults.extend(self.rule_faults().into_iter().filter_map(|(_, fault)| fault));
        faults.extend(self.cors.as_deref().and_then(Cors::fault));
        faults.extend(self.cache.iter().flat_map(|cache| cache.faults()));
        faults.extend(self.mirrors.iter().flat_map(Mirror::faults));
        faults.extend(self.upgrades.iter().filter_map(|name| upgrade_fault(name)));
        faults.check_section(&self.timeouts);
        faults.check_section(&self.buffer_requests);
        faults.check_section(&self.buffer_responses);
    }
}

/// Why a protocol cannot be upgraded to.
pub(crate) fn upgrade_fault(name: &str) -> Option<RouteFault> {
    (name == "h2c").then_some(RouteFault::H2cUpgrade)
}

impl Deref for RouteParts {
    type Target = RouteSettings;

    fn deref(&self) -> &RouteSettings {
        &self.settings
    }
}

impl DerefMut for RouteParts {
    fn deref_mut(&mut self) -> &mut RouteSettings {
        Arc::make_mut(&mut self.settings)
    }
}

impl Default for RouteSettings {
    fn default() -> Self {
        Self {
            rewrite: None,
            split_by: None,
            internal: false,
            rewrites: Vec::new(),
            lists: Vec::new(),
            limited_by: Vec::new(),
            tracked: Vec::new(),
            vars: Vec::new(),
            request_headers: HeaderChanges::default(),
            response_headers: HeaderChanges::default(),
            cors: None,
            access: None,
            cache: None,
            max_ranges: 32,
            compression: None,
            rewrite_body: None,
            rewrite_location: None,
            rewrite_cookies: Vec::new(),
            x_accel: Vec::new(),
            x_sendfile: None,
            error_pages: Vec::new(),
            forward_host: ForwardHost::Keep,
            forward_headers: true,
            mirrors: Vec::new(),
            buffer_requests: None,
            buffer_responses: None,
            queue_priority: QueuePriority::Normal,
            tls_passthrough: false,
            allow_connect: false,
            grpc_web: false,
            upgrades: vec!["websocket".into()],
            fastcgi: None,
            access_log: RouteAccessLog::OfListener,
            timeouts: RouteTimeouts::default(),
            retry: None,
            body_size: None,
        }
    }
}

choice! {
    /// The priority of requests in the queue of an upstream.
    pub enum QueuePriority {
        /// Before all others.
        High = "high",
        /// After those with `"high"`.
        #[default]
        Normal = "normal",
        /// When no other request waits.
        Low = "low",
    }
}

impl From<QueuePriority> for PriorityClass {
    fn from(priority: QueuePriority) -> Self {
        match priority {
            QueuePriority::High => PriorityClass::High,
            QueuePriority::Normal => PriorityClass::Normal,
            QueuePriority::Low => PriorityClass::Low,
        }
    }
}

/// The action of a route.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteAction {
    /// The request goes to a server of this upstream.
    Upstream(UpstreamIndex),
    /// The request takes one of these ways, chosen at random by weight; at least one, not all weights 0.
    Split(Vec<SplitTarget>),
    /// The response is a redirect.
    Redirect(Redirect),
    /// The response comes from the config.
    Respond(Box<FixedResponse>),
    /// The response is a file.
    Files(Box<StaticFiles>),
    /// The request takes the route of this name.
    Then(Arc<str>),
}

/// `redirect`: the response sends the client to another URL.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Redirect {
    /// The `Location`, which begins with `http://`, `https://`, `{scheme}://`, one `/` or `{path}`.
    pub to: Template,
    /// 301, 302, 303, 307 or 308. Default 308: permanent, with the same method.
    pub status: u16,
    /// The rewrite of the path before it becomes `{path}`; `None` leaves it unchanged.
    pub rewrite: Option<Rewrite>,
}

impl Redirect {
    /// A redirect to this place; `{path}` is as it was received.
    pub fn new(to: Template, status: u16) -> Self {
        Self { to, status, rewrite: None }
    }

    /// What may not hold of it.
    pub(crate) fn faults(&self) -> impl Iterator<Item = RouteFault> {
        let is_redirect = matches!(self.status, 301 | 302 | 303 | 307 | 308);
        let status = (!is_redirect).then_some(RouteFault::NotARedirect(self.status));
        let begins_with_path = matches!(self.to.parts(), [TemplatePart::Value(TemplateValue::Path), ..]);
        let is_by_regex = self.rewrite.as_ref().is_some_and(Rewrite::is_by_regex);
        status.into_iter().chain((begins_with_path && is_by_regex).then_some(RouteFault::LocationByRegex))
    }

    /// The `{path}` of a request with this path.
    pub fn path<'a>(&self, path: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(rewrite) = &self.rewrite else { return path.into() };
        let mut rewritten = Vec::new();
        rewrite.apply(path, None, &mut rewritten);
        rewritten.into()
    }

    /// Appends the `Location` for a request, as far as its host without port, its path, and its query without `?` decide; other values stay
    /// as they are written.
    pub fn write_location(&self, out: &mut Vec<u8>, host: &[u8], path: &[u8], query: Option<&[u8]>) {
        let path = self.path(path);
        let path = &*path;
        for part in self.to.parts() {
            match part {
                TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Value(TemplateValue::Host) => out.extend_from_slice(host),
                TemplatePart::Value(TemplateValue::Path) => out.extend_from_slice(path),
                TemplatePart::Value(TemplateValue::Query) => {
                    if let Some(query) = query {
                        out.push(b'?');
                        out.extend_from_slice(query);
                    }
                }
                TemplatePart::Value(other) => {
                    out.extend_from_slice(format!("{{{}}}", other.name()).as_bytes());
                }
            }
        }
    }
}

/// `respond`: a response from the config.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FixedResponse {
    /// 200 to 599.
    pub status: u16,
    /// The body; empty for 204, 205 and 304. Default: empty.
    pub body: Box<str>,
    /// The body with values of the exchange, if it has any.
    pub body_with_values: Option<PageText>,
    /// `Content-Type`. Default `text/plain; charset=utf-8`; not sent with an empty body.
    pub content_type: HeaderValue,
    /// Further headers.
    pub headers: Vec<(HeaderName, HeaderTemplate)>,
}

impl FixedResponse {
    /// One with a text.
    pub fn with_body(status: u16, body: &str) -> Self {
        Self { body: body.into(), ..Self::empty(status) }
    }

    /// What may not hold of it.
    pub(crate) fn fault(&self) -> Option<RouteFault> {
        match self.status {
            204 | 205 | 304 if !self.body.is_empty() => Some(RouteFault::BodyWithStatus(self.status)),
            200..=599 => None,
            status => Some(RouteFault::NotAStatus(status)),
        }
    }

    /// One without a body.
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            body: Box::default(),
            body_with_values: None,
            content_type: "text/plain; charset=utf-8".parse().expect("it is the value of a header"),
            headers: Vec::new(),
        }
    }
}

section! {
    /// Time limits of the exchanges of a route.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RouteTimeouts at "listener.NAME.route.timeouts" {
        /// The whole exchange, from the end of the request head to the last byte of the response. Established tunnels are exempt.
        exchange: Option<Duration> = "off", like "Envoy `timeout` (of a route)";
        /// The time from the end of a request to the head of its response, for each attempt, in place of `timeouts.response` of the upstream.
        /// Off: that of the upstream.
        response: Option<Duration> = "off", like "Envoy `per_try_timeout`";
    }
}

section! {
    /// Takes the whole body of a request in before a server gets it: in memory first, then in an unlinked file in the folder for temporary
    /// files (`TMPDIR`, else `/tmp`). A longer body goes on as it comes once both are full. Calls of gRPC are never held back.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RequestBuffering at "listener.NAME.route.buffer_requests" {
        /// Bytes of each body in memory.
        memory: Size = "64KiB", in 0..=16_777_216, like "nginx `client_body_buffer_size`, Traefik `memRequestBodyBytes`";
        /// Bytes of each body in a file; `0B` for none. All files together have 1 GiB at most.
        file: Size = "16MiB", in 0..=1_073_741_824, like "nginx `client_body_temp_path`";
    }
}

section! {
    /// Takes the response of a server in as fast as the server gives it, and gives it to the client as fast as that takes it: what is between is
    /// in memory first, then in an unlinked file in the folder for temporary files (`TMPDIR`, else `/tmp`). Nothing is held back from a client
    /// that is quick. When both are full, the server waits. Calls of gRPC and tunnels are as ever.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ResponseBuffering at "listener.NAME.route.buffer_responses" {
        /// Bytes of each body in memory.
        memory: Size = "64KiB", in 0..=16_777_216, like "nginx `proxy_buffers`";
        /// Bytes of each body in a file; `0B` for none. All files together have 1 GiB at most.
        file: Size = "64MiB", in 0..=1_073_741_824, like "nginx `proxy_max_temp_file_size`";
    }
}

/// The largest weight of a target of a split.
const WEIGHT_MAX: u32 = 1_000_000;

/// What may not hold of the targets of a split.
pub(crate) fn split_fault(targets: &[SplitTarget]) -> Option<RouteFault> {
    if targets.iter().any(|target| target.weight > WEIGHT_MAX) {
        return Some(RouteFault::ShareTooLarge(WEIGHT_MAX));
    }
    targets.iter().all(|target| target.weight == 0).then_some(RouteFault::NoShare)
}

/// One target of a weighted split.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SplitTarget {
    /// What happens to its requests.
    pub to: SplitAction,
    /// Its share, relative to the sum of all weights; 0 to 1 000 000.
    pub weight: u32,
    /// The settings of its requests from where they are on their way to a server, when they are not those of the route: changes of headers, the
    /// rewrite, the host, copies (all of them: those of the route come first). What is decided before (access, limits, the cache) is the matter
    /// of the route.
    pub settings: Option<Arc<RouteSettings>>,
}

/// What happens to the requests of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitAction {
    /// They go to a server of this upstream.
    Upstream(UpstreamIndex),
    /// They are answered with this status.
    Respond(u16),
}

impl SplitTarget {
    /// What happens to a share of the requests.
    pub fn new(to: SplitAction, weight: u32) -> Self {
        Self { to, weight, settings: None }
    }

    /// All of these requests go to an upstream as the route says.
    pub fn to_upstream(upstream: UpstreamIndex, weight: u32) -> Self {
        Self { to: SplitAction::Upstream(upstream), weight, settings: None }
    }

    /// Whether its requests are not treated as others of the route are.
    pub fn is_apart(&self) -> bool {
        self.settings.is_some() || self.upstream().is_none()
    }

    /// The mirrors of its requests alone, on a route that has `of_route` mirrors.
    pub fn own_mirrors(&self, of_route: usize) -> &[Mirror] {
        let own = self.settings.as_ref().and_then(|own| own.mirrors.get(of_route..));
        own.unwrap_or_default()
    }

    /// The upstream, unless Weir answers itself.
    pub fn upstream(&self) -> Option<UpstreamIndex> {
        match self.to {
            SplitAction::Upstream(upstream) => Some(upstream),
            SplitAction::Respond(_) => None,
        }
    }
}

impl RouteAction {
    fn check(&self, faults: &mut FoundFaults) {
        match self {
            Self::Split(targets) => {
                faults.extend(split_fault(targets));
                targets
                    .iter()
                    .filter_map(|target| target.settings.as_ref())
                    .for_each(|own| own.check(faults));
            }
            Self::Redirect(redirect) => faults.extend(redirect.faults()),
            Self::Respond(response) => faults.extend(response.fault()),
            Self::Upstream(_) | Self::Files(_) | Self::Then(_) => {}
        }
    }

    /// Whether all requests go to an upstream.
    pub fn leads_on(&self) -> bool {
        match self {
            Self::Upstream(_) => true,
            Self::Split(targets) => targets.iter().all(|target| target.upstream().is_some()),
            Self::Redirect(_) | Self::Respond(_) | Self::Files(_) | Self::Then(_) => false,
        }
    }

    /// The upstreams that requests go to.
    pub fn upstreams(&self) -> impl Iterator<Item = UpstreamIndex> {
        let (one, parts) = match self {
            RouteAction::Upstream(upstream) => (Some(*upstream), &[][..]),
            RouteAction::Split(parts) => (None, &parts[..]),
            RouteAction::Files(files) => (files.otherwise, &[][..]),
            RouteAction::Redirect(_) | RouteAction::Respond(_) | RouteAction::Then(_) => (None, &[][..]),
        };
        one.into_iter().chain(parts.iter().filter_map(SplitTarget::upstream))
    }
}
