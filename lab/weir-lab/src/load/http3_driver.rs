//! A load of HTTP/3 on a few connections with many streams each, in a closed loop or at a constant rate; latency counts from the intended
//! start, as in the driver of HTTP/1.1.
//!
//! One thread, one epoll, a socket for each connection. A request that the target says it did not process is sent again, as every client
//! does, and its latency goes on. A connection that is over is replaced.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::driver::RaisedPriority;
use super::http2::client::StreamResult;
use super::http3::client::{EndedStream, Http3Client, RequestTimes};
use super::http3::request::Http3Request;
use super::http3::setup::Http3Setup;
use super::http3::socket::ReceiveBuffers;
use super::series::Series;
use super::{LoadFault, LoadOutcome, LoadPattern, LoadProgress};
use crate::clock;

/// How long after the window requests that were due in it may still begin, and the longest sleep, ns.
const LATE_START_MAX: u64 = 1_000_000_000;

/// How often requests are looked over for a timeout, ns.
const SWEEP: u64 = 50_000_000;

/// Sockets that are served before requests that are due go out.
const EVENTS: usize = 64;

/// One run.
#[derive(Debug, Clone)]
pub struct Http3Plan {
    /// Where to connect.
    pub target: SocketAddr,
    /// How clients speak QUIC.
    pub setup: Http3Setup,
    /// The requests to send, one after the other, whichever stream they are on.
    pub requests: Vec<Http3Request>,
    /// Connections.
    pub connections: usize,
    /// Requests at a time on each.
    pub streams: usize,
    /// When requests begin.
    pub arrival: LoadPattern,
    /// Time before the window in which nothing is counted.
    pub warm_up: Duration,
    /// Length of the window.
    pub window: Duration,
    /// A request that takes longer is a fault, and so is a handshake.
    pub timeout: Duration,
    /// The run ends after this many faults.
    pub faults_max: u64,
}

/// A connection and when it was begun, ns.
struct Http3Seat {
    client: Http3Client,
    began: u64,
    /// Its handshake was counted.
    is_counted: bool,
}

/// Runs `plan` on the calling thread.
///
/// # Errors
/// When events cannot be waited for. Faults of requests are in the outcome.
pub fn run(plan: &Http3Plan, progress: &LoadProgress) -> io::Result<LoadOutcome> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let _priority = (plan.arrival != LoadPattern::Closed).then(RaisedPriority::raise);
    let mut driver = Http3LoadDriver::new(plan)?;
    while driver.turn(progress)? {}
    driver.close();
    let now = driver.now();
    driver.outcome.seconds = driver.series.finish(now);
    Ok(driver.outcome)
}

struct Http3LoadDriver<'a> {
    plan: &'a Http3Plan,
    epoll: OwnedFd,
    start: Instant,
    from: u64,
    to: u64,
    /// One for each connection; none where the next one has to be opened.
    seats: Vec<Option<Http3Seat>>,
    /// Intended starts that wait for a stream.
    waiting: VecDeque<u64>,
    /// Intended starts so far.
    arrivals: u64,
    /// Requests begun so far.
    begun: usize,
    completed: u64,
    next_sweep: u64,
    outcome: LoadOutcome,
    series: Series,
    buffers: ReceiveBuffers,
    events: Vec<epoll::Event>,
}

impl<'a> Http3LoadDriver<'a> {
    fn new(plan: &'a Http3Plan) -> io::Result<Self> {
        let from = plan.warm_up.as_nanos() as u64;
        let to = from + plan.window.as_nanos() as u64;
        Ok(Self {
            plan,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            start: clock::now(),
            from,
            to,
            seats: (0..plan.connections).map(|_| None).collect(),
            waiting: VecDeque::new(),
            arrivals: 0,
            begun: 0,
            completed: 0,
            next_sweep: SWEEP,
            outcome: LoadOutcome::at_start(clock::uptime_ns(), plan.window),
            series: Series::new(from, to),
            buffers: ReceiveBuffers::empty(),
            events: Vec::with_capacity(EVENTS),
        })
    }

    fn now(&self) -> u64 {
        (clock::now() - self.start).as_nanos() as u64
    }

