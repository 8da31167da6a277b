//! What carries an exchange: the memory of its state and the state machine of its phases, reused from one to the next.
//!
//! Sessions are many and mostly idle, exchanges few and large. So a session owns neither: it borrows a carrier from the
//! worker for each request, goes into it, and comes out with what becomes of the connection. Must not know the phases.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_config::Protocol;

use super::{After, Exchange, run, tcp};
use crate::downstream::session::Session;

/// The state of one running exchange, on the heap once. It can be lent out again whenever no session is in it.
pub(crate) struct Carrier {
    place: Rc<Place>,
    work: Pin<Box<dyn Future<Output = Infallible>>>,
}

/// Where a session waits to be carried, or to be taken back.
type Place = Cell<Option<Passenger>>;

enum Passenger {
    Waiting(Box<Session>),
    Arrived(Box<Session>, After),
}

impl Carrier {
    /// Bytes of one, without what its exchange has put on the heap.
    pub(crate) fn bytes_min() -> usize {
        size_of::<Self>() + size_of::<Place>() + future_bytes(carry_one_after_the_other)
    }

    pub(crate) fn new() -> Self {
        let place = Rc::new(Cell::new(None));
        let work = Box::pin(carry_one_after_the_other(Rc::clone(&place)));
        Self { place, work }
    }

    /// Takes in a session on which a request is arriving.
    pub(crate) fn take_in(&mut self, session: Box<Session>) {
        self.place.set(Some(Passenger::Waiting(session)));
    }

    /// Carries the request; gives the session back with what becomes of it.
    pub(crate) fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<(Box<Session>, After)> {
        match self.work.as_mut().poll(cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => match self.place.take() {
                Some(Passenger::Arrived(session, after)) => Poll::Ready((session, after)),
                nobody => {
                    self.place.set(nobody);
                    Poll::Pending
                }
            },
        }
    }
}

/// Bytes of what a function makes when it is called.
pub(crate) fn future_bytes<A, F: Future>(_function: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

async fn carry_one_after_the_other(place: Rc<Place>) -> Infallible {
    let mut exchange = Exchange::new();
    loop {
        let mut session = poll_fn(|_| match place.take() {
            Some(Passenger::Waiting(session)) => Poll::Ready(session),
            nobody => {
                place.set(nobody);
                Poll::Pending
            }
        })
        .await;
        let after = match session.protocol {
            Protocol::Http => run(&mut session, &mut exchange).await,
            Protocol::Tcp => tcp::run(&mut session, &mut exchange).await,
        };
        exchange.reset();
        place.set(Some(Passenger::Arrived(session, after)));
    }
}
