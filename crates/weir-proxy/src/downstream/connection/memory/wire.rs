//! What a client and Weir say to each other on a connection in memory: streams and what is on them, without a byte of the connection.
//!
//! Both ends hold it: the client in the tests, and the transport.

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use weir_observe::Cause;

use crate::downstream::stream_driver::{EndReason, StreamEnd};
use crate::downstream::transport::Close;

/// One connection.
#[derive(Default)]
pub(super) struct Wire {
    /// Streams that the client has opened and Weir has not taken.
    pub(super) opened: RefCell<VecDeque<Rc<StreamWire>>>,
    /// How the client has ended the connection.
    pub(super) left: Cell<Option<Leaving>>,
    /// Whether the client has acknowledged how Weir begins.
    pub(super) is_acknowledged: Cell<bool>,
    /// Streams that the client has reset since that was last counted.
    pub(super) resets: Cell<u64>,
    /// Whether the client was told to open no further streams, and the reason for which none are taken.
    pub(super) is_announced: Cell<bool>,
    pub(super) end: Cell<Option<EndReason>>,
    /// How Weir has closed the connection.
    pub(super) closed: Cell<Option<Close>>,
    /// Whether nothing of it is left at Weir's end.
    pub(super) is_dropped: Cell<bool>,
    /// The task of the connection.
    task: RefCell<Option<Waker>>,
}

/// How a client ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It closes its direction.
    Closes,
    /// It is gone.
    Resets,
}

impl Wire {
    pub(super) fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    pub(super) fn watch(&self, cx: &Context<'_>) {
        self.task.replace(Some(cx.waker().clone()));
    }

    /// The client opens a stream with this head, as HTTP/1 would write it.
    pub(super) fn open(&self, head: &str) -> Rc<StreamWire> {
        let stream = Rc::new(StreamWire { head: head.to_owned(), ..StreamWire::default() });
        stream.give_room(usize::MAX);
        self.opened.borrow_mut().push_back(Rc::clone(&stream));
        self.wake();
        stream
    }

    /// The client resets a stream.
    pub(super) fn reset(&self, stream: &StreamWire) {
        stream.leave(Cause::Reset);
        self.resets.update(|resets| resets + 1);
        self.wake();
    }

    /// The client ends the connection.
    pub(super) fn leave(&self, how: Leaving) {
        self.left.set(Some(how));
        self.wake();
    }

    pub(super) fn acknowledge(&self) {
        self.is_acknowledged.set(true);
        self.wake();
    }
}

/// One stream.
#[derive(Default)]
pub(super) struct StreamWire {
    pub(super) head: String,
    /// What of the body has come and was not taken, and whether nothing follows.
    pub(super) body: RefCell<Vec<u8>>,
    pub(super) has_ended: Cell<bool>,
    /// Why the client does not want the response any more, or cannot get it.
    pub(super) gone: Cell<Option<Cause>>,
    /// Whether Weir has refused the stream, since the client has as many as it may.
    pub(super) is_refused: Cell<bool>,
    /// What has come back: statuses, fields of the final head, body, and its end.
    pub(super) statuses: RefCell<Vec<u16>>,
    pub(super) fields: RefCell<Vec<(String, String)>>,
    pub(super) got: RefCell<Vec<u8>>,
    pub(super) got_end: Cell<bool>,
    /// How Weir has ended it.
    pub(super) end: Cell<Option<StreamEnd>>,
    /// For how many bytes more there is room at the client.
    pub(super) room: Cell<usize>,
    task: RefCell<Option<Waker>>,
}

impl StreamWire {
    fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    pub(super) fn watch(&self, cx: &Context<'_>) {
        self.task.replace(Some(cx.waker().clone()));
    }

    /// Waits for news.
    pub(super) fn pending<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.watch(cx);
        Poll::Pending
    }

    /// The client sends more of the body.
    pub(super) fn send(&self, bytes: &[u8]) {
        self.body.borrow_mut().extend_from_slice(bytes);
        self.wake();
    }

    /// The client ends its direction.
    pub(super) fn end_sending(&self) {
        self.has_ended.set(true);
        self.wake();
    }

    /// The client takes so many bytes more.
    pub(super) fn give_room(&self, len: usize) {
        self.room.set(self.room.get().saturating_add(len));
        self.wake();
    }

    /// The client takes nothing more until it gives room.
    pub(super) fn take_no_more(&self) {
        self.room.set(0);
    }

    pub(super) fn leave(&self, cause: Cause) {
        if self.gone.get().is_none() {
            self.gone.set(Some(cause));
            self.wake();
        }
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.statuses.borrow().last().copied()
    }

    pub(super) fn got(&self) -> Ref<'_, [u8]> {
        Ref::map(self.got.borrow(), |got| &got[..])
    }

    /// The value of a field of the response.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let fields = self.fields.borrow();
        let named = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.clone())
    }

    /// Whether the whole response has come.
    pub(super) fn is_whole(&self) -> bool {
        self.got_end.get() && self.end.get() == Some(StreamEnd::Done)
    }
}
