//! The resources of one type: which are asked for, what is known of each, and what is to be said to the control plane about them. Pure: the
//! clock is passed in.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::messages::base::{ProtoDuration, RpcStatus};
use super::messages::discovery::{DeltaRequest, DeltaResponse, Resource};

/// `google.rpc.Code` of a response that is refused: INVALID_ARGUMENT.
const INVALID_ARGUMENT: i32 = 3;

/// The resources in an error that are named.
const NAMED_MAX: usize = 20;

/// The text of an error that is sent, at most.
const ERROR_LEN_MAX: usize = 4096;

/// What is known of a resource.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Known<T> {
    /// Nothing: the control plane has not answered.
    Unanswered,
    /// The control plane does not have it any more.
    Removed,
    /// This.
    Value(T),
}

/// A resource that an upstream uses.
#[derive(Debug)]
pub(super) struct TrackedResource<T> {
    pub(super) known: Known<T>,
    /// Why its last version was refused: what is known is an older one.
    pub(super) refusal: Option<Box<str>>,
    /// Whether it is missing for too long.
    pub(super) is_overdue: bool,
    version: String,
    users: HashSet<u64>,
    asked_at: Option<Instant>,
    /// When it ends unless the control plane names it again.
    ends_at: Option<Instant>,
}

impl<T> TrackedResource<T> {
    pub(super) fn users(&self) -> impl Iterator<Item = u64> {
        self.users.iter().copied()
    }
}

/// How a resource is read: its name and its bytes.
type ReadResource<T> = fn(&str, &[u8]) -> Result<T, String>;

/// What a response leads to.
#[derive(Debug, Default)]
pub(super) struct ResponseOutcome {
    /// The acknowledgement, or the refusal.
    pub(super) reply: DeltaRequest,
    /// The resources that have changed, or whose refusal has.
    pub(super) changed: Vec<Box<str>>,
}

/// The resources of one type.
pub(super) struct ResourceTable<T> {
    type_url: &'static str,
    read: ReadResource<T>,
    resources: HashMap<Box<str>, TrackedResource<T>>,
    subscribe: BTreeSet<Box<str>>,
    unsubscribe: BTreeSet<Box<str>>,
    /// Those for which a time runs: unanswered, or with an end.
    timed: HashSet<Box<str>>,
}

impl<T> ResourceTable<T> {
    pub(super) fn new(type_url: &'static str, read: ReadResource<T>) -> Self {
        Self {
            type_url,
            read,
            resources: HashMap::new(),
            subscribe: BTreeSet::new(),
            unsubscribe: BTreeSet::new(),
            timed: HashSet::new(),
        }
    }

