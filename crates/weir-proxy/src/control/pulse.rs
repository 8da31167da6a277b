//! The pulse of the process: rates and quantiles of the last seconds, from figures that are taken once a second.
//!
//! Costs nothing where nobody can ask for it: it beats only when there is an admin listener. Figures are kept by name, so a reload
//! does not lose the history of what it leaves alone.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_observe::overview::{History, Moment, Quantiles, Rate, Rates};
use weir_observe::{Figures, HistogramSnapshot, ListenerFigures, ServerFigures, UpstreamFigures};

use crate::clock;

/// How often figures are taken.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// How many beats a window of response times takes in; the quantiles that are shown cover one to two of them.
const WINDOW: u32 = 5;

/// What is known of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Pulse(Mutex<Beats>);

#[derive(Debug, Default)]
struct Beats {
    last: Option<(Instant, Figures)>,
    workers: Vec<Rate>,
    listeners: HashMap<String, Track>,
    upstreams: HashMap<String, Track>,
    servers: HashMap<(String, String), Track>,
}

/// The last seconds of a listener, an upstream or a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Track {
    pub(crate) rates: Rates,
    pub(crate) history: History,
    times: Windows,
    /// Beats without anything.
    idle_beats: usize,
}

/// Response times of the last seconds, in two windows: however long it goes on, there is no more to keep.
#[derive(Debug, Clone, Default)]
struct Windows {
    whole: Option<HistogramSnapshot>,
    begun: HistogramSnapshot,
    beats: u32,
}

impl Windows {
    fn note(&mut self, times: &HistogramSnapshot) {
        if self.beats == WINDOW {
            self.whole = Some(std::mem::take(&mut self.begun));
            self.beats = 0;
        }
        self.begun.merge(times);
        self.beats += 1;
    }

    fn quantiles(&self) -> Quantiles {
        let mut sum = self.begun.clone();
        self.whole.iter().for_each(|whole| sum.merge(whole));
        Quantiles::of(&sum)
    }
}

impl Track {
    /// The response times of the last seconds.
    pub(crate) fn response_time(&self) -> Quantiles {
        self.times.quantiles()
    }

    fn note(&mut self, counts: Counts, seconds: f64) {
        let rates = &mut self.rates;
        rates.connections.note(counts.connections, seconds);
        rates.requests.note(counts.requests, seconds);
        rates.failures.note(counts.failures, seconds);
        rates.bytes_in.note(counts.bytes_in, seconds);
        rates.bytes_out.note(counts.bytes_out, seconds);
    }

    /// Whether nothing has happened for as long as is remembered; `counts` are those of this beat.
    fn has_been_idle(&mut self, counts: Counts) -> bool {
        self.idle_beats = if counts.is_nothing() { self.idle_beats + 1 } else { 0 };
        self.idle_beats > History::SECONDS
    }

    fn push(&mut self, at_ms: u64, times: Option<&HistogramSnapshot>) {
        let (requests, failures) = (self.rates.requests.now, self.rates.failures.now);
        let moment = Moment { at_ms, requests, failures, ..Moment::default() };
        self.history.push(times.map_or(moment.clone(), |times| moment.with_times(times)));
    }
}

