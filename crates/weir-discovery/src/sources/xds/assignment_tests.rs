//! Tables: an assignment and the servers that it becomes.

use super::*;
use crate::sources::xds::messages::base::{EmptyMessage, Metadata, SocketAddress};
use crate::sources::xds::messages::endpoint::{DropOverload, EndpointList};
use crate::sources::xds::test_messages::{assignment, endpoint, number};

/// A locality of this priority and weight, with endpoints by port and weight.
fn locality(priority: u32, weight: Option<u32>, endpoints: &[(u32, Option<u32>)]) -> LocalityEndpoints {
    let of = |(port, weight): &(u32, Option<u32>)| LbEndpoint {
        load_balancing_weight: weight.and_then(number),
        ..endpoint("10.0.0.1", *port)
    };
    LocalityEndpoints {
        priority,
        load_balancing_weight: weight.and_then(number),
        lb_endpoints: endpoints.iter().map(of).collect(),
        ..LocalityEndpoints::default()
    }
}

fn with(localities: Vec<LocalityEndpoints>) -> LoadAssignment {
    LoadAssignment { endpoints: localities, ..LoadAssignment::default() }
}

/// Ports, weights, and whether they are backups.
fn shown(localities: Vec<LocalityEndpoints>) -> Vec<(u16, u16, bool)> {
    let named = servers_of(&with(localities)).unwrap();
    let shown = |server: &DiscoveredServer| (server.address.port().unwrap(), server.weight, server.backup);
    named.servers.iter().map(shown).collect()
}

#[test]
fn weights_of_localities_and_endpoints_are_multiplied() {
    let one = |weight| locality(0, weight, &[(1, None), (2, None)]);
    for (localities, expected) in [
        // Without any weight, all are equal.
        (vec![one(None), locality(0, None, &[(3, None)])], vec![(1, 1), (2, 1), (3, 1)]),
        // Weights of endpoints count over localities that have none.
        (
            vec![locality(0, None, &[(1, Some(10)), (2, Some(20))]), locality(0, None, &[(3, Some(30))])],
            vec![(1, 10), (2, 20), (3, 30)],
        ),
        // Half of the load for one server, half for two.
        (vec![one(Some(50)), locality(0, Some(50), &[(3, None)])], vec![(1, 25), (2, 25), (3, 50)]),
        // Three quarters of one locality, of which a third and two thirds.
        (
            vec![locality(0, Some(3), &[(1, Some(1)), (2, Some(2))]), locality(0, Some(1), &[(3, Some(9))])],
            vec![(1, 1), (2, 2), (3, 1)],
        ),
        // Fractions are scaled.
        (
            vec![
                locality(0, Some(1), &[(1, None), (2, None), (3, None)]),
                locality(0, Some(1), &[(4, None)]),
            ],
            vec![(1, 85), (2, 85), (3, 85), (4, 256)],
        ),
        // A locality without a weight beside others gets no load, nor does one of weight 0.
        (vec![locality(0, Some(7), &[(1, None)]), locality(0, None, &[(2, None)])], vec![(1, 7), (2, 0)]),
        (vec![locality(0, Some(7), &[(1, None)]), locality(0, Some(0), &[(2, None)])], vec![(1, 7), (2, 0)]),
        (vec![locality(0, None, &[(1, Some(5)), (2, Some(0))])], vec![(1, 5), (2, 0)]),
    ] {
        let weights: Vec<(u16, u16)> =
            shown(localities.clone()).into_iter().map(|(port, weight, _)| (port, weight)).collect();
        assert_eq!(weights, expected, "{localities:?}");
    }
}

