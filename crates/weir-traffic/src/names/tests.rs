//! The table of names, with a clock that the tests set.

use super::*;

const LIMITS: NameLimits =
    NameLimits { names_max: 3, lookups_max: 2, idle_ms: 10_000, empty_grace_ms: 3_000, ttl_min_ms: 1_000 };

fn table() -> NameTable<u32> {
    // Requests with an odd number have gone.
    NameTable::new(LIMITS, |waiter| waiter % 2 == 1)
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn found(last: &[u8]) -> NameAnswer {
    NameAnswer::Addresses(last.iter().copied().map(ip).collect(), 5_000)
}

const IDLE: fn(&str) -> bool = |_| false;

/// Asks for a name and has it in use.
fn use_name(table: &mut NameTable<u32>, name: &str, now_ms: u64) {
    assert_eq!(table.ask(name, None, 0, now_ms, IDLE), Asked::Waits);
    assert_eq!(table.next_lookup().as_deref(), Some(name));
    assert!(table.answered(name, found(&[1]), now_ms).is_empty());
    let change = table.take_change().expect("a name has come");
    assert_eq!(table.published(&change), [0]);
}

fn names(table: &NameTable<u32>) -> Vec<Box<str>> {
    table.usable().into_iter().map(|one| one.name).collect()
}

#[test]
fn many_requests_for_one_name_are_one_lookup() {
    let mut table = table();
    for request in 0..1_000 {
        assert_eq!(table.ask("app:80", None, request * 2, 0, IDLE), Asked::Waits);
    }
    assert_eq!(table.next_lookup().as_deref(), Some("app:80"));
    assert_eq!(table.next_lookup(), None);
    // Those that come while it runs wait for the same one, and so do those that come before it is in use.
    assert_eq!(table.ask("app:80", None, 2_000, 1, IDLE), Asked::Waits);
    assert!(table.answered("app:80", found(&[2, 1, 2]), 5).is_empty());
    assert_eq!(table.ask("app:80", None, 2_002, 6, IDLE), Asked::Waits);
    let change = table.take_change().expect("a name has come");
    assert_eq!(change[0].addresses, [ip(1), ip(2)]);
    assert_eq!(table.published(&change).len(), 1_002);
    assert_eq!(table.ask("app:80", None, 0, 7, IDLE), Asked::Known);
    assert!(table.take_change().is_none() && table.next_lookup().is_none());
}

#[test]
fn requests_that_are_gone_do_not_pile_up() {
    let mut table = table();
    for _ in 0..100_000 {
        assert_eq!(table.ask("app:80", None, 1, 0, IDLE), Asked::Waits);
    }
    assert!(table.names["app:80"].waiting.capacity() <= 8);
}

#[test]
fn a_name_without_addresses_is_asked_for_again_only_after_a_while() {
    let mut table = table();
    for (answer, failure) in [
        (NameAnswer::NotFound, NameFailure::NotFound),
        (NameAnswer::NoAnswer, NameFailure::NoAnswer),
        (found(&[]), NameFailure::NotAllowed),
    ] {
        let name = format!("{failure:?}:80");
        assert_eq!(table.ask(&name, None, 0, 0, IDLE), Asked::Waits);
        assert_eq!(table.next_lookup().as_deref(), Some(&*name));
        assert_eq!(table.answered(&name, answer, 10), [(0, failure)]);
        assert_eq!(table.ask(&name, None, 2, 500, IDLE), Asked::Refused(failure, 2));
        assert_eq!(table.next_lookup(), None);
    }
    assert_eq!(table.ask("NotFound:80", None, 4, 1_010, IDLE), Asked::Waits);
    assert_eq!(table.next_lookup().as_deref(), Some("NotFound:80"));
    assert!(table.take_change().is_none(), "there has never been a server");
}

#[test]
fn lookups_at_once_are_bounded_and_keep_their_order() {
    let mut table = table();
    for name in ["a:1", "b:1", "c:1"] {
        assert_eq!(table.ask(name, None, 0, 0, IDLE), Asked::Waits);
    }
    assert_eq!([table.next_lookup().as_deref(), table.next_lookup().as_deref()], [Some("a:1"), Some("b:1")]);
    assert_eq!(table.next_lookup(), None);
    let _waiting = table.answered("b:1", found(&[1]), 5);
    assert_eq!(table.next_lookup().as_deref(), Some("c:1"));
    // After a crash of the one that looks up.
    table.begin_again();
    let mut again = [table.next_lookup(), table.next_lookup()].map(Option::unwrap);
    again.sort();
    assert_eq!(again, ["a:1".into(), "c:1".into()]);
}

#[test]
fn the_name_that_was_used_least_lately_makes_room_and_none_in_use_does() {
    let mut table = table();
    use_name(&mut table, "a:1", 10);
    use_name(&mut table, "b:1", 20);
    use_name(&mut table, "c:1", 30);
    let held = table.usable()[0].used.hold(15).expect("it is there");
    // `a` is held, and a request runs on `b`.
    assert_eq!(table.ask("d:1", None, 0, 40, |name| name == "b:1"), Asked::Waits);
    assert_eq!(names(&table), ["a:1".into(), "b:1".into()]);
    assert_eq!(table.ask("e:1", None, 2, 50, |name| name == "b:1"), Asked::Refused(NameFailure::TooMany, 2));
    drop(held);
    assert_eq!(table.ask("e:1", None, 2, 50, |name| name == "b:1"), Asked::Waits);
    assert_eq!(names(&table), ["b:1".into()]);
    let counts = NameCounts { names: 3, usable: 1, looked_up: 2, evictions: 2, refusals: 1 };
    assert_eq!(table.counts(), counts);
}

#[test]
fn names_that_lead_nowhere_go_before_those_that_work() {
    let mut table = table();
    use_name(&mut table, "good:1", 0);
    for at in 0..1_000 {
        let name = format!("{at}:1");
        assert_eq!(table.ask(&name, None, 0, at, IDLE), Asked::Waits);
        assert_eq!(table.next_lookup().as_deref(), Some(&*name));
        assert_eq!(table.answered(&name, NameAnswer::NotFound, at).len(), 1);
        assert!(table.counts().names <= LIMITS.names_max);
    }
    assert_eq!(names(&table), ["good:1".into()]);
}

#[test]
fn a_name_that_was_dropped_cannot_be_held() {
    let mut table = table();
    use_name(&mut table, "a:1", 0);
    let used = Arc::clone(&table.usable()[0].used);
    assert!(table.advance(20_000, IDLE).is_none());
    assert!(used.hold(20_001).is_none());
    assert_eq!(table.take_change().map(|left| left.len()), Some(0));
    // Another one of the same name is another.
    use_name(&mut table, "a:1", 20_002);
    assert!(used.hold(20_003).is_none());
}

#[test]
fn addresses_are_renewed_and_the_last_ones_stay_while_no_answer_comes() {
    let mut table = table();
    use_name(&mut table, "a:1", 0);
    assert_eq!(table.advance(4_999, IDLE), Some(5_000));
    assert_eq!(table.next_lookup(), None);
    let _next = table.advance(5_000, IDLE);
    assert_eq!(table.next_lookup().as_deref(), Some("a:1"));
    assert!(table.answered("a:1", NameAnswer::NoAnswer, 5_000).is_empty());
    assert!(table.take_change().is_none());
    assert_eq!(table.advance(5_500, IDLE), Some(6_000));
    let _next = table.advance(6_000, IDLE);
    assert_eq!(table.next_lookup().as_deref(), Some("a:1"));
    let _none_waited = table.answered("a:1", found(&[7]), 6_000);
    assert_eq!(table.take_change().expect("it has moved")[0].addresses, [ip(7)]);
    assert_eq!(table.ask("a:1", None, 0, 6_001, IDLE), Asked::Known, "it serves all the time");
}

#[test]
fn a_name_that_is_gone_stays_for_the_grace_time_and_not_longer() {
    let mut table = table();
    use_name(&mut table, "a:1", 0);
    for (now_ms, answer, stays) in [
        (5_000, NameAnswer::NotFound, true),
        (7_000, NameAnswer::NoAnswer, true),
        // An outage in between restarts the time.
        (8_000, NameAnswer::NotFound, true),
        (10_000, NameAnswer::NotFound, true),
        (11_000, NameAnswer::NotFound, false),
    ] {
        let _in_use = table.ask("a:1", None, 0, now_ms, IDLE);
        let _next = table.advance(now_ms, IDLE);
        assert_eq!(table.next_lookup().as_deref(), Some("a:1"), "{now_ms}");
        assert!(table.answered("a:1", answer, now_ms).is_empty());
        assert_eq!(!names(&table).is_empty(), stays, "{now_ms}");
    }
    assert_eq!(table.take_change().map(|left| left.len()), Some(0));
    assert_eq!(
        table.ask("a:1", None, 0, 11_500, IDLE),
        Asked::Refused(NameFailure::NotFound, 0),
        "it is asked for again after a second"
    );
}

#[test]
fn a_name_that_moves_to_addresses_that_are_not_allowed_is_gone_at_once() {
    let mut table = table();
    use_name(&mut table, "a:1", 0);
    let _next = table.advance(5_000, IDLE);
    assert!(table.next_lookup().is_some());
    assert!(table.answered("a:1", found(&[]), 5_000).is_empty());
    assert_eq!(table.take_change().map(|left| left.len()), Some(0));
    assert_eq!(table.ask("a:1", None, 0, 5_001, IDLE), Asked::Refused(NameFailure::NotAllowed, 0));
}

#[test]
fn of_thousands_of_addresses_the_same_few_are_used() {
    let mut table = table();
    use_name(&mut table, "a:1", 0);
    let many: Vec<IpAddr> =
        (0..4_000_u32).map(|number| IpAddr::from((0x0a00_0000 + number).to_be_bytes())).collect();
    for (now_ms, answer) in [(5_000, many.clone()), (10_000, many.iter().rev().copied().collect())] {
        let _in_use = table.ask("a:1", None, 0, now_ms, IDLE);
        let _next = table.advance(now_ms, IDLE);
        assert!(table.next_lookup().is_some());
        assert!(table.answered("a:1", NameAnswer::Addresses(answer, 5_000), now_ms).is_empty());
        assert_eq!(table.usable()[0].addresses, many[..ADDRESSES_MAX]);
        assert_eq!(table.take_change().is_some(), now_ms == 5_000, "the second answer changes nothing");
    }
}

#[test]
fn another_config_keeps_what_it_allows() {
    let mut table = table();
    use_name(&mut table, "a:1", 0);
    use_name(&mut table, "b:1", 0);
    assert_eq!(table.ask("c:1", None, 4, 0, IDLE), Asked::Waits);
    let used = Arc::clone(&table.usable()[1].used);
    let held = used.hold(1).expect("it is there");
    let refused = table.keep_allowed(|name, addresses| match name {
        "a:1" => Some(addresses.to_vec()),
        _ => None,
    });
    assert_eq!(refused, [(4, NameFailure::NotAllowed)]);
    assert!(used.hold(2).is_none(), "held or not, no further request gets it");
    drop(held);
    assert!(used.hold(3).is_none());
    assert_eq!(names(&table), ["a:1".into()]);
    assert_eq!(table.take_change().map(|left| left.len()), Some(1));
    let refused = table.keep_allowed(|_, _| Some(Vec::new()));
    assert!(refused.is_empty() && names(&table).is_empty());
}

#[test]
fn an_address_is_never_looked_up() {
    let mut table = table();
    assert_eq!(table.ask("10.0.0.9:80", Some(ip(9)), 0, 0, IDLE), Asked::Waits);
    assert_eq!(table.next_lookup(), None);
    let change = table.take_change().expect("it has come");
    assert_eq!(table.published(&change), [0]);
    assert_eq!(table.advance(9_000, IDLE), None);
    assert_eq!(table.next_lookup(), None);
    let _next = table.advance(10_001, IDLE);
    assert_eq!(table.counts().names, 0);
}

/// A request for a name that is in use holds it for a moment.
fn pass(table: &NameTable<u32>, name: &str, now_ms: u64) {
    let usable = table.usable();
    let used = usable.iter().find(|one| *one.name == *name).expect("it is there");
    drop(used.used.hold(now_ms).expect("nothing has dropped it"));
}

fn large_table(names_max: usize) -> NameTable<u32> {
    let mut table = table();
    table.set_limits(NameLimits { names_max, ..LIMITS });
    table
}

/// A flood of names that lead somewhere, each used once, against those that requests come back to.
#[test]
fn a_flood_of_names_evicts_none_that_several_requests_have_used() {
    let mut table = large_table(100);
    let good: Vec<String> = (0..60).map(|at| format!("good-{at}:1")).collect();
    for name in &good {
        use_name(&mut table, name, 0);
        (0..2).for_each(|now_ms| pass(&table, name, now_ms));
    }
    for at in 0..2_000_u64 {
        let name = format!("flood-{at}:1");
        use_name(&mut table, &name, 10 + at);
        pass(&table, &name, 10 + at);
        assert!(table.counts().names <= 100);
    }
    let known = names(&table);
    assert!(good.iter().all(|name| known.iter().any(|known| **known == **name)), "{known:?}");
    // Those that nothing has used for a while make room like others, once there are no others.
    for at in 0..41_u32 {
        assert_eq!(table.ask(&format!("new-{at}:1"), None, at * 2, 20_000, IDLE), Asked::Waits);
    }
    assert_eq!(names(&table).len(), 59);
}

/// Names that several requests use have four fifths of the table at most: others still find room.
#[test]
fn new_names_find_room_among_names_that_are_used_all_the_time() {
    let mut table = large_table(10);
    for at in 0..10 {
        let name = format!("good-{at}:1");
        use_name(&mut table, &name, 0);
        (0..3).for_each(|now_ms| pass(&table, &name, now_ms));
    }
    for at in 0..50_u64 {
        use_name(&mut table, &format!("new-{at}:1"), 10 + at);
    }
    let known = names(&table);
    assert_eq!(known.iter().filter(|name| name.starts_with("good")).count(), 8, "{known:?}");
}

/// However many names are in use: what is looked at for one new name is bounded, and so is what is kept of names that are gone.
#[test]
fn a_search_is_short_and_leaves_nothing_behind() {
    use std::cell::Cell;
    let mut table = large_table(2_000);
    for at in 0..2_000 {
        assert_eq!(table.ask(&format!("busy-{at}:1"), Some(ip(1)), 1, 0, IDLE), Asked::Waits);
    }
    let looked_at = Cell::new(0_u64);
    let is_busy = |name: &str| {
        looked_at.set(looked_at.get() + 1);
        name != "busy-1000:1"
    };
    let ask = |table: &mut NameTable<u32>, at: u32, now_ms: u64| {
        table.ask(&format!("new-{at}:1"), Some(ip(2)), 1, now_ms, is_busy)
    };
    assert_eq!(ask(&mut table, 0, 1_000), Asked::Waits, "all are looked at, once in a while");
    for at in 1..1_001 {
        assert_eq!(ask(&mut table, at, 1_001), Asked::Refused(NameFailure::TooMany, 1));
    }
    assert!(looked_at.get() <= 2_000 + 1_000 * 64, "{}", looked_at.get());
    assert_eq!(table.counts().refusals, 1_000);
    for at in 0..20_000_u32 {
        assert_eq!(table.ask(&format!("gone-{at}:1"), None, 1, 2_000, IDLE), Asked::Waits);
        assert!(table.order.len() <= 3 * 2_000 + 64 && table.queue.len() <= 2 * 2_000 + 1);
    }
}