/// What was counted of a part.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    connections: u64,
    requests: u64,
    failures: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Counts {
    fn of_listener(figures: &ListenerFigures) -> Self {
        Self {
            connections: figures.sessions,
            requests: figures.requests,
            failures: figures.failures.total(),
            bytes_in: figures.bytes_in,
            bytes_out: figures.bytes_out,
        }
    }

    fn of_server(figures: &ServerFigures) -> Self {
        Self {
            connections: figures.connects,
            requests: figures.attempts,
            failures: figures.failures.iter().sum(),
            bytes_in: figures.bytes_in,
            bytes_out: figures.bytes_out,
        }
    }

    fn of_upstream(figures: &UpstreamFigures) -> Self {
        let servers = figures.servers.iter().map(Self::of_server);
        let sum = servers.fold(Self::default(), |sum, server| Self {
            connections: sum.connections + server.connections,
            bytes_in: sum.bytes_in + server.bytes_in,
            bytes_out: sum.bytes_out + server.bytes_out,
            ..sum
        });
        Self { requests: figures.requests, failures: figures.failures.total(), ..sum }
    }

    fn is_nothing(self) -> bool {
        self.connections | self.requests | self.failures | self.bytes_in | self.bytes_out == 0
    }

    fn since(self, before: Self) -> Self {
        Self {
            connections: self.connections.saturating_sub(before.connections),
            requests: self.requests.saturating_sub(before.requests),
            failures: self.failures.saturating_sub(before.failures),
            bytes_in: self.bytes_in.saturating_sub(before.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(before.bytes_out),
        }
    }
}

impl Pulse {
    /// Takes note of figures that were taken now.
    pub(crate) fn beat(&self, figures: Figures) {
        let now = clock::now();
        let at_ms = u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX);
        let mut beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What came before the first beat belongs to the first second.
        let (seconds, before) = match beats.last.take() {
            None => (BEAT.as_secs_f64(), Figures::default()),
            Some((then, before)) => (now.saturating_duration_since(then).as_secs_f64(), before),
        };
        beats.compare(&before, &figures, seconds, at_ms);
        beats.last = Some((now, figures));
    }

    /// The last seconds of a worker.
    pub(crate) fn worker(&self, index: usize) -> Rate {
        let beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beats.workers.get(index).copied().unwrap_or_default()
    }

    /// The last seconds of a listener.
    pub(crate) fn listener(&self, name: &str) -> Track {
        let beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beats.listeners.get(name).cloned().unwrap_or_default()
    }

    /// The last seconds of an upstream.
    pub(crate) fn upstream(&self, name: &str) -> Track {
        let beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beats.upstreams.get(name).cloned().unwrap_or_default()
    }

    /// What the last seconds of a server came to.
    pub(crate) fn server(&self, upstream: &str, server: &str) -> (Rates, Quantiles) {
        let beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let track = beats.servers.get(&(upstream.to_owned(), server.to_owned()));
        track.map(|track| (track.rates, track.response_time())).unwrap_or_default()
    }
}

impl Beats {
    fn compare(&mut self, before: &Figures, now: &Figures, seconds: f64, at_ms: u64) {
        self.workers.resize(now.workers.len(), Rate::default());
        for ((rate, before), now) in self.workers.iter_mut().zip(&before.workers).zip(&now.workers) {
            rate.note(now.exchanges.saturating_sub(before.exchanges), seconds);
        }
        let names: HashSet<&str> = now.listeners.iter().map(|figures| &*figures.name).collect();
        self.listeners.retain(|name, _| names.contains(&**name));
        let known = before.listeners.iter().map(|figures| (&*figures.name, figures));
        let known: HashMap<&str, &ListenerFigures> = known.collect();
        for figures in &now.listeners {
            let before = known.get(&*figures.name).copied();
            let track = self.listeners.entry(figures.name.clone()).or_default();
            let before = before.map(Counts::of_listener).unwrap_or_default();
            track.note(Counts::of_listener(figures).since(before), seconds);
            track.push(at_ms, None);
        }
        let names: HashSet<&str> = now.upstreams.iter().map(|figures| &*figures.name).collect();
        self.upstreams.retain(|name, _| names.contains(&**name));
        let known = before.upstreams.iter().map(|figures| (&*figures.name, figures));
        let known: HashMap<&str, &UpstreamFigures> = known.collect();
        let mut servers = HashMap::with_capacity(self.servers.len());
        for figures in &now.upstreams {
            let before = known.get(&*figures.name).copied();
            let times = self.compare_servers(before, figures, seconds, &mut servers);
            let before = before.map(Counts::of_upstream).unwrap_or_default();
            let counts = Counts::of_upstream(figures).since(before);
            let idle = !self.upstreams.contains_key(&figures.name) && counts.is_nothing();
            if idle && times.count() == 0 {
                continue;
            }
            let track = self.upstreams.entry(figures.name.clone()).or_default();
            track.note(counts, seconds);
            track.push(at_ms, Some(&times));
            track.times.note(&times);
            if track.has_been_idle(counts) {
                track.history.clear();
            }
        }
        // What is left in the old map belongs to servers that are gone.
        self.servers = servers;
    }

