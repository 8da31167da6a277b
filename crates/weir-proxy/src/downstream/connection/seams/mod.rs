//! The contract of sources and sinks: a body is the same whichever protocol and framing it comes by, whatever reads or holds it on its way, whichever
//! protocol takes it, and whenever its pieces come.
//!
//! One table of shapes runs over all servers, all readers and all clients, in memory and without time: a wake-up that is lost, or a window that is not
//! opened again, leaves a case in which nothing happens any more. Some shapes run once more with TLS on either side.

mod client;
mod own_sources;
mod key_documents;
mod requests;
mod responses;
mod rig;
mod script;
mod server;
mod tls;
mod wire;

use std::time::Duration;

use self::rig::Rig;
use self::script::Part::{Cut, Data, End, Head, Last, Trailers};
use self::script::Shape;
use crate::net::clock;

/// For cases that need none.
const NO_TIME: Duration = Duration::ZERO;

/// When the pieces of a body come.
const SHAPES: [Shape; 20] = [
    Shape { name: "one packet", packets: &[&[Head, Last(3)]] },
    Shape { name: "one packet, an end of its own", packets: &[&[Head, Data(3), End]] },
    Shape { name: "the body behind the head", packets: &[&[Head], &[Last(3)]] },
    Shape { name: "the body with its end behind the head", packets: &[&[Head], &[Data(3), End]] },
    Shape { name: "the end behind the body", packets: &[&[Head, Data(3)], &[End]] },
    Shape { name: "all by themselves", packets: &[&[Head], &[Data(3)], &[End]] },
    Shape { name: "an empty body", packets: &[&[Head, End]] },
    Shape { name: "an empty body that ends late", packets: &[&[Head], &[End]] },
    Shape {
        name: "many pieces at once",
        packets: &[&[Head, Data(1), Data(4_095), Data(4_096), Data(4_097), Data(1), Data(20_000), Last(1)]],
    },
    Shape {
        name: "many pieces",
        packets: &[
            &[Head],
            &[Data(1)],
            &[Data(4_097)],
            &[Data(16_384), Data(1)],
            &[Data(20_000)],
            &[Last(1)],
        ],
    },
    // More than a window of HTTP/2 and than any buffer.
    Shape { name: "large", packets: &[&[Head, Last(300_000)]] },
    Shape { name: "large behind the head", packets: &[&[Head], &[Last(300_000)]] },
    Shape { name: "large, ends late", packets: &[&[Head], &[Data(300_000)], &[End]] },
    Shape { name: "trailers at once", packets: &[&[Head, Data(3), Trailers]] },
    Shape { name: "late trailers", packets: &[&[Head], &[Data(3)], &[Trailers]] },
    Shape { name: "trailers without a body", packets: &[&[Head], &[Trailers]] },
    Shape { name: "cut at once", packets: &[&[Head, Data(3), Cut]] },
    Shape { name: "cut behind the head", packets: &[&[Head], &[Cut]] },
    Shape { name: "cut in the middle", packets: &[&[Head], &[Data(3)], &[Cut]] },
    Shape { name: "cut in the middle of much", packets: &[&[Head], &[Data(100_000)], &[Cut]] },
];

/// Those of the shapes that rows with TLS have: what its records, its buffers and its end can change.
const TLS_SHAPES: [usize; 9] = [0, 5, 7, 8, 9, 12, 14, 18, 19];

/// Runs `work` in an event loop with one thread for files.
fn in_event_loop(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().max_blocking_threads(1).build();
    let runtime = runtime.expect("it can be made");
    tokio::task::LocalSet::new().block_on(&runtime, work);
    clock::set(None);
}

/// Failures of cases, told together.
#[derive(Default)]
struct Failures {
    cases: usize,
    told: Vec<String>,
}

impl Failures {
    /// A case is over; whether it has failed.
    fn note(&mut self, label: impl FnOnce() -> String, outcome: Result<(), String>) -> bool {
        self.cases += 1;
        let failed = outcome.is_err();
        if let Err(failure) = outcome {
            self.told.push(format!("{}: {failure}", label()));
        }
        failed
    }

    fn check(self) {
        let Self { cases, told } = self;
        assert!(told.is_empty(), "{} of {cases} cases:\n{}", told.len(), told.join("\n"));
        println!("{cases} cases");
    }
}

/// What a client got is what was sent.
fn same(got: &[u8], sent: &[u8]) -> Result<(), String> {
    if got == sent {
        return Ok(());
    }
    let common = got.iter().zip(sent).take_while(|(one, other)| one == other).count();
    Err(format!("{} bytes in place of {}, which differ from byte {common} on", got.len(), sent.len()))
}
