//! The queue: order, bounds, leaving, and random histories against a plain list.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const FOREVER: u64 = u64::MAX;

const NORMAL: QueueClass = QueueClass { priority: PriorityClass::Normal, share: 0, client: 0 };

fn queue(len_max: usize) -> WaitQueue<u32> {
    WaitQueue::new(len_max, None)
}

/// Enters as most do; gives the ticket.
fn enter(
    queue: &mut WaitQueue<u32>,
    item: u32,
    now_ms: u64,
    deadline_ms: u64,
) -> Result<Ticket, QueueFull<u32>> {
    queue.push(item, NORMAL, now_ms, deadline_ms).map(|entered| entered.ticket)
}

fn pop(queue: &mut WaitQueue<u32>) -> Option<u32> {
    queue.pop_front(0, |_| true).map(|waiter| waiter.item)
}

#[test]
fn waiters_leave_in_order_of_arrival() {
    let mut queue = self::queue(10);
    for item in 0..5 {
        enter(&mut queue, item, 0, FOREVER).unwrap();
    }
    assert_eq!(
        (0..6).map(|_| pop(&mut queue)).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2), Some(3), Some(4), None]
    );
    assert!(queue.is_empty());
}

#[test]
fn a_full_queue_gives_the_item_back() {
    let mut queue = self::queue(1);
    enter(&mut queue, 1, 0, FOREVER).unwrap();
    assert_eq!(enter(&mut queue, 2, 0, FOREVER), Err(QueueFull(2)));
    queue.set_len_max(2);
    enter(&mut queue, 2, 0, FOREVER).unwrap();
    queue.set_len_max(1);
    assert_eq!((queue.len(), queue.len_max()), (2, 1), "waiters stay");
    assert_eq!(pop(&mut queue), Some(1));
    assert_eq!(enter(&mut queue, 3, 0, FOREVER), Err(QueueFull(3)));
    assert_eq!(enter(&mut self::queue(0), 1, 0, FOREVER), Err(QueueFull(1)), "no queue at all");
}

#[test]
fn waiters_that_are_passed_over_keep_their_places() {
    let mut queue = self::queue(10);
    for item in 0..4 {
        enter(&mut queue, item, 0, FOREVER).unwrap();
    }
    let odd = queue.pop_front(0, |item| item % 2 == 1);
    assert_eq!(odd.map(|waiter| waiter.item), Some(1));
    assert!(queue.pop_front(0, |_| false).is_none());
    assert_eq!(queue.iter().map(|waiter| waiter.item).collect::<Vec<_>>(), [0, 2, 3]);
}

#[test]
fn a_ticket_opens_its_own_place_only() {
    let mut queue = self::queue(10);
    let first = enter(&mut queue, 1, 5, 9).unwrap();
    assert_eq!(queue.remove(first), Some(QueuedItem { item: 1, arrived_ms: 5, deadline_ms: 9, arrival: 0 }));
    assert_eq!(queue.remove(first), None);
    let second = enter(&mut queue, 2, 0, FOREVER).unwrap();
    assert_eq!(queue.remove(first), None, "the place is another's now");
    assert_eq!(queue.front().map(|waiter| waiter.item), Some(2));
    assert!(queue.remove(second).is_some());
    let other = self::queue(1);
    assert!(other.front().is_none());
}

#[test]
fn after_its_deadline_no_waiter_is_served() {
    let mut queue = self::queue(10);
    for (item, deadline_ms) in [(1, 10), (2, 30), (3, 20)] {
        enter(&mut queue, item, 0, deadline_ms).unwrap();
    }
    assert!(queue.pop_expired(9).is_none());
    assert_eq!(
        queue.pop_front(10, |_| true).map(|waiter| waiter.item),
        Some(2),
        "the first one's time is over"
    );
    assert_eq!(queue.len(), 2, "but it still has its place");
    assert_eq!(queue.pop_expired(20).map(|waiter| waiter.item), Some(1));
    assert_eq!(queue.pop_expired(20).map(|waiter| waiter.item), Some(3));
    assert!(queue.pop_expired(20).is_none() && queue.is_empty());
}

