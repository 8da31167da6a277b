//! A load of GETs on a few connections with many streams each, in a closed loop or at a constant rate; latency counts from the intended
//! start, as in the driver of HTTP/1.1.
//!
//! A request that the target says it did not process is sent again, as every client does, and its latency goes on.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::driver::RaisedPriority;
use super::http2::client::{Http2Client, StreamResult};
use super::{LoadFault, LoadOutcome, LoadPattern, LoadProgress};
use crate::clock;

/// How long after the window requests that were due in it may still begin, and the longest sleep, ns.
const LATE_START_MAX: u64 = 1_000_000_000;

/// How often requests are looked over for a timeout, ns.
const SWEEP: u64 = 50_000_000;

/// One run.
#[derive(Debug, Clone)]
pub struct Http2Plan {
    /// Where to connect.
    pub target: SocketAddr,
    /// Its name in requests.
    pub authority: String,
    /// What the client in each place asks for, which is a stream of a connection.
    pub paths: Vec<String>,
    /// Bytes of the answer.
    pub answer: u64,
    /// Connections.
    pub connections: usize,
    /// Requests at a time on each.
    pub streams: usize,
    /// When requests begin.
    pub arrival: LoadPattern,
    /// A request with an answer of this many bytes, on one more stream of each connection, whose window is never opened again.
    pub stalled: Option<u64>,
    /// Time before the window in which nothing is counted.
    pub warm_up: Duration,
    /// Length of the window.
    pub window: Duration,
    /// A request that takes longer is a fault.
    pub timeout: Duration,
}

/// A request that is under way.
#[derive(Debug, Clone, Copy)]
struct PlacedRequest {
    /// Its intended start, ns.
    due: u64,
    /// Its real start.
    began: u64,
    place: usize,
}

/// A connection and the requests on it.
struct Http2Seat {
    client: Http2Client,
    requests: HashMap<u32, PlacedRequest>,
    /// The stream that is not read.
    stalled: Option<u32>,
}

/// Runs `plan` on the calling thread.
///
/// # Errors
/// When events cannot be waited for. Faults of requests are in the outcome.
pub fn run(plan: &Http2Plan, progress: &LoadProgress) -> io::Result<LoadOutcome> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let _priority = (plan.arrival != LoadPattern::Closed).then(RaisedPriority::raise);
    let mut driver = Http2Driver::new(plan);
    while driver.turn(progress)? {}
    Ok(driver.outcome)
}

struct Http2Driver<'a> {
    plan: &'a Http2Plan,
    start: Instant,
    from: u64,
    to: u64,
    seats: Vec<Http2Seat>,
    /// Places without a request.
    free: VecDeque<usize>,
    /// Intended starts that wait for a place.
    waiting: VecDeque<u64>,
    /// Intended starts so far.
    arrivals: u64,
    completed: u64,
    next_sweep: u64,
    outcome: LoadOutcome,
    buf: Vec<u8>,
}

impl<'a> Http2Driver<'a> {
    fn new(plan: &'a Http2Plan) -> Self {
        let from = plan.warm_up.as_nanos() as u64;
        Self {
            plan,
            start: clock::now(),
            from,
            to: from + plan.window.as_nanos() as u64,
            seats: Vec::new(),
            free: (0..plan.connections * plan.streams).collect(),
            waiting: VecDeque::new(),
            arrivals: 0,
            completed: 0,
            next_sweep: SWEEP,
            outcome: LoadOutcome::at_start(clock::uptime_ns(), plan.window),
            buf: vec![0; 64 * 1024],
        }
    }

    fn now(&self) -> u64 {
        (clock::now() - self.start).as_nanos() as u64
    }

