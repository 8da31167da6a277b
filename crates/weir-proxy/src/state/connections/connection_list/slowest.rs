//! Which clients make the slowest progress: these are ended when memory is short.
//!
//! Only clients that Weir waits for: a client whose exchange waits for a server, for its turn or for a disk is not the slow side. Tunnels come
//! last, since they may be silent for good reason. Pure: rates and ages are passed in.

use std::time::Duration;

use super::least::LeastValues;
use crate::state::connections::activity::Activity;

/// A client is not slow before it has had this time.
const AGE_MIN: Duration = Duration::from_secs(1);

/// How slow a client is; the least is the slowest, and ended first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slowness {
    /// Clients that owe something come before those of tunnels.
    is_tunnel: bool,
    bytes_per_second: u64,
}

impl Slowness {
    /// That of a client which has moved so many bytes in this time and waits for this; `None`: Weir does not wait for it, or not for long.
    pub(crate) fn new(activity: Activity, moved: u64, age: Duration) -> Option<Self> {
        let is_tunnel = match activity {
            Activity::ProxyHeader
            | Activity::Handshake
            | Activity::Hello
            | Activity::Head
            | Activity::RequestBody
            | Activity::ClientTakes
            | Activity::Ending => false,
            Activity::Tunnel => true,
            _ => return None,
        };
        if age < AGE_MIN {
            return None;
        }
        let bytes_per_second = u128::from(moved) * 1_000 / age.as_millis().max(1);
        Some(Self { is_tunnel, bytes_per_second: u64::try_from(bytes_per_second).unwrap_or(u64::MAX) })
    }
}

/// The slowest of those that have reported.
pub(super) type SlowestClients = LeastValues<Slowness>;

#[cfg(test)]
mod tests {
    use super::*;

    fn slowness(activity: Activity, moved: u64, seconds: u64) -> Option<Slowness> {
        Slowness::new(activity, moved, Duration::from_secs(seconds))
    }

    #[test]
    fn only_clients_that_are_waited_for_are_slow() {
        for activity in [Activity::Handshake, Activity::Head, Activity::RequestBody, Activity::ClientTakes] {
            assert!(slowness(activity, 0, 2).is_some(), "{activity:?}");
        }
        for activity in [
            Activity::Idle,
            Activity::Streams,
            Activity::Memory,
            Activity::Queue,
            Activity::Connecting,
            Activity::ServerTakes,
            Activity::ResponseHead,
            Activity::ResponseBody,
            Activity::Disk,
            Activity::Bandwidth,
        ] {
            assert_eq!(slowness(activity, 0, 2), None, "{activity:?}");
        }
        assert_eq!(Slowness::new(Activity::Head, 0, Duration::from_millis(999)), None, "it is young");
    }

    #[test]
    fn the_slowest_are_kept_by_rate_and_not_by_bytes() {
        let mut slowest = SlowestClients::new(2);
        for (number, moved, seconds) in
            [(1, 1_000, 1), (2, 1_000, 100), (3, 90_000, 2), (4, 30, 2), (5, 500, 2)]
        {
            slowest.note(slowness(Activity::ClientTakes, moved, seconds).unwrap(), number);
        }
        assert!(slowest.into_numbers().into_iter().eq([2, 4]));
    }

    #[test]
    fn of_equals_the_oldest_are_kept_and_tunnels_come_last() {
        let mut slowest = SlowestClients::new(3);
        for number in [9, 4, 7] {
            slowest.note(slowness(Activity::Head, 0, 5).unwrap(), number);
        }
        slowest.note(slowness(Activity::Tunnel, 0, 500).unwrap(), 1);
        slowest.note(slowness(Activity::RequestBody, 10_000, 2).unwrap(), 2);
        assert!(slowest.into_numbers().into_iter().eq([4, 7, 9]));
    }

    #[test]
    fn none_are_kept_where_none_are_wanted() {
        let mut slowest = SlowestClients::new(0);
        slowest.note(slowness(Activity::Head, 0, 5).unwrap(), 1);
        assert!(slowest.into_numbers().is_empty());
    }
}
