//! A socket together with the bytes that were received on it and not yet consumed.
//!
//! Both sides of an exchange are connections. TLS will stand between socket and input here; nothing above may
//! read or write the socket past this type.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::buffer::{Buffer, BufferStock};
use crate::socket::{Behind, Socket};

/// One side's connection: client or server.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    /// Received and not consumed; absent when empty and nothing is arriving.
    pub(crate) input: Option<Buffer>,
}

impl Connection {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, input: None }
    }

    /// The received bytes that wait to be consumed.
    pub(crate) fn received(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], Buffer::filled)
    }

    /// Whether received bytes wait to be consumed.
    pub(crate) fn has_input(&self) -> bool {
        self.input.as_ref().is_some_and(|input| !input.is_empty())
    }

    /// The socket, if what it carries may go on as it is and nothing of it waits to be consumed.
    pub(crate) fn bare_socket(&mut self) -> Option<&mut Socket> {
        (!self.has_input()).then_some(&mut self.socket)
    }

    /// The socket, if what is written to it leaves as it is.
    pub(crate) fn outlet(&mut self) -> Option<&mut Socket> {
        Some(&mut self.socket)
    }

    /// Drops the first `len` received bytes, and the buffer once it is empty.
    pub(crate) fn consume(&mut self, len: usize) {
        if let Some(input) = &mut self.input {
            input.consume(len);
            if input.is_empty() {
                self.input = None;
            }
        }
    }

    /// Reads once behind what is already there; `Ok(0)` is the end of the stream. Takes a buffer only when the
    /// socket is readable. The caller makes sure that the input is not full.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        stock: &Rc<BufferStock>,
    ) -> Poll<io::Result<usize>> {
        let input = match &mut self.input {
            Some(input) => input,
            none => {
                ready!(self.socket.poll_readable(cx))?;
                none.insert(stock.take())
            }
        };
        debug_assert!(!input.is_full());
        let outcome = self.socket.poll_read(cx, input.space());
        if let Poll::Ready(Ok(len)) = &outcome {
            input.fill(*len);
        }
        if input.is_empty() {
            self.input = None;
        }
        outcome
    }

    /// Takes in what a new connection brought with it, without a turn of the event loop; whether there was anything.
    pub(crate) fn fill_at_once(&mut self, stock: &Rc<BufferStock>) -> bool {
        let mut input = stock.take();
        // An end or an error shows again when the event loop reports it.
        let len = self.socket.try_read(input.space()).unwrap_or(0);
        input.fill(len);
        self.input = (len > 0).then_some(input);
        len > 0
    }

    /// Writes as much of the slices as the kernel takes now, with one system call.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: [&[u8]; 3],
        behind: Behind,
    ) -> Poll<io::Result<usize>> {
        match slices {
            [only, [], []] | [[], only, []] | [[], [], only] => self.socket.poll_write(cx, only, behind),
            slices => self.socket.poll_write_slices(cx, &slices.map(IoSlice::new), behind),
        }
    }
}
