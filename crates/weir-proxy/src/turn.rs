//! A worker turns to another config: what it is given for that, and how it goes over to it.
//!
//! Between two steps of its event loop, so that no exchange sees half of it. Requests under way keep the view that they began with,
//! connections stay where they are. Must not decide what changes: that is `control::reload`.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::clock;
use crate::control::access_log::LogBatches;
use crate::downstream::listener::OpenDoor;
use crate::snapshot::Snapshot;
use crate::view::LocalListener;
use crate::worker::Worker;

/// The config that a worker goes over to.
pub(crate) struct Turn {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The access log of each listener.
    pub(crate) logs: Vec<Option<LogBatches>>,
    /// All addresses where it accepts from now on. A door that is not here is closed.
    pub(crate) doors: Vec<DoorTurn>,
    /// Dropped when the worker has done it.
    pub(crate) done: Option<Sender<()>>,
}

/// Where a worker accepts.
#[derive(Debug)]
pub(crate) struct DoorTurn {
    /// What the process knows the address by.
    pub(crate) id: u64,
    /// The place of its listener in the snapshot.
    pub(crate) listener: usize,
    /// None on a Unix socket.
    pub(crate) port: Option<u16>,
    /// The socket, if the worker does not have it yet.
    pub(crate) socket: Option<OwnedFd>,
}

impl Worker {
    /// Begins with the first config, of which it has the view already.
    pub(crate) fn begin(self: &Rc<Self>, turn: Turn) {
        let plans = turn.snapshot.listeners.iter().zip(turn.logs).enumerate();
        let locals = plans.map(|(place, (plan, log))| LocalListener::new(plan, place, self.index, log));
        self.listeners.replace(locals.collect());
        self.open_doors(turn.doors);
    }

    /// Goes over to the next config.
    pub(crate) async fn turn(self: &Rc<Self>, turn: Turn) {
        let Turn { snapshot, logs, doors, done } = turn;
        let before = Rc::clone(&self.view.borrow());
        let view = Rc::new(before.succeeded_by(&snapshot, self.index));
        let mut known = self.listeners.take();
        let mut locals = Vec::with_capacity(snapshot.listeners.len());
        for (place, (plan, log)) in snapshot.listeners.iter().zip(logs).enumerate() {
            let at = known.iter().position(|local| Arc::ptr_eq(&local.state, &plan.state));
            locals.push(match at {
                None => LocalListener::new(plan, place, self.index, log),
                Some(at) => {
                    let local = known.swap_remove(at);
                    local.follow(plan, place, log);
                    local
                }
            });
        }
        let now = clock::now();
        for gone in known {
            gone.leave(&before, now, now + snapshot.process.reload_grace);
            self.leaving.borrow_mut().push(gone);
        }
        self.listeners.replace(locals);
        self.view.replace(view);
        drop(before);
        let is_wanted = |door: &OpenDoor| doors.iter().any(|turn| turn.id == door.id);
        let (kept, closed): (Vec<_>, Vec<_>) = self.doors.take().into_iter().partition(is_wanted);
        self.doors.replace(kept);
        self.open_doors(doors);
        for door in closed {
            door.close(self).await;
        }
        drop(done);
        // Tunnels hear here that their time is limited, and let go of the old view.
        self.timers.wake_all();
    }

    fn open_doors(self: &Rc<Self>, turns: Vec<DoorTurn>) {
        let listeners = self.listeners.borrow();
        let mut doors = self.doors.borrow_mut();
        for DoorTurn { id, listener, port, socket } in turns {
            let listener = &listeners[listener];
            match (doors.iter().find(|door| door.id == id), socket) {
                (Some(door), _) => door.give_to(listener),
                (None, Some(socket)) => doors.extend(OpenDoor::open(self, id, socket, port, listener)),
                // Another worker has the only socket of this address.
                (None, None) => {}
            }
        }
    }

    /// Accepts nobody any more.
    pub(crate) async fn close_all_doors(self: &Rc<Self>) {
        for door in self.doors.take() {
            door.close(self).await;
        }
    }
}
