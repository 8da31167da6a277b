//! Behaviours of origins, and of clients of tunnels, for several tests: an echo, a mirror of raw bytes, an origin that holds requests
//! until a gate opens, one that fails as long as the test says so. What only one test needs is in that test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::harness::client::Client;
use crate::harness::origin::{Connection, Origin, ok, status};
use crate::harness::watchdog::Gate;
use crate::harness::websocket::switch_and_return_bytes;

/// What a mirror takes at a time.
const PIECE_LEN: usize = 65_536;

/// Makes servers fail as long as it is on: set by a test, read by the scripts of its origins.
#[derive(Clone)]
pub(crate) struct FailureSwitch(Arc<AtomicBool>);

impl FailureSwitch {
    /// One that is on, or off, to begin with.
    pub(crate) fn new(is_on: bool) -> FailureSwitch {
        FailureSwitch(Arc::new(AtomicBool::new(is_on)))
    }

    /// Switches it on, or off.
    pub(crate) fn set(&self, is_on: bool) {
        self.0.store(is_on, Ordering::SeqCst);
    }

    /// Whether servers fail now.
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An origin that does `failure` with every request while this is on, and else answers with `name`.
    pub(crate) fn origin(
        &self,
        name: &'static str,
        failure: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static,
    ) -> Origin {
        let fails = self.clone();
        Origin::start(move |conn| {
            loop {
                conn.request()?;
                if fails.is_on() { failure(conn)? } else { conn.send(ok(name))? }
            }
        })
    }
}

/// Answers probes of `/healthz` with 500 while `fails` is on and with 200 else, and everything else with `name`.
pub(crate) fn probed(name: &'static str, fails: &FailureSwitch) -> Origin {
    let fails = fails.clone();
    Origin::start(move |conn| {
        loop {
            let is_probe = conn.request()?.target() == "/healthz";
            let health = || status(if fails.is_on() { 500 } else { 200 });
            conn.send(if is_probe { health() } else { ok(name) })?;
        }
    })
}

/// Answers every request with its target and its body.
pub(crate) fn echo() -> Origin {
    echo_gated(&Gate::new(), "no target begins so")
}

/// The same, but those whose target begins with `held` are not answered before the gate is open.
pub(crate) fn echo_gated(gate: &Gate, held: &'static str) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if request.target().starts_with(held) {
                gate.wait("the test lets the request go on");
            }
            conn.send(ok(&format!("{}{}", request.target(), request.text())))?;
        }
    })
}

/// Answers `Expect: 100-continue` with 100, and every request with its body.
pub(crate) fn continuing() -> Origin {
    Origin::start(|conn| {
        loop {
            let head = conn.head()?;
            if head.fields.lists("expect", "100-continue") {
                conn.send("HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            let request = conn.request_body(head)?;
            conn.send(ok(&request.text()))?;
        }
    })
}

/// Waits for the end of the connection on `/wait`, streams without end on `/stream`, else answers.
pub(crate) fn patient() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            match request.target() {
                "/wait" => {
                    conn.wait_for_end();
                    return None;
                }
                "/stream" => {
                    conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                    let chunk = format!("1000\r\n{}\r\n", "s".repeat(4096));
                    while conn.send(&chunk).is_some() {}
                    conn.wait_for_end();
                    return None;
                }
                _ => conn.send(ok("alive"))?,
            }
        }
    })
}

/// Answers every request with the number of bytes in its body.
pub(crate) fn measuring() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(ok(&request.body.bytes.len().to_string()))?;
        }
    })
}

/// Answers with `name`; `/held` waits for the gate, `/socket` becomes a tunnel that sends every byte back.
pub(crate) fn named(name: &'static str, gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| {
        loop {
            match conn.request()?.target() {
                "/held" => gate.wait("the test lets the request go on"),
                "/socket" => return switch_and_return_bytes(conn),
                _ => {}
            }
            conn.send(ok(name))?;
        }
    })
}

/// Takes every request for one that opens a tunnel, and sends every byte of it back.
pub(crate) fn tunnelling() -> Origin {
    Origin::start(|conn| {
        conn.request()?;
        switch_and_return_bytes(conn)
    })
}

/// As many origins, which answer with their number, from 0; `/held` waits for the gate.
pub(crate) fn numbered(count: usize, gate: &Gate) -> Vec<Origin> {
    let numbered = |number: usize| {
        let gate = gate.clone();
        Origin::start(move |conn| {
            loop {
                if conn.request()?.target() == "/held" {
                    gate.wait("the test lets the request go on");
                }
                conn.send(ok(&number.to_string()))?;
            }
        })
    };
    (0..count).map(numbered).collect()
}

/// A server of MCP: a POST without a session begins one, whose id is in the response; one with a session of another server is answered 404; DELETE ends it.
pub(crate) fn session_server(name: &'static str) -> Origin {
    let begun = AtomicUsize::new(0);
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let session = request.field("Mcp-Session-Id").map(str::to_owned);
            let is_delete = request.method() == "DELETE";
            match session {
                Some(session) if !session.starts_with(name) => {
                    conn.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
                }
                Some(_) if is_delete => conn.send("HTTP/1.1 204 No Content\r\n\r\n")?,
                Some(_) => conn.send(ok(name))?,
                None => {
                    let id = begun.fetch_add(1, Ordering::Relaxed);
                    let (len, field) = (name.len(), format!("Mcp-Session-Id: {name}-{id}"));
                    conn.send(format!("HTTP/1.1 200 OK\r\n{field}\r\nContent-Length: {len}\r\n\r\n{name}"))?;
                }
            }
        }
    })
}

/// Bytes that do not repeat soon, so that what is lost, doubled or moved shows.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).flat_map(|at| (at.wrapping_mul(2_654_435_761) >> 8).to_le_bytes()).take(len).collect()
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