    /// Begins what is due, waits, and takes what has come; false when the run is over.
    fn turn(&mut self, progress: &LoadProgress) -> io::Result<bool> {
        let now = self.now();
        if progress.stop.load(Ordering::Relaxed) || self.outcome.faults.total >= self.plan.faults_max {
            self.outcome.stopped = true;
            return Ok(false);
        }
        let is_busy = self.clients().any(|client| client.active() > 0) || !self.waiting.is_empty();
        if now >= self.to && !is_busy {
            return Ok(false);
        }
        self.open(now);
        self.arrive(now);
        if now >= self.next_sweep {
            self.sweep(now);
        }
        self.wait(now)?;
        for number in 0..self.events.len() {
            self.serve(self.events[number].data.u64() as usize, true);
        }
        let now = clock::now();
        let is_due = |seat: &Http3Seat| seat.client.deadline().is_some_and(|deadline| deadline <= now);
        for index in 0..self.seats.len() {
            if self.seats[index].as_ref().is_some_and(is_due) {
                self.serve(index, false);
            }
        }
        progress.exchanges.store(self.completed, Ordering::Relaxed);
        Ok(true)
    }

    fn clients(&self) -> impl Iterator<Item = &Http3Client> {
        self.seats.iter().flatten().map(|seat| &seat.client)
    }

    /// Opens the connections that are missing, as long as there is something to begin.
    fn open(&mut self, now: u64) {
        if now >= self.to && self.waiting.is_empty() {
            return;
        }
        for index in 0..self.seats.len() {
            if self.seats[index].is_some() {
                continue;
            }
            let connected = Http3Client::connect(self.plan.target, &self.plan.setup).and_then(|client| {
                let data = epoll::EventData::new_u64(index as u64);
                epoll::add(&self.epoll, &client, data, epoll::EventFlags::IN)
                    .map_err(|error| LoadFault::Connect(error.to_string()))?;
                Ok(client)
            });
            match connected {
                Ok(client) => self.seats[index] = Some(Http3Seat { client, began: now, is_counted: false }),
                // The next turn tries again, and too many faults end the run.
                Err(fault) => self.outcome.faults.note(&fault),
            }
        }
    }

    /// Begins the requests that are due at a constant rate, each on the connection with the fewest.
    fn arrive(&mut self, now: u64) {
        if self.plan.arrival == LoadPattern::Closed && self.waiting.is_empty() {
            return;
        }
        let last = now.min(self.to.saturating_sub(1));
        while let Some(due) = self.plan.arrival.due_ns(self.arrivals).filter(|due| *due <= last) {
            self.waiting.push_back(due);
            self.arrivals += 1;
        }
        if now > self.to + LATE_START_MAX {
            self.outcome.unsent += self.waiting.drain(..).count() as u64;
        }
        while let Some(due) = self.waiting.front().copied() {
            let free = |client: &Http3Client| {
                client.is_connected() && client.takes_requests() && client.active() < self.plan.streams
            };
            let seats = self.seats.iter().enumerate();
            let seats = seats.filter_map(|(index, seat)| Some((index, &seat.as_ref()?.client)));
            let least = seats.filter(|(_, client)| free(client)).min_by_key(|(_, client)| client.active());
            let Some(index) = least.map(|(index, _)| index) else { return };
            // The target may grant fewer streams.
            if !self.begin(index, due) {
                return;
            }
            self.waiting.pop_front();
            if let Some(seat) = &mut self.seats[index] {
                seat.client.flush();
            }
        }
    }

    /// Begins a request on connection `index`; false when that takes none now.
    fn begin(&mut self, index: usize, due: u64) -> bool {
        let began = self.now();
        let request = &self.plan.requests[self.begun % self.plan.requests.len()];
        let Some(seat) = &mut self.seats[index] else { return false };
        if !seat.client.begin(request, RequestTimes { due, began, tag: 0 }) {
            return false;
        }
        self.begun += 1;
        if (self.from..self.to).contains(&due) {
            self.outcome.lateness.saturating_record(began.saturating_sub(due).max(1));
        }
        true
    }

