//! A rule of an HTTPRoute or GRPCRoute: its filters, where it goes, its settings.

use std::sync::Arc;
use std::time::Duration;

use weir_config::{RouteSettings, ShareFraction};
use weir_traffic::retry::RetryPolicy;
use weir_traffic::route::RouteMatch;
use weir_traffic::split::SPLIT_WEIGHT_MAX;

use super::filters::{self, RuleFilters};
use super::{CompiledAction, CompiledRule, CompiledTarget, RedirectPlan, TargetSettings};
use crate::api::{BackendReference, HttpRouteFilter, RequestMirror, SharedText};
use crate::backends::{Backend, BackendScope};
use crate::refusal::Refusal;

/// One of the backends of a rule, as the API has it.
pub(super) struct WeightedBackend {
    pub(super) reference: BackendReference,
    pub(super) weight: i32,
    pub(super) filters: Box<[HttpRouteFilter]>,
}

/// A rule, as the API has it.
pub(super) struct RuleParts<'a> {
    pub(super) name: SharedText,
    pub(super) matches: Vec<RouteMatch>,
    /// The prefix of each match, if it is one.
    pub(super) prefixes: Vec<Option<&'a str>>,
    pub(super) filters: &'a [HttpRouteFilter],
    pub(super) backends: Vec<WeightedBackend>,
    pub(super) request_timeout: Option<Option<Duration>>,
    pub(super) backend_timeout: Option<Option<Duration>>,
    pub(super) retry: Option<Box<RetryPolicy>>,
}

/// In place of no limit: a route has its own, or that of the upstream holds.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The targets that references come to; references that lead nowhere are noted in `resolved`, and their share is answered 500.
pub(super) fn targets(
    scope: &BackendScope<'_>,
    backends: &[WeightedBackend],
    own_of: impl Fn(&WeightedBackend, &mut Result<(), Refusal>) -> OwnSettings,
    resolved: &mut Result<(), Refusal>,
) -> Result<Vec<CompiledTarget>, Refusal> {
    let mut targets: Vec<CompiledTarget> = Vec::new();
    for backend in backends {
        let weight = u32::try_from(backend.weight).ok().filter(|weight| *weight <= SPLIT_WEIGHT_MAX);
        let weight = weight.ok_or_else(|| Refusal::unsupported("backendRefs: a weight is 0 to 1000000"))?;
        let own = own_of(backend, resolved)?;
        let leads_to = match scope.resolve(&backend.reference) {
            Ok(target) => Some(target),
            Err(refusal) => {
                if resolved.is_ok() {
                    *resolved = Err(refusal);
                }
                None
            }
        };
        if weight == 0 {
            continue;
        }
        let own = own.filter(|_| leads_to.is_some());
        let is_same = |known: &&mut CompiledTarget| {
            let name = |backend: &Option<Arc<Backend>>| backend.as_ref().map(|backend| backend.name.clone());
            name(&known.backend) == name(&leads_to) && known.own.is_none() && own.is_none()
        };
        match targets.iter_mut().find(is_same) {
            Some(known) if known.weight + weight <= SPLIT_WEIGHT_MAX => known.weight += weight,
            _ => targets.push(CompiledTarget { backend: leads_to, weight, own }),
        }
    }
    let any_leads = targets.iter().any(|target| target.backend.is_some());
    Ok(if any_leads { targets } else { Vec::new() })
}

/// What holds for requests to a backend, if it is not what holds for all of its rule.
pub(super) type OwnSettings = Result<Option<TargetSettings>, Refusal>;

