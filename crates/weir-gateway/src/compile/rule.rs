//! A rule of an HTTPRoute or GRPCRoute: its filters, where it goes, its settings.

use std::sync::Arc;
use std::time::Duration;

use weir_config::{HeaderChanges, RouteSettings};
use weir_traffic::route::RouteMatch;
use weir_traffic::split::SPLIT_WEIGHT_MAX;

use super::filters::{self, RuleFilters};
use super::{CompiledAction, CompiledRule, RedirectPlan};
use crate::api::{BackendReference, HttpRouteFilter};
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
    pub(super) name: Box<str>,
    pub(super) matches: Vec<RouteMatch>,
    /// The prefix of each match, if it is one.
    pub(super) prefixes: Vec<Option<&'a str>>,
    pub(super) filters: &'a [HttpRouteFilter],
    pub(super) backends: Vec<WeightedBackend>,
    pub(super) request_timeout: Option<Option<Duration>>,
    pub(super) backend_timeout: Option<Option<Duration>>,
}

/// The backends that references lead to; references that lead nowhere are noted in `resolved`.
pub(super) fn targets(
    scope: &BackendScope<'_>,
    backends: &[WeightedBackend],
    timeout: Option<Option<Duration>>,
    resolved: &mut Result<(), Refusal>,
) -> Result<Vec<(Arc<Backend>, u32)>, Refusal> {
    let mut targets: Vec<(Arc<Backend>, u32)> = Vec::new();
    let mut any_leads = false;
    for backend in backends {
        let weight = u32::try_from(backend.weight).ok().filter(|weight| *weight <= SPLIT_WEIGHT_MAX);
        let weight = weight.ok_or_else(|| Refusal::unsupported("backendRefs: a weight is 0 to 1000000"))?;
        let target = match scope.resolve(&backend.reference, timeout) {
            Ok(target) => {
                any_leads |= weight > 0;
                target
            }
            Err(refusal) => {
                if resolved.is_ok() {
                    *resolved = Err(refusal);
                }
                Backend::unresolved()
            }
        };
        if weight == 0 {
            continue;
        }
        match targets.iter_mut().find(|(known, _)| known.name == target.name) {
            Some((_, known)) if *known + weight <= SPLIT_WEIGHT_MAX => *known += weight,
            _ => targets.push((target, weight)),
        }
    }
    Ok(if any_leads { targets } else { Vec::new() })
}

pub(super) fn compile(
    scope: &BackendScope<'_>,
    parts: RuleParts<'_>,
    resolved: &mut Result<(), Refusal>,
) -> Result<CompiledRule, Refusal> {
    let filters = RuleFilters::read(parts.filters)?;
    let (request, response) = with_backend_filters(&filters, &parts.backends)?;
    let mut settings =
        RouteSettings { request_headers: request, response_headers: response, ..RouteSettings::default() };
    if let Some(host) = &filters.host {
        settings.forward_host = host.clone();
    }
    if let Some(timeout) = parts.request_timeout {
        settings.timeouts.exchange = timeout;
    }
    settings.cors = filters.cors.clone().map(Box::new);
    if let Some(redirect) = filters.redirect {
        let plans = parts.prefixes.iter().map(|prefix| RedirectPlan::read(redirect, *prefix));
        let action = CompiledAction::Redirect(plans.collect::<Result<_, _>>()?);
        settings.request_headers = HeaderChanges::default();
        return Ok(CompiledRule::new(parts.name, parts.matches, action, settings, None));
    }
    if let Some(written) = filters.rewrite {
        let prefix = common_prefix(&parts.prefixes);
        let (host, path) = filters::rewrite(written, prefix)?;
        settings.rewrite = path;
        settings.forward_host = host.unwrap_or(settings.forward_host);
    }
    let mut mirror = None;
    if let Some(written) = filters.mirror {
        let share = filters::mirror_share(written)?;
        match scope.resolve(&written.backend_ref, None) {
            Ok(target) => mirror = (share.percent() > 0).then_some((target, share)),
            Err(refusal) if resolved.is_ok() => *resolved = Err(refusal),
            Err(_) => {}
        }
    }
    let targets = targets(scope, &parts.backends, parts.backend_timeout, resolved)?;
    let action =
        if targets.is_empty() { CompiledAction::Respond(500) } else { CompiledAction::Backends(targets) };
    Ok(CompiledRule::new(parts.name, parts.matches, action, settings, mirror))
}

/// The changes of headers of a rule and of its only backend. Several backends with changes of their own need more than a route can do.
fn with_backend_filters(
    filters: &RuleFilters<'_>,
    backends: &[WeightedBackend],
) -> Result<(HeaderChanges, HeaderChanges), Refusal> {
    let (mut request, mut response) = (filters.request.clone(), filters.response.clone());
    let used: Vec<_> = backends.iter().filter(|backend| backend.weight != 0).collect();
    for backend in used.iter().filter(|backend| !backend.filters.is_empty()) {
        if used.len() > 1 {
            let message = "backendRefs.filters: filters of one of several backends are not supported yet";
            return Err(Refusal::unsupported(message));
        }
        let own = RuleFilters::read(&backend.filters)?;
        if !own.changes_only_headers() || own.host.is_some() {
            let message = "backendRefs.filters: only changes of headers other than `Host` are supported yet";
            return Err(Refusal::unsupported(message));
        }
        request = request.followed_by(&own.request);
        response = own.response.followed_by(&response);
    }
    Ok((request, response))
}

/// The prefix that all matches have in common, if each is a prefix.
fn common_prefix<'a>(prefixes: &[Option<&'a str>]) -> Option<&'a str> {
    let first = *prefixes.first()?;
    first.filter(|_| prefixes.iter().all(|prefix| *prefix == first))
}