    /// The response times of all servers of an upstream together.
    fn compare_servers(
        &mut self,
        before: Option<&UpstreamFigures>,
        now: &UpstreamFigures,
        seconds: f64,
        servers: &mut HashMap<(String, String), Track>,
    ) -> HistogramSnapshot {
        let mut all = HistogramSnapshot::new();
        for (index, figures) in now.servers.iter().enumerate() {
            let is_it = |before: &&ServerFigures| before.name == figures.name;
            let before = before.and_then(|before| {
                before.servers.get(index).filter(is_it).or_else(|| before.servers.iter().find(is_it))
            });
            let counted = before.map(Counts::of_server).unwrap_or_default();
            let counts = Counts::of_server(figures).since(counted);
            let key = (now.name.clone(), figures.name.clone());
            let mut track = match self.servers.remove(&key) {
                Some(track) => track,
                // What is idle is not followed: there are configs of a hundred thousand servers.
                None if counts.is_nothing() => continue,
                None => Track::default(),
            };
            track.note(counts, seconds);
            let times = match before {
                Some(before) => figures.response_time.since(&before.response_time),
                None => figures.response_time.clone(),
            };
            all.merge(&times);
            track.times.note(&times);
            servers.insert(key, track);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use weir_observe::{Names, ServerShard, UpstreamNames};

    use super::*;

    #[test]
    fn quantiles_are_of_the_last_seconds_only() {
        let recorded = |micros: u64, times: u64| {
            let histogram = weir_observe::Histogram::new();
            (0..times).for_each(|_| histogram.record(micros));
            histogram.snapshot()
        };
        let mut windows = Windows::default();
        windows.note(&recorded(5, 1_000));
        assert_eq!(windows.quantiles().p50_us, Some(5));
        (1..2 * WINDOW).for_each(|_| windows.note(&recorded(7, 1)));
        assert_eq!(windows.quantiles().p50_us, Some(5), "the first window is still whole");
        windows.note(&recorded(7, 1));
        assert_eq!((windows.quantiles().p50_us, windows.quantiles().count), (Some(7), u64::from(WINDOW) + 1));
    }

    #[test]
    fn a_server_is_known_again_by_its_name() {
        let figures = |names: &[&str], attempts: &[u64]| {
            let servers = names.iter().map(|name| (*name).to_owned()).collect();
            let upstreams = vec![UpstreamNames { name: "app".to_owned(), servers }];
            let mut figures = Figures::named(&Names { listeners: Vec::new(), upstreams });
            for (index, count) in attempts.iter().enumerate() {
                let shard = ServerShard::default();
                shard.attempts.add(*count);
                figures.add_server(0, index, &shard);
            }
            figures
        };
        let mut beats = Beats::default();
        let (before, after) = (figures(&["a", "b"], &[10, 20]), figures(&["b", "c"], &[25, 3]));
        beats.compare(&before, &after, 1.0, 0);
        let rate =
            |name: &str| beats.servers.get(&("app".to_owned(), name.to_owned())).map(|track| track.rates);
        assert_eq!(rate("b").map(|rates| rates.requests.now), Some(5.0));
        assert_eq!(rate("c").map(|rates| rates.requests.now), Some(3.0));
        assert_eq!(rate("a"), None);
    }
}
