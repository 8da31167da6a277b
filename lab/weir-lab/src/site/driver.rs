//! The event loop that plays the clients of a site: one thread, one epoll, any number of connections.
//!
//! In an open loop requests are due whether or not a client is free, and wait for one. Their latency counts from when they were due. In
//! a closed loop a client begins the next one when it has its answer. Times are nanoseconds since the start of the run.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::arrivals::DueTimes;
use super::phase_outcome::PhaseOutcome;
use super::prepared::PreparedRequest;
use super::seat::{ClientSeat, DueRequest, SeatConnection};
use super::stream_connection::StreamConnection;
use crate::clock;
use crate::load::driver::RaisedPriority;
use crate::load::http2::client::StreamResult;
use crate::load::http3::client::Http3Client;
use crate::load::http3::setup::Http3Setup;
use crate::load::http3::socket::ReceiveBuffers;
use crate::load::seen::SeenAnswer;
use crate::load::{LoadFault, TlsClient};
use crate::scenario::site::SiteProtocol;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;

/// How often requests are looked over for a timeout, and how long a client of a closed loop rests after a fault.
const SWEEP: u64 = 50_000_000;

/// How long after the end requests that were due may still begin.
const LATE_START_MAX: u64 = 1_000_000_000;

/// How often a request is sent, when the target says each time that it did not process it.
const ATTEMPTS_MAX: u32 = 4;

/// How long a target may take to close a connection whose end it has announced; the lab closes it then.
const LINGER_MAX: u64 = 1_000_000_000;

/// One run.
#[derive(Debug, Clone)]
pub(super) struct SitePlan {
    /// Where to connect.
    pub(super) target: SocketAddr,
    /// What clients speak.
    pub(super) protocol: SiteProtocol,
    /// How clients speak TLS, if they do.
    pub(super) secure: Option<TlsClient>,
    /// How they speak QUIC, if they do.
    pub(super) quic: Option<Http3Setup>,
    /// The requests.
    pub(super) requests: Vec<PreparedRequest>,
    /// Which of them come after each other; then again from the start.
    pub(super) order: Vec<u32>,
    /// Connections.
    pub(super) clients: usize,
    /// Requests at a time on each.
    pub(super) streams: usize,
    /// When requests are due.
    pub(super) due: DueTimes,
    /// They are due when a client is free.
    pub(super) is_closed: bool,
    /// Time before the first phase, in which nothing is counted.
    pub(super) warm_up: Duration,
    /// The lengths of the phases.
    pub(super) phases: Vec<Duration>,
    /// A request that takes longer has failed.
    pub(super) timeout: Duration,
    /// No more than so many requests.
    pub(super) requests_max: Option<u64>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct SiteOutcome {
    /// Of each phase.
    pub(super) phases: Vec<PhaseOutcome>,
    /// Connections opened.
    pub(super) opened: u64,
    /// Requests that were sent again, since the target had not processed them.
    pub(super) resent: u64,
    /// CPU time of the lab's thread in all phases.
    pub(super) own_cpu: Duration,
    /// The last answer: of a probe, the only one.
    pub(super) last: Option<SeenAnswer>,
}

/// Runs `plan` on the calling thread, until its end or until `stop` is set.
///
/// # Errors
/// When events cannot be waited for. Faults of requests are in the outcome.
pub(super) fn run(plan: &SitePlan, stop: &AtomicBool) -> io::Result<SiteOutcome> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let _priority = (!plan.is_closed).then(RaisedPriority::raise);
    let mut driver = SiteDriver::new(plan)?;
    while !stop.load(Ordering::Relaxed) && driver.turn()? {}
    Ok(driver.into_outcome())
}

struct SiteDriver<'a> {
    plan: &'a SitePlan,
    epoll: OwnedFd,
    start: Instant,
    from: u64,
    to: u64,
    seats: Vec<ClientSeat>,
    /// Places without a request: the number of their seat.
    free: VecDeque<usize>,
    /// Places that rest after a fault, in a closed loop.
    resting: Vec<usize>,
    /// Requests that wait for a place.
    waiting: VecDeque<DueRequest>,
    due: DueTimes,
    next_due: Option<u64>,
    /// How often it was looked for what is due.
    turns: u64,
    /// Requests so far.
    asked: u64,
    /// Requests that a client has taken and that are not over.
    active: usize,
    next_sweep: u64,
    /// Connections whose end the target has announced, and when.
    lingering: Vec<(u64, Box<StreamConnection>)>,
    cpu_from: Option<Duration>,
    cpu_to: Option<Duration>,
    buf: Vec<u8>,
    buffers: ReceiveBuffers,
    events: Vec<epoll::Event>,
    outcome: SiteOutcome,
}

