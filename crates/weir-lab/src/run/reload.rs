//! A target that is given one configuration after the other while requests and tunnels go through it: what is lost, when the
//! new one is in effect, and what memory is left over.
//!
//! With each configuration one server goes and the one that went before comes back; the limit of answers and the way to choose
//! a server change as well. That a configuration is in effect is seen from where requests come to, not from what the target says.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};

use super::ladder::availability;
use super::measurement::Measurement;
use super::outage::TIMEOUT;
use super::stand::{Bench, Stand};
use super::steady;
use super::traced::{self, Load};
use super::window::Step;
use crate::clock;
use crate::load::held::Held;
use crate::load::{Arrival, Connections, Outcome, Plan, Progress, driver, websocket};
use crate::measure::memory;
use crate::measure::metric::Metric;
use crate::origin::journal::Visit;
use crate::scenario::clients::Reload;
use crate::scenario::upstream::{Balance, Upstream};
use crate::scenario::{Rounds, Steady};
use crate::target::{Room, Target};

/// Bytes of a message in the tunnels.
const MESSAGE: usize = 32;

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &Reload,
    rounds: &Rounds,
    target: Target,
) -> anyhow::Result<Measurement> {
    // The connections of requests that come one by one are few at any time.
    let clients = 2 * (work.clients + work.tunnels) as u64;
    let room = Room { clients, servers: clients };
    let mut stand = bench.stand_with(target, room)?;
    let message = &websocket::prepare(&stand.authority, MESSAGE)[0];
    let mut held = Held::new(stand.addr, message);
    held.grow_to(work.tunnels).map_err(|fault| anyhow!("tunnels: {fault}"))?;
    let before = rss(&stand)?;
    let rounds = Rounds { window: work.every * (work.times + 1), ..*rounds };
    let told = RefCell::new(Vec::new());
    let mut steps = steps(bench, work, target, room, &told);
    let (mut measurement, kept, short) = drive(bench, work, &rounds, &mut stand, &mut steps)?;
    drop(steps);
    let lost = held.lost(|| bench.options.is_interrupted());
    ensure!(!bench.options.is_interrupted(), "interrupted");
    stand.is_alive()?;
    let (answered, mut faults) = (kept.exchanges + short.exchanges, kept.faults);
    faults.join(short.faults);
    let after = rss(&stand)?;
    let values = &mut measurement.values;
    values.insert(Metric::LostTunnels, lost as f64);
    values.insert(Metric::Rss, after);
    values.insert(Metric::RssGrowth, after - before);
    values.insert(Metric::Availability, availability(answered, faults.total));
    measurement.notes.clear();
    measurement.note_failed(faults);
    match effects(&told.take(), &stand.journals()?) {
        Ok(longest) => {
            measurement.values.insert(Metric::TakesEffect, longest as f64 / 1000.0);
        }
        Err(number) => {
            measurement.failure = Some(format!("configuration {number} was never in effect"));
        }
    }
    Ok(measurement)
}

/// Clients that keep their connections, with those beside them that do not.
fn drive(
    bench: &Bench<'_>,
    work: &Reload,
    rounds: &Rounds,
    stand: &mut Stand,
    steps: &mut [Step<'_>],
) -> anyhow::Result<(Measurement, Outcome, Outcome)> {
    let arrival = Arrival::Rate(work.rate);
    let load =
        Load { clients: work.clients, service: Duration::ZERO, body_len: 0, arrival, timeout: TIMEOUT };
    let plan = load.plan(stand, rounds);
    let short = Steady { keep_alive: false, ..Steady::of(work.clients) };
    let short = steady::plan(stand, &short, rounds, Some(work.short_rate));
    let short = Plan { connections: Connections::PerExchange, faults_max: u64::MAX, ..short };
    let progress = Progress::default();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| driver::run(&short, &progress));
        let driven = traced::drive(bench, stand, &plan, steps);
        if driven.is_err() {
            progress.stop.store(true, Ordering::Relaxed);
        }
        let short = running.join().ok().context("the driver panicked")??;
        let (measurement, kept) = driven?;
        Ok((measurement, kept, short))
    })
}

