//! What objects are told: conditions of classes, Gateways, sets of listeners, routes and policies.
//!
//! A condition keeps its time as long as its status is the same; an object whose status would not change is not told anything.

use serde_json::Value;

use super::options::settings::GatewaySettings;
use crate::api::{
    BackendTlsPolicy, BackendTlsPolicyStatus, Condition, GROUP, Gateway, GatewayClass, GatewayClassStatus,
    GatewayClassStatusSupportedFeature, GatewayStatus, GatewayStatusAddress, GatewayStatusListener,
    IngressStatus, ListenerSetStatus, ParentReference, PolicyAncestor, ResourceVersion, RouteGroupKind,
    RouteParentStatus, RouteStatus, SharedText,
};
use crate::assembly::RouteState;
use crate::attachment::RouteParent;
use crate::listeners::{GatewayListenerPlan, GatewayPlan, gateway_of_set, has_insecure_fallback};
use crate::policies::PolicyVerdict;
use crate::refusal::Refusal;
use crate::store::{ObjectKey, ObjectKind, ObjectStore};

/// The features of the API that are supported, by the names of its conformance tests, in their order.
pub const SUPPORTED_FEATURES: &[&str] = &[
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructure",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
];

/// The types of conditions that are Weir's.
const OWN_CONDITIONS: &[&str] = &[
    "Accepted",
    "Conflicted",
    "InsecureFrontendValidationMode",
    "OverlappingTLSConfig",
    "Programmed",
    "ResolvedRefs",
    "SupportedVersion",
];

/// Whether Weir writes conditions of this type; those of others stay as they are.
pub fn is_own_condition(kind: &str) -> bool {
    OWN_CONDITIONS.contains(&kind)
}

/// How many conditions the API server takes in one place.
const CONDITIONS_MAX: usize = 8;

/// The feature that Gateways of one process do not have.
const OF_OWN_PODS: &str = "GatewayInfrastructure";

/// A status that an object is to have.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusUpdate {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub key: ObjectKey,
    /// The version of the object with which the status was compared: for another one, it may be outdated.
    pub version: ResourceVersion,
    /// The name of the writer, by which it recognises later what is its own.
    pub manager: SharedText,
    /// The whole status, entries of other controllers included as they were.
    pub status: ObjectStatus,
}

impl StatusUpdate {
    /// One whose version and writer are set later.
    pub(crate) fn new(kind: ObjectKind, key: &ObjectKey, status: ObjectStatus) -> Self {
        let (version, manager) = (ResourceVersion::default(), SharedText::default());
        Self { kind, key: key.clone(), version, manager, status }
    }
}

/// The status of an object of one of these kinds.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum ObjectStatus {
    /// Of a GatewayClass.
    GatewayClass(GatewayClassStatus),
    /// Of a Gateway.
    Gateway(GatewayStatus),
    /// Of a ListenerSet.
    ListenerSet(ListenerSetStatus),
    /// Of a route of any kind.
    Route(RouteStatus),
    /// Of a BackendTLSPolicy.
    Policy(BackendTlsPolicyStatus),
    /// Of an Ingress.
    Ingress(IngressStatus),
}

impl ObjectStatus {
    /// The status as a merge patch: what it has not is removed from the object.
    pub fn patch(&self) -> Value {
        let mut patch = serde_json::to_value(self).expect("its keys are texts");
        let optional: &[&str] = match self {
            Self::Gateway(_) => &["addresses", "attachedListenerSets", "conditions", "listeners"],
            Self::ListenerSet(_) => &["conditions", "listeners"],
            _ => &[],
        };
        if let Value::Object(fields) = &mut patch {
            for name in optional {
                fields.entry(*name).or_insert(Value::Null);
            }
        }
        patch
    }
}

/// The conditions of one place while they are decided.
struct Conditions<'a> {
    present: &'a [Condition],
    generation: Option<i64>,
    now: &'a str,
    decided: Vec<Condition>,
}

impl<'a> Conditions<'a> {
    fn new(present: &'a [Condition], generation: Option<i64>, now: &'a str) -> Self {
        Self { present, generation, now, decided: Vec::new() }
    }