impl<'a> SiteDriver<'a> {
    fn new(plan: &'a SitePlan) -> io::Result<Self> {
        let from = plan.warm_up.as_nanos() as u64;
        let mut to = from;
        let phases = plan.phases.iter().map(|length| {
            let begin = to;
            to += length.as_nanos() as u64;
            PhaseOutcome::new(begin, to)
        });
        let outcome = SiteOutcome {
            phases: phases.collect(),
            opened: 0,
            resent: 0,
            own_cpu: Duration::ZERO,
            last: None,
        };
        let mut due = plan.due.clone();
        Ok(Self {
            plan,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            start: clock::now(),
            from,
            to,
            seats: (0..plan.clients).map(|_| ClientSeat::default()).collect(),
            free: (0..plan.clients * plan.streams).map(|place| place % plan.clients).collect(),
            resting: Vec::new(),
            waiting: VecDeque::new(),
            next_due: due.next(),
            due,
            turns: 0,
            asked: 0,
            active: 0,
            next_sweep: SWEEP,
            lingering: Vec::new(),
            cpu_from: None,
            cpu_to: None,
            buf: vec![0; 64 * 1024],
            buffers: ReceiveBuffers::empty(),
            events: Vec::with_capacity(EVENTS),
            outcome,
        })
    }

    fn now(&self) -> u64 {
        (clock::now() - self.start).as_nanos() as u64
    }

    /// Begins what is due, waits, and takes what has come; false when the run is over.
    fn turn(&mut self) -> io::Result<bool> {
        let now = self.now();
        if now >= self.from {
            self.cpu_from.get_or_insert_with(clock::cpu_time);
        }
        if now >= self.to {
            self.cpu_to.get_or_insert_with(clock::cpu_time);
        }
        if now >= self.next_sweep {
            self.sweep(now);
        }
        self.issue(now);
        let is_enough = now >= self.to || self.plan.requests_max.is_some_and(|max| self.asked >= max);
        if is_enough && self.active == 0 && self.waiting.is_empty() {
            return Ok(false);
        }
        self.wait()?;
        for number in 0..self.events.len() {
            let token = self.events[number].data.u64();
            let index = (token & 0xffff_ffff) as usize;
            if self.seats[index].serial == (token >> 32) as u32 {
                self.serve(index);
            }
            // Answers must not hold up what is due meanwhile.
            self.issue(self.now());
        }
        if self.plan.quic.is_some() {
            let now = clock::now();
            let due: Vec<usize> = (0..self.seats.len())
                .filter(|index| self.deadline(*index).is_some_and(|it| it <= now))
                .collect();
            for index in due {
                self.serve(index);
                self.issue(self.now());
            }
        }
        Ok(true)
    }