pub(super) fn compile(
    scope: &BackendScope<'_>,
    parts: RuleParts<'_>,
    resolved: &mut Result<(), Refusal>,
) -> Result<CompiledRule, Refusal> {
    let filters = RuleFilters::read(parts.filters)?;
    let mut settings = RouteSettings::default();
    settings.cors = filters.cors.clone().map(Box::new);
    if let Some(timeout) = parts.request_timeout {
        settings.timeouts.exchange = timeout;
    }
    settings.timeouts.response = parts.backend_timeout.map(|limit| limit.unwrap_or(NO_LIMIT));
    settings.retry = parts.retry;
    if let Some(redirect) = filters.redirect {
        let plans = parts.prefixes.iter().map(|prefix| RedirectPlan::read(redirect, *prefix));
        let action = CompiledAction::Redirect(plans.collect::<Result<_, _>>()?);
        settings.response_headers = filters.response;
        return Ok(CompiledRule::new(parts.name, parts.matches, action, settings, Vec::new()));
    }
    let prefix = common_prefix(&parts.prefixes);
    apply(&mut settings, &filters, prefix)?;
    let mut copies = filters.mirrors;
    let used: Vec<_> = parts.backends.iter().filter(|backend| backend.weight != 0).collect();
    if let [only] = used[..] {
        let own = RuleFilters::of_backend(&only.filters)?;
        apply(&mut settings, &own, prefix)?;
        copies.extend(own.mirrors);
    }
    let mirrors = mirrors(scope, &copies, resolved)?;
    let has_several = used.len() > 1;
    let own = |backend: &WeightedBackend, resolved: &mut Result<(), Refusal>| match has_several
        && !backend.filters.is_empty()
    {
        true => own_settings(scope, &settings, backend, prefix, resolved),
        false => Ok(None),
    };
    let targets = targets(scope, &parts.backends, own, resolved)?;
    let action =
        if targets.is_empty() { CompiledAction::Respond(500) } else { CompiledAction::Backends(targets) };
    Ok(CompiledRule::new(parts.name, parts.matches, action, settings, mirrors))
}

/// Where copies go, and of which share of the requests; references that lead nowhere are noted in `resolved`.
fn mirrors(
    scope: &BackendScope<'_>,
    written: &[&RequestMirror],
    resolved: &mut Result<(), Refusal>,
) -> Result<Vec<(Arc<Backend>, ShareFraction)>, Refusal> {
    let mut mirrors = Vec::new();
    for mirror in written {
        let share = filters::mirror_share(mirror)?;
        match scope.resolve(&mirror.backend_ref) {
            Ok(target) if !share.is_none() => mirrors.push((target, share)),
            Ok(_) => {}
            Err(refusal) if resolved.is_ok() => *resolved = Err(refusal),
            Err(_) => {}
        }
    }
    Ok(mirrors)
}

/// What holds for requests to one of several backends.
fn own_settings(
    scope: &BackendScope<'_>,
    settings: &RouteSettings,
    backend: &WeightedBackend,
    prefix: Option<&str>,
    resolved: &mut Result<(), Refusal>,
) -> OwnSettings {
    let own = RuleFilters::of_backend(&backend.filters)?;
    let mirrors = mirrors(scope, &own.mirrors, resolved)?;
    let mut settings = settings.clone();
    apply(&mut settings, &own, prefix)?;
    Ok(Some(TargetSettings { settings: Arc::new(settings), mirrors }))
}

/// Changes of messages on top of those that are there: those of a backend come after those of its rule for requests, before them for responses.
fn apply(
    settings: &mut RouteSettings,
    filters: &RuleFilters<'_>,
    prefix: Option<&str>,
) -> Result<(), Refusal> {
    settings.request_headers = settings.request_headers.followed_by(&filters.request);
    settings.response_headers = filters.response.followed_by(&settings.response_headers);
    if let Some(host) = &filters.host {
        settings.forward_host = host.clone();
    }
    if let Some(written) = filters.rewrite {
        let (host, path) = filters::rewrite(written, prefix)?;
        settings.rewrite = path.or(settings.rewrite.take());
        if let Some(host) = host {
            settings.forward_host = host;
        }
    }
    Ok(())
}

/// The prefix that all matches have in common, if each is a prefix.
fn common_prefix<'a>(prefixes: &[Option<&'a str>]) -> Option<&'a str> {
    let first = *prefixes.first()?;
    first.filter(|_| prefixes.iter().all(|prefix| *prefix == first))
}
