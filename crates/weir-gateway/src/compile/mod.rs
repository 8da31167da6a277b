//! From one route object to rules of Weir, whichever listeners it will be attached to.
//!
//! What a rule wants and Weir cannot do refuses the whole route with a reason: nothing of a route is ignored.

mod shared_parts;
mod http;
mod grpc;
mod streams;
mod rule;
mod filters;
mod retry;
mod redirect;
mod matches;
mod duration;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use weir_config::{RouteSettings, ShareFraction};
use weir_traffic::route::{HostPattern, RouteMatch};

use crate::api::{ObjectMeta, ParentReference, SharedText, SharedValue};
use crate::backends::Backend;
use crate::refusal::{Refusal, excerpt};
use crate::store::ObjectKey;

pub(crate) use grpc::compile as compile_grpc;
pub(crate) use http::compile as compile_http;
pub(crate) use redirect::RedirectPlan;
pub(crate) use shared_parts::SharedParts;
pub(crate) use streams::{compile_tcp, compile_tls};

/// The kinds of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RouteKind {
    Http,
    Grpc,
    Tls,
    Tcp,
}

impl RouteKind {
    /// The kind, as objects state it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTPRoute",
            Self::Grpc => "GRPCRoute",
            Self::Tls => "TLSRoute",
            Self::Tcp => "TCPRoute",
        }
    }
}

/// A route, translated as far as it alone decides.
#[derive(Debug)]
pub(crate) struct CompiledRoute {
    pub(crate) kind: RouteKind,
    pub(crate) key: ObjectKey,
    pub(crate) generation: Option<i64>,
    pub(crate) created: SharedText,
    pub(crate) parents: RouteParents,
    pub(crate) hostnames: Box<[SharedText]>,
    /// The rules; empty if the route is refused.
    pub(crate) rules: Vec<CompiledRule>,
    /// Whether all that it wants can be done.
    pub(crate) accepted: Result<(), Refusal>,
    /// Whether all of its references lead somewhere; if not, why the first does not.
    pub(crate) resolved: Result<(), Refusal>,
    /// The services that it refers to, whether they are there or not; each once.
    pub(crate) services: Box<[ObjectKey]>,
}

/// When an object was made; one that does not say so is the youngest.
pub(crate) fn created(meta: &ObjectMeta) -> SharedText {
    meta.creation_timestamp.clone().unwrap_or_else(|| "~".into())
}

/// The references of a route to Gateways and sets of listeners.
type RouteParents = SharedValue<Box<[ParentReference]>>;

/// Hostnames that Weir can match; the API server lets no others pass.
fn check_hostnames(hostnames: &[SharedText]) -> Result<(), Refusal> {
    let bad = |name: &str| HostPattern::parse(name).err().map(|error| (excerpt(name), error));
    match hostnames.iter().find_map(|name| bad(name)) {
        Some((name, error)) => Err(Refusal::unsupported(format!("hostnames: `{name}`: {error}"))),
        None => Ok(()),
    }
}

/// A rule of a route.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    /// The name of the rule, or its number.
    pub(crate) name: SharedText,
    /// What it matches, without hosts and priority; any of these.
    pub(crate) matches: Vec<RouteMatch>,
    pub(crate) action: CompiledAction,
    /// All settings but the mirrors, which name upstreams by their indices.
    pub(crate) settings: Arc<RouteSettings>,
    pub(crate) mirrors: Vec<(Arc<Backend>, ShareFraction)>,
    /// What decides between each match and those of other routes with the same host, before priority: equal numbers may be a tie.
    pub(crate) ranks: Vec<u64>,
}

impl CompiledRule {
    fn new(
        name: SharedText,
        matches: Vec<RouteMatch>,
        action: CompiledAction,
        settings: RouteSettings,
        mirrors: Vec<(Arc<Backend>, ShareFraction)>,
    ) -> Self {
        let ranks = matches.iter().map(rank).collect();
        Self { name, matches, action, settings: Arc::new(settings), mirrors, ranks }
    }
}

/// A number that matches have in common which nothing but their priority may tell apart. Regular expressions count as one path: two of them
/// may be found in the same.
pub(crate) fn rank(matches: &RouteMatch) -> u64 {
    let path = matches.path.to_string();
    let path = if path.starts_with("regex ") { "regex" } else { &path };
    let mut hasher = DefaultHasher::new();
    (path, matches.methods.is_empty(), matches.headers.len(), matches.query.len()).hash(&mut hasher);
    hasher.finish()
}

/// One of the backends of a rule.
#[derive(Debug)]
pub(crate) struct CompiledTarget {
    /// Where its share goes; `None`: nowhere, it is answered 500.
    pub(crate) backend: Option<Arc<Backend>>,
    pub(crate) weight: u32,
    /// What holds for its requests, if it is not what holds for all of the rule.
    pub(crate) own: Option<TargetSettings>,
}

/// What holds for the requests to one of several backends.
#[derive(Debug)]
pub(crate) struct TargetSettings {
    /// All settings but the mirrors.
    pub(crate) settings: Arc<RouteSettings>,
    /// The mirrors beside those of the rule.
    pub(crate) mirrors: Vec<(Arc<Backend>, ShareFraction)>,
}

/// What happens to requests of a rule.
#[derive(Debug)]
pub(crate) enum CompiledAction {
    /// They go to one of these, by weight; at least one, no weight is 0.
    Backends(Vec<CompiledTarget>),
    /// They are sent elsewhere; one plan per match.
    Redirect(Vec<RedirectPlan>),
    /// They are answered with this status, since no reference leads anywhere.
    Respond(u16),
}

impl CompiledRoute {
    /// All backends of the route, copies included.
    pub(crate) fn backends(&self) -> impl Iterator<Item = &Arc<Backend>> {
        self.rules.iter().flat_map(|rule| {
            let targets = match &rule.action {
                CompiledAction::Backends(targets) => &targets[..],
                CompiledAction::Redirect(_) | CompiledAction::Respond(_) => &[],
            };
            let of_targets = targets.iter().filter_map(|target| target.own.as_ref());
            let mirrors = rule.mirrors.iter().chain(of_targets.flat_map(|own| &own.mirrors));
            let targets = targets.iter().filter_map(|target| target.backend.as_ref());
            targets.chain(mirrors.map(|(backend, _)| backend))
        })
    }
}
