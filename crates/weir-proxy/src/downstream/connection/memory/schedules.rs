//! Connections without bytes in schedules drawn from a seed: streams that take their time, resets, and each way in which a connection ends.

use std::rc::Rc;
use std::time::Duration;

use super::driver::ROUND_TRIP;
use super::wire::{Leaving, StreamWire, Wire};
use super::{MemoryRig, run};
use crate::downstream::connection::simulation::Draw;
use crate::downstream::connection::simulation::peer::LIMITED_LEN;

const PATHS: [&str; 3] = ["/short", "/limited", "/silent"];

/// A stream of the client, and what it asks for.
struct Asked {
    stream: Rc<StreamWire>,
    path: &'static str,
    id: usize,
}

impl Asked {
    fn open(wire: &Wire, draw: &mut Draw, id: usize) -> Self {
        let path = PATHS[draw.below(PATHS.len() as u64) as usize];
        let stream = wire.open(&format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nX-Id: {id}\r\n\r\n"));
        stream.end_sending();
        if draw.below(2) == 0 {
            stream.take_no_more();
        }
        Self { stream, path, id }
    }

    /// What has come of it is its own, and is whole if it ended so.
    fn check(&self, wire: &Wire, label: &str) {
        let Self { stream, path, id } = self;
        let label = format!("{label}: {path} {id} {:?} {:?}", stream.status(), stream.end.get());
        let is_left = wire.opened.borrow().iter().any(|opened| Rc::ptr_eq(opened, stream));
        assert!(stream.end.get().is_some() || stream.is_refused.get() || is_left, "it did not end: {label}");
        assert!(stream.statuses.borrow().len() <= 1, "one response: {label}");
        if stream.status() != Some(200) {
            return assert!(stream.status().is_none_or(|status| status == 504), "{label}");
        }
        assert_eq!(stream.field("x-id"), Some(id.to_string()), "{label}");
        let len = if *path == "/short" { 5 } else { LIMITED_LEN };
        assert!(stream.got().len() as u64 <= len, "{label}");
        assert!(
            !stream.is_whole() || stream.got().len() as u64 == len,
            "a cut body passed for whole: {label}"
        );
    }
}

/// Runs one connection to its end.
async fn simulate(mut rig: MemoryRig, seed: u64) -> MemoryRig {
    let mut draw = Draw::new(seed);
    let wire = rig.connect().expect("it is served");
    let mut asked = Vec::new();
    let mut has_stopped = false;
    for _ in 0..40 {
        match draw.below(16) {
            0..6 => asked.push(Asked::open(&wire, &mut draw, asked.len())),
            6..10 if !asked.is_empty() => {
                let at = draw.below(asked.len() as u64) as usize;
                asked[at].stream.give_room(draw.below(4_000) as usize);
            }
            10 if !asked.is_empty() => {
                let at = draw.below(asked.len() as u64) as usize;
                if asked[at].stream.end.get().is_none() {
                    wire.reset(&asked[at].stream);
                }
            }
            11..14 => rig.pass(Duration::from_millis(draw.below(900))).await,
            14 if draw.below(8) == 0 => {
                rig.stop();
                has_stopped = true;
            }
            15 => rig.settle().await,
            _ => {}
        }
    }
    match draw.below(3) {
        0 => wire.leave(Leaving::Resets),
        1 => wire.leave(Leaving::Closes),
        _ if has_stopped => {}
        _ => rig.stop(),
    }
    rig.pass(ROUND_TRIP).await;
    asked.iter().for_each(|asked| asked.stream.give_room(usize::MAX));
    // Servers that are silent have their time.
    rig.pass(Duration::from_secs(8)).await;
    assert!(wire.is_dropped.get(), "seed {seed}: the connection is left");
    asked.iter().for_each(|asked| asked.check(&wire, &format!("seed {seed}")));
    rig
}

#[test]
fn every_schedule_leaves_nothing_behind() {
    for seed in 1..=150 {
        run("http2.streams_max = 6", async |rig| simulate(rig, seed).await);
    }
}
