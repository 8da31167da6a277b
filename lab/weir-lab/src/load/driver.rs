//! The event loop that plays all clients: begins exchanges when they are due, counts those of the window.
//!
//! Costs one send and one receive per kept exchange; `epoll_wait` is shared by all that became ready together.
//! Times are nanoseconds since the start of the run.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustls::HandshakeKind;

use super::client::{ClientStage, ClientStep, LoadClient};
use super::fault::LoadFault;
use super::series::Series;
use super::socket::LoadSocket;
use super::{
    Connections, ExchangeOrder, FailedExchange, LoadOutcome, LoadPattern, LoadPlan, LoadProgress,
    PreparedExchange, TlsClient, TracedExchange,
};
use crate::clock;

/// Events taken from the kernel at once.
const EVENTS: usize = 1024;

/// How often exchanges are looked over for a timeout, and how long a client rests after a fault.
const SWEEP: u64 = 50_000_000;

/// How long after the window exchanges that were due in it may still begin.
const LATE_START_MAX: u64 = 1_000_000_000;

/// A histogram of nanoseconds up to a minute, within 0.1 %.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

/// Runs `plan` on the calling thread.
///
/// # Errors
/// When the event queue cannot be made. Faults of exchanges are in the outcome.
pub fn run(plan: &LoadPlan, progress: &LoadProgress) -> io::Result<LoadOutcome> {
    // The default slack of 50 us would make every constant-rate request late by that much.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let _priority = (plan.arrival != LoadPattern::Closed).then(RaisedPriority::raise);
    let mut driver = Driver::new(plan, progress)?;
    driver.run()?;
    let now = driver.now();
    driver.outcome.seconds = driver.series.finish(now);
    Ok(driver.outcome)
}

/// Priority over the origin on the CPU that both share: otherwise a request starts late whenever the origin is
/// working, and all targets appear slow. Given back when dropped.
pub(crate) struct RaisedPriority {
    before: Option<i32>,
}

/// The highest priority there is (`setpriority(2)`).
const PRIORITY_MAX: i32 = -20;

impl RaisedPriority {
    /// Raises that of the calling thread. Without the right to do so it stays as it is, and the lateness shows it.
    pub(crate) fn raise() -> Self {
        let thread = Some(rustix::thread::gettid());
        let before = rustix::process::getpriority_process(thread).ok();
        let raised = rustix::process::setpriority_process(thread, PRIORITY_MAX);
        Self { before: before.filter(|_| raised.is_ok()) }
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _lowered = rustix::process::setpriority_process(Some(rustix::thread::gettid()), before);
        }
    }
}

/// How the kernel names a client's connection to the driver.
fn token(serial: u32, index: usize) -> u64 {
    u64::from(serial) << 32 | index as u64
}

struct Driver<'a> {
    plan: &'a LoadPlan,
    progress: &'a LoadProgress,
    epoll: OwnedFd,
    clients: Vec<LoadClient>,
    buf: Box<[u8]>,
    start: Instant,
    from: u64,
    to: u64,
    outcome: LoadOutcome,
    /// Exchanges completed since the start.
    completed: u64,
    /// Exchanges begun and not yet over.
    active: usize,
    /// Clients without an exchange, under a constant rate.
    free: VecDeque<usize>,
    /// Intended starts that wait for a client.
    waiting: VecDeque<u64>,
    /// Intended starts so far.
    arrivals: u64,
    /// Exchanges begun so far.
    begun: usize,
    /// Clients that rest after a fault, under a closed loop.
    resting: Vec<usize>,
    next_sweep: u64,
    series: Series,
}

impl<'a> Driver<'a> {
    fn new(plan: &'a LoadPlan, progress: &'a LoadProgress) -> io::Result<Self> {
        let from = plan.warm_up.as_nanos() as u64;
        let to = from + plan.window.as_nanos() as u64;
        let outcome = LoadOutcome::at_start(clock::uptime_ns(), plan.window);
        Ok(Self {
            plan,
            progress,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            clients: (0..plan.clients)
                .map(|_| {
                    LoadClient::new(plan.secure.as_ref().map(TlsClient::for_client), plan.pace.is_some())
                })
                .collect(),
            buf: vec![0; 64 * 1024].into_boxed_slice(),
            start: clock::now(),
            from,
            to,
            outcome,
            completed: 0,
            active: 0,
            free: VecDeque::new(),
            waiting: VecDeque::new(),
            arrivals: 0,
            begun: 0,
            resting: Vec::new(),
            next_sweep: SWEEP,
            series: Series::new(from, to),
        })
    }

    fn now(&self) -> u64 {
        (clock::now() - self.start).as_nanos() as u64
    }

