//! A probe of a server that is no web server: the conversation, and when the server has shown that it is well.
//!
//! Bounded by [`RECEIVED_MAX`], and in time by the probe. The protocols themselves are in `protocols`.

use std::rc::Rc;
use std::time::Duration;

use weir_config::Dialogue;
use weir_observe::{Cause, Failure, Phase};

use super::protocols::{self, Judgement};
use super::stream::{ProbeStream, read, send};
use weir_proxy::net::buffer::BufferStock;
use weir_proxy::net::connection::Connection;
use weir_proxy::net::failure::Fault;

/// How much of the server's answer is read: a greeting or an answer, no transfer.
const RECEIVED_MAX: usize = 16 * 1024;

/// How long a server has for the end of a conversation that went well; one that does not come is no fault.
const LEAVE_TIME: Duration = Duration::from_millis(200);

/// How much of an unexpected answer the log shows.
const LISTED_MAX: usize = 80;

/// Whether the probe has the first word.
pub(super) fn speaks_first(dialogue: &Dialogue) -> bool {
    !protocols::opening(dialogue).is_empty()
}

/// Runs the conversation until the server has shown that it is well; returns the bytes to send before the connection is closed.
///
/// # Errors
/// When it says something else, too much, or ends the connection.
pub(super) async fn hold(
    dialogue: &Dialogue,
    source: &mut ProbeStream<'_>,
    phase: &mut Phase,
) -> Result<Vec<u8>, Fault> {
    let opening = protocols::opening(dialogue);
    if !opening.is_empty() {
        *phase = Phase::Send;
        send(source.connection, &opening).await?;
    }
    *phase = Phase::Response;
    let mut received = Vec::new();
    loop {
        match protocols::judge(dialogue, &received) {
            Judgement::Passed { quit } => return Ok(quit),
            Judgement::Wrong => return Err(unexpected(&received)),
            Judgement::Reply { consumed, bytes } => {
                received.drain(..consumed);
                if !bytes.is_empty() {
                    send(source.connection, &bytes).await?;
                }
            }
            Judgement::Incomplete if received.len() >= RECEIVED_MAX => return Err(unexpected(&received)),
            Judgement::Incomplete => {
                if read(source, &mut received, Phase::Response).await? == 0 {
                    let closed = Failure::server(Phase::Response, Cause::Closed);
                    return Err(if received.is_empty() { closed.into() } else { unexpected(&received) });
                }
            }
        }
    }
}

/// Says `bytes`, ends the stream and waits for the end of the other side: a server that is reset, or left in the middle, says so in its log.
pub(super) async fn close_politely(mut connection: Connection, stock: &Rc<BufferStock>, bytes: &[u8]) {
    let leave = async {
        if !bytes.is_empty() && send(&mut connection, bytes).await.is_err() {
            return;
        }
        std::future::poll_fn(|cx| connection.poll_shutdown_write(cx)).await;
        let (mut source, mut pause_) = (ProbeStream { connection: &mut connection, stock }, Vec::new());
        while pause_.len() < RECEIVED_MAX
            && read(&mut source, &mut pause_, Phase::Response).await.is_ok_and(|len| len > 0)
        {}
    };
    let _late = tokio::time::timeout(LEAVE_TIME, leave).await;
}

fn unexpected(received: &[u8]) -> Fault {
    let answer = received[..received.len().min(LISTED_MAX)].escape_ascii().to_string();
    tracing::debug!(answer, "a server answered a probe with something else than expected");
    Failure::server(Phase::Response, Cause::UnexpectedAnswer).into()
}
