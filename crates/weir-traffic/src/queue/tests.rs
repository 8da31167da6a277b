//! The queue: order, bounds, leaving, and random histories against a plain list.

use proptest::prelude::*;

use super::*;

const FOREVER: u64 = u64::MAX;

fn pop(queue: &mut Queue<u32>) -> Option<u32> {
    queue.pop_front(0, |_| true).map(|waiter| waiter.item)
}

#[test]
fn who_came_first_leaves_first() {
    let mut queue = Queue::new(10);
    for item in 0..5 {
        queue.push(item, 0, FOREVER).unwrap();
    }
    assert_eq!(
        (0..6).map(|_| pop(&mut queue)).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2), Some(3), Some(4), None]
    );
    assert!(queue.is_empty());
}

#[test]
fn a_full_queue_gives_the_item_back() {
    let mut queue = Queue::new(1);
    queue.push(1, 0, FOREVER).unwrap();
    assert_eq!(queue.push(2, 0, FOREVER), Err(Full(2)));
    queue.set_len_max(2);
    queue.push(2, 0, FOREVER).unwrap();
    queue.set_len_max(1);
    assert_eq!((queue.len(), queue.len_max()), (2, 1), "who waits stays");
    assert_eq!(pop(&mut queue), Some(1));
    assert_eq!(queue.push(3, 0, FOREVER), Err(Full(3)));
    assert_eq!(Queue::new(0).push(1, 0, FOREVER), Err(Full(1)), "no queue at all");
}

#[test]
fn those_passed_over_keep_their_places() {
    let mut queue = Queue::new(10);
    for item in 0..4 {
        queue.push(item, 0, FOREVER).unwrap();
    }
    let odd = queue.pop_front(0, |item| item % 2 == 1);
    assert_eq!(odd.map(|waiter| waiter.item), Some(1));
    assert!(queue.pop_front(0, |_| false).is_none());
    assert_eq!(queue.iter().map(|waiter| waiter.item).collect::<Vec<_>>(), [0, 2, 3]);
}

#[test]
fn a_ticket_opens_its_own_place_only() {
    let mut queue = Queue::new(10);
    let first = queue.push(1, 5, 9).unwrap();
    assert_eq!(queue.remove(first), Some(Waiter { item: 1, arrived_ms: 5, deadline_ms: 9 }));
    assert_eq!(queue.remove(first), None);
    let second = queue.push(2, 0, FOREVER).unwrap();
    assert_eq!(queue.remove(first), None, "the place is another's now");
    assert_eq!(queue.front().map(|waiter| waiter.item), Some(2));
    assert!(queue.remove(second).is_some());
    let other = Queue::<u32>::new(1);
    assert!(other.front().is_none());
}

#[test]
fn after_the_deadline_nobody_is_served() {
    let mut queue = Queue::new(10);
    for (item, deadline_ms) in [(1, 10), (2, 30), (3, 20)] {
        queue.push(item, 0, deadline_ms).unwrap();
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
enum Step {
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

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..50_u64).prop_map(|wait_ms| Step::Push { wait_ms }),
        2 => (1..4_u32).prop_map(|divisor| Step::Pop { divisor }),
        1 => Just(Step::PopExpired),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (0..20_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Against a list that does the same by searching.
    #[test]
    fn it_behaves_as_a_plain_list(len_max in 0..12_usize, steps in prop::collection::vec(step(), 1..200)) {
        let mut queue = Queue::new(len_max);
        let mut model: Vec<(u32, u64)> = Vec::new();
        let mut tickets: Vec<(Ticket, u32)> = Vec::new();
        let mut now_ms = 0;
        for (item, step) in (0..).zip(steps) {
            match step {
                Step::Push { wait_ms } => match queue.push(item, now_ms, now_ms + wait_ms) {
                    Ok(ticket) => {
                        prop_assert!(model.len() < len_max);
                        tickets.push((ticket, item));
                        model.push((item, now_ms + wait_ms));
                    }
                    Err(Full(back)) => prop_assert!(back == item && model.len() >= len_max),
                },
                Step::Pop { divisor } => {
                    let at = model.iter().position(|(item, deadline)| now_ms < *deadline && item % divisor == 0);
                    let expected = at.map(|at| model.remove(at).0);
                    let popped = queue.pop_front(now_ms, |item| item % divisor == 0);
                    prop_assert_eq!(popped.map(|waiter| waiter.item), expected);
                }
                Step::PopExpired => {
                    let at = model.iter().position(|(_, deadline)| now_ms >= *deadline);
                    let expected = at.map(|at| model.remove(at).0);
                    prop_assert_eq!(queue.pop_expired(now_ms).map(|waiter| waiter.item), expected);
                }
                Step::Remove(nth) if !tickets.is_empty() => {
                    let (ticket, item) = tickets[nth % tickets.len()];
                    let at = model.iter().position(|(one, _)| *one == item);
                    let expected = at.map(|at| model.remove(at).0);
                    prop_assert_eq!(queue.remove(ticket).map(|waiter| waiter.item), expected);
                }
                Step::Remove(_) => {}
                Step::Wait(ms) => now_ms += ms,
            }
            prop_assert_eq!(queue.len(), model.len());
            let order: Vec<u32> = queue.iter().map(|waiter| waiter.item).collect();
            prop_assert_eq!(order, model.iter().map(|(item, _)| *item).collect::<Vec<_>>());
            prop_assert!(queue.places.len() <= len_max, "places are used again");
        }
    }
}
