//! A connection to the runtime socket: lines come in, answers go out, each with an empty line behind it, or with a prompt.
//!
//! The first line decides: one that begins an HTTP request hands the connection over to the admin API, anything else is commands. Without
//! `prompt`, one line is answered and the connection is closed.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use weir_observe::AdminRefusal;

use crate::administration::admin;
use crate::administration::admin_access::AdminPeer;
use crate::administration::admin_operations::Operations;
use crate::administration::runtime_commands::command;
use crate::administration::runtime_commands::command::{COMMANDS_MAX, LINE_BYTES_MAX, RuntimeCommand};
use crate::administration::runtime_commands::run::{answer, explain};

/// How long a client may be silent before the first line, and between two in interactive mode. HAProxy's default.
const SILENCE: Duration = Duration::from_secs(10);

/// How long a client may take to read an answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The end of an answer.
const END: &str = "\n";
const PROMPT: &str = "\n> ";

/// A line that begins with one of these is HTTP.
const METHODS: [&str; 9] =
    ["GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PATCH ", "TRACE ", "CONNECT "];

/// A session of commands.
struct CommandConnection {
    received: Vec<u8>,
    is_interactive: bool,
    silence: Duration,
}

/// Serves a connection until its end.
pub(super) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + AsFd + Unpin,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> io::Result<()> {
    let mut session = CommandConnection { received: Vec::new(), is_interactive: false, silence: SILENCE };
    loop {
        let line = match timeout(session.silence, session.line(&mut stream)).await {
            Ok(line) => line?,
            Err(_silent) => {
                operations.access.count_refusal(AdminRefusal::TooSlow, peer);
                return Ok(());
            }
        };
        match line {
            ReceivedLine::Whole(line) if is_http(&line) => {
                if peer != AdminPeer::Local {
                    // A page in a user's browser can send this; commands in the body would be next.
                    operations.access.count_refusal(AdminRefusal::Malformed, peer);
                    return Ok(());
                }
                let mut first = line;
                first.push(b'\n');
                first.append(&mut session.received);
                return admin::serve_one(stream, first, operations, peer).await;
            }
            ReceivedLine::Whole(line) => {
                if !session.run(&line, &mut stream, operations, peer).await? {
                    break;
                }
            }
            ReceivedLine::TooLong => {
                operations.access.count_refusal(AdminRefusal::TooLarge, peer);
                let what = format!("A line has at most {LINE_BYTES_MAX} bytes.\n{END}");
                send(&mut stream, &what).await?;
                break;
            }
            ReceivedLine::None => break,
        }
    }
    timeout(ANSWER_TIME, stream.shutdown()).await?
}

/// The result of reading a connection.
enum ReceivedLine {
    Whole(Vec<u8>),
    TooLong,
    /// The end of the connection.
    None,
}

impl CommandConnection {
    /// The next line, without its end.
    async fn line(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<ReceivedLine> {
        let mut looked = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.received[looked..]) {
                let rest = self.received.split_off(looked + at + 1);
                let mut line = std::mem::replace(&mut self.received, rest);
                line.pop();
                return Ok(ReceivedLine::Whole(line));
            }
            looked = self.received.len();
            if looked > LINE_BYTES_MAX {
                return Ok(ReceivedLine::TooLong);
            }
            if stream.read_buf(&mut self.received).await? == 0 {
                // Commands without an end of line are none in HAProxy either.
                return Ok(ReceivedLine::None);
            }
        }
    }

    /// Answers the commands of a line; returns whether the session continues.
    async fn run(
        &mut self,
        line: &[u8],
        stream: &mut (impl AsyncWrite + Unpin),
        operations: &Arc<Operations>,
        peer: AdminPeer,
    ) -> io::Result<bool> {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        let was_interactive = self.is_interactive;
        if self.is_interactive && line.trim().is_empty() {
            send(stream, PROMPT).await?;
            return Ok(true);
        }
        for text in command::split(line).into_iter().take(COMMANDS_MAX) {
            let outcome = match command::parse(&text) {
                Ok(RuntimeCommand::Quit) => return Ok(false),
                Ok(RuntimeCommand::Prompt) => {
                    self.is_interactive = !self.is_interactive;
                    Ok(String::new())
                }
                Ok(RuntimeCommand::SetTimeout(silence)) => {
                    self.silence = silence;
                    Ok(String::new())
                }
                Ok(command) => answer(command, operations, peer).await,
                Err(wrong) => Ok(explain(&wrong)),
            };
            if outcome.is_ok() {
                operations.access.count_answer();
            }
            let text = outcome.unwrap_or_else(|refusal| refusal);
            let end = if self.is_interactive { PROMPT } else { END };
            send(stream, &(text + end)).await?;
        }
        Ok(self.is_interactive || was_interactive)
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), text: &str) -> io::Result<()> {
    timeout(ANSWER_TIME, stream.write_all(text.as_bytes())).await?
}

/// Whether a line is the first of an HTTP request.
fn is_http(line: &[u8]) -> bool {
    METHODS.iter().any(|method| line.starts_with(method.as_bytes()))
}