    /// When the connection of a seat has something to do without being asked.
    fn deadline(&self, index: usize) -> Option<Instant> {
        match &self.seats[index].connection {
            Some(SeatConnection::Quic(client)) => client.deadline(),
            _ => None,
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        let now = self.now();
        let has_to_begin = !self.free.is_empty() && !self.waiting.is_empty();
        let mut until = if has_to_begin { now } else { self.next_sweep };
        if let Some(due) = self.next_due.filter(|_| now < self.to) {
            until = until.min(due);
        }
        let mut until = self.start + Duration::from_nanos(until);
        if self.plan.quic.is_some() {
            until = (0..self.seats.len()).filter_map(|index| self.deadline(index)).fold(until, Instant::min);
        }
        let wait =
            Timespec::try_from(until.saturating_duration_since(clock::now())).expect("less than a second");
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what is due, and gives it to clients that are free.
    fn issue(&mut self, now: u64) {
        self.turns += 1;
        let last = now.min(self.to.saturating_sub(1));
        while let Some(due) = self.next_due.filter(|due| *due <= last) {
            self.next_due = self.due.next();
            let asked = self.ask(due);
            if let Some(phase) = self.phase(due) {
                phase.lateness.saturating_record((now - due).max(1));
            }
            self.waiting.push_back(asked);
        }
        if now > self.to + LATE_START_MAX {
            for asked in std::mem::take(&mut self.waiting) {
                self.note_fault(&asked, &LoadFault::Unsent, now);
            }
        }
        // No further than once around: a place whose connection fails at once is free again.
        for _ in 0..self.free.len() {
            let is_enough = self.plan.requests_max.is_some_and(|max| self.asked >= max);
            let may_ask = self.plan.is_closed && now < self.to && !is_enough;
            if self.waiting.is_empty() && !may_ask {
                return;
            }
            let Some(index) = self.free.pop_front() else { return };
            let asked = self.waiting.pop_front();
            let asked = asked.unwrap_or_else(|| self.ask(now));
            if asked.attempts == 0
                && asked.turn != self.turns
                && let Some(phase) = self.phase(asked.due)
            {
                phase.waited += 1;
            }
            self.begin(index, asked);
        }
    }

    /// The next request, which is due at `due`.
    fn ask(&mut self, due: u64) -> DueRequest {
        let order = &self.plan.order;
        let number = order[(self.asked % order.len() as u64) as usize] as usize;
        self.asked += 1;
        DueRequest { tag: self.asked, number, due, began: due, attempts: 0, turn: self.turns }
    }

    /// Gives a request to a client.
    fn begin(&mut self, index: usize, asked: DueRequest) {
        let asked = DueRequest { began: self.now(), attempts: asked.attempts + 1, ..asked };
        self.active += 1;
        if self.seats[index].connection.is_none()
            && let Err(fault) = self.open(index)
        {
            return self.finish(index, &asked, StreamResult::Failed(fault), &SeenAnswer::default());
        }
        let seat = &mut self.seats[index];
        let Some(connection) = &mut seat.connection else { return };
        if connection.begin(&asked, &self.plan.requests[asked.number]) {
            seat.active.push(asked);
        } else {
            seat.pending.push(asked);
        }
        self.flush(index);
        self.note_ended(index);
    }

    /// Opens the connection of a seat.
    fn open(&mut self, index: usize) -> Result<(), LoadFault> {
        let (plan, seat) = (self.plan, &mut self.seats[index]);
        let connection = if let Some(quic) = &plan.quic {
            SeatConnection::Quic(Box::new(Http3Client::connect(plan.target, quic)?))
        } else {
            let secure = plan.secure.as_ref();
            SeatConnection::Stream(Box::new(StreamConnection::open(
                plan.target,
                secure,
                plan.protocol,
                &mut seat.source,
            )?))
        };
        seat.serial = seat.serial.wrapping_add(1);
        seat.watches_out = plan.quic.is_none();
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        if seat.watches_out {
            flags |= epoll::EventFlags::OUT;
        }
        let data = epoll::EventData::new_u64(u64::from(seat.serial) << 32 | index as u64);
        epoll::add(&self.epoll, &connection, data, flags)
            .map_err(|error| LoadFault::Connect(error.to_string()))?;
        seat.connection = Some(connection);
        self.outcome.opened += 1;
        Ok(())
    }

    /// Sends what the connection of a seat has to send, and asks for an event where that does not go at once.
    fn flush(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        let Some(connection) = &mut seat.connection else { return };
        let wants_out = !connection.flush();
        if matches!(connection, SeatConnection::Stream(_)) && wants_out != seat.watches_out {
            seat.watches_out = wants_out;
            let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
            flags.set(epoll::EventFlags::OUT, wants_out);
            let data = epoll::EventData::new_u64(u64::from(seat.serial) << 32 | index as u64);
            // A socket that is no longer known to the kernel is found out by reading it.
            let _modified = epoll::modify(&self.epoll, connection, data, flags);
        }
    }

    /// Lets a client do what its socket allows.
    fn serve(&mut self, index: usize) {
        self.flush(index);
        let Some(connection) = &mut self.seats[index].connection else { return };
        connection.receive(&mut self.buf, &mut self.buffers);
        self.begin_pending(index);
        self.flush(index);
        self.note_ended(index);
    }

    /// Begins the requests that the connection did not take before.
    fn begin_pending(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        let Some(connection) = &mut seat.connection else { return };
        while let Some(asked) = seat.pending.first().copied() {
            if !connection.begin(&asked, &self.plan.requests[asked.number]) {
                return;
            }
            seat.pending.remove(0);
            seat.active.push(asked);
        }
    }

    /// Counts the requests of a seat that are over, and leaves a connection that takes no more.
    fn note_ended(&mut self, index: usize) {
        let Some(connection) = &mut self.seats[index].connection else { return };
        for (tag, result, seen) in connection.ended() {
            let seat = &mut self.seats[index];
            if let Some(place) = seat.active.iter().position(|asked| asked.tag == tag) {
                let asked = seat.active.swap_remove(place);
                self.finish(index, &asked, result, &seen);
            }
        }
        let now = self.now();
        let seat = &mut self.seats[index];
        let is_over = seat.connection.as_ref().is_some_and(|connection| !connection.takes_requests());
        if !is_over || !seat.active.is_empty() {
            return;
        }
        let never = seat.connection.as_ref().and_then(SeatConnection::never_connected).cloned();
        let pending = std::mem::take(&mut seat.pending);
        seat.serial = seat.serial.wrapping_add(1);
        match seat.connection.take() {
            // Closed here at once, its port would be taken for a minute.
            Some(SeatConnection::Stream(stream)) => {
                // One that the kernel no longer knows has no events either.
                let _deleted = epoll::delete(&self.epoll, &*stream);
                self.lingering.push((now, stream));
            }
            Some(SeatConnection::Quic(mut client)) => client.close(),
            None => {}
        }
        for asked in pending {
            let result = never.clone().map_or(StreamResult::Unprocessed, StreamResult::Failed);
            self.finish(index, &asked, result, &SeenAnswer::default());
        }
    }

    /// A request that a client had taken is over, and its place free.
    fn finish(&mut self, index: usize, asked: &DueRequest, result: StreamResult, seen: &SeenAnswer) {
        let now = self.now();
        self.active -= 1;
        let mut rests = false;
        match result {
            StreamResult::Unprocessed if asked.attempts < ATTEMPTS_MAX => {
                self.outcome.resent += 1;
                self.waiting.push_front(*asked);
            }
            StreamResult::Unprocessed => {
                let what = format!("the target did not process it, {ATTEMPTS_MAX} times");
                self.note_fault(asked, &LoadFault::Unexpected(what), now);
                rests = true;
            }
            StreamResult::Failed(fault) => {
                self.note_fault(asked, &fault, now);
                rests = true;
            }
            StreamResult::Answered => {
                let checked = self.plan.requests[asked.number].expected.check(seen);
                self.note_answer(asked, seen, now, checked);
            }
        }
        if rests && self.plan.is_closed { self.resting.push(index) } else { self.free.push_back(index) }
    }

    /// The phase of a request that was due, or in a closed loop ended, at `at`.
    fn phase(&mut self, at: u64) -> Option<&mut PhaseOutcome> {
        self.outcome.phases.iter_mut().find(|phase| phase.has(at))
    }

    /// A complete answer came, which is as expected or not.
    fn note_answer(
        &mut self,
        asked: &DueRequest,
        seen: &SeenAnswer,
        now: u64,
        checked: Result<(), LoadFault>,
    ) {
        let latency = now.saturating_sub(asked.due);
        for phase in &mut self.outcome.phases {
            match &checked {
                Ok(()) => phase.series.answered(now, latency),
                Err(_) => phase.series.failed(now),
            }
        }
        self.outcome.last = Some(seen.clone());
        let at = if self.plan.is_closed { now } else { asked.due };
        let Some(phase) = self.phase(at) else { return };
        *phase.statuses.entry(seen.status).or_default() += 1;
        phase.bytes += seen.len;
        match checked {
            Ok(()) => phase.note_answer(latency),
            Err(fault) => phase.note_fault(&fault, latency),
        }
    }

    fn note_fault(&mut self, asked: &DueRequest, fault: &LoadFault, now: u64) {
        self.outcome.phases.iter_mut().for_each(|phase| phase.series.failed(now));
        // What a closed loop began in its last phase belongs to that.
        let at = if self.plan.is_closed { now.min(self.to.saturating_sub(1)) } else { asked.due };
        let latency = now.saturating_sub(asked.due);
        if let Some(phase) = self.phase(at) {
            phase.note_fault(fault, latency);
        }
    }

    /// Gives up requests that take too long, wakes clients that rest, and closes what lingers.
    fn sweep(&mut self, now: u64) {
        self.next_sweep = now + SWEEP;
        let timeout = self.plan.timeout.as_nanos() as u64;
        let is_late = |asked: &DueRequest| now.saturating_sub(asked.began) > timeout;
        for index in 0..self.seats.len() {
            let seat = &mut self.seats[index];
            let late: Vec<DueRequest> = seat.active.iter().copied().filter(is_late).collect();
            let late_pending: Vec<DueRequest> = seat.pending.extract_if(.., |asked| is_late(asked)).collect();
            if let Some(connection) = &mut seat.connection {
                late.iter().chain(&late_pending).for_each(|asked| connection.give_up(asked));
            }
            if late.is_empty() && late_pending.is_empty() {
                continue;
            }
            for asked in late_pending {
                self.finish(index, &asked, StreamResult::Failed(LoadFault::Timeout), &SeenAnswer::default());
            }
            self.flush(index);
            self.note_ended(index);
        }
        self.free.extend(std::mem::take(&mut self.resting));
        let buf = &mut self.buf;
        self.lingering.retain_mut(|(since, stream)| {
            now.saturating_sub(*since) < LINGER_MAX && stream.receive(buf).is_ok_and(|is_closed| !is_closed)
        });
    }

    fn into_outcome(mut self) -> SiteOutcome {
        for seat in &mut self.seats {
            if let Some(SeatConnection::Quic(client)) = &mut seat.connection {
                client.close();
            }
        }
        let end = self.cpu_to.unwrap_or_else(clock::cpu_time);
        self.outcome.own_cpu = end.saturating_sub(self.cpu_from.unwrap_or(end));
        self.outcome
    }
}