    pub(super) fn type_url(&self) -> &'static str {
        self.type_url
    }

    pub(super) fn resource(&self, name: &str) -> Option<&TrackedResource<T>> {
        self.resources.get(name)
    }

    /// One more user of a resource.
    pub(super) fn want(&mut self, name: &str, user: u64) {
        if let Some(resource) = self.resources.get_mut(name) {
            resource.users.insert(user);
            return;
        }
        let resource = TrackedResource {
            known: Known::Unanswered,
            refusal: None,
            is_overdue: false,
            version: String::new(),
            users: HashSet::from([user]),
            asked_at: None,
            ends_at: None,
        };
        self.resources.insert(name.into(), resource);
        self.subscribe.insert(name.into());
    }

    /// One user less; without any, the resource is forgotten.
    pub(super) fn release(&mut self, name: &str, user: u64) {
        let Some(resource) = self.resources.get_mut(name) else { return };
        resource.users.remove(&user);
        if resource.users.is_empty() {
            self.resources.remove(name);
            self.timed.remove(name);
            // What the control plane was not asked for yet need not be given up.
            if !self.subscribe.remove(name) {
                self.unsubscribe.insert(name.into());
            }
        }
    }

    /// What is to be said on a new stream first: all names, and the versions that are known.
    pub(super) fn first_request(&mut self, now: Instant) -> Option<DeltaRequest> {
        self.unsubscribe.clear();
        self.subscribe.clear();
        if self.resources.is_empty() {
            return None;
        }
        let versions =
            self.resources.iter().filter(|(_, resource)| matches!(resource.known, Known::Value(_)));
        let initial_resource_versions =
            versions.map(|(name, resource)| (name.to_string(), resource.version.clone())).collect();
        let mut names: Vec<String> = self.resources.keys().map(|name| name.to_string()).collect();
        names.sort_unstable();
        for name in &names {
            self.asked(name, now);
        }
        let request = DeltaRequest {
            type_url: self.type_url.into(),
            resource_names_subscribe: names,
            initial_resource_versions,
            ..DeltaRequest::default()
        };
        Some(request)
    }

    /// What is to be said next. Names are given up in a request of their own, so that one that is wanted again is asked for anew.
    pub(super) fn next_request(&mut self, now: Instant) -> Option<DeltaRequest> {
        let mut request = DeltaRequest { type_url: self.type_url.into(), ..DeltaRequest::default() };
        let names = |names: BTreeSet<Box<str>>| names.into_iter().map(String::from).collect::<Vec<String>>();
        if !self.unsubscribe.is_empty() {
            request.resource_names_unsubscribe = names(std::mem::take(&mut self.unsubscribe));
            return Some(request);
        }
        if self.subscribe.is_empty() {
            return None;
        }
        request.resource_names_subscribe = names(std::mem::take(&mut self.subscribe));
        for name in &request.resource_names_subscribe {
            self.asked(name, now);
        }
        Some(request)
    }

    fn asked(&mut self, name: &str, now: Instant) {
        if let Some(resource) = self.resources.get_mut(name).filter(|resource| is_unanswered(resource)) {
            resource.asked_at = Some(now);
            resource.is_overdue = false;
            self.timed.insert(name.into());
        }
    }

    /// Takes in a response. What is sound in it takes effect, also beside what is not.
    pub(super) fn respond(&mut self, response: DeltaResponse, now: Instant) -> ResponseOutcome {
        let mut refusals = Vec::new();
        let mut changed = Vec::new();
        for resource in response.resources {
            let name: Box<str> = resource.name.as_str().into();
            match self.take(resource, now) {
                Ok(true) => changed.push(name),
                Ok(false) => {}
                Err(why) => {
                    refusals.push(format!("{name}: {why}"));
                    if let Some(known) = self.resources.get_mut(&name) {
                        known.refusal = Some(why.into());
                        changed.push(name);
                    }
                }
            }
        }
        for name in response.removed_resources {
            if let Some(resource) = self.resources.get_mut(&*name) {
                remove(resource);
                self.timed.remove(&*name);
                changed.push(name.into());
            }
        }
        let mut reply = DeltaRequest {
            type_url: self.type_url.into(),
            response_nonce: response.nonce,
            ..DeltaRequest::default()
        };
        if !refusals.is_empty() {
            reply.error_detail = Some(RpcStatus { code: INVALID_ARGUMENT, message: error_text(&refusals) });
        }
        ResponseOutcome { reply, changed }
    }

    /// Takes in one resource; `false`: nothing has changed.
    fn take(&mut self, resource: Resource, now: Instant) -> Result<bool, String> {
        let Some(known) = self.resources.get_mut(&*resource.name) else { return Ok(false) };
        let read = match &resource.resource {
            // A heartbeat: it lives on.
            None if matches!(known.known, Known::Value(_)) => None,
            None => return Err("it has no content".into()),
            Some(any) if any.type_url == self.type_url => Some((self.read)(&resource.name, &any.value)?),
            Some(any) => return Err(format!("its type is {}", any.type_url)),
        };
        known.ends_at = resource.ttl.as_ref().and_then(lifetime).map(|lifetime| now + lifetime);
        known.is_overdue = false;
        if known.ends_at.is_some() {
            self.timed.insert(resource.name.as_str().into());
        } else {
            self.timed.remove(&*resource.name);
        }
        let Some(value) = read else { return Ok(false) };
        known.refusal = None;
        known.version = resource.version;
        known.known = Known::Value(value);
        Ok(true)
    }

    /// When a time ends.
    pub(super) fn due(&self, answer_timeout: Duration) -> Option<Instant> {
        self.timed.iter().filter_map(|name| end_of(self.resources.get(name)?, answer_timeout)).min()
    }

    /// The resources whose time is over: they have ended, or were not answered.
    pub(super) fn expire(&mut self, now: Instant, answer_timeout: Duration) -> Vec<Box<str>> {
        let is_over = |name: &str| {
            self.resources
                .get(name)
                .and_then(|resource| end_of(resource, answer_timeout))
                .is_none_or(|at| at <= now)
        };
        let over: Vec<Box<str>> = self.timed.iter().filter(|name| is_over(name)).cloned().collect();
        for name in &over {
            self.timed.remove(name);
            match self.resources.get_mut(name) {
                Some(resource) if is_unanswered(resource) => resource.is_overdue = true,
                Some(resource) => remove(resource),
                None => {}
            }
        }
        over
    }

    /// All resources by name, for tests.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.resources.keys().map(|name| &**name)
    }
}

fn is_unanswered<T>(resource: &TrackedResource<T>) -> bool {
    matches!(resource.known, Known::Unanswered)
}

fn remove<T>(resource: &mut TrackedResource<T>) {
    resource.known = Known::Removed;
    resource.refusal = None;
    resource.version = String::new();
    (resource.ends_at, resource.asked_at) = (None, None);
}

fn end_of<T>(resource: &TrackedResource<T>, answer_timeout: Duration) -> Option<Instant> {
    match resource.known {
        Known::Unanswered => resource.asked_at.map(|at| at + answer_timeout),
        _ => resource.ends_at,
    }
}

/// How long a resource lives; a time that is none is no limit.
fn lifetime(ttl: &ProtoDuration) -> Option<Duration> {
    let (seconds, nanos) = (u64::try_from(ttl.seconds).ok()?, u32::try_from(ttl.nanos).ok()?);
    let lifetime = Duration::from_secs(seconds.min(u64::from(u32::MAX))) + Duration::from_nanos(nanos.into());
    (!lifetime.is_zero()).then_some(lifetime)
}

fn error_text(refusals: &[String]) -> String {
    let named = &refusals[..refusals.len().min(NAMED_MAX)];
    let mut text = named.join("; ");
    if refusals.len() > named.len() {
        text.push_str(&format!("; and {} more", refusals.len() - named.len()));
    }
    if let Some((end, _)) = text.char_indices().nth(ERROR_LEN_MAX) {
        text.truncate(end);
    }
    text
}