    /// Begins what is due, waits, and takes what has come; false when the run is over.
    fn turn(&mut self, progress: &LoadProgress) -> io::Result<bool> {
        let now = self.now();
        if progress.stop.load(Ordering::Relaxed) {
            self.outcome.stopped = true;
            return Ok(false);
        }
        self.issue(now);
        if now >= self.next_sweep {
            self.sweep(now);
        }
        let is_busy = self.seats.iter().any(|seat| !seat.requests.is_empty()) || !self.waiting.is_empty();
        if now >= self.to && !is_busy {
            return Ok(false);
        }
        self.wait(now)?;
        for index in 0..self.seats.len() {
            self.receive(index);
        }
        let is_needed = |seat: &Http2Seat| {
            seat.client.takes_requests() || (!seat.requests.is_empty() && !seat.client.is_closed())
        };
        let before = self.seats.len();
        self.seats.retain(is_needed);
        self.outcome.closed_by_target += (before - self.seats.len()) as u64;
        progress.exchanges.store(self.completed, Ordering::Relaxed);
        Ok(true)
    }

    /// Begins the requests that are due; in a closed loop, one for each free place.
    fn issue(&mut self, now: u64) {
        if self.plan.arrival == LoadPattern::Closed {
            if now < self.to {
                self.waiting
                    .extend(std::iter::repeat_n(now, self.free.len().saturating_sub(self.waiting.len())));
            }
        } else {
            let last = now.min(self.to.saturating_sub(1));
            while let Some(due) = self.plan.arrival.due_ns(self.arrivals).filter(|due| *due <= last) {
                self.waiting.push_back(due);
                self.arrivals += 1;
            }
        }
        if now > self.to + LATE_START_MAX {
            self.outcome.unsent += self.waiting.drain(..).count() as u64;
        }
        while let (Some(due), Some(place)) = (self.waiting.front().copied(), self.free.front().copied()) {
            self.waiting.pop_front();
            self.free.pop_front();
            match self.begin(due, place) {
                Ok(true) => continue,
                // It was not sent, so it goes out on another connection. That this one has ended is found out by reading.
                Ok(false) => self.waiting.push_front(due),
                Err(fault) => self.note(due, Err(&fault)),
            }
            self.free.push_back(place);
            return;
        }
    }

    /// Begins a request on the connection with the fewest; false when that has ended meanwhile.
    fn begin(&mut self, due: u64, place: usize) -> Result<bool, LoadFault> {
        let (plan, began) = (self.plan, self.now());
        let usable = self.seats.iter().filter(|seat| seat.client.takes_requests()).count();
        if usable < plan.connections {
            let mut client = Http2Client::connect(plan.target, 0)?;
            let stalled =
                plan.stalled.map(|len| client.begin(&plan.authority, &format!("/bytes/{len}"), len));
            self.seats.push(Http2Seat { client, requests: HashMap::new(), stalled: stalled.transpose()? });
            self.outcome.opened += 1;
        }
        let usable = self.seats.iter_mut().filter(|seat| seat.client.takes_requests());
        let seat = usable.min_by_key(|seat| seat.requests.len()).expect("there is one");
        let path = &plan.paths[place % plan.paths.len()];
        let Ok(id) = seat.client.begin(&plan.authority, path, plan.answer) else { return Ok(false) };
        seat.requests.insert(id, PlacedRequest { due, began, place });
        if (self.from..self.to).contains(&due) {
            self.outcome.lateness.saturating_record(began.saturating_sub(due).max(1));
        }
        Ok(true)
    }

