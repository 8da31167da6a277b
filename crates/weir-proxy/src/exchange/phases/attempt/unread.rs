//! Requests that a server has never got: it closed the kept connection just when the request was sent on it.

use std::time::Duration;

use crate::exchange::exchange_state::client::Client;
use crate::upstream::stream::{ServerStream, UnreadRequest};

/// The longest of the pauses, each twice the one before, in which it has to become certain that a server has not read a request: a quarter of
/// a second in all.
const UNREAD_PAUSE_MAX: Duration = Duration::from_millis(128);

/// Whether a server that has closed a kept connection cannot have read the request. What says so comes one round trip behind the end of the
/// connection, so it is awaited for a moment.
pub(in crate::exchange) async fn is_certain(client: &Client, server: &impl ServerStream) -> bool {
    let mut pause = Duration::from_millis(1);
    while pause <= UNREAD_PAUSE_MAX {
        match server.unread() {
            UnreadRequest::Unknown => return false,
            UnreadRequest::Certain => return true,
            UnreadRequest::Likely => client.worker.timers.sleep(pause).await,
        }
        pause *= 2;
    }
    server.unread() == UnreadRequest::Certain
}