    fn run(&mut self) -> io::Result<()> {
        match self.plan.arrival {
            LoadPattern::Closed => (0..self.clients.len()).for_each(|index| self.begin(index, self.now())),
            _ => self.free.extend(0..self.clients.len()),
        }
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let now = self.now();
            if self.progress.stop.load(Ordering::Relaxed) || self.outcome.faults.total >= self.plan.faults_max
            {
                self.outcome.stopped = true;
                return Ok(());
            }
            self.issue(now);
            if now >= self.next_sweep {
                self.sweep(now);
            }
            if now >= self.to && self.active == 0 && self.waiting.is_empty() {
                return Ok(());
            }
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                self.serve(event.data.u64(), event.flags);
                // Answers must not hold up what is due meanwhile.
                if self.plan.arrival != LoadPattern::Closed {
                    self.issue(self.now());
                }
            }
            self.progress.exchanges.store(self.completed, Ordering::Relaxed);
        }
    }

    /// How long to wait for events: until the next intended start, at most until the next sweep.
    fn timeout(&self) -> Timespec {
        let now = self.now();
        let mut until = self.next_sweep;
        if let Some(due) = self.plan.arrival.due_ns(self.arrivals)
            && now < self.to
        {
            until = until.min(due);
        }
        Timespec::try_from(Duration::from_nanos(until.saturating_sub(now))).expect("less than a second")
    }

    /// Begins the exchanges that are due under a constant rate.
    fn issue(&mut self, now: u64) {
        let last = now.min(self.to.saturating_sub(1));
        while let Some(due) = self.plan.arrival.due_ns(self.arrivals).filter(|due| *due <= last) {
            self.waiting.push_back(due);
            self.arrivals += 1;
        }
        if now > self.to + LATE_START_MAX {
            self.outcome.unsent += self.waiting.len() as u64;
            self.waiting.clear();
        }
        while !self.waiting.is_empty() && !self.free.is_empty() {
            if let (Some(due), Some(index)) = (self.waiting.pop_front(), self.free.pop_front()) {
                self.begin(index, due);
            }
        }
    }

    /// The exchange that client `index` is at.
    fn exchange(&self, index: usize) -> &'a PreparedExchange {
        &self.plan.exchanges[self.clients[index].exchange]
    }

    /// Begins an exchange, on the client's connection or a new one.
    fn begin(&mut self, index: usize, due: u64) {
        let now = self.now();
        let number = match self.plan.choice {
            ExchangeOrder::ByClient => index,
            ExchangeOrder::InTurn => self.begun,
        };
        let number = number % self.plan.exchanges.len();
        let (client, exchange) = (&mut self.clients[index], &self.plan.exchanges[number]);
        client.begin(number, exchange, due, now);
        self.begun += 1;
        self.active += 1;
        if due >= self.from && due < self.to {
            self.outcome.lateness.saturating_record(now - due);
        }
        let is_new = client.socket.is_none();
        if let Some(name) = &self.plan.name
            && (is_new || exchange.opening.is_none())
        {
            client.sign(format!("{name}-{}", self.begun), exchange);
        }
        let sent = match is_new {
            true => client.open(self.plan.target, exchange).and_then(|()| client.send(exchange)),
            false => client.send(exchange),
        };
        match sent {
            Ok(sent) => {
                if let Some(error) = self.watch(index, is_new, sent) {
                    self.fail(index, &LoadFault::Connect(error.to_string()));
                }
            }
            Err(fault) => self.fail(index, &fault),
        }
    }

    /// Registers the events a client now waits for. The usual case, a kept connection with all sent, costs nothing.
    fn watch(&mut self, index: usize, is_new: bool, sent: bool) -> Option<Errno> {
        let client = &self.clients[index];
        let socket = client.socket.as_ref()?;
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        // The first message of a tunnel follows its opening without another call, a request its handshake.
        let follows = self.plan.secure.is_some() || self.exchange(index).opening.is_some();
        if !sent || (is_new && follows) {
            flags |= epoll::EventFlags::OUT;
        }
        let token = epoll::EventData::new_u64(token(client.serial, index));
        self.outcome.opened += u64::from(is_new);
        if self.plan.pace.is_some() {
            // Slow clients read their sockets when they are allowed to, and not before.
            None
        } else if is_new {
            epoll::add(&self.epoll, socket, token, flags).err()
        } else if !sent {
            epoll::modify(&self.epoll, socket, token, flags).err()
        } else {
            None
        }
    }

    /// Lets a client do what its socket allows.
    fn serve(&mut self, token: u64, flags: epoll::EventFlags) {
        let index = (token & 0xffff_ffff) as usize;
        let exchange = self.exchange(index);
        let client = &mut self.clients[index];
        if client.serial != (token >> 32) as u32 || client.socket.is_none() {
            return;
        }
        if client.stage == ClientStage::Sending
            && let Err(fault) = client.send(exchange)
        {
            return self.fail(index, &fault);
        }
        let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if !flags.intersects(ends | epoll::EventFlags::IN) {
            return;
        }
        let ends = flags.intersects(ends);
        let mut turn = client.receive(&mut self.buf, exchange, ends);
        if let Ok(ClientStep::Answered { closes, gives_cookie }) = turn {
            self.outcome.cookies += u64::from(gives_cookie);
            self.answered(index, closes || ends);
            if self.clients[index].stage != ClientStage::Closing || !ends {
                return;
            }
            // The end has arrived along with the answer; there will be no other event for it.
            turn = self.clients[index].receive(&mut self.buf, exchange, ends);
        }
        match turn {
            Ok(ClientStep::Wait | ClientStep::Answered { .. }) => {}
            Ok(ClientStep::Ended) => self.ended(index),
            Err(fault) => self.fail(index, &fault),
        }
    }

    /// Keeps an exchange that is over.
    fn keep(&mut self, index: usize, is_answered: bool) {
        if self.plan.trace {
            let ended = self.now();
            let &LoadClient { exchange, due, began, .. } = &self.clients[index];
            self.outcome.trace.push(TracedExchange {
                client: index,
                exchange,
                due,
                began,
                ended,
                is_answered,
            });
        }
    }

    /// Counts a correct answer and begins the next step.
    fn answered(&mut self, index: usize, closes: bool) {
        let now = self.now();
        let due = self.clients[index].due;
        self.keep(index, true);
        self.series.answered(now, now - due);
        self.completed += 1;
        let at = if self.plan.arrival == LoadPattern::Closed { now } else { due };
        if at >= self.from && at < self.to {
            self.outcome.exchanges += 1;
            self.outcome.latency.saturating_record(now - due);
            match self.clients[index].socket.as_mut().and_then(LoadSocket::take_handshake) {
                Some(HandshakeKind::Resumed) => self.outcome.resumed_handshakes += 1,
                Some(_) => self.outcome.full_handshakes += 1,
                None => {}
            }
        }
        match self.plan.connections {
            Connections::PerExchange => self.clients[index].stage = ClientStage::Closing,
            Connections::Kept => {
                self.active -= 1;
                self.clients[index].stage = ClientStage::Idle;
                if closes {
                    self.outcome.closed_by_target += 1;
                    self.clients[index].close();
                }
                self.next(index, now);
            }
        }
    }

    /// The target closed, after an answer or between exchanges.
    fn ended(&mut self, index: usize) {
        let was_closing = self.clients[index].stage == ClientStage::Closing;
        self.clients[index].close();
        if was_closing {
            self.active -= 1;
            self.next(index, self.now());
        } else {
            self.outcome.closed_by_target += 1;
        }
    }

    /// Counts a fault; the client starts afresh with its next exchange, after a rest.
    fn fail(&mut self, index: usize, fault: &LoadFault) {
        let stage = self.clients[index].stage;
        let was_active = stage != ClientStage::Idle;
        if was_active && stage != ClientStage::Closing {
            self.keep(index, false);
        }
        if let Some(failed) = &self.progress.failed {
            let id = self.clients[index].id.clone();
            // The receiver may have ended; the failure is counted below in any case.
            let _ = failed.send(FailedExchange { fault: fault.clone(), id });
        }
        self.clients[index].close();
        self.outcome.faults.note(fault);
        self.series.failed(self.now());
        if was_active {
            self.active -= 1;
            match self.plan.arrival {
                LoadPattern::Closed => self.resting.push(index),
                _ => self.free.push_back(index),
            }
        }
    }

    /// Begins the next step of a client after an exchange.
    fn next(&mut self, index: usize, now: u64) {
        match self.plan.arrival {
            LoadPattern::Closed if now < self.to => self.begin(index, now),
            LoadPattern::Closed => {}
            _ => match self.waiting.pop_front() {
                Some(due) => self.begin(index, due),
                None => self.free.push_back(index),
            },
        }
    }

    /// Lets slow clients send and read their share until the next time.
    fn pace(&mut self, pace: u64) {
        let bytes = (pace * SWEEP / 1_000_000_000).max(1) as usize;
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if client.stage != ClientStage::Idle {
                client.allow(bytes);
                let token = token(client.serial, index);
                self.serve(token, epoll::EventFlags::IN);
            }
        }
    }

    /// Ends exchanges that take too long and wakes resting clients.
    fn sweep(&mut self, now: u64) {
        self.next_sweep = now + SWEEP;
        if let Some(pace) = self.plan.pace {
            self.pace(pace);
        }
        let timeout = self.plan.timeout.as_nanos() as u64;
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if client.stage != ClientStage::Idle && now.saturating_sub(client.began) > timeout {
                let closing = client.stage == ClientStage::Closing;
                self.fail(index, if closing { &LoadFault::KeptOpen } else { &LoadFault::Timeout });
            }
        }
        for index in std::mem::take(&mut self.resting) {
            self.next(index, now);
        }
    }
}
