//! The wait until a peer has everything that was written to it: an abort would take back what has not reached its system yet.
//!
//! There is no event for that, so it is checked now and then. Must not abort anything itself.

use std::task::Poll;
use std::time::Duration;

use super::client::Client;
use crate::net::clock;
use crate::state::connections::activity::Activity;

/// How long a peer may be silent that is still to take what it was sent, or to send what is thrown away, and how long it may take in all.
pub(crate) const LINGER_SILENCE: Duration = Duration::from_secs(5);
pub(crate) const LINGER_TIME: Duration = Duration::from_secs(30);

/// How long the end of our direction may take, how long a client may read on whose bytes are not taken in any more, and how long a stop
/// waits for bytes that are thrown away.
pub(crate) const FAREWELL_TIME: Duration = Duration::from_secs(2);

/// Interval of the checks whether a peer has acknowledged the last bytes.
const DELIVERY_LOOK: Duration = Duration::from_millis(10);

/// Waits until `undelivered` is 0, as long as it falls.
pub(crate) async fn wait(client: &mut Client, undelivered: impl Fn() -> usize) {
    let began = clock::now();
    let mut left = usize::MAX;
    std::future::poll_fn(|_| {
        let undelivered = undelivered();
        if undelivered == 0 {
            return Poll::Ready(());
        }
        let now = clock::now();
        let limit = if client.worker.is_stopping() { FAREWELL_TIME } else { LINGER_TIME };
        client.deadline.set_ceiling(Some(began + limit));
        if undelivered < left {
            left = undelivered;
            client.deadline.set(now, Some(LINGER_SILENCE));
        }
        client.report_idle(Activity::Ending);
        client.deadline.look_again(now + DELIVERY_LOOK);
        client.deadline.poll_passed()
    })
    .await;
}