    fn push(&mut self, kind: &str, is_true: bool, reason: &str, message: &str) {
        let status = if is_true { "True" } else { "False" };
        let same = self.present.iter().find(|known| *known.r#type == *kind && *known.status == *status);
        self.decided.push(Condition {
            last_transition_time: same
                .map_or_else(|| self.now.into(), |known| known.last_transition_time.clone()),
            message: message.into(),
            observed_generation: self.generation,
            reason: reason.into(),
            status: status.into(),
            r#type: kind.into(),
        });
    }

    /// True with the name of the condition as its reason, or false with a reason of its own.
    fn verdict(&mut self, kind: &str, verdict: Result<(), &Refusal>) {
        match verdict {
            Ok(()) => self.push(kind, true, kind, ""),
            Err(refusal) => self.push(kind, false, refusal.reason, &refusal.message),
        }
    }

    /// Conditions of other writers stay, as many as there is room for.
    fn finish(self) -> Box<[Condition]> {
        let mut room = CONDITIONS_MAX.saturating_sub(self.decided.len());
        let is_ours = |one: &Condition| is_own_condition(&one.r#type);
        let mut has_room = |one: &Condition| {
            let stays = is_ours(one) || room > 0;
            room -= usize::from(stays && !is_ours(one));
            stays
        };
        let present: Vec<Condition> = self.present.iter().filter(|one| has_room(one)).cloned().collect();
        in_their_places(&present, self.decided, is_ours, |one, other| one.r#type == other.r#type)
    }
}

pub(crate) fn of_class(
    class: &GatewayClass,
    settings: &GatewaySettings,
    now: &str,
) -> Option<GatewayClassStatus> {
    let present = class.status.as_deref().cloned().unwrap_or_default();
    let mut conditions = Conditions::new(&present.conditions, class.metadata.generation, now);
    match (Refusal::unreadable(&class.metadata, "Unsupported"), &class.spec.parameters_ref) {
        (Err(refusal), _) => conditions.verdict("Accepted", Err(&refusal)),
        (Ok(()), None) => conditions.push("Accepted", true, "Accepted", ""),
        (Ok(()), Some(_)) => conditions.push(
            "Accepted",
            false,
            "InvalidParameters",
            "parametersRef: no kind of parameters is supported",
        ),
    }
    match missing_kinds(settings) {
        None => conditions.push("SupportedVersion", true, "SupportedVersion", ""),
        Some(kinds) => conditions.push(
            "SupportedVersion",
            false,
            "UnsupportedVersion",
            &format!("the definitions of the Gateway API are older than v1.6: there is no {kinds}; what there is is served"),
        ),
    }
    let is_there = |name: &&&str| settings.has_own_pods || **name != OF_OWN_PODS;
    let features = SUPPORTED_FEATURES
        .iter()
        .filter(is_there)
        .map(|name| GatewayClassStatusSupportedFeature { name: (*name).into() });
    let status =
        GatewayClassStatus { conditions: conditions.finish(), supported_features: features.collect() };
    (status != present).then_some(status)
}

/// The kinds that the definitions of the cluster do not have.
fn missing_kinds(settings: &GatewaySettings) -> Option<String> {
    let kinds: Vec<&str> = settings.missing_kinds.iter().copied().collect();
    (!kinds.is_empty()).then(|| kinds.join(", "))
}

pub(crate) fn of_gateway(
    plan: &GatewayPlan,
    attached: &[i32],
    (settings, addresses): (&GatewaySettings, &[GatewayStatusAddress]),
    now: &str,
) -> Option<GatewayStatus> {
    let gateway: &Gateway = &plan.gateway;
    let present = gateway.status.as_deref().cloned().unwrap_or_default();
    let generation = gateway.metadata.generation;
    let mut conditions = Conditions::new(&present.conditions, generation, now);
    let is_open = |listener: &GatewayListenerPlan| plan.accepted.is_ok() && listener.is_open();
    push_accepted(plan, &mut conditions);
    match &plan.certificate {
        Some(Ok(_)) => conditions.push("ResolvedRefs", true, "ResolvedRefs", ""),
        Some(Err(refusal)) => conditions.push("ResolvedRefs", false, refusal.reason, &refusal.message),
        None => {}
    }
    if has_insecure_fallback(gateway) {
        let message = "clients are let in although their certificates are missing or not valid";
        conditions.push("InsecureFrontendValidationMode", true, "ConfigurationChanged", message);
    }
    let wanted: Vec<&str> =
        gateway.spec.addresses.iter().filter_map(|address| address.value.as_deref()).collect();
    let is_usable = |wanted: &str| addresses.iter().any(|address| *address.value == *wanted);
    let unusable = wanted.iter().find(|wanted| !is_usable(wanted));
    // Those that the Gateway asks for, if it asks for some.
    let addresses: Box<[GatewayStatusAddress]> = (addresses.iter())
        .filter(|address| wanted.is_empty() || wanted.contains(&&*address.value))
        .cloned()
        .collect();
    let refusal = refusal_of((plan, None), settings);
    if !plan.listeners.iter().any(is_open) {
        conditions.push("Programmed", false, "Invalid", "no listener is open");
    } else if let Some(refusal) = refusal {
        conditions.push("Programmed", false, "Pending", &not_applied(refusal));
    } else if let Some(unusable) = unusable {
        conditions.push(
            "Programmed",
            false,
            "AddressNotUsable",
            &format!("the address `{unusable}` is not one of this process"),
        );
    } else if addresses.is_empty() {
        conditions.push("Programmed", false, "AddressNotAssigned", "no address is known yet");
    } else {
        conditions.push("Programmed", true, "Programmed", "");
    }
    let listeners = of_listeners((plan, None), attached, &present.listeners, settings, (generation, now));
    let sets = (0..plan.sets.len()).filter(|set| judge_set(plan, *set).is_ok()).count();
    let sets = i32::try_from(sets).unwrap_or(i32::MAX);
    let status = GatewayStatus {
        addresses,
        // Older definitions of Gateways have no such field: what they drop would be written again and again.
        attached_listener_sets: (sets > 0 || present.attached_listener_sets.is_some()).then_some(sets),
        listeners,
        conditions: conditions.finish(),
    };
    (status != present).then_some(status)
}

fn push_accepted(plan: &GatewayPlan, conditions: &mut Conditions<'_>) {
    let is_valid = |listener: &&GatewayListenerPlan| listener.accepted.is_ok() && listener.conflict.is_none();
    let own = || plan.listeners_of(None).map(|(_, listener)| listener);
    let valid = own().filter(is_valid).count();
    match &plan.accepted {
        Err(refusal) => conditions.push("Accepted", false, refusal.reason, &refusal.message),
        Ok(()) if valid == own().count() => conditions.push("Accepted", true, "Accepted", ""),
        Ok(()) => conditions.push(
            "Accepted",
            valid > 0,
            "ListenersNotValid",
            "some listeners cannot be used: see their conditions",
        ),
    }
}

/// The statuses of the listeners of a Gateway itself or of one of its sets.
fn of_listeners(
    (plan, set): (&GatewayPlan, Option<usize>),
    attached: &[i32],
    present: &[GatewayStatusListener],
    settings: &GatewaySettings,
    (generation, now): (Option<i64>, &str),
) -> Box<[GatewayStatusListener]> {
    let status = |(place, listener): (usize, &GatewayListenerPlan)| {
        let before = present.iter().find(|known| known.name == listener.name);
        let before = before.map_or(&[][..], |known| &known.conditions);
        let is_open = plan.accepted.is_ok() && listener.is_open();
        let conditions = Conditions::new(before, generation, now);
        let refused = settings.refusals.of_port(&plan.key, listener.port);
        of_listener(listener, attached[place], is_open, refused, conditions)
    };
    plan.listeners_of(set).map(status).collect()
}

/// Whether a set is attached to its Gateway: it is allowed, and one of its listeners can be used.
fn judge_set(plan: &GatewayPlan, set: usize) -> Result<(), Refusal> {
    plan.sets[set].allowed.clone()?;
    if let Err(refusal) = &plan.accepted {
        return Err(Refusal::new(
            "ParentNotAccepted",
            format!("the Gateway is not accepted: {}", refusal.message),
        ));
    }
    match plan.listeners_of(Some(set)).any(|(_, listener)| listener.is_open()) {
        true => Ok(()),
        false => Err(Refusal::new("ListenersNotValid", "no listener can be used: see their conditions")),
    }
}

/// The status of a set of listeners.
pub(crate) fn of_listener_set(
    (plan, place): (&GatewayPlan, usize),
    attached: &[i32],
    (settings, addresses): (&GatewaySettings, &[GatewayStatusAddress]),
    now: &str,
) -> Option<ListenerSetStatus> {
    let set = &plan.sets[place].set;
    let present = set.status.as_deref().cloned().unwrap_or_default();
    let generation = set.metadata.generation;
    let mut conditions = Conditions::new(&present.conditions, generation, now);
    let all_open = plan.listeners_of(Some(place)).all(|(_, listener)| listener.is_open());
    match judge_set(plan, place) {
        Err(refusal) => {
            conditions.push("Accepted", false, refusal.reason, &refusal.message);
            let reason =
                if refusal.reason == "ParentNotAccepted" { "ParentNotProgrammed" } else { refusal.reason };
            conditions.push("Programmed", false, reason, &refusal.message);
        }
        Ok(()) => {
            let message = "some listeners cannot be used: see their conditions";
            match all_open {
                true => conditions.push("Accepted", true, "Accepted", ""),
                false => conditions.push("Accepted", true, "ListenersNotValid", message),
            }
            if let Some(refusal) = refusal_of((plan, Some(place)), settings) {
                conditions.push("Programmed", false, "Pending", &not_applied(refusal));
            } else if addresses.is_empty() {
                conditions.push("Programmed", false, "ParentNotProgrammed", "no address is known yet");
            } else {
                conditions.push("Programmed", true, "Programmed", "");
            }
        }
    }
    let listeners =
        of_listeners((plan, Some(place)), attached, &present.listeners, settings, (generation, now));
    let status = ListenerSetStatus { conditions: conditions.finish(), listeners };
    (status != present).then_some(status)
}

/// Why one of the listeners of a Gateway itself, or of one of its sets, is not applied.
fn refusal_of<'a>(
    (plan, set): (&GatewayPlan, Option<usize>),
    settings: &'a GatewaySettings,
) -> Option<&'a str> {
    let mut open = plan.listeners_of(set).filter(|(_, listener)| listener.is_open());
    let whole = settings.refusals.whole.as_deref();
    whole.or_else(|| open.find_map(|(_, listener)| settings.refusals.of_port(&plan.key, listener.port)))
}

fn not_applied(refusal: &str) -> String {
    format!("the last configuration could not be applied, that of before stays in use: {refusal}")
}

fn of_listener(
    listener: &GatewayListenerPlan,
    attached: i32,
    is_open: bool,
    refused: Option<&str>,
    mut conditions: Conditions<'_>,
) -> GatewayStatusListener {
    let accepted = listener.accepted.as_ref().err().or(listener.conflict.as_ref());
    conditions.verdict("Accepted", accepted.map_or(Ok(()), Err));
    match &listener.conflict {
        Some(refusal) => conditions.push("Conflicted", true, refusal.reason, &refusal.message),
        None => conditions.push("Conflicted", false, "NoConflicts", ""),
    }
    if let Some(overlap) = &listener.overlap {
        conditions.push("OverlappingTLSConfig", true, overlap.reason, &overlap.message);
    }
    let is_programmed = is_open && listener.resolved.is_ok();
    let conflict_of_set = listener.conflict.as_ref().filter(|_| listener.set.is_some());
    match &listener.resolved {
        _ if is_programmed && let Some(refusal) = refused => {
            conditions.push("Programmed", false, "Pending", &not_applied(refusal));
        }
        _ if is_programmed => conditions.push("Programmed", true, "Programmed", ""),
        Err(refusal) => conditions.push("Programmed", false, "Invalid", &refusal.message),
        Ok(()) if let Some(refusal) = conflict_of_set => {
            conditions.push("Programmed", false, refusal.reason, &refusal.message);
        }
        Ok(()) => conditions.push("Programmed", false, "Invalid", "the listener is not open"),
    }
    conditions.verdict("ResolvedRefs", listener.resolved.as_ref().map(|_| ()));
    let kind = |name: &str| RouteGroupKind { group: Some(GROUP.into()), kind: name.into() };
    GatewayStatusListener {
        attached_routes: attached,
        conditions: conditions.finish(),
        name: listener.name.clone(),
        supported_kinds: listener.kinds.iter().map(|one| kind(one.name())).collect(),
    }
}

/// Whether an entry is about a Gateway of this process: others of this controller have processes of their own. An entry about a set that is
/// gone is that of any of them.
fn is_served(
    reference: &ParentReference,
    namespace: &str,
    (settings, store): (&GatewaySettings, &ObjectStore),
) -> bool {
    let Some(served) = &settings.served else { return true };
    match RouteParent::new(reference, namespace) {
        Some(RouteParent::Gateway(key)) => key == *served,
        Some(RouteParent::Set(key)) => {
            let set = store.listener_sets.get(&key);
            set.is_none_or(|set| gateway_of_set(set).as_ref() == Some(served))
        }
        None => false,
    }
}

/// Entries of ours in the places that they had, between those of others: two writers that sorted them would never agree.
fn in_their_places<T: Clone>(
    present: &[T],
    mut decided: Vec<T>,
    is_ours: impl Fn(&T) -> bool,
    is_same: impl Fn(&T, &T) -> bool,
) -> Box<[T]> {
    let mut entries = Vec::with_capacity(present.len() + decided.len());
    for entry in present {
        if !is_ours(entry) {
            entries.push(entry.clone());
        } else if let Some(place) = decided.iter().position(|one| is_same(one, entry)) {
            entries.push(decided.remove(place));
        }
    }
    entries.extend(decided);
    entries.into()
}

/// The status of a route: an entry for each reference to a Gateway of ours, and those of other controllers as they are.
pub(crate) fn of_route(
    state: &RouteState,
    present: Option<&RouteStatus>,
    (settings, store): (&GatewaySettings, &ObjectStore),
    now: &str,
) -> Option<RouteStatus> {
    let present = present.cloned().unwrap_or_default();
    let is_ours = |entry: &RouteParentStatus| {
        entry.controller_name == settings.controller_name
            && is_served(&entry.parent_ref, &state.compiled.key.namespace, (settings, store))
    };
    let mut decided: Vec<RouteParentStatus> = Vec::new();
    for attachment in &state.attachments {
        let reference = &state.compiled.parents[attachment.parent];
        let before = present.parents.iter().find(|entry| is_ours(entry) && entry.parent_ref == *reference);
        let before = before.map_or(&[][..], |entry| &entry.conditions);
        let mut conditions = Conditions::new(before, state.compiled.generation, now);
        conditions.verdict("Accepted", attachment.accepted());
        conditions.verdict("ResolvedRefs", state.compiled.resolved.as_ref().map(|_| ()));
        decided.push(RouteParentStatus {
            conditions: conditions.finish(),
            controller_name: settings.controller_name.clone(),
            parent_ref: reference.clone(),
        });
    }
    let is_same = |one: &RouteParentStatus, other: &RouteParentStatus| one.parent_ref == other.parent_ref;
    let parents = in_their_places(&present.parents, decided, is_ours, is_same);
    let status = RouteStatus { parents };
    (status != present).then_some(status)
}

/// The status of a policy: an entry for each Gateway of ours with a route to a service that the policy is for.
pub(crate) fn of_policy(
    policy: &BackendTlsPolicy,
    verdict: &PolicyVerdict,
    effect: &Result<(), Refusal>,
    gateways: &[&ObjectKey],
    (settings, store): (&GatewaySettings, &ObjectStore),
    now: &str,
) -> Option<BackendTlsPolicyStatus> {
    let present = policy.status.as_deref().cloned().unwrap_or_default();
    let is_ours = |entry: &PolicyAncestor| {
        entry.controller_name == settings.controller_name
            && is_served(&entry.ancestor_ref, &policy.metadata.namespace, (settings, store))
    };
    let mut decided: Vec<PolicyAncestor> = Vec::new();
    for gateway in gateways {
        let ancestor_ref = ParentReference {
            group: Some(GROUP.into()),
            kind: Some(Gateway::KIND.into()),
            name: gateway.name.clone(),
            namespace: Some(gateway.namespace.clone()),
            ..ParentReference::default()
        };
        let before =
            present.ancestors.iter().find(|entry| is_ours(entry) && entry.ancestor_ref == ancestor_ref);
        let before = before.map_or(&[][..], |entry| &entry.conditions);
        let mut conditions = Conditions::new(before, policy.metadata.generation, now);
        let accepted = verdict.tls.as_ref().map(|_| ()).and(effect.as_ref().map(|_| ()));
        conditions.verdict("Accepted", accepted);
        conditions.verdict("ResolvedRefs", verdict.resolved.as_ref().map(|_| ()));
        decided.push(PolicyAncestor {
            ancestor_ref,
            conditions: conditions.finish(),
            controller_name: settings.controller_name.clone(),
        });
    }
    let is_same = |one: &PolicyAncestor, other: &PolicyAncestor| one.ancestor_ref == other.ancestor_ref;
    let ancestors = in_their_places(&present.ancestors, decided, is_ours, is_same);
    let status = BackendTlsPolicyStatus { ancestors };
    (status != present).then_some(status)
}
