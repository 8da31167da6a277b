//! Raw bytes both ways between two ends, after an upgrade or between TCP peers.
//!
//! Each direction ends with a half-close that is passed on; both are over when both have ended. An end that fails ends both, once
//! the other end has what was received from it. Neither direction holds a buffer while it is silent. Must not know what the
//! bytes mean, what protocol an end belongs to, nor how long silence may last.

pub(crate) mod end;
#[cfg(test)]
pub(crate) mod memory_end;
#[cfg(test)]
mod tests;

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use self::end::TunnelEnd;
use super::pipe::{Pipe, PipeError, PipeMove};
use super::throttle::Throttle;
use crate::net::buffer::BufferStock;
use crate::net::clock::{self, Instant};
use crate::net::quantum::Quantum;
use crate::net::socket::Behind;

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
pub(crate) struct BrokenSide {
    pub(crate) side: Side,
    pub(crate) error: io::Error,
}

/// One direction.
#[derive(Debug)]
struct Direction {
    moved: u64,
    /// Whether the sender has ended its direction.
    ended: bool,
    /// Whether the end has been passed on to the receiver.
    closed: bool,
    /// Whether the receiver takes nothing any more.
    given_up: bool,
    throttle: Option<Box<Throttle>>,
    /// Whether the last bytes filled a buffer: then the next are moved inside the kernel.
    is_busy: bool,
    pipe: Pipe,
}

/// Which end of a direction failed.
enum DirectionError {
    Sender(io::Error),
    Receiver(io::Error),
}

impl Direction {
    /// Moves bytes until one end has to wait, or the sender has ended. `resume_at` is when a throttled one goes on.
    fn poll<F: TunnelEnd + ?Sized, T: TunnelEnd + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to: &mut T,
        stock: &Rc<BufferStock>,
        resume_at: &mut Option<Instant>,
    ) -> Poll<Result<(), DirectionError>> {
        if self.given_up {
            return Poll::Ready(Ok(()));
        }
        let mut quantum = Quantum::new();
        loop {
            // Goes on where the receiver was full, before anything else moves.
            ready!(to.poll_flush(cx)).map_err(DirectionError::Receiver)?;
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
                let len = ready!(to.poll_write(cx, bytes, behind)).map_err(DirectionError::Receiver)?;
                from.consume(len);
                self.moved += len as u64;
                quantum.take(len);
                if let Some(throttle) = &mut self.throttle {
                    throttle.take(len);
                }
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            ready!(quantum.poll_left(cx));
            if self.is_busy {
                let moved_before = self.moved;
                let has_moved = ready!(self.poll_move(cx, from, to, stock))?;
                quantum.take((self.moved - moved_before) as usize);
                if has_moved {
                    continue;
                }
            }
            self.ended = ready!(from.poll_fill(cx, stock)).map_err(DirectionError::Sender)? == 0;
            self.is_busy = self.throttle.is_none() && from.has_filled_buffer();
        }
    }
}

impl Direction {
    fn new(throttle: Option<Throttle>) -> Self {
        let throttle = throttle.map(Box::new);
        Self {
            moved: 0,
            ended: false,
            closed: false,
            given_up: false,
            throttle,
            is_busy: false,
            pipe: Pipe::new(),
        }
    }

    /// Moves bytes inside the kernel, once; `false` when that cannot be done or is not worth it.
    fn poll_move<F: TunnelEnd + ?Sized, T: TunnelEnd + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to: &mut T,
        stock: &Rc<BufferStock>,
    ) -> Poll<Result<bool, DirectionError>> {
        let (Some(from), Some(to)) = (from.bare_socket(), to.outlet()) else {
            self.is_busy = false;
            return Poll::Ready(Ok(false));
        };
        match ready!(self.pipe.poll_move(cx, from, to, u64::MAX, stock)) {
            Ok(PipeMove::Nothing) => {
                self.is_busy = false;
                return Poll::Ready(Ok(false));
            }
            Ok(PipeMove::In(0)) => {
                // Only a read detects the end: in front of urgent data a move comes to nothing as well.
                self.is_busy = false;
                self.pipe.give_back();
                return Poll::Ready(Ok(false));
            }
            Ok(PipeMove::In(_)) => {}
            Ok(PipeMove::Out(len)) => {
                self.moved += len as u64;
                // Short messages are cheaper to copy.
                self.is_busy = !self.pipe.is_empty() || len >= BUSY_MIN;
                if !self.is_busy {
                    self.pipe.give_back();
                }
            }
            Err(PipeError::Reading(error)) => return Poll::Ready(Err(DirectionError::Sender(error))),
            Err(PipeError::Writing(error)) => return Poll::Ready(Err(DirectionError::Receiver(error))),
        }
        Poll::Ready(Ok(true))
    }
}

