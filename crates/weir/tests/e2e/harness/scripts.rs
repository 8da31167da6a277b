//! What several tests have origins, and clients of tunnels, do: an echo, a mirror of raw bytes, an origin that holds requests
//! until a gate opens, one that is ill as long as the test says so. What only one test needs stands in that test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::client::Client;
use super::origin::{Connection, Origin, ok, status};
use super::watchdog::Gate;

/// What a mirror takes at a time.
const PIECE_LEN: usize = 65_536;

/// Whether a server is ill: turned by a test, asked by the scripts of its origins.
#[derive(Clone)]
pub(crate) struct Illness(Arc<AtomicBool>);

impl Illness {
    /// A server that is ill, or well, to begin with.
    pub(crate) fn new(is_ill: bool) -> Illness {
        Illness(Arc::new(AtomicBool::new(is_ill)))
    }

    /// Makes it ill, or well.
    pub(crate) fn turn(&self, is_ill: bool) {
        self.0.store(is_ill, Ordering::SeqCst);
    }

    /// Whether it is ill now.
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An origin that does `deed` to every request while it is ill, and else answers with `name`.
    pub(crate) fn strikes(
        &self,
        name: &'static str,
        deed: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static,
    ) -> Origin {
        let illness = self.clone();
        Origin::start(move |conn| {
            loop {
                conn.request()?;
                if illness.is_on() { deed(conn)? } else { conn.send(ok(name))? }
            }
        })
    }
}

/// Answers probes of `/healthz` with 500 while `illness` is on and with 200 else, and everything else with `name`.
pub(crate) fn probed(name: &'static str, illness: &Illness) -> Origin {
    let illness = illness.clone();
    Origin::start(move |conn| {
        loop {
            let is_probe = conn.request()?.target() == "/healthz";
            let health = || status(if illness.is_on() { 500 } else { 200 });
            conn.send(if is_probe { health() } else { ok(name) })?;
        }
    })
}

/// Answers every request with its target and its body.
pub(crate) fn echo() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(ok(&format!("{}{}", request.target(), request.text())))?;
        }
    })
}

/// Sends back what comes, piece by piece, until that were `bytes`: both directions are full at a time.
pub(crate) fn mirror(conn: &mut Connection, bytes: usize) -> Option<()> {
    let mut left = bytes;
    let mut buf = vec![0; PIECE_LEN];
    while left > 0 {
        let len = conn.skim(&mut buf)?;
        conn.send(&buf[..len])?;
        left -= len;
    }
    Some(())
}

/// Sends `bytes` of a pattern to a [`mirror`], and meanwhile sees all of them come back.
pub(crate) fn send_and_take(client: &mut Client, bytes: usize) {
    let pattern = |at: usize| (at / 251) as u8;
    let mut writer = client.duplicate();
    let writing = thread::spawn(move || {
        for start in (0..bytes).step_by(PIECE_LEN) {
            writer.send((start..bytes.min(start + PIECE_LEN)).map(pattern).collect::<Vec<u8>>());
        }
    });
    let mut buf = vec![0; 100_000];
    let mut taken = 0;
    while taken < bytes {
        let len = client.skim(&mut buf);
        for (at, byte) in (taken..).zip(&buf[..len]) {
            assert_eq!(*byte, pattern(at), "byte {at}");
        }
        taken += len;
    }
    assert_eq!(taken, bytes, "nothing was added");
    writing.join().expect("all is sent");
}

/// Answers every request with `body`; those whose target begins with `held` not before the gate is open.
pub(crate) fn gated(gate: &Gate, held: &'static str, body: &'static str) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| {
        loop {
            if conn.request()?.target().starts_with(held) {
                gate.wait("the test lets the request go on");
            }
            conn.send(ok(body))?;
        }
    })
}