/// The reloads. Tells when each configuration was `told`, in nanoseconds of `clock::uptime_ns`.
fn steps<'a>(
    bench: &'a Bench<'_>,
    work: &Reload,
    target: Target,
    room: Room,
    told: &'a RefCell<Vec<u64>>,
) -> Vec<Step<'a>> {
    let step = |number: u32| {
        Step::new(work.every * number, move |stand: &mut Stand| {
            let servers: Vec<SocketAddr> = stand.servers.iter().map(|server| server.addr).collect();
            let listed = without(&servers, number);
            told.borrow_mut().push(clock::uptime_ns());
            bench.reload(target, stand, &listed, &changed(&bench.upstream, number), room)
        })
    };
    (1..=work.times).map(step).collect()
}

/// The servers of configuration `number`, from 1 on.
fn without(servers: &[SocketAddr], number: u32) -> Vec<SocketAddr> {
    let gone = (number as usize - 1) % servers.len();
    servers.iter().enumerate().filter(|(index, _)| *index != gone).map(|(_, addr)| *addr).collect()
}

/// What else differs in it.
fn changed(upstream: &Upstream, number: u32) -> Upstream {
    let is_odd = number % 2 == 1;
    let balance = if is_odd { Balance::LeastRequests } else { Balance::RoundRobin };
    let response_timeout = Some(Duration::from_secs(if is_odd { 20 } else { 10 }));
    Upstream { balance: Some(balance), response_timeout, ..*upstream }
}

/// The longest time until a configuration was in effect, ns: until the server that came back with it got a request. The first
/// one brings none back.
///
/// # Errors
/// The number of the configuration that was not, before the next one was told.
fn effects(told: &[u64], journals: &[Vec<Visit>]) -> Result<u64, usize> {
    let mut longest = 0;
    for (index, at) in told.iter().enumerate().skip(1) {
        let until = told.get(index + 1).copied().unwrap_or(u64::MAX);
        let back = &journals[(index - 1) % journals.len()];
        let came = back.iter().filter(|visit| visit.client().is_some()).map(|visit| visit.got);
        let first = came.filter(|got| (*at..until).contains(got)).min().ok_or(index + 1)?;
        longest = longest.max(first - at);
    }
    Ok(longest)
}

fn rss(stand: &Stand) -> anyhow::Result<f64> {
    let pid = stand.target.as_ref().context("there is nothing to reload")?.pid();
    Ok(memory::of_tree(pid).rss as f64)
}

#[cfg(test)]
mod tests {
    use super::{Visit, changed, effects, without};
    use crate::scenario::upstream::Upstream;
    use std::net::SocketAddr;

    #[test]
    fn with_each_configuration_a_server_goes_and_the_last_one_comes_back() {
        let servers: Vec<SocketAddr> = (1..=3).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let ports = |number| without(&servers, number).iter().map(SocketAddr::port).collect::<Vec<_>>();
        assert_eq!([ports(1), ports(2), ports(3), ports(4)], [[2, 3], [1, 3], [1, 2], [2, 3]]);
        let upstream = Upstream::default();
        assert_ne!(changed(&upstream, 1), changed(&upstream, 2));
    }

    fn visits(times: &[u64]) -> Vec<Visit> {
        let target = "/delay/0/client/1".to_owned();
        times.iter().map(|got| Visit { got: *got, began: None, done: None, target: target.clone() }).collect()
    }

    #[test]
    fn a_configuration_is_in_effect_when_the_server_that_comes_back_gets_a_request() {
        let told = [1000, 2000, 3000];
        // The first server is out from 1000 to 2000, the second from 2000 to 3000, the third from 3000 on.
        let right = [visits(&[900, 2050, 2060]), visits(&[1500, 3070]), visits(&[2500])];
        assert_eq!(effects(&told, &right), Ok(70));
        let stuck = [visits(&[900, 3001]), visits(&[1500, 3070]), visits(&[2500])];
        assert_eq!(effects(&told, &stuck), Err(2));
        let [first, _, third] = right;
        assert_eq!(effects(&told, &[first, visits(&[1500]), third]), Err(3));
    }
}