#[test]
fn the_lowest_priority_with_endpoints_that_serve_is_primary() {
    let two = |first: u32, second: u32| {
        vec![locality(first, None, &[(1, None)]), locality(second, None, &[(2, None)])]
    };
    assert_eq!(shown(two(0, 1)), [(1, 1, false), (2, 1, true)]);
    assert_eq!(shown(two(3, 1)), [(2, 1, false), (1, 1, true)], "the lowest that there is");
    assert_eq!(shown(two(0, 0)), [(1, 1, false), (2, 1, false)]);
    let three = vec![
        locality(0, None, &[]),
        locality(1, None, &[(1, Some(900)), (2, Some(300))]),
        locality(2, None, &[(3, Some(5))]),
    ];
    assert_eq!(
        shown(three),
        [(1, 256, false), (2, 85, false), (3, 5, true)],
        "weights count within a priority"
    );
    let mut down = two(0, 1);
    down[0].lb_endpoints[0].health_status = 2;
    assert_eq!(shown(down), [(2, 1, false)]);
    let idle = vec![locality(0, Some(0), &[(1, None)]), locality(1, Some(1), &[(2, None)])];
    assert_eq!(shown(idle), [(1, 0, true), (2, 1, false)]);
}

#[test]
fn health_decides_who_serves() {
    for (status, expected) in [
        (0, Some((ServerReadiness::Ready, false))),
        (1, Some((ServerReadiness::Ready, false))),
        (2, None),
        (3, Some((ServerReadiness::Draining, false))),
        (4, None),
        (5, Some((ServerReadiness::Ready, true))),
    ] {
        let mut localities = vec![locality(0, None, &[(1, None)])];
        localities[0].lb_endpoints[0].health_status = status;
        let named = servers_of(&with(localities)).unwrap();
        let server = named.servers.first().map(|server| (server.readiness, server.backup));
        assert_eq!(server, expected, "status {status}");
    }
    let mut unknown = vec![locality(0, None, &[(1, None)])];
    unknown[0].lb_endpoints[0].health_status = 17;
    assert!(servers_of(&with(unknown)).unwrap_err().contains("not known: 17"));
}

#[test]
fn localities_and_metadata_describe_servers() {
    let value = |kind: ProtoValueKind| ProtoValue { kind: Some(kind) };
    let fields = [
        ("version".to_owned(), value(ProtoValueKind::Text("7".into()))),
        ("canary".to_owned(), value(ProtoValueKind::Bool(true))),
        ("load".to_owned(), value(ProtoValueKind::Number(0.5))),
    ];
    let named = ProtoStruct { fields: BTreeMap::from(fields) };
    let other = ProtoStruct {
        fields: BTreeMap::from([("x".to_owned(), value(ProtoValueKind::Struct(named.clone())))]),
    };
    let metadata =
        Metadata { filter_metadata: BTreeMap::from([("envoy.lb".into(), named), ("team".into(), other)]) };
    let mut assignment = assignment("app", &[("10.0.0.1", 80)]);
    let locality = &mut assignment.endpoints[0];
    locality.locality =
        Some(ResourceLocality { region: "eu".into(), zone: "eu-1a".into(), sub_zone: "rack-7".into() });
    locality.lb_endpoints[0].metadata = Some(metadata);
    locality.lb_endpoints[0].endpoint.as_mut().unwrap().hostname = "one.example".into();
    let server = servers_of(&assignment).unwrap().servers.remove(0);
    assert_eq!(server.zone.as_deref(), Some("eu-1a"));
    let expected = [
        ("canary", "true"),
        ("hostname", "one.example"),
        ("load", "0.5"),
        ("region", "eu"),
        ("sub_zone", "rack-7"),
        ("team.x", "{canary=true,load=0.5,version=7}"),
        ("version", "7"),
    ];
    assert_eq!(server.metadata, expected.map(|(key, text)| (key.into(), text.into())).into());
}