    fn wait(&self, now: u64) -> io::Result<()> {
        let mut until = self.next_sweep;
        if let Some(due) = self.plan.arrival.due_ns(self.arrivals).filter(|_| now < self.to) {
            until = until.min(due);
        }
        let wait = Duration::from_nanos(until.saturating_sub(self.now()));
        let wait = Timespec::try_from(wait).expect("less than a second");
        let mut events: Vec<PollFd<'_>> =
            self.seats.iter().map(|seat| PollFd::new(&seat.client, PollFlags::IN)).collect();
        match poll(&mut events, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        let ended = seat.client.receive(&mut self.buf);
        let is_stalled = |id: u32| Some(id) == seat.stalled;
        let lost = ended.iter().any(|(id, _)| is_stalled(*id));
        let taken: Vec<(PlacedRequest, StreamResult)> =
            ended.into_iter().filter_map(|(id, result)| Some((seat.requests.remove(&id)?, result))).collect();
        if lost {
            seat.stalled = None;
            self.outcome.faults.note_many("stalled stream", 1, || "the stalled stream was ended".to_owned());
        }
        for (request, result) in taken {
            self.free.push_back(request.place);
            match result {
                StreamResult::Answered => self.note(request.due, Ok(())),
                StreamResult::Unprocessed => self.waiting.push_front(request.due),
                StreamResult::Failed(fault) => self.note(request.due, Err(&fault)),
            }
        }
    }

    /// Counts a request that is over.
    fn note(&mut self, due: u64, result: Result<(), &LoadFault>) {
        match result {
            Ok(()) => {
                self.completed += 1;
                if (self.from..self.to).contains(&due) {
                    self.outcome.exchanges += 1;
                    self.outcome.latency.saturating_record(self.now().saturating_sub(due).max(1));
                }
            }
            Err(fault) => self.outcome.faults.note(fault),
        }
    }

    /// Gives up requests that take too long, with their connection.
    fn sweep(&mut self, now: u64) {
        self.next_sweep = now + SWEEP;
        let timeout = self.plan.timeout.as_nanos() as u64;
        let is_late = |seat: &Http2Seat| {
            seat.requests.values().any(|request| now.saturating_sub(request.began) > timeout)
        };
        for seat in self.seats.extract_if(.., |seat| is_late(seat)).collect::<Vec<_>>() {
            for request in seat.requests.into_values() {
                self.free.push_back(request.place);
                self.note(request.due, Err(&LoadFault::Timeout));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Http2Plan, run};
    use crate::load::{LoadPattern, LoadProgress};
    use crate::wire::http2::{self, kind};
    use crate::wire::pattern;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// Answers every request with `len` bytes, except that it says of the second of each connection that it was not processed,
    /// and takes no more then.
    fn serve(mut stream: TcpStream, len: usize) {
        let (mut received, mut buf) = (Vec::new(), [0; 4096]);
        let mut is_open = false;
        while let Ok(some @ 1..) = stream.read(&mut buf) {
            received.extend_from_slice(&buf[..some]);
            if !is_open && received.len() >= http2::PREFACE.len() {
                received.drain(..http2::PREFACE.len());
                is_open = true;
            }
            let mut out = Vec::new();
            while let Some((start, _)) = http2::frame(&received).filter(|_| is_open) {
                let (end, id) = (http2::HEAD_LEN + start.len, start.stream);
                if start.kind == kind::HEADERS && id <= 1 {
                    http2::write(&mut out, kind::HEADERS, http2::END_HEADERS, id, &[0x88]);
                    http2::write(&mut out, kind::DATA, http2::END_STREAM, id, pattern::run(0, len));
                } else if start.kind == kind::HEADERS {
                    let last = [&1_u32.to_be_bytes()[..], &[0; 4]].concat();
                    http2::write(&mut out, kind::GOAWAY, 0, 0, &last);
                }
                received.drain(..end);
            }
            if stream.write_all(&out).is_err() {
                return;
            }
        }
    }

    fn served(len: usize) -> (u64, u64, u64) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| serve(stream, len)));
        let plan = Http2Plan {
            target,
            authority: "lab.test".to_owned(),
            paths: vec!["/".to_owned()],
            answer: 700,
            connections: 1,
            streams: 1,
            arrival: LoadPattern::Rate(200.0),
            stalled: None,
            warm_up: Duration::ZERO,
            window: Duration::from_millis(200),
            timeout: Duration::from_secs(5),
        };
        let outcome = run(&plan, &LoadProgress::default()).unwrap();
        assert_eq!(outcome.unsent, 0);
        (outcome.exchanges, outcome.faults.total, outcome.closed_by_target)
    }

    #[test]
    fn requests_that_were_not_processed_are_sent_again() {
        let (answered, failed, closed) = served(700);
        assert_eq!((answered, failed), (40, 0));
        assert!(closed >= 38, "{closed}");
    }

    #[test]
    fn answers_of_another_length_are_faults() {
        let (answered, failed, _) = served(699);
        assert_eq!((answered, failed), (0, 40));
    }
}