/// Both directions.
#[derive(Debug)]
pub(crate) struct Tunnel {
    up: Direction,
    down: Direction,
    /// The side that ended its direction first.
    first_end: Option<Side>,
    /// The end that failed first: what was received from it is still delivered.
    broken: Option<BrokenSide>,
}

impl Tunnel {
    /// Nothing moved yet. The throttles limit what the client sends, and what it receives.
    pub(crate) fn new(upload: Option<Throttle>, download: Option<Throttle>) -> Self {
        Self { up: Direction::new(upload), down: Direction::new(download), first_end: None, broken: None }
    }

    /// Bytes moved to the server and to the client.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.up.moved, self.down.moved)
    }

    /// The side that ended its direction first, if one has.
    pub(crate) fn first_end(&self) -> Option<Side> {
        self.first_end
    }

    /// Whether an end has failed, so that only what was received from it still moves.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Moves bytes both ways until both directions wait or are over; `resume_at` is when a throttled direction goes on.
    ///
    /// # Errors
    /// The end that failed, when the other has taken all that was received from it.
    pub(crate) fn poll<C: TunnelEnd + ?Sized, S: TunnelEnd + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
        server: &mut S,
        stock: &Rc<BufferStock>,
        resume_at: &mut Option<Instant>,
    ) -> Poll<Result<(), BrokenSide>> {
        loop {
            let up = self.up.poll(cx, client, server, stock, resume_at);
            let Ok(up) = self.note(up, Side::Client) else { continue };
            let down = self.down.poll(cx, server, client, stock, resume_at);
            let Ok(down) = self.note(down, Side::Server) else { continue };
            let is_over = up.is_ready() && down.is_ready();
            if !is_over
                && (self.note_abort(client.poll_aborted(cx), Side::Client)
                    || self.note_abort(server.poll_aborted(cx), Side::Server))
            {
                continue;
            }
            return self.poll_ends(cx, client, server, up.is_ready(), down.is_ready());
        }
    }

    /// Passes on the ends of the directions that are over.
    fn poll_ends<C: TunnelEnd + ?Sized, S: TunnelEnd + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
        server: &mut S,
        is_up_over: bool,
        is_down_over: bool,
    ) -> Poll<Result<(), BrokenSide>> {
        if is_up_over && is_down_over {
            if let Some(broken) = self.broken.take() {
                return Poll::Ready(Err(broken));
            }
            ready!(server.poll_last_end(cx));
            ready!(client.poll_last_end(cx));
            return Poll::Ready(Ok(()));
        }
        // An end that is passed on would make a proper one of what was broken off.
        if self.broken.is_none() && is_up_over {
            pass_end(&mut self.up, server, cx);
        }
        if self.broken.is_none() && is_down_over {
            pass_end(&mut self.down, client, cx);
        }
        Poll::Pending
    }

    /// Keeps which side ended or failed first.
    ///
    /// # Errors
    /// When an end has failed just now. What was received from it goes on, and nothing is moved to it any more.
    fn note(&mut self, moved: Poll<Result<(), DirectionError>>, sender: Side) -> Result<Poll<()>, ()> {
        let (side, error) = match moved {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Ok(())) => {
                self.first_end.get_or_insert(sender);
                return Ok(Poll::Ready(()));
            }
            Poll::Ready(Err(DirectionError::Sender(error))) => (sender, error),
            Poll::Ready(Err(DirectionError::Receiver(error))) => (sender.other(), error),
        };
        // A failed read was the last. After a failed write, the end may still have bytes that came before.
        self.break_off(side, error).ended |= side == sender;
        Err(())
    }

    /// Notes that an end was aborted while nothing moved; whether that is news. What came before is still delivered.
    fn note_abort(&mut self, aborted: Option<io::Error>, side: Side) -> bool {
        let Some(error) = aborted.filter(|_| self.broken.is_none()) else { return false };
        self.break_off(side, error);
        true
    }

    /// An end has failed: nothing is moved to it any more. The direction in which it sends.
    fn break_off(&mut self, side: Side, error: io::Error) -> &mut Direction {
        self.broken.get_or_insert(BrokenSide { side, error });
        let (from, to) = match side {
            Side::Client => (&mut self.up, &mut self.down),
            Side::Server => (&mut self.down, &mut self.up),
        };
        to.given_up = true;
        from
    }
}

/// Passes the end of a direction on to its receiver, once.
fn pass_end<R: TunnelEnd + ?Sized>(direction: &mut Direction, receiver: &mut R, cx: &mut Context<'_>) {
    if !direction.closed {
        direction.closed = receiver.poll_end(cx).is_ready();
    }
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}
