//! How many exchanges of a worker may still begin before its buffers run out, and the queue of those that wait for that.
//!
//! Each exchange that ends lets one begin, and so does one that waits without a buffer. Waiters come in their order, and before later
//! exchanges. Belongs to one thread. Must not know what an exchange is.

use std::cell::Cell;

use tokio::sync::Notify;

/// The exchanges that one worker may have at once.
#[derive(Debug)]
pub(crate) struct ExchangeBudget {
    /// How many may still begin; below zero while some run beyond what is allowed.
    left: Cell<i64>,
    exchanges_max: i64,
    /// The waiters, including those that were notified and have not run yet.
    waiting: Cell<usize>,
    given_back: Notify,
}

impl ExchangeBudget {
    /// For so many at once.
    pub(crate) fn new(exchanges_max: u32) -> Self {
        Self {
            left: Cell::new(exchanges_max.into()),
            exchanges_max: exchanges_max.into(),
            waiting: Cell::new(0),
            given_back: Notify::new(),
        }
    }

    /// Takes one if one is left and there are no waiters; whether it did.
    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        self.waiting.get() == 0 && self.take()
    }

    fn take(&self) -> bool {
        let left = self.left.get();
        self.left.set(left - i64::from(left > 0));
        left > 0
    }

    /// Takes one as soon as one is left. To be called when [`ExchangeBudget::try_take`] took none.
    pub(crate) async fn wait(&self) {
        let _waiting = BudgetWaiter::enter(self);
        // A notified waiter may find none left: a notification without a waiter is kept for the next one.
        loop {
            self.given_back.notified().await;
            if self.take() {
                return;
            }
        }
    }

    /// Whether half of them are taken: from now on, an exchange that waits without a buffer gives back what it took.
    pub(crate) fn is_scarce(&self) -> bool {
        self.left.get() * 2 <= self.exchanges_max
    }

    /// Whether one that gave back what it took may go on: a quarter is reserved for new exchanges.
    pub(crate) fn may_resume(&self) -> bool {
        self.left.get() * 4 > self.exchanges_max
    }

    /// Takes one again for an exchange that gave it back while it waited; whether it did.
    pub(crate) fn try_resume(&self) -> bool {
        self.may_resume() && self.take()
    }

    /// Takes one although none is left.
    pub(crate) fn overdraw(&self) {
        self.left.set(self.left.get() - 1);
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&self) {
        self.left.set(self.left.get() + 1);
        self.call_next();
    }

    /// Notifies a waiter as long as some are left: one that is notified and takes one, or gives
    /// up, notifies the next.
    fn call_next(&self) {
        if self.waiting.get() > 0 && self.left.get() > 0 {
            self.given_back.notify_one();
        }
    }
}

/// A waiter, until it is dropped.
struct BudgetWaiter<'a>(&'a ExchangeBudget);

impl<'a> BudgetWaiter<'a> {
    fn enter(budget: &'a ExchangeBudget) -> Self {
        budget.waiting.set(budget.waiting.get() + 1);
        Self(budget)
    }
}

impl Drop for BudgetWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
        self.0.call_next();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use super::*;

    type Waiter<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

    /// Waiters that have been polled once.
    fn waiters(budget: &ExchangeBudget, count: usize) -> Vec<Waiter<'_>> {
        let mut waiters: Vec<Waiter<'_>> =
            (0..count).map(|_| Box::pin(budget.wait()) as Waiter<'_>).collect();
        assert!(came(&mut waiters).is_empty());
        waiters
    }

    /// Polls them all; removes those that have taken one, and returns their places.
    fn came(waiters: &mut Vec<Waiter<'_>>) -> Vec<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        let polled: Vec<bool> =
            waiters.iter_mut().map(|waiter| waiter.as_mut().poll(&mut cx).is_ready()).collect();
        let mut ready = polled.iter();
        waiters.retain(|_| ready.next() == Some(&false));
        (0..polled.len()).filter(|place| polled[*place]).collect()
    }

    fn used_up(exchanges_max: u32) -> ExchangeBudget {
        let budget = ExchangeBudget::new(exchanges_max);
        (0..exchanges_max).for_each(|_| assert!(budget.try_take()));
        assert!(!budget.try_take());
        budget
    }

    #[test]
    fn as_many_come_as_are_given_back_at_once() {
        let budget = used_up(3);
        let mut waiting = waiters(&budget, 4);
        budget.give_back();
        budget.give_back();
        assert_eq!(came(&mut waiting), [0, 1]);
        assert!(came(&mut waiting).is_empty());
        (0..3).for_each(|_| budget.give_back());
        assert_eq!(came(&mut waiting), [0, 1]);
        assert!(budget.try_take() && !budget.try_take());
    }

    #[test]
    fn waiters_are_not_overtaken() {
        let budget = used_up(1);
        let mut waiting = waiters(&budget, 1);
        budget.give_back();
        assert!(!budget.try_take(), "one was called");
        waiting.extend(waiters(&budget, 1));
        assert_eq!(came(&mut waiting), [0]);
        budget.give_back();
        assert_eq!(came(&mut waiting), [0]);
    }

    #[test]
    fn a_waiter_that_gives_up_notifies_the_next() {
        let budget = used_up(2);
        let mut waiting = waiters(&budget, 3);
        (0..2).for_each(|_| budget.give_back());
        drop(waiting.remove(0));
        assert_eq!(came(&mut waiting), [0, 1]);
        let mut last = waiters(&budget, 1);
        drop(last.remove(0));
        budget.give_back();
        assert!(budget.try_take(), "there are no waiters any more");
    }

    #[test]
    fn a_quarter_is_reserved_for_new_exchanges() {
        let budget = used_up(8);
        assert!(budget.is_scarce() && !budget.try_resume());
        (0..2).for_each(|_| budget.give_back());
        assert!(!budget.try_resume(), "those two may begin");
        budget.give_back();
        assert!(budget.try_resume() && !budget.try_resume());
        assert!(budget.try_take() && budget.try_take() && !budget.try_take());
        (0..5).for_each(|_| budget.give_back());
        assert!(!budget.is_scarce());
    }

    #[test]
    fn one_beyond_the_limit_is_paid_back_first() {
        let budget = used_up(1);
        budget.overdraw();
        let mut waiting = waiters(&budget, 1);
        budget.give_back();
        assert!(came(&mut waiting).is_empty());
        budget.give_back();
        assert_eq!(came(&mut waiting), [0]);
    }
}