    fn wait(&mut self, now: u64) -> io::Result<()> {
        let mut until = self.next_sweep;
        if let Some(due) = self.plan.arrival.due_ns(self.arrivals).filter(|_| now < self.to) {
            until = until.min(due);
        }
        let until = self.start + Duration::from_nanos(until);
        let until = self.clients().filter_map(Http3Client::deadline).fold(until, Instant::min);
        let wait = until.saturating_duration_since(clock::now());
        let wait = Timespec::try_from(wait).expect("less than a second");
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what has come on connection `index`, begins what may begin in a closed loop, and sends.
    fn serve(&mut self, index: usize, has_come: bool) {
        let Some(seat) = &mut self.seats[index] else { return };
        if has_come {
            seat.client.receive(&mut self.buffers);
        }
        seat.client.on_time(clock::now());
        if seat.client.is_connected() && !seat.is_counted {
            seat.is_counted = true;
            self.outcome.opened += 1;
            self.outcome.full_handshakes += 1;
        }
        self.note_ended(index);
        if self.plan.arrival == LoadPattern::Closed {
            self.top_up(index);
        }
        if let Some(seat) = &mut self.seats[index] {
            seat.client.flush();
        }
        // Sending may have found out that there is nobody.
        self.note_ended(index);
        self.leave(index);
    }

    /// As many requests on connection `index` as it is to have.
    fn top_up(&mut self, index: usize) {
        loop {
            let now = self.now();
            let active = self.seats[index].as_ref().map_or(usize::MAX, |seat| seat.client.active());
            if active >= self.plan.streams {
                return;
            }
            // One that was not processed is sent again at first.
            let again = self.waiting.front().copied();
            if (again.is_none() && now >= self.to) || !self.begin(index, again.unwrap_or(now)) {
                return;
            }
            if again.is_some() {
                self.waiting.pop_front();
            }
        }
    }

    /// Counts the requests of connection `index` that are over.
    fn note_ended(&mut self, index: usize) {
        let now = self.now();
        let Some(seat) = &mut self.seats[index] else { return };
        for EndedStream { times, result, .. } in seat.client.ended() {
            match result {
                StreamResult::Answered => {
                    self.completed += 1;
                    let latency = now.saturating_sub(times.due).max(1);
                    self.series.answered(now, latency);
                    if (self.from..self.to).contains(&times.due) {
                        self.outcome.exchanges += 1;
                        self.outcome.latency.saturating_record(latency);
                    }
                }
                StreamResult::Unprocessed => self.waiting.push_front(times.due),
                StreamResult::Failed(fault) => {
                    self.series.failed(now);
                    self.outcome.faults.note(&fault);
                }
            }
        }
    }

    /// Gives the seat of a connection that is over, or takes no more and has nothing left, to the next one.
    fn leave(&mut self, index: usize) {
        let Some(seat) = &mut self.seats[index] else { return };
        let client = &seat.client;
        if client.takes_requests() || (client.closed().is_none() && client.active() > 0) {
            return;
        }
        match client.closed() {
            Some(fault) if !client.is_connected() => self.outcome.faults.note(fault),
            _ => self.outcome.closed_by_target += 1,
        }
        seat.client.close();
        self.seats[index] = None;
    }

    /// Gives up requests and handshakes that take too long, with their connection.
    fn sweep(&mut self, now: u64) {
        self.next_sweep = now + SWEEP;
        let timeout = self.plan.timeout.as_nanos() as u64;
        for index in 0..self.seats.len() {
            let Some(seat) = &mut self.seats[index] else { continue };
            let oldest = if seat.client.is_connected() { seat.client.oldest() } else { Some(seat.began) };
            if oldest.is_none_or(|oldest| now.saturating_sub(oldest) <= timeout) {
                continue;
            }
            if !seat.client.is_connected() {
                self.outcome.faults.note(&LoadFault::Connect("no handshake in time".to_owned()));
            }
            seat.client.give_up(&LoadFault::Timeout);
            self.note_ended(index);
            self.seats[index] = None;
        }
    }

    /// Says that all is over, so that the target need not find out.
    fn close(&mut self) {
        for seat in self.seats.iter_mut().flatten() {
            seat.client.close();
        }
    }
}
