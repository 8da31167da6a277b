//! The end of a server's service: it takes fewer and fewer requests, and the caller learns when none is left.
//!
//! Pure: the caller passes what runs on the server from time to time, and gets the next step.

/// One server on its way out of service. Times are milliseconds on any clock that does not go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// When it began.
    pub began_ms: u64,
    /// When requests that are bound to the server go elsewhere too; `None`: they may continue without limit.
    pub deadline_ms: Option<u64>,
    /// Whether requests that are bound to the server still reach it.
    pub takes_bound: bool,
}

/// The next step for a server that drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainStep {
    /// Look again later.
    Wait,
    /// Its time is over: from now on it takes no requests at all.
    Close,
    /// Nothing is left on it, and nothing will come.
    Done,
}

impl Drain {
    /// The next step, given that `in_flight` requests and tunnels run on the server.
    pub fn step(&self, in_flight: u32, now_ms: u64) -> DrainStep {
        let over = self.deadline_ms.is_some_and(|deadline_ms| now_ms >= deadline_ms);
        match (self.takes_bound, over, in_flight) {
            (true, true, _) => DrainStep::Close,
            (false, _, 0) => DrainStep::Done,
            _ => DrainStep::Wait,
        }
    }

    /// The same server after its time is over.
    #[must_use]
    pub fn closed(self) -> Drain {
        Drain { takes_bound: false, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_requests_keep_a_server_until_its_deadline() {
        let drain = Drain { began_ms: 0, deadline_ms: Some(100), takes_bound: true };
        for (in_flight, now_ms, step) in [
            (3, 0, DrainStep::Wait),
            (0, 50, DrainStep::Wait),
            (0, 99, DrainStep::Wait),
            (2, 100, DrainStep::Close),
            (0, 100, DrainStep::Close),
        ] {
            assert_eq!(drain.step(in_flight, now_ms), step, "{in_flight} at {now_ms}");
        }
        let closed = drain.closed();
        assert_eq!((closed.step(2, 200), closed.step(0, 300)), (DrainStep::Wait, DrainStep::Done));
        let for_good = Drain { deadline_ms: None, ..drain };
        assert_eq!(for_good.step(0, u64::MAX), DrainStep::Wait);
    }

    #[test]
    fn a_server_without_bound_requests_is_done_when_it_is_empty() {
        let drain = Drain { began_ms: 0, deadline_ms: None, takes_bound: false };
        assert_eq!((drain.step(1, 5), drain.step(0, 6)), (DrainStep::Wait, DrainStep::Done));
    }
}