#[derive(Debug, Clone)]
enum QueueStep {
    Push {
        wait_ms: u64,
    },
    /// Takes the first whose item divides evenly.
    Pop {
        divisor: u32,
    },
    PopExpired,
    /// Removes by the ticket that was given out as the nth (modulo their number), valid or not.
    Remove(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = QueueStep> {
    prop_oneof![
        4 => (0..50_u64).prop_map(|wait_ms| QueueStep::Push { wait_ms }),
        2 => (1..4_u32).prop_map(|divisor| QueueStep::Pop { divisor }),
        1 => Just(QueueStep::PopExpired),
        2 => any::<usize>().prop_map(QueueStep::Remove),
        1 => (0..20_u64).prop_map(QueueStep::Wait),
    ]
}

proptest! {
    /// Against a list that does the same by searching.
    #[test]
    fn it_behaves_as_a_plain_list(len_max in 0..12_usize, steps in prop::collection::vec(step(), 1..200)) {
        let mut queue = self::queue(len_max);
        let mut model: Vec<(u32, u64)> = Vec::new();
        let mut tickets: Vec<(Ticket, u32)> = Vec::new();
        let mut now_ms = 0;
        for (item, step) in (0..).zip(steps) {
            match step {
                QueueStep::Push { wait_ms } => match enter(&mut queue, item, now_ms, now_ms + wait_ms) {
                    Ok(ticket) => {
                        prop_assert!(model.len() < len_max);
                        tickets.push((ticket, item));
                        model.push((item, now_ms + wait_ms));
                    }
                    Err(QueueFull(back)) => prop_assert!(back == item && model.len() >= len_max),
                },
                QueueStep::Pop { divisor } => {
                    let at = model.iter().position(|(item, deadline)| now_ms < *deadline && item % divisor == 0);
                    let expected = at.map(|at| model.remove(at).0);
                    let popped = queue.pop_front(now_ms, |item| item % divisor == 0);
                    prop_assert_eq!(popped.map(|waiter| waiter.item), expected);
                }
                QueueStep::PopExpired => {
                    let at = model.iter().position(|(_, deadline)| now_ms >= *deadline);
                    let expected = at.map(|at| model.remove(at).0);
                    prop_assert_eq!(queue.pop_expired(now_ms).map(|waiter| waiter.item), expected);
                }
                QueueStep::Remove(nth) if !tickets.is_empty() => {
                    let (ticket, item) = tickets[nth % tickets.len()];
                    let at = model.iter().position(|(one, _)| *one == item);
                    let expected = at.map(|at| model.remove(at).0);
                    prop_assert_eq!(queue.remove(ticket).map(|waiter| waiter.item), expected);
                }
                QueueStep::Remove(_) => {}
                QueueStep::Wait(ms) => now_ms += ms,
            }
            prop_assert_eq!(queue.len(), model.len());
            let order: Vec<u32> = queue.iter().map(|waiter| waiter.item).collect();
            prop_assert_eq!(order, model.iter().map(|(item, _)| *item).collect::<Vec<_>>());
            prop_assert!(queue.places.len() <= len_max, "places are used again");
        }
    }
}

#[derive(Debug, Clone)]
enum QueueAction {
    Push { priority: usize, share: u64, client: u64 },
    Pop,
    Remove(usize),
}

fn turn() -> impl Strategy<Value = QueueAction> {
    prop_oneof![
        5 => (0..3_usize, 0..3_u64, 0..4_u64)
            .prop_map(|(priority, share, client)| QueueAction::Push { priority, share, client }),
        3 => Just(QueueAction::Pop),
        1 => any::<usize>().prop_map(QueueAction::Remove),
    ]
}

/// Shares of one priority in the order of their turns, each with its items.
type RingModel = Vec<(u64, Vec<u32>)>;

/// Removes the item of a ring at a share; the share too when it was its last.
fn remove(ring: &mut RingModel, share: usize, at: usize) -> u32 {
    let item = ring[share].1.remove(at);
    if ring[share].1.is_empty() {
        ring.remove(share);
    }
    item
}

/// The newest items of the clients that have most in a ring, if they have so many; `owners` has the client of each item.
fn newest_of_greediest(ring: &RingModel, owners: &[u64], count_min: usize) -> Vec<u32> {
    let mut of_clients: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for item in ring.iter().flat_map(|(_, items)| items) {
        of_clients.entry(owners[*item as usize]).or_default().push(*item);
    }
    let most = of_clients.values().map(Vec::len).max().unwrap_or(0);
    let greediest = of_clients.values().filter(|items| items.len() == most && most >= count_min);
    greediest.filter_map(|items| items.iter().max().copied()).collect()
}

/// The items of which one has to make room for one more of this priority and client.
fn victims(model: &[RingModel; 3], owners: &[u64], priority: usize, client: u64) -> Vec<u32> {
    if let Some(lower) = model[priority + 1..].iter().rev().find(|ring| !ring.is_empty()) {
        return newest_of_greediest(lower, owners, 1);
    }
    let items = model[priority].iter().flat_map(|(_, items)| items);
    let own = items.filter(|item| owners[**item as usize] == client).count();
    newest_of_greediest(&model[priority], owners, own + 2)
}

/// Removes an item, wherever it waits.
fn take_out(model: &mut [RingModel; 3], item: u32) -> Option<u32> {
    model.iter_mut().find_map(|ring| {
        let (share, at) = ring.iter().enumerate().find_map(|(share, (_, items))| {
            items.iter().position(|one| *one == item).map(|at| (share, at))
        })?;
        Some(remove(ring, share, at))
    })
}

proptest! {
    /// Against lists that are rotated by hand.
    #[test]
    fn shares_take_turns_within_their_priority(len_max in 1..12_usize, turns in prop::collection::vec(turn(), 1..200)) {
        let mut queue = self::queue(len_max);
        let mut model: [RingModel; 3] = Default::default();
        let (mut tickets, mut owners) = (Vec::new(), Vec::new());
        for (item, turn) in (0..).zip(turns) {
            match turn {
                QueueAction::Push { priority, share, client } => {
                    owners.resize(item as usize, 0);
                    let full = queue.len() == len_max;
                    let victims = if full { victims(&model, &owners, priority, client) } else { Vec::new() };
                    owners.push(client);
                    let class = QueueClass { priority: PriorityClass::ALL[priority], share, client };
                    match queue.push(item, class, 0, FOREVER) {
                        Err(QueueFull(_)) => prop_assert!(full && victims.is_empty()),
                        Ok(entered) => {
                            match entered.evicted.map(|evicted| evicted.item) {
                                None => prop_assert!(!full),
                                Some(evicted) => {
                                    prop_assert!(victims.contains(&evicted), "{evicted} of {victims:?}");
                                    take_out(&mut model, evicted);
                                }
                            }
                            tickets.push((entered.ticket, item));
                            let ahead: usize = model[..=priority].iter().flatten().map(|(_, items)| items.len()).sum();
                            prop_assert_eq!(entered.ahead, ahead);
                            let ring = &mut model[priority];
                            match ring.iter_mut().find(|(key, _)| *key == share) {
                                Some((_, items)) => items.push(item),
                                None => ring.push((share, vec![item])),
                            }
                        }
                    }
                }
                QueueAction::Pop => {
                    let expected = model.iter_mut().find(|ring| !ring.is_empty()).map(|ring| {
                        let shares = ring.len();
                        let item = remove(ring, 0, 0);
                        if ring.len() == shares {
                            ring.rotate_left(1);
                        }
                        item
                    });
                    prop_assert_eq!(pop(&mut queue), expected);
                }
                QueueAction::Remove(nth) if !tickets.is_empty() => {
                    let (ticket, item) = tickets[nth % tickets.len()];
                    let expected = take_out(&mut model, item);
                    prop_assert_eq!(queue.remove(ticket).map(|waiter| waiter.item), expected);
                }
                QueueAction::Remove(_) => {}
            }
            let order: Vec<u32> = queue.iter().map(|waiter| waiter.item).collect();
            let expected: Vec<u32> = model.iter().flatten().flat_map(|(_, items)| items.clone()).collect();
            prop_assert_eq!(order, expected);
        }
    }
}

#[test]
fn a_client_with_one_request_does_not_wait_for_a_thousand_of_another() {
    let mut queue = self::queue(1_000);
    let class = |share| QueueClass { priority: PriorityClass::Normal, share, client: share };
    for item in 0..1_000 {
        queue.push(item, class(1), 0, FOREVER).unwrap();
    }
    let entered = queue.push(1_000, class(2), 0, FOREVER).unwrap();
    assert_eq!(entered.evicted.map(|waiter| waiter.item), Some(999), "the last of those who have most");
    assert_eq!((pop(&mut queue), pop(&mut queue), pop(&mut queue)), (Some(0), Some(1_000), Some(1)));
}

/// A thousand clients have one each, in order of arrival, and one of them has two more: only these make room, and only for others.
#[test]
fn the_greediest_client_makes_room_and_no_other() {
    let mut queue = self::queue(1_002);
    let of_client = |client| QueueClass { client, ..NORMAL };
    for item in 0..1_000 {
        queue.push(item, of_client(u64::from(item)), 0, FOREVER).unwrap();
    }
    for item in [1_000, 1_001] {
        queue.push(item, of_client(500), 0, FOREVER).unwrap();
    }
    let mut push = |item, client| {
        queue
            .push(item, of_client(client), 0, FOREVER)
            .map(|entered| entered.evicted.map(|evicted| evicted.item))
    };
    assert_eq!(push(1_002, 500), Err(QueueFull(1_002)), "it has most itself");
    assert_eq!(push(1_003, 499), Ok(Some(1_001)), "then both have two");
    assert_eq!(push(1_004, 499), Err(QueueFull(1_004)), "it has as many as any");
    assert_eq!(push(1_005, 2_000), Ok(Some(1_003)), "of two, that which has come to so many last");
    assert_eq!(push(1_006, 2_001), Ok(Some(1_000)));
    assert_eq!(push(1_007, 2_002), Err(QueueFull(1_007)), "all have one");
    let order: Vec<u32> = std::iter::from_fn(|| pop(&mut queue)).collect();
    assert_eq!(order, (0..1_000).chain([1_005, 1_006]).collect::<Vec<_>>(), "in order of arrival");
}

/// Ten served a second, thirty coming, for a minute: with a target of one second, waits stay about there and every slot
/// serves a waiter.
#[test]
fn lasting_overload_keeps_waits_at_the_target() {
    let target = DelayTarget { target_ms: 1_000, interval_ms: 500 };
    let mut queue = WaitQueue::new(10_000, Some(target));
    let (mut served, mut shed, mut longest_ms) = (0, 0, 0);
    for now_ms in 0..60_000_u64 {
        if now_ms % 33 == 0 {
            queue.push((), QueueClass::default(), now_ms, now_ms + 10_000).unwrap();
        }
        if now_ms % 100 == 0 {
            while queue.pop_overdue(now_ms).is_some() {
                shed += 1;
            }
            let waiter = queue.pop_front(now_ms, |()| true).unwrap();
            served += 1;
            if now_ms > 10_000 {
                longest_ms = longest_ms.max(now_ms - waiter.arrived_ms);
            }
        }
    }
    assert_eq!(served, 600);
    assert!((1_000..1_300).contains(&shed), "{shed}");
    assert!((900..=1_000).contains(&longest_ms), "{longest_ms}");
    // The burst is over: once waits are short, no waiter has to leave any more.
    let mut now_ms = 60_000;
    while queue.pop_front(now_ms, |()| true).is_some() {
        now_ms += 1;
    }
    queue.push((), QueueClass::default(), now_ms, FOREVER).unwrap();
    assert!(queue.pop_overdue(now_ms + 5_000).is_none());
}

#[test]
fn a_burst_makes_no_waiter_leave() {
    let mut queue = WaitQueue::new(100, Some(DelayTarget { target_ms: 100, interval_ms: 1_000 }));
    for item in 0..50 {
        queue.push(item, QueueClass::default(), 0, FOREVER).unwrap();
    }
    for now_ms in (0..1_000).step_by(20) {
        assert!(queue.pop_overdue(now_ms).is_none(), "{now_ms}");
        assert!(queue.pop_front(now_ms, |_| true).is_some());
    }
}

#[test]
fn all_waiters_can_be_removed() {
    let mut queue = self::queue(10);
    for (item, priority) in [(1, PriorityClass::Low), (2, PriorityClass::High), (3, PriorityClass::Normal)] {
        queue.push(item, QueueClass { priority, share: 0, client: 0 }, 0, 5).unwrap();
    }
    let left: Vec<u32> =
        std::iter::from_fn(|| queue.pop_hopeless(|_| false)).map(|waiter| waiter.item).collect();
    assert_eq!((left, queue.len()), (vec![2, 3, 1], 0));
    assert_eq!(queue.wait_expected_ms(9), None, "none was served");
}

#[test]
fn the_wait_of_the_next_is_estimated() {
    let mut queue = self::queue(100);
    assert_eq!(queue.wait_expected_ms(0), None);
    for item in 0..30 {
        enter(&mut queue, item, 0, FOREVER).unwrap();
    }
    for now_ms in (0..2_000).step_by(100) {
        assert!(queue.pop_front(now_ms, |_| true).is_some());
    }
    assert_eq!(queue.wait_expected_ms(2_000), Some(1_100), "ten before it, ten a second");
}
