//! The protocol, message by message.

use super::*;
use crate::sources::xds::cluster::ClusterMeaning;
use crate::sources::xds::messages::base::{Any, ProtoDuration};
use crate::sources::xds::messages::cluster::{Cluster, EdsClusterConfig};
use crate::sources::xds::messages::discovery::Resource;
use crate::sources::xds::test_messages::assignment;

const TIMEOUT: Duration = Duration::from_secs(15);

struct ProtocolTable {
    resources: FollowedResources,
    start: Instant,
}

/// A resource of a response.
fn resource(type_url: &str, name: &str, version: &str, value: Vec<u8>) -> Resource {
    let resource = Some(Any { type_url: type_url.into(), value });
    Resource { name: name.into(), version: version.into(), resource, ttl: None }
}

fn endpoints(name: &str, version: &str, ports: &[u32]) -> Resource {
    let endpoints: Vec<(&str, u32)> = ports.iter().map(|port| ("10.0.0.1", *port)).collect();
    resource(ASSIGNMENT, name, version, assignment(name, &endpoints).encode_to_vec())
}

fn cluster(name: &str, version: &str, service: &str) -> Resource {
    let config = EdsClusterConfig { eds_config: None, service_name: service.into() };
    let cluster = Cluster {
        name: name.into(),
        discovery_type: 3,
        eds_cluster_config: Some(config),
        ..Cluster::default()
    };
    resource(CLUSTER, name, version, cluster.encode_to_vec())
}

impl ProtocolTable {
    fn new() -> Self {
        Self { resources: FollowedResources::new(TIMEOUT), start: crate::clock::now() }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.start + Duration::from_secs(seconds)
    }

    fn follow_cluster(&mut self, id: u64, name: &str) {
        assert!(self.resources.follow(id, FollowedResource::Cluster(name.into())).is_empty());
    }

    fn follow_assignment(&mut self, id: u64, name: &str) -> Reports {
        self.resources.follow(id, FollowedResource::Assignment(name.into()))
    }

    /// The next request, as type, names to subscribe and names to give up.
    fn request(&mut self) -> Option<(String, Vec<String>, Vec<String>)> {
        let request = self.resources.next_request(self.start)?;
        assert!(request.response_nonce.is_empty() && request.error_detail.is_none());
        let kind = request.type_url.rsplit('.').next().unwrap().to_owned();
        Some((kind, request.resource_names_subscribe, request.resource_names_unsubscribe))
    }

    fn respond(
        &mut self,
        seconds: u64,
        resources: Vec<Resource>,
        removed: &[&str],
    ) -> (DeltaRequest, Reports) {
        let type_url = resources.first().and_then(|first| first.resource.as_ref());
        let type_url = type_url.map_or(ASSIGNMENT.to_owned(), |any| any.type_url.clone());
        let removed_resources = removed.iter().map(|name| (*name).to_owned()).collect();
        let response = DeltaResponse { resources, type_url, nonce: format!("n{seconds}"), removed_resources };
        let now = self.at(seconds);
        let (reply, reports) = self.resources.respond(response, now).unwrap();
        assert_eq!(reply.response_nonce, format!("n{seconds}"));
        (reply, reports)
    }
}