#[test]
fn addresses_are_of_tcp_and_have_a_port() {
    let address = |change: fn(&mut SocketAddress)| {
        let mut socket =
            SocketAddress { address: "10.0.0.1".into(), port_value: 80, ..SocketAddress::default() };
        change(&mut socket);
        address_of(Some(&Address { kind: Some(AddressKind::Socket(socket)) }))
            .map(|address| address.to_string())
    };
    assert_eq!(address(|_| {}).unwrap(), "10.0.0.1:80");
    assert_eq!(address(|socket| socket.address = "2001:db8::1".into()).unwrap(), "[2001:db8::1]:80");
    assert_eq!(address(|socket| socket.address = "App.example".into()).unwrap(), "app.example:80");
    for (change, why) in [
        ((|socket| socket.protocol = 1) as fn(&mut SocketAddress), "is not one of TCP"),
        (|socket| socket.port_value = 0, "has no port"),
        (|socket| socket.port_value = 70_000, "has no port"),
        (|socket| socket.named_port = "http".into(), "has a named port"),
        (|socket| socket.resolver_name = "x".into(), "has a resolver"),
        (|socket| socket.network_namespace_filepath = "/run/netns/a".into(), "network namespace"),
        (|socket| socket.address = String::new(), "neither an address nor a name"),
        (|socket| socket.address = "unix:/run/app.sock".into(), "neither an address nor a name"),
        (|socket| socket.address = "a b".into(), "neither an address nor a name"),
        (|socket| socket.address = "a\u{1b}[2J\r\nb".into(), "the endpoint `a\\u{1b}[2J\\r\\nb` is neither"),
        (|socket| socket.address = "a".repeat(1 << 20), "a` is neither an address nor a name"),
    ] {
        let error = address(change).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    for kind in [AddressKind::Pipe(EmptyMessage {}), AddressKind::Internal(EmptyMessage {})] {
        assert!(address_of(Some(&Address { kind: Some(kind) })).is_err());
    }
    assert!(address_of(None).is_err());
}

#[test]
fn what_is_not_followed_has_a_name() {
    let mut assignment = assignment("app", &[("10.0.0.1", 80)]);
    assert!(servers_of(&assignment).unwrap().unfollowed.is_empty());
    let drop = |category: &str, numerator, denominator| DropOverload {
        category: category.into(),
        drop_percentage: Some(FractionalPercent { numerator, denominator }),
    };
    assignment.policy = Some(AssignmentPolicy {
        drop_overloads: vec![drop("throttle", 10, 0), drop("lb", 25, 1), drop("rest", 5000, 2)],
        overprovisioning_factor: number(140),
        endpoint_stale_after: None,
        weighted_priority_health: true,
    });
    let locality = &mut assignment.endpoints[0];
    locality.proximity = number(1);
    let described = locality.lb_endpoints[0].endpoint.as_mut().unwrap();
    described.health_check_config = Some(EmptyMessage {});
    described.additional_addresses = vec![EmptyMessage {}];
    let unfollowed: Vec<String> = servers_of(&assignment).unwrap().unfollowed.into_iter().collect();
    assert_eq!(
        unfollowed,
        [
            "`additional_addresses` of endpoints",
            "`drop_overloads` (lb 0.25 %)",
            "`drop_overloads` (rest 0.5 %)",
            "`drop_overloads` (throttle 10 %)",
            "`health_check_config` of endpoints",
            "`overprovisioning_factor`",
            "`proximity`",
            "`weighted_priority_health`",
        ]
    );
}

#[test]
fn an_assignment_that_is_incomplete_is_refused() {
    let mut named = with(vec![locality(0, None, &[(1, None)])]);
    named.endpoints[0].lb_endpoints.push(LbEndpoint { endpoint_name: "a".into(), ..LbEndpoint::default() });
    assert!(servers_of(&named).unwrap_err().contains("`named_endpoints`"));
    let mut leds = with(vec![locality(0, None, &[])]);
    leds.endpoints[0].leds_cluster_locality_config = Some(EmptyMessage {});
    assert!(servers_of(&leds).unwrap_err().contains("LEDS"));
    let mut listed = with(vec![locality(0, None, &[])]);
    listed.endpoints[0].load_balancer_endpoints =
        Some(EndpointList { lb_endpoints: vec![endpoint("10.0.0.1", 1)] });
    assert_eq!(servers_of(&listed).unwrap().servers.len(), 1);
    let many: Vec<(u32, Option<u32>)> = (0..=10_000).map(|number| (1 + number, None)).collect();
    assert!(servers_of(&with(vec![locality(0, None, &many)])).unwrap_err().contains("10001"));
}
