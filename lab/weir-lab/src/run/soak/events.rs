//! The events of a soak: servers that are killed and come back, or hang, other configurations, readings of the target.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;

use crate::measure::{memory, sockets};
use crate::run::bench::Bench;
use crate::run::configurations::Configuration;
use crate::run::testbed::Testbed;
use crate::run::window::WindowEvent;
use crate::scenario::soak::SoakWork;
use crate::target::ConnectionRoom;
use crate::topology::target::LabTarget;

/// The resources of a target at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TargetSample {
    /// Since the beginning of the window.
    pub(super) minutes: f64,
    /// Resident memory, bytes.
    pub(super) rss: f64,
    /// Open descriptors.
    pub(super) descriptors: f64,
}

/// Looks in a window, and the shortest and the longest time between two.
const LOOKS: u32 = 400;
const LOOK_MIN: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct SoakEvents<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) target: LabTarget,
    pub(super) room: ConnectionRoom,
    /// Where the target says how it is.
    pub(super) admin: Option<SocketAddr>,
    /// The readings.
    pub(super) samples: &'a RefCell<Vec<TargetSample>>,
}

impl<'a> SoakEvents<'a> {
    /// All of a window of this `length`, in their order.
    pub(super) fn steps(&'a self, work: &SoakWork, length: Duration) -> Vec<WindowEvent<'a>> {
        let mut steps = self.looks(length);
        steps.extend(self.reloads(work.reload_every, length));
        steps.extend(self.flaps(work.flap_every, length));
        steps.sort_by_key(|step| step.at);
        steps
    }

    fn looks(&'a self, length: Duration) -> Vec<WindowEvent<'a>> {
        let every = (length / LOOKS).clamp(LOOK_MIN, LOOK_MAX);
        let look = move |at: Duration| {
            WindowEvent::new(at, move |testbed: &mut Testbed| {
                let pid = testbed.target.as_ref().context("there is nothing to look at")?.pid();
                self.samples.borrow_mut().push(TargetSample {
                    minutes: at.as_secs_f64() / 60.0,
                    rss: memory::of_tree(pid).rss as f64,
                    descriptors: sockets::descriptors(pid) as f64,
                });
                Ok(())
            })
        };
        times(every, length).map(look).collect()
    }

    fn reloads(&'a self, every: Duration, length: Duration) -> impl Iterator<Item = WindowEvent<'a>> {
        times(every, length).skip(1).zip(1..).map(move |(at, number)| {
            WindowEvent::new(at, move |testbed: &mut Testbed| {
                let servers: Vec<SocketAddr> = testbed.servers.iter().map(|server| server.addr).collect();
                let configuration =
                    Configuration::numbered(number, &servers, &self.bench.upstream, self.admin);
                self.bench.reload(self.target, testbed, &configuration, self.room)
            })
        })
    }

    /// In each quarter of `every` but the first one something else: the first server is killed, it is back, the second one hangs.
    fn flaps(&'a self, every: Duration, length: Duration) -> impl Iterator<Item = WindowEvent<'a>> {
        let quarter = every / 4;
        let whole = times(every, length).take_while(move |at| *at + every <= length);
        whole.flat_map(move |at| {
            [
                WindowEvent::new(at + quarter, |testbed: &mut Testbed| testbed.servers[0].kill().map(|_| ())),
                WindowEvent::new(at + 2 * quarter, |testbed: &mut Testbed| {
                    testbed.servers[0].come_back(self.bench)
                }),
                WindowEvent::new(at + 3 * quarter, move |testbed: &mut Testbed| {
                    testbed.servers[1].hang(quarter)
                }),
            ]
        })
    }
}

/// Every so often from the beginning on, before the end.
fn times(every: Duration, length: Duration) -> impl Iterator<Item = Duration> {
    (0..).map(move |number| every * number).take_while(move |at| *at < length)
}
