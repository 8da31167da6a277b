//! Raw bytes both ways, after an upgrade or between TCP peers.
//!
//! Each direction ends with a half-close that is passed on; both are over when both have ended. Neither direction holds a
//! buffer while it is silent. Must not know what the bytes mean, nor how long silence may last.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::pipe::{Moved, Pipe, Stopped};
use super::throttle::Throttle;
use crate::buffer::{Buffer, BufferStock};
use crate::clock;
use crate::connection::Connection;
use crate::socket::Behind;

/// What a move has to come to for the next to be worth it.
const BUSY_MIN: usize = 4 * 1024;

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// An end that failed.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) side: Side,
    pub(crate) error: io::Error,
}

/// One direction.
#[derive(Debug)]
struct Direction {
    moved: u64,
    /// Whether the sender has ended its direction.
    ended: bool,
    /// Whether the receiver knows.
    closed: bool,
    throttle: Option<Box<Throttle>>,
    /// Whether the last bytes filled a buffer: then the next are moved inside the kernel.
    is_busy: bool,
    pipe: Pipe,
}

/// Which end of a direction failed.
enum Failed {
    Sender(io::Error),
    Receiver(io::Error),
}

impl Direction {
    /// Moves bytes until one end has to wait, or the sender has ended. `resume_at` is when a throttled one goes on.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Connection,
        to: &mut Connection,
        stock: &Rc<BufferStock>,
        resume_at: &mut Option<Instant>,
    ) -> Poll<Result<(), Failed>> {
        loop {
            // Goes on where the receiver's socket was full, before anything else moves.
            while to.has_unsent() {
                ready!(to.poll_write(cx, [&[], &[], &[]], Behind::Unknown)).map_err(Failed::Receiver)?;
            }
            while !from.received().is_empty() {
                let allowed = match &mut self.throttle {
                    None => usize::MAX,
                    Some(throttle) => match throttle.allowed(clock::now(), from.received().len()) {
                        Ok(allowed) => allowed,
                        Err(at) => {
                            *resume_at = Some(resume_at.map_or(at, |other| other.min(at)));
                            return Poll::Pending;
                        }
                    },
                };
                let bytes = from.received();
                let bytes = &bytes[..bytes.len().min(allowed)];
                // What waits for its time must not wait for the end as well.
                let behind = if self.throttle.is_none() { from.behind_received() } else { Behind::Unknown };
                let len = ready!(to.poll_write(cx, [bytes, &[], &[]], behind)).map_err(Failed::Receiver)?;
                from.consume(len);
                self.moved += len as u64;
                if let Some(throttle) = &mut self.throttle {
                    throttle.take(len);
                }
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            if self.is_busy && ready!(self.poll_move(cx, from, to, stock))? {
                continue;
            }
            self.ended = ready!(from.poll_fill(cx, stock)).map_err(Failed::Sender)? == 0;
            self.is_busy = self.throttle.is_none() && from.input.as_ref().is_some_and(Buffer::is_full);
        }
    }
}

impl Direction {
    fn new(throttle: Option<Throttle>) -> Self {
        let throttle = throttle.map(Box::new);
        Self { moved: 0, ended: false, closed: false, throttle, is_busy: false, pipe: Pipe::new() }
    }

    /// Moves bytes inside the kernel, once; `false` when that cannot be done or is not worth it.
    fn poll_move(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Connection,
        to: &mut Connection,
        stock: &Rc<BufferStock>,
    ) -> Poll<Result<bool, Failed>> {
        let (Some(from), Some(to)) = (from.bare_socket(), to.outlet()) else {
            self.is_busy = false;
            return Poll::Ready(Ok(false));
        };
        match ready!(self.pipe.poll_move(cx, from, to, u64::MAX, stock)) {
            Ok(Moved::Nothing) => {
                self.is_busy = false;
                return Poll::Ready(Ok(false));
            }
            Ok(Moved::In(0)) => {
                // Only a read knows the end: in front of urgent data a move comes to nothing as well.
                self.is_busy = false;
                self.pipe.give_back();
                return Poll::Ready(Ok(false));
            }
            Ok(Moved::In(_)) => {}
            Ok(Moved::Out(len)) => {
                self.moved += len as u64;
                // Short messages are cheaper to copy.
                self.is_busy = !self.pipe.is_empty() || len >= BUSY_MIN;
                if !self.is_busy {
                    self.pipe.give_back();
                }
            }
            Err(Stopped::Reading(error)) => return Poll::Ready(Err(Failed::Sender(error))),
            Err(Stopped::Writing(error)) => return Poll::Ready(Err(Failed::Receiver(error))),
        }
        Poll::Ready(Ok(true))
    }
}

/// Both directions.
#[derive(Debug)]
pub(crate) struct Tunnel {
    up: Direction,
    down: Direction,
    /// Who ended its direction first.
    first_end: Option<Side>,
}

impl Tunnel {
    /// Nothing moved yet. The throttles limit what the client sends, and what it receives.
    pub(crate) fn new(upload: Option<Throttle>, download: Option<Throttle>) -> Self {
        Self { up: Direction::new(upload), down: Direction::new(download), first_end: None }
    }

    /// Bytes moved to the server and to the client.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.up.moved, self.down.moved)
    }

    /// Who ended its direction first, if somebody has.
    pub(crate) fn first_end(&self) -> Option<Side> {
        self.first_end
    }

    /// Moves bytes both ways until both directions wait, or have ended, or one fails; `resume_at` is when a throttled
    /// direction goes on.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut Connection,
        server: &mut Connection,
        stock: &Rc<BufferStock>,
        resume_at: &mut Option<Instant>,
    ) -> Poll<Result<(), Broken>> {
        let up = self.up.poll(cx, client, server, stock, resume_at);
        let up = up.map_err(|failed| broken(failed, Side::Client, Side::Server))?;
        self.note_end(up, Side::Client);
        let down = self.down.poll(cx, server, client, stock, resume_at);
        let down = down.map_err(|failed| broken(failed, Side::Server, Side::Client))?;
        self.note_end(down, Side::Server);
        if up.is_ready() && down.is_ready() {
            ready!(server.poll_tell_end(cx));
            ready!(client.poll_tell_end(cx));
            // Closing both sockets says the rest.
            return Poll::Ready(Ok(()));
        }
        if up.is_ready() {
            pass_end(&mut self.up, server, cx);
        }
        if down.is_ready() {
            pass_end(&mut self.down, client, cx);
        }
        Poll::Pending
    }

    fn note_end(&mut self, direction: Poll<()>, sender: Side) {
        if direction.is_ready() && self.first_end.is_none() {
            self.first_end = Some(sender);
        }
    }
}

/// Tells the receiver of a direction, once, that nothing more will come.
fn pass_end(direction: &mut Direction, receiver: &mut Connection, cx: &mut Context<'_>) {
    if !direction.closed {
        direction.closed = receiver.poll_shutdown_write(cx).is_ready();
    }
}

fn broken(failed: Failed, sender: Side, receiver: Side) -> Broken {
    match failed {
        Failed::Sender(error) => Broken { side: sender, error },
        Failed::Receiver(error) => Broken { side: receiver, error },
    }
}
