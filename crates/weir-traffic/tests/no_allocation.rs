//! What runs for every request allocates nothing: routing, choosing, deciding about a retry, counting.
//!
//! Each part is used as the data path uses it, under an allocator that counts.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_traffic::balance::{
    Balancer, BalancerChoice, BalancerMember, Excluded, HashKey, LoadFactor, Pick, Policy,
};
use weir_traffic::limit::{ClientKey, ClientLimit, RateLimit, TokenRate};
use weir_traffic::queue::{QueueClass, WaitQueue};
use weir_traffic::retry::{FailedAttempt, RetryBudget, RetryCause, RetryPolicy};
use weir_traffic::rewrite::Rewrite;
use weir_traffic::route::{
    FieldMatch, HostPattern, PathMatch, QueryMatch, RouteId, RouteMatch, RouteRequest, RouteTable, ValueMatch,
};
use weir_traffic::{ServerState, hash_address};

struct Request;

impl RouteRequest for Request {
    fn host(&self) -> &[u8] {
        b"Www.Example.com"
    }
    fn path(&self) -> &[u8] {
        b"/api/v1/users"
    }
    fn query(&self) -> &[u8] {
        b"page=2"
    }
    fn method(&self) -> &[u8] {
        b"GET"
    }
    fn header(&self, name: &str) -> Option<&[u8]> {
        (name == "cookie").then_some(b"a=1; id=7")
    }
    fn source(&self) -> IpAddr {
        IpAddr::from([192, 0, 2, 1])
    }
}

/// Runs `part` a few hundred times after a first time that may warm up.
fn assert_no_allocation(what: &str, mut part: impl FnMut()) {
    part();
    let info = allocation_counter::measure(|| (0..300).for_each(|_| part()));
    assert_eq!(info.count_total, 0, "{what} allocates");
}

#[test]
fn the_counter_counts() {
    let info = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(info.count_total, 1);
}

#[test]
fn choosing_allocates_nothing() {
    let key = HashKey::cookie("id").unwrap();
    for policy in [
        Policy::RoundRobin,
        Policy::LeastRequests,
        Policy::PeakEwma,
        Policy::PowerOfTwo,
        Policy::Random,
        Policy::ConsistentHash { key: key.clone(), load_factor: LoadFactor::default() },
    ] {
        let member = |id: u32| BalancerMember::new(&id.to_string(), Arc::new(ServerState::new(id % 3, id)));
        let balancer = Balancer::new(&policy, (0..20).map(member).collect(), 7);
        let mut random = 1_u64;
        assert_no_allocation(policy.name(), || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut excluded = Excluded::new();
            for _ in 0..3 {
                let pick = Pick { hash: key.hash(&Request), excluded: &excluded, random, now_ms: 0 };
                let BalancerChoice::Server(server) = balancer.choose(&pick) else { panic!("all are idle") };
                excluded.avoid(server);
                balancer.release(server);
            }
        });
    }
}

#[test]
fn routing_allocates_nothing() {
    let with_rules = RouteMatch {
        hosts: vec![
            HostPattern::parse("*.example.com").unwrap(),
            HostPattern::parse("www.example.com").unwrap(),
        ],
        path: PathMatch::regex("^/api/v[0-9]+/users$").unwrap(),
        headers: vec![FieldMatch::new("Cookie", ValueMatch::regex("id=8").unwrap()).unwrap()],
        query: vec![QueryMatch::new("page", ValueMatch::Present).unwrap()],
        sources: vec!["192.0.2.0/24".parse().unwrap()],
        ..RouteMatch::default()
    };
    let prefix = RouteMatch { path: PathMatch::prefix("/api").unwrap(), ..RouteMatch::default() };
    let exact = RouteMatch { path: PathMatch::exact("/other").unwrap(), ..RouteMatch::default() };
    let routes = [with_rules, prefix, exact];
    let table = RouteTable::new(routes.into_iter().zip((0..).map(RouteId)).collect()).unwrap();
    assert_no_allocation("a lookup", || assert_eq!(table.lookup(&Request), Some(RouteId(1))));
}

#[test]
fn rewriting_and_retrying_allocate_nothing() {
    let mut out = Vec::with_capacity(1_024);
    for rewrite in [Rewrite::strip_prefix("/api").unwrap(), Rewrite::replace_prefix("/api", "/v2").unwrap()] {
        assert_no_allocation("a rewrite", || {
            out.clear();
            rewrite.apply(Request.path(), Some(Request.query()), &mut out);
        });
    }

    let (policy, budget) = (RetryPolicy::default(), RetryBudget::default());
    let failed = FailedAttempt {
        cause: RetryCause::ConnectionError,
        sent_any: true,
        received_any: false,
        answered_any: false,
        reused_connection: false,
        repeatable: true,
        body_replayable: true,
        other_server: true,
        untried_server: true,
        was_unread: false,
        was_refused: false,
        attempts: 1,
        refused: 0,
        unreached: 0,
        stale_connections: 0,
        unprocessed: 0,
        elapsed: Duration::ZERO,
    };
    assert_no_allocation("a retry", || {
        budget.record_request(1_000);
        let _ = policy.judge(&failed, || budget.try_take(1_000));
    });
}

#[test]
fn limits_and_a_grown_queue_allocate_nothing() {
    let client = ClientKey::from(Request.source());
    let connections = ClientLimit::new(10, 100, hash_address(Request.source()));
    let rate = TokenRate::new(10, Duration::from_secs(1), 5).unwrap();
    let requests = RateLimit::new(rate, 100);
    let mut queue = WaitQueue::new(2, None);
    assert_no_allocation("a limit", || {
        connections.try_acquire(client).unwrap();
        connections.release(client);
        let _ = requests.try_take(client.number(), 1);
    });
    assert_no_allocation("a queue", || {
        queue.push(1, QueueClass::default(), 0, 10).unwrap();
        let ticket = queue.push(2, QueueClass::default(), 0, 10).unwrap().ticket;
        queue.pop_front(1, |_| true).unwrap();
        queue.remove(ticket).unwrap();
    });
}
