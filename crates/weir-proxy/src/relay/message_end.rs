//! What the head of a message allows behind it, held against every byte that a writer is given.
//!
//! Each writer of messages (HTTP/1, HTTP/2, FastCGI, to clients and to servers) is made from the [`Framing`] of its head and asks here before it
//! takes anything: nothing behind an end, never more than a length, no end before it. So a mistake of whatever produces a body cannot become the
//! beginning of another message on the wire. A violation is a defect of Weir: it is counted and logged, and the writer fails before a byte leaves.

use weir_http::Framing;

use crate::state::crashes::framing_violations;

/// What may still follow the head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyAllowance {
    /// Bytes that may follow; more than there will ever be where the head does not tell.
    left: u64,
    /// Whether the end may come whatever is left.
    ends_anywhere: bool,
    state: MessageState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageState {
    /// Nothing of it is written.
    Unbegun,
    Open,
    Ended,
    Violated,
}

impl BodyAllowance {
    /// Before the head.
    pub(crate) const fn unbegun() -> Self {
        Self { left: 0, ends_anywhere: true, state: MessageState::Unbegun }
    }

    /// The head is written, and says this of what follows.
    #[inline]
    pub(crate) fn begin(&mut self, framing: Framing) {
        if self.state != MessageState::Unbegun {
            return self.violate("a second head");
        }
        (self.left, self.ends_anywhere) = match framing {
            Framing::None => (0, true),
            Framing::Length(length) => (length, false),
            Framing::Delimited | Framing::UntilClose => (u64::MAX, true),
        };
        self.state = MessageState::Open;
    }

    /// Whether `len` further bytes may be written.
    #[inline]
    pub(crate) fn check(&mut self, len: usize) -> bool {
        let fits = len as u64 <= self.left && self.state == MessageState::Open;
        if !fits && len > 0 {
            self.violate("bytes that the head does not allow");
        }
        fits || len == 0 && self.state != MessageState::Violated
    }

    /// Counts bytes that were checked.
    #[inline]
    pub(crate) fn count(&mut self, len: usize) {
        debug_assert!(len as u64 <= self.left);
        self.left = self.left.saturating_sub(len as u64);
    }

    /// The message ends here; `false` when it may not.
    #[inline]
    pub(crate) fn end(&mut self) -> bool {
        let may_end = self.state == MessageState::Open && (self.ends_anywhere || self.left == 0);
        match may_end {
            true => (self.left, self.state) = (0, MessageState::Ended),
            false => self.violate("an end that the head does not allow"),
        }
        may_end
    }

    /// Bytes that may follow.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Bytes that follow, where the head says how many.
    #[cfg(feature = "http3")]
    #[inline]
    pub(crate) fn announced_left(&self) -> Option<u64> {
        (!self.ends_anywhere).then_some(self.left)
    }

    /// Whether the writer must not write anything more.
    #[inline]
    pub(crate) fn is_violated(&self) -> bool {
        self.state == MessageState::Violated
    }

    #[cold]
    fn violate(&mut self, what: &'static str) {
        let left = self.left;
        let first = self.state != MessageState::Violated;
        (self.left, self.state) = (0, MessageState::Violated);
        if !first {
            return;
        }
        framing_violations::add();
        tracing::error!(
            what,
            left,
            "message framing violated, connection or stream closed: a defect of Weir, please report it"
        );
        #[cfg(test)]
        if expected::is_expected() {
            return;
        }
        debug_assert!(false, "message framing violated: {what}, {left} bytes left");
    }
}

/// Tests of what happens on a violation say that they expect one: everywhere else it is a panic in builds for tests.
#[cfg(test)]
pub(crate) mod expected {
    use std::cell::Cell;

    thread_local! {
        static EXPECTED: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn is_expected() -> bool {
        EXPECTED.get()
    }

    /// Runs `test`, in which violations are no panic.
    pub(crate) fn violation<T>(test: impl FnOnce() -> T) -> T {
        EXPECTED.set(true);
        let outcome = test();
        EXPECTED.set(false);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(framing: Framing) -> BodyAllowance {
        let mut allowance = BodyAllowance::unbegun();
        allowance.begin(framing);
        allowance
    }

    #[test]
    fn a_body_as_its_head_says_passes() {
        for (framing, pieces) in [
            (Framing::None, &[][..]),
            (Framing::Length(0), &[]),
            (Framing::Length(5), &[2, 0, 3]),
            (Framing::Delimited, &[]),
            (Framing::Delimited, &[1, 70_000]),
            (Framing::UntilClose, &[9]),
        ] {
            let mut allowance = begun(framing);
            for len in pieces {
                assert!(allowance.check(*len), "{framing:?}");
                allowance.count(*len);
            }
            assert!(allowance.end() && !allowance.is_violated(), "{framing:?}");
        }
    }

    #[test]
    fn a_violation_lasts_and_is_counted_once() {
        expected::violation(|| {
            for (framing, len) in [(Framing::None, 1), (Framing::Length(0), 1), (Framing::Length(5), 6)] {
                let before = framing_violations::count();
                let mut allowance = begun(framing);
                assert!(!allowance.check(len), "{framing:?}");
                assert!(allowance.is_violated() && !allowance.check(1) && !allowance.end(), "{framing:?}");
                assert!(!allowance.check(0), "nothing more");
                assert!(framing_violations::count() > before);
            }
            let mut short = begun(Framing::Length(5));
            short.count(4);
            assert!(!short.end(), "an early end");
            let mut twice = begun(Framing::Delimited);
            assert!(twice.end() && !twice.end(), "a second end");
            let mut behind = begun(Framing::Delimited);
            assert!(behind.end() && !behind.check(1), "bytes behind the end");
            let mut heads = begun(Framing::Delimited);
            heads.begin(Framing::Length(5));
            assert!(heads.is_violated(), "a second head");
            assert!(!BodyAllowance::unbegun().check(1), "a body without a head");
        });
    }

    #[test]
    #[should_panic(expected = "message framing violated")]
    fn a_violation_in_a_test_is_a_panic() {
        begun(Framing::Length(0)).check(1);
    }
}
