//! What the upstreams follow of a control plane: clusters, the assignments that these name, and assignments by name; and what each upstream is to
//! be told. Pure: the clock is passed in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use prost::Message as _;

use super::assignment::{NamedServers, excerpt, servers_of};
use super::cluster::{ClusterEndpoints, ClusterMeaning, read_cluster};
use super::followed_resource::FollowedResource;
use super::messages::discovery::{DeltaRequest, DeltaResponse};
use super::messages::endpoint::LoadAssignment;
use super::resource_table::{Known, ResourceTable, TrackedResource};
use crate::last_known::source_state::SourceReport;

/// The type of a cluster.
pub(super) const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// The type of an assignment.
pub(super) const ASSIGNMENT: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// What is to be told, by the number of the upstream.
pub(super) type Reports = BTreeMap<u64, SourceReport>;

/// All that the upstreams follow of one control plane.
pub(super) struct FollowedResources {
    answer_timeout: Duration,
    followers: HashMap<u64, Follower>,
    clusters: ResourceTable<ClusterMeaning>,
    assignments: ResourceTable<NamedServers>,
}

struct Follower {
    follows: FollowedResource,
    /// The assignment that its cluster names.
    assignment: Option<Box<str>>,
}

impl FollowedResources {
    pub(super) fn new(answer_timeout: Duration) -> Self {
        let read_assignment = |name: &str, bytes: &[u8]| {
            let read = LoadAssignment::decode(bytes);
            let read = read.map_err(|error| format!("it is no ClusterLoadAssignment: {error}"))?;
            // Requests of one cluster must not reach the servers of another by a mistake of the control plane.
            if read.cluster_name != name {
                return Err(format!(
                    "it is the assignment of another cluster, `{}`",
                    excerpt(&read.cluster_name)
                ));
            }
            servers_of(&read)
        };
        Self {
            answer_timeout,
            followers: HashMap::new(),
            clusters: ResourceTable::new(CLUSTER, read_cluster),
            assignments: ResourceTable::new(ASSIGNMENT, read_assignment),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.followers.is_empty()
    }

    pub(super) fn followers(&self) -> impl Iterator<Item = u64> {
        self.followers.keys().copied()
    }

    /// One more upstream; what is known for it already.
    pub(super) fn follow(&mut self, id: u64, follows: FollowedResource) -> Reports {
        match &follows {
            FollowedResource::Cluster(name) => self.clusters.want(name, id),
            FollowedResource::Assignment(name) => self.assignments.want(name, id),
        }
        self.followers.insert(id, Follower { follows, assignment: None });
        self.settle(id);
        self.reports([id])
    }

    /// One upstream less.
    pub(super) fn forget(&mut self, id: u64) {
        let Some(Follower { follows, assignment }) = self.followers.remove(&id) else { return };
        match follows {
            FollowedResource::Cluster(name) => self.clusters.release(&name, id),
            FollowedResource::Assignment(name) => self.assignments.release(&name, id),
        }
        if let Some(name) = assignment {
            self.assignments.release(&name, id);
        }
    }

    /// What is said on a new stream: clusters first, as the protocol advises.
    pub(super) fn first_requests(&mut self, now: Instant) -> Vec<DeltaRequest> {
        let requests = [self.clusters.first_request(now), self.assignments.first_request(now)];
        requests.into_iter().flatten().collect()
    }

    /// What is to be said next.
    pub(super) fn next_request(&mut self, now: Instant) -> Option<DeltaRequest> {
        self.clusters.next_request(now).or_else(|| self.assignments.next_request(now))
    }

    /// Takes in a response: the reply to it, and what upstreams are to be told. `None`: it is about a type that was not asked for.
    pub(super) fn respond(
        &mut self,
        response: DeltaResponse,
        now: Instant,
    ) -> Option<(DeltaRequest, Reports)> {
        if response.type_url == self.clusters.type_url() {
            let outcome = self.clusters.respond(response, now);
            let users: BTreeSet<u64> = users(&self.clusters, &outcome.changed);
            for id in &users {
                self.settle(*id);
            }
            return Some((outcome.reply, self.reports(users)));
        }
        if response.type_url == self.assignments.type_url() {
            let outcome = self.assignments.respond(response, now);
            let users: BTreeSet<u64> = users(&self.assignments, &outcome.changed);
            return Some((outcome.reply, self.reports(users)));
        }
        None
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = [self.clusters.due(self.answer_timeout), self.assignments.due(self.answer_timeout)];
        due.into_iter().flatten().min()
    }

    /// What upstreams are to be told since times are over.
    pub(super) fn expire(&mut self, now: Instant) -> Reports {
        let over = self.clusters.expire(now, self.answer_timeout);
        let mut told = users(&self.clusters, &over);
        for id in &told {
            self.settle(*id);
        }
        let over = self.assignments.expire(now, self.answer_timeout);
        told.append(&mut users(&self.assignments, &over));
        self.reports(told)
    }

    /// What all upstreams are to be told.
    pub(super) fn all_reports(&self) -> Reports {
        self.reports(self.followers())
    }

    /// Asks for the assignment that the cluster of an upstream names now.
    fn settle(&mut self, id: u64) {
        let Some(follower) = self.followers.get_mut(&id) else { return };
        let FollowedResource::Cluster(cluster) = &follower.follows else { return };
        let named = match self.clusters.resource(cluster).map(|cluster| &cluster.known) {
            Some(Known::Value(ClusterMeaning { endpoints: ClusterEndpoints::Assignment(name), .. })) => {
                Some(name.clone())
            }
            _ => None,
        };
        if follower.assignment == named {
            return;
        }
        if let Some(name) = &named {
            self.assignments.want(name, id);
        }
        if let Some(name) = std::mem::replace(&mut follower.assignment, named) {
            self.assignments.release(&name, id);
        }
    }

    fn reports(&self, ids: impl IntoIterator<Item = u64>) -> Reports {
        ids.into_iter().filter_map(|id| Some((id, self.report(id)?))).collect()
    }

    /// What an upstream is to be told; `None`: nothing yet.
    fn report(&self, id: u64) -> Option<SourceReport> {
        let follower = self.followers.get(&id)?;
        let name = match &follower.follows {
            FollowedResource::Assignment(name) => {
                return self.report_assignment(name, Vec::new(), BTreeSet::new());
            }
            FollowedResource::Cluster(name) => name,
        };
        let cluster = self.clusters.resource(name)?;
        let what = format!("cluster `{name}`");
        let refusals = cluster
            .refusal
            .iter()
            .map(|why| format!("the {what} has a newer version that is refused: {why}"));
        match &cluster.known {
            Known::Value(meaning) => match &meaning.endpoints {
                ClusterEndpoints::Inline(named) => {
                    let remark = remark(refusals.collect(), &meaning.unfollowed);
                    Some(SourceReport::Said { servers: named.servers.clone(), remark })
                }
                ClusterEndpoints::Assignment(name) => {
                    self.report_assignment(name, refusals.collect(), meaning.unfollowed.clone())
                }
            },
            _ => unknown(cluster, &what),
        }
    }

    fn report_assignment(
        &self,
        name: &str,
        refusals: Vec<String>,
        mut unfollowed: BTreeSet<String>,
    ) -> Option<SourceReport> {
        let assignment = self.assignments.resource(name)?;
        let what = format!("assignment `{name}`");
        match (&assignment.known, &assignment.refusal) {
            (Known::Value(_), Some(why)) => Some(SourceReport::Failed(
                format!("the {what} has a newer version that is refused: {why}").into(),
            )),
            (Known::Value(named), None) => {
                unfollowed.extend(named.unfollowed.iter().cloned());
                Some(SourceReport::Said {
                    servers: named.servers.clone(),
                    remark: remark(refusals, &unfollowed),
                })
            }
            _ => unknown(assignment, &what),
        }
    }

    /// The names that are asked for, for tests.
    #[cfg(test)]
    pub(super) fn names(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let of = |name: &str| name.to_owned();
        (self.clusters.names().map(of).collect(), self.assignments.names().map(of).collect())
    }
}

fn users<T>(table: &ResourceTable<T>, names: &[Box<str>]) -> BTreeSet<u64> {
    names.iter().filter_map(|name| table.resource(name)).flat_map(TrackedResource::users).collect()
}

/// The report about a resource without a value.
fn unknown<T>(resource: &TrackedResource<T>, what: &str) -> Option<SourceReport> {
    if let Some(why) = &resource.refusal {
        return Some(SourceReport::Failed(format!("the {what} is refused: {why}").into()));
    }
    match resource.known {
        Known::Removed => {
            let remark = Some(format!("the control plane has no {what} any more").into());
            Some(SourceReport::Said { servers: Vec::new(), remark })
        }
        _ if resource.is_overdue => {
            let why = format!(
                "the control plane has not named the {what}: it does not have it, or not for this node"
            );
            Some(SourceReport::Failed(why.into()))
        }
        _ => None,
    }
}

fn remark(mut refusals: Vec<String>, unfollowed: &BTreeSet<String>) -> Option<Box<str>> {
    if !unfollowed.is_empty() {
        let names: Vec<&str> = unfollowed.iter().map(String::as_str).collect();
        refusals.push(format!("not followed: {}", names.join(", ")));
    }
    (!refusals.is_empty()).then(|| refusals.join("; ").into())
}

#[cfg(test)]
#[path = "resources_tests.rs"]
mod tests;
