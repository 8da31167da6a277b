//! The clients of the demo: a few keep-alive connections that each send a request at a fixed pace.
//!
//! The pace does not depend on the answers, so a slow server does not slow the others' clients down.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use weir_http::http1::{HeadProgress, ParsedResponse};
use weir_http::{HeadLimits, Method};

/// With one request per pace on each, 300 requests/s.
const CONNECTIONS: u32 = 12;
const PACE: Duration = Duration::from_millis(40);

/// The longest that a client waits for an answer.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(5);

/// The running clients.
pub(super) struct LoadGenerator {
    stop: watch::Sender<bool>,
    clients: JoinSet<()>,
    counters: Arc<LoadCounters>,
}

#[derive(Debug, Default)]
struct LoadCounters {
    answered: AtomicU64,
    failed: AtomicU64,
}

/// What the clients have seen so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoadTally {
    /// Requests that were answered with 200.
    pub(super) answered: u64,
    /// Requests that were not.
    pub(super) failed: u64,
}

impl LoadGenerator {
    /// Starts clients that send requests to `address`; needs the runtime that it is called in.
    pub(super) fn start(address: SocketAddr) -> Self {
        let (stop, _) = watch::channel(false);
        let counters = Arc::new(LoadCounters::default());
        let mut clients = JoinSet::new();
        for index in 0..CONNECTIONS {
            let client = DemoClient { address, connection: None, counters: Arc::clone(&counters) };
            clients.spawn(client.run(PACE * index / CONNECTIONS, stop.subscribe()));
        }
        Self { stop, clients, counters }
    }

    /// What the clients have seen so far.
    pub(super) fn tally(&self) -> LoadTally {
        self.counters.tally()
    }

    /// Sends nothing more, waits for the answers under way, and gives the result.
    pub(super) async fn stop(&mut self) -> LoadTally {
        self.stop.send_replace(true);
        while self.clients.join_next().await.is_some() {}
        self.tally()
    }
}

impl LoadCounters {
    fn tally(&self) -> LoadTally {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LoadTally { answered: load(&self.answered), failed: load(&self.failed) }
    }
}

impl LoadTally {
    /// The result of the clients, in one line.
    pub(super) fn sentence(self) -> String {
        let sent = self.answered + self.failed;
        format!(
            "{CONNECTIONS} clients: {} of {sent} requests answered, {} failed",
            self.answered, self.failed
        )
    }
}

struct DemoClient {
    address: SocketAddr,
    connection: Option<TcpStream>,
    counters: Arc<LoadCounters>,
}

impl DemoClient {
    async fn run(mut self, offset: Duration, mut stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + offset, PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                // The load itself is gone when this fails.
                _ = stop.wait_for(|stop| *stop) => return,
                _ = ticks.tick() => {}
            }
            let answered = tokio::time::timeout(RESPONSE_TIME_MAX, self.exchange()).await;
            if matches!(answered, Ok(Ok(200))) {
                self.counters.answered.fetch_add(1, Ordering::Relaxed);
            } else {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                self.connection = None;
            }
        }
    }

    /// Sends a request and reads the response; gives its status. The connection is kept for the next one.
    async fn exchange(&mut self) -> io::Result<u16> {
        let mut stream = match self.connection.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.address).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await?;
        let (status, reusable) = read_response(&mut stream).await?;
        if reusable {
            self.connection = Some(stream);
        }
        Ok(status)
    }
}

/// Reads one response whole; gives its status, and whether another request may follow.
async fn read_response(stream: &mut TcpStream) -> io::Result<(u16, bool)> {
    let broken = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut received = Vec::new();
    let mut head = ParsedResponse::new();
    while head.parse(&received, &HeadLimits::default()).map_err(|rule| broken(rule.sentence()))?
        == HeadProgress::Incomplete
    {
        read_more(stream, &mut received).await?;
    }
    let Some(len) = head.body(Method::Get).length() else {
        return Err(broken("the servers of the demo state a length"));
    };
    while ((received.len() - head.len()) as u64) < len {
        read_more(stream, &mut received).await?;
    }
    Ok((head.status(), head.keep_alive()))
}

async fn read_more(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<()> {
    match stream.read_buf(received).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::server::{DemoServer, DemoServers};

    fn tally_against(address: SocketAddr, until: impl Fn(LoadTally) -> bool) -> LoadTally {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut load = LoadGenerator::start(address);
            while !until(load.tally()) {
                tokio::task::yield_now().await;
            }
            load.stop().await
        })
    }

    #[test]
    fn every_client_is_answered() {
        let servers =
            DemoServers::start(&[DemoServer { name: "one", delay: Duration::from_millis(1) }]).unwrap();
        let tally =
            tally_against(servers.addresses()[0], |tally| tally.answered >= 2 * u64::from(CONNECTIONS));
        assert_eq!(tally.failed, 0, "{tally:?}");
        assert!(tally.sentence().ends_with("requests answered, 0 failed"), "{}", tally.sentence());
    }

    #[test]
    fn what_is_not_answered_is_counted() {
        let closed = "127.0.0.1:1".parse().unwrap();
        let tally = tally_against(closed, |tally| tally.failed >= 3);
        assert_eq!(tally.answered, 0, "{tally:?}");
    }
}
