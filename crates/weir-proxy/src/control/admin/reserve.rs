//! Where the admin listener answers when all its seats are taken: whether traffic is welcome, and nothing else.
//!
//! A load balancer that asks `/ready` would take Weir out of service because other clients hold connections open. So those beyond the seats have
//! places of their own, and the one that has had its place longest goes for a new one: who asks at once is answered, however many
//! say nothing. Must not answer what costs more than a few bytes.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use weir_observe::AdminRefusal;

use super::guard::is_open;
use super::request::{self, Received};
use super::response::Answer;
use super::{linger, routes};
use crate::control::admin_access::Peer;
use crate::control::operations::Served;

/// Connections in reserve.
const PLACES: usize = 16;

/// How long one may take for everything.
const TIME: Duration = Duration::from_secs(1);

/// The connections that found no seat, the oldest first.
#[derive(Default)]
pub(super) struct Reserve {
    running: VecDeque<AbortHandle>,
}

impl Reserve {
    /// Answers a connection, in the place of the oldest one if there is no other.
    pub(super) fn take(&mut self, stream: TcpStream, served: &Arc<Served>, peer: Peer) {
        self.running.retain(|running| !running.is_finished());
        if self.running.len() >= PLACES
            && let Some(oldest) = self.running.pop_front()
        {
            oldest.abort();
            served.guard.count_refusal(AdminRefusal::TooMany, peer);
        }
        let served = Arc::clone(served);
        let answering = tokio::spawn(async move {
            // Whatever goes wrong here concerns this one client only.
            let _outcome = tokio::time::timeout(TIME, answer(stream, &served, peer)).await;
        });
        self.running.push_back(answering.abort_handle());
    }
}

async fn answer(mut stream: TcpStream, served: &Arc<Served>, peer: Peer) -> io::Result<()> {
    let answer = match request::read(&mut stream, Vec::new()).await {
        Received::Gone => return Ok(()),
        Received::Whole(request) if is_open(&request) => {
            served.guard.count_answer();
            let with_body = request.method() != weir_http::Method::Head;
            match routes::answer(&request, served, peer).await {
                Ok(answer) => answer.into_bytes(with_body),
                Err(refused) => refused.answer.into_bytes(with_body),
            }
        }
        Received::Whole(_) | Received::Refused(_) => {
            served.guard.count_refusal(AdminRefusal::TooMany, peer);
            Answer::plain(503, "Too many connections to the admin listener.\n").into_bytes(true)
        }
    };
    stream.write_all(&answer).await?;
    stream.shutdown().await?;
    linger(&mut stream).await
}
