//! The reserve of the admin listener when all its slots are taken: it answers `/ready` and `/live` only.
//!
//! A load balancer that probes `/ready` would take Weir out of service because other clients hold connections open. So further connections have
//! a few places of their own, and the oldest is closed for a new one: a client that sends its request at once is answered, however many
//! are idle. Must not serve expensive requests.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use weir_observe::AdminRefusal;

use super::guard::is_open;
use super::request;
use super::request::ReceivedRequest;
use super::response::BufferedResponse;
use super::{linger, routes};
use crate::administration::admin_access::AdminPeer;
use crate::administration::admin_operations::Operations;

/// Connections in reserve.
const SLOTS: usize = 16;

/// How long one may take for everything.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// The connections that found no seat, the oldest first.
#[derive(Default)]
pub(super) struct ReadinessReserve {
    running: VecDeque<AbortHandle>,
}

impl ReadinessReserve {
    /// Answers a connection, in the place of the oldest one if there is no other.
    pub(super) fn take(&mut self, stream: TcpStream, operations: &Arc<Operations>, peer: AdminPeer) {
        self.running.retain(|running| !running.is_finished());
        if self.running.len() >= SLOTS
            && let Some(oldest) = self.running.pop_front()
        {
            oldest.abort();
            operations.access.count_refusal(AdminRefusal::TooMany, peer);
        }
        let operations = Arc::clone(operations);
        let answering = tokio::spawn(async move {
            // Whatever goes wrong here concerns this one client only.
            let _outcome = tokio::time::timeout(ANSWER_TIME, answer(stream, &operations, peer)).await;
        });
        self.running.push_back(answering.abort_handle());
    }
}

async fn answer(mut stream: TcpStream, operations: &Arc<Operations>, peer: AdminPeer) -> io::Result<()> {
    let answer = match request::read(&mut stream, Vec::new()).await {
        ReceivedRequest::Gone => return Ok(()),
        ReceivedRequest::Whole(request) if is_open(&request) => {
            operations.access.count_answer();
            let with_body = request.method() != weir_http::Method::Head;
            match routes::answer(&request, operations, peer).await {
                Ok(answer) => answer.into_bytes(with_body),
                Err(refused) => refused.answer.into_bytes(with_body),
            }
        }
        ReceivedRequest::Whole(_) | ReceivedRequest::Refused(_) => {
            operations.access.count_refusal(AdminRefusal::TooMany, peer);
            BufferedResponse::plain(503, "Too many connections to the admin listener.\n").into_bytes(true)
        }
    };
    stream.write_all(&answer).await?;
    stream.shutdown().await?;
    linger(&mut stream).await
}