/// The ports of a report; with its remark, or why it failed.
fn told(reports: &Reports, id: u64) -> Result<(Vec<u16>, Option<String>), String> {
    match &reports[&id] {
        SourceReport::Said { servers, remark } => {
            let ports = servers.iter().map(|server| server.address.port().unwrap()).collect();
            Ok((ports, remark.as_deref().map(str::to_owned)))
        }
        SourceReport::Failed(why) => Err(why.to_string()),
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_cluster_leads_to_its_assignment() {
    let mut table = ProtocolTable::new();
    table.follow_cluster(1, "app");
    assert_eq!(table.request(), Some(("Cluster".into(), names(&["app"]), vec![])));
    assert_eq!(table.request(), None);
    let (reply, reports) = table.respond(1, vec![cluster("app", "1", "app-v1")], &[]);
    assert!(reply.error_detail.is_none() && reports.is_empty());
    assert_eq!(table.request(), Some(("ClusterLoadAssignment".into(), names(&["app-v1"]), vec![])));
    let (_, reports) = table.respond(2, vec![endpoints("app-v1", "1", &[1, 2])], &[]);
    assert_eq!(told(&reports, 1), Ok((vec![1, 2], None)));
    // Another assignment: the one of before is given up, the servers stay until the new one is there.
    let (_, reports) = table.respond(3, vec![cluster("app", "2", "app-v2")], &[]);
    assert!(reports.is_empty());
    assert_eq!(table.request(), Some(("ClusterLoadAssignment".into(), vec![], names(&["app-v1"]))));
    assert_eq!(table.request(), Some(("ClusterLoadAssignment".into(), names(&["app-v2"]), vec![])));
    let (_, reports) = table.respond(4, vec![endpoints("app-v2", "1", &[3])], &[]);
    assert_eq!(told(&reports, 1), Ok((vec![3], None)));
}

#[test]
fn upstreams_share_what_they_follow() {
    let mut table = ProtocolTable::new();
    assert!(table.follow_assignment(1, "app").is_empty());
    table.request();
    table.respond(1, vec![endpoints("app", "1", &[1])], &[]);
    let known = table.follow_assignment(2, "app");
    assert_eq!(told(&known, 2), Ok((vec![1], None)), "known already");
    assert_eq!(table.request(), None);
    let (_, reports) = table.respond(2, vec![endpoints("app", "2", &[2])], &[]);
    assert_eq!(reports.len(), 2);
    table.resources.forget(1);
    assert_eq!(table.request(), None);
    table.resources.forget(2);
    assert!(table.resources.is_empty());
    assert_eq!(table.request(), Some(("ClusterLoadAssignment".into(), vec![], names(&["app"]))));
    // Given up before it was asked for: nothing to say. Given up and wanted again: in this order.
    table.follow_assignment(3, "b");
    table.resources.forget(3);
    assert_eq!(table.request(), None);
    let (clusters, assignments) = table.resources.names();
    assert!(clusters.is_empty() && assignments.is_empty());
}

#[test]
fn a_new_stream_begins_with_the_versions_that_are_known() {
    let mut table = ProtocolTable::new();
    table.follow_cluster(1, "app");
    table.follow_assignment(2, "other");
    table.request();
    table.request();
    table.respond(1, vec![cluster("app", "c7", "")], &[]);
    table.request();
    table.respond(2, vec![endpoints("app", "e3", &[1])], &[]);
    let now = table.at(3);
    let requests = table.resources.first_requests(now);
    assert_eq!(requests.len(), 2);
    assert_eq!((requests[0].type_url.as_str(), requests[1].type_url.as_str()), (CLUSTER, ASSIGNMENT));
    assert_eq!(requests[0].resource_names_subscribe, ["app"]);
    assert_eq!(requests[1].resource_names_subscribe, ["app", "other"]);
    let versions = |request: &DeltaRequest| request.initial_resource_versions.clone();
    assert_eq!(versions(&requests[0]), HashMap::from([("app".to_owned(), "c7".to_owned())]));
    assert_eq!(versions(&requests[1]), HashMap::from([("app".to_owned(), "e3".to_owned())]));
    assert_eq!(table.request(), None, "all is asked for");
    assert_eq!(told(&table.resources.all_reports(), 1), Ok((vec![1], None)));
    assert!(!table.resources.all_reports().contains_key(&2));
}

#[test]
fn what_is_refused_leaves_the_last_version_and_the_rest_of_the_response() {
    let mut table = ProtocolTable::new();
    table.follow_assignment(1, "a");
    table.follow_assignment(2, "b");
    table.request();
    table.respond(1, vec![endpoints("a", "1", &[1]), endpoints("b", "1", &[2])], &[]);
    let broken = resource(ASSIGNMENT, "a", "2", vec![0x12, 99]);
    let (reply, reports) = table.respond(2, vec![broken, endpoints("b", "2", &[3])], &[]);
    let detail = reply.error_detail.unwrap();
    assert_eq!(detail.code, 3);
    assert!(detail.message.starts_with("a: it is no ClusterLoadAssignment"), "{}", detail.message);
    assert!(
        told(&reports, 1).unwrap_err().contains("the assignment `a` has a newer version that is refused")
    );
    assert_eq!(told(&reports, 2), Ok((vec![3], None)));
    let now = table.at(3);
    let first = table.resources.first_requests(now).remove(0);
    assert_eq!(first.initial_resource_versions["a"], "1", "the refused version is not one that is known");
    let (reply, reports) = table.respond(4, vec![endpoints("a", "3", &[4])], &[]);
    assert!(reply.error_detail.is_none());
    assert_eq!(told(&reports, 1), Ok((vec![4], None)));
}

/// The name in an assignment is that of the cluster: under another one, requests would reach the servers of that.
#[test]
fn an_assignment_of_another_cluster_is_refused() {
    let mut table = ProtocolTable::new();
    table.follow_assignment(1, "a");
    table.request();
    table.respond(1, vec![endpoints("a", "1", &[1])], &[]);
    let hostile = "b\u{1b}[2J\r\nforged".to_owned() + &"x".repeat(1000);
    for other in ["b", "", &hostile] {
        let foreign = assignment(other, &[("10.0.0.1", 9)]).encode_to_vec();
        let (reply, reports) = table.respond(2, vec![resource(ASSIGNMENT, "a", "2", foreign)], &[]);
        let why = reply.error_detail.unwrap().message;
        assert!(why.contains("it is the assignment of another cluster, `"), "{why}");
        assert!(!why.contains(char::is_control) && why.len() < 300, "{why:?}");
        assert!(told(&reports, 1).unwrap_err().contains("of another cluster"), "its servers stay");
    }
}

#[test]
fn a_refused_cluster_keeps_its_assignment() {
    let mut table = ProtocolTable::new();
    table.follow_cluster(1, "app");
    table.request();
    table.respond(1, vec![cluster("app", "1", "")], &[]);
    table.request();
    table.respond(2, vec![endpoints("app", "1", &[1])], &[]);
    let bad = Cluster { discovery_type: 4, ..Cluster::default() }.encode_to_vec();
    let (reply, reports) = table.respond(3, vec![resource(CLUSTER, "app", "2", bad)], &[]);
    assert!(reply.error_detail.unwrap().message.contains("ORIGINAL_DST"));
    let (ports, remark) = told(&reports, 1).unwrap();
    assert_eq!(ports, [1]);
    assert!(remark.unwrap().contains("refused: `ORIGINAL_DST`"));
    // Its endpoints are followed further.
    let (_, reports) = table.respond(4, vec![endpoints("app", "2", &[2])], &[]);
    assert_eq!(told(&reports, 1).unwrap().0, [2]);
}

#[test]
fn garbage_is_refused_and_what_was_not_asked_for_is_ignored() {
    let mut table = ProtocolTable::new();
    table.follow_assignment(1, "a");
    table.request();
    let other_type = Resource {
        resource: Some(Any { type_url: CLUSTER.into(), value: vec![] }),
        ..endpoints("a", "1", &[])
    };
    let nothing = Resource { resource: None, ..endpoints("a", "1", &[]) };
    for (second, bad, why) in [(1, other_type, "its type is"), (2, nothing, "it has no content")] {
        let response = DeltaResponse {
            resources: vec![bad],
            type_url: ASSIGNMENT.into(),
            nonce: second.to_string(),
            removed_resources: vec![],
        };
        let now = table.at(second);
        let (reply, reports) = table.resources.respond(response, now).unwrap();
        assert!(reply.error_detail.unwrap().message.contains(why));
        assert!(told(&reports, 1).unwrap_err().contains("is refused"));
    }
    let (reply, reports) = table.respond(3, vec![endpoints("z", "1", &[1])], &["y"]);
    assert!(reply.error_detail.is_none() && reports.is_empty());
    let listener = DeltaResponse {
        type_url: "type.googleapis.com/envoy.config.listener.v3.Listener".into(),
        ..DeltaResponse::default()
    };
    assert!(table.resources.respond(listener, table.start).is_none());
    // A long list of errors is cut.
    let mut many = Vec::new();
    for number in 0..50 {
        let name = format!("m{number}");
        table.follow_assignment(100 + number, &name);
        many.push(resource(ASSIGNMENT, &name, "1", vec![0xff; 3]));
    }
    let (reply, _) = table.respond(4, many, &[]);
    assert!(reply.error_detail.unwrap().message.ends_with("; and 30 more"));
}

#[test]
fn a_removed_resource_names_no_server() {
    let mut table = ProtocolTable::new();
    table.follow_assignment(1, "a");
    table.request();
    table.respond(1, vec![endpoints("a", "1", &[1])], &[]);
    let (reply, reports) = table.respond(2, vec![], &["a"]);
    assert!(reply.error_detail.is_none());
    let (ports, remark) = told(&reports, 1).unwrap();
    assert!(ports.is_empty());
    assert_eq!(remark.as_deref(), Some("the control plane has no assignment `a` any more"));
    let now = table.at(3);
    assert!(table.resources.first_requests(now)[0].initial_resource_versions.is_empty());
    let (_, reports) = table.respond(4, vec![endpoints("a", "2", &[2])], &[]);
    assert_eq!(told(&reports, 1), Ok((vec![2], None)), "it is still asked for");
}

#[test]
fn a_resource_with_a_lifetime_ends_unless_it_is_renewed() {
    let mut table = ProtocolTable::new();
    table.follow_assignment(1, "a");
    table.request();
    let ttl = Some(ProtoDuration { seconds: 5, nanos: 0 });
    table.respond(1, vec![Resource { ttl: ttl.clone(), ..endpoints("a", "1", &[1]) }], &[]);
    assert_eq!(table.resources.due(), Some(table.at(6)));
    // A heartbeat has no content, and is no change.
    let heartbeat = Resource { name: "a".into(), version: "1".into(), resource: None, ttl };
    let (reply, reports) = table.respond(4, vec![heartbeat], &[]);
    assert!(reply.error_detail.is_none() && reports.is_empty());
    assert_eq!(table.resources.due(), Some(table.at(9)));
    let (early, late) = (table.at(8), table.at(9));
    assert!(table.resources.expire(early).is_empty());
    let reports = table.resources.expire(late);
    assert!(told(&reports, 1).unwrap().0.is_empty());
    assert_eq!(table.resources.due(), None);
    // A version without a lifetime stays.
    table.respond(10, vec![endpoints("a", "2", &[2])], &[]);
    assert_eq!(table.resources.due(), None);
}

#[test]
fn silence_about_a_resource_is_a_failure_after_a_while() {
    let mut table = ProtocolTable::new();
    table.follow_cluster(1, "app");
    assert_eq!(table.resources.due(), None, "not asked yet");
    table.request();
    assert_eq!(table.resources.due(), Some(table.at(15)));
    let now = table.at(15);
    let why = told(&table.resources.expire(now), 1).unwrap_err();
    assert!(why.contains("has not named the cluster `app`"), "{why}");
    assert_eq!(table.resources.due(), None, "said once");
    let (_, reports) = table.respond(20, vec![cluster("app", "1", "")], &[]);
    assert!(reports.is_empty());
    table.request();
    let (_, reports) = table.respond(21, vec![endpoints("app", "1", &[1])], &[]);
    assert_eq!(told(&reports, 1), Ok((vec![1], None)));
}

#[test]
fn remarks_name_what_is_not_followed() {
    let mut table = ProtocolTable::new();
    table.follow_cluster(1, "app");
    table.request();
    let inline = Cluster {
        lb_policy: 5,
        load_assignment: Some(assignment("app", &[("10.0.0.1", 7)])),
        ..Cluster::default()
    };
    let (_, reports) = table.respond(1, vec![resource(CLUSTER, "app", "1", inline.encode_to_vec())], &[]);
    assert_eq!(told(&reports, 1), Ok((vec![7], Some("not followed: `lb_policy` MAGLEV".to_owned()))));
    let meaning: &ClusterMeaning = match &table.resources.clusters.resource("app").unwrap().known {
        Known::Value(meaning) => meaning,
        other => panic!("{other:?}"),
    };
    assert!(matches!(meaning.endpoints, ClusterEndpoints::Inline(_)));
}
