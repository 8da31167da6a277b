//! Which clients have been longest without a whole PROXY header, handshake or request head: these are ended for new connections at the
//! limit, where none is idle.
//!
//! Never one whose request is whole: what has been accepted is served, and a body that moves slowly has limits of its own. Pure: times are
//! passed in.

use std::time::Duration;

use super::least::LeastValues;
use crate::net::clock::Instant;
use crate::state::connections::activity::Activity;

/// Time that each client has in any case: several round trips of the slowest links.
const AGE_MIN: Duration = Duration::from_secs(1);

/// Since when a client has not finished what a request begins with; the least is ended first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unfinished {
    /// A client that has sent whole requests before comes after those that have sent none.
    has_served: bool,
    since: Instant,
}

impl Unfinished {
    /// That of a client which waits so; `None`: nothing is unfinished, or not for long.
    pub(crate) fn new(activity: Activity, has_served: bool, since: Instant, now: Instant) -> Option<Self> {
        let is_unfinished = match activity {
            Activity::ProxyHeader | Activity::Handshake | Activity::Hello | Activity::Head => true,
            // Its first request has not begun; behind others, it is idle, and has its own place among those that make room.
            Activity::Idle => !has_served,
            _ => false,
        };
        let is_old = now.saturating_duration_since(since) >= AGE_MIN;
        (is_unfinished && is_old).then_some(Self { has_served, since })
    }
}

/// Those that have been unfinished longest, of one listener or of all.
#[derive(Debug)]
pub(super) struct LongestUnfinished {
    pub(super) listener: Option<u16>,
    pub(super) found: LeastValues<Unfinished>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::clock;

    #[test]
    fn what_has_been_accepted_is_not_unfinished() {
        let since = clock::now();
        let now = since + AGE_MIN;
        for activity in [Activity::ProxyHeader, Activity::Handshake, Activity::Hello, Activity::Head] {
            assert!(Unfinished::new(activity, false, since, now).is_some(), "{activity:?}");
            assert_eq!(
                Unfinished::new(activity, false, since + Duration::from_millis(1), now),
                None,
                "young"
            );
        }
        assert!(Unfinished::new(Activity::Idle, false, since, now).is_some(), "the first request");
        assert_eq!(Unfinished::new(Activity::Idle, true, since, now), None, "between two requests");
        for activity in [
            Activity::Streams,
            Activity::Memory,
            Activity::Queue,
            Activity::RequestBody,
            Activity::ResponseHead,
            Activity::ClientTakes,
            Activity::Tunnel,
            Activity::Ending,
        ] {
            assert_eq!(Unfinished::new(activity, false, since, now), None, "{activity:?}");
        }
    }

    #[test]
    fn the_longest_go_first_and_clients_with_earlier_requests_last() {
        let start = clock::now();
        let now = start + Duration::from_secs(100);
        let mut found = LeastValues::new(3);
        for (number, has_served, second) in
            [(1, true, 0), (2, false, 30), (3, false, 10), (4, false, 20), (5, true, 5), (6, false, 99)]
        {
            let since = start + Duration::from_secs(second);
            found.note(Unfinished::new(Activity::Head, has_served, since, now).unwrap(), number);
        }
        assert!(found.into_numbers().into_iter().eq([2, 3, 4]));
        let mut all = LeastValues::new(2);
        let of = |has_served| Unfinished::new(Activity::Head, has_served, start, now).unwrap();
        for (number, has_served) in [(7, true), (8, false), (9, true)] {
            all.note(of(has_served), number);
        }
        assert!(all.into_numbers().into_iter().eq([7, 8]));
    }
}
