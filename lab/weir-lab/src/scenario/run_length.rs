//! The same questions asked in less time: `shortened` shows that everything works and means nothing, `brief` still measures, with
//! fewer rounds and shorter windows, and says so.

use std::time::Duration;

use super::Scenario;

/// How long a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunLength {
    /// As the scenario says.
    #[default]
    Full,
    /// Fewer rounds and shorter windows; figures with less certainty.
    Brief,
    /// A few seconds, to see that everything works.
    Trial,
}

impl RunLength {
    /// `scenario` at this length.
    pub fn of(self, scenario: &Scenario) -> Scenario {
        match self {
            Self::Full => scenario.clone(),
            Self::Brief => scenario.brief(),
            Self::Trial => scenario.shortened(),
        }
    }
}

impl Scenario {
    /// A version of a few seconds that shows that everything works. Its figures mean nothing.
    pub fn shortened(&self) -> Self {
        let mut short = self.clone();
        short.rounds.count = short.rounds.count.min(2);
        short.rounds.warm_up = short.rounds.warm_up.min(Duration::from_millis(200));
        short.rounds.window = short.rounds.window.min(Duration::from_millis(800));
        if let Some(idle) = &mut short.idle {
            idle.clients.iter_mut().for_each(|clients| *clients = clients.div_ceil(20));
            idle.settle = idle.settle.min(Duration::from_millis(100));
            if let Some(tunnels) = &mut idle.tunnels {
                tunnels.heartbeat = tunnels.heartbeat.min(short.rounds.window);
            }
        }
        if let Some(crowd) = &mut short.crowd {
            crowd.clients.truncate(1);
            crowd.clients.iter_mut().for_each(|clients| *clients = clients.div_ceil(10));
            // siege and ab count in whole seconds.
            short.rounds.window = Duration::from_secs(1);
            short.rounds.count = 1;
        }
        if let Some(queue) = &mut short.queue {
            queue.clients.truncate(2);
        }
        if let Some(outage) = &mut short.outage {
            short.rounds.window = Duration::from_secs(1);
            (outage.after, outage.length) = (Duration::from_millis(200), Duration::from_millis(400));
        }
        if let Some(overload) = &mut short.overload {
            short.upstream.queue_timeout = Some(Duration::from_millis(200));
            overload.after = Duration::from_millis(800);
        }
        if let Some(slow) = &mut short.slow {
            slow.slow = (4 * slow.service).min(slow.slow);
        }
        if short.probes.is_some() {
            short.upstream.servers = short.upstream.servers.min(100);
        }
        if let Some(persistence) = &mut short.persistence {
            (persistence.clients, persistence.requests) = (100, 10);
            (persistence.after, persistence.length) =
                (Duration::from_millis(300), Duration::from_millis(300));
            persistence.settle = Duration::from_millis(100);
        }
        if let (Some(unfinished), Some(tls)) = (&mut short.unfinished, &mut short.listener.tls) {
            unfinished.clients.iter_mut().for_each(|clients| *clients = clients.div_ceil(50));
            unfinished.settle = unfinished.settle.min(Duration::from_millis(100));
            tls.handshake_timeout = tls.handshake_timeout.min(Some(Duration::from_secs(2)));
        }
        short.trial_of_clients();
        short
    }

    fn trial_of_clients(&mut self) {
        if let Some(outage) = &mut self.outage {
            outage.quiet = outage.quiet.map(|quiet| quiet.min(Duration::from_secs(1)));
        }
        if let Some(ladder) = &mut self.ladder {
            ladder.clients.truncate(2);
            ladder.clients.iter_mut().for_each(|clients| *clients = clients.div_ceil(10));
        }
        if let Some(slow) = &mut self.slow_clients {
            (slow.readers, slow.writers) = (slow.readers.min(4), slow.writers.min(4));
            (slow.answer, slow.body) =
                (slow.answer.min(slow.pace / 4), slow.body.min(slow.pace as usize / 4));
        }
        if let Some(reload) = &mut self.reload {
            (reload.tunnels, reload.touched_tunnels) =
                (reload.tunnels.min(10), reload.touched_tunnels.min(6));
            reload.times = reload.times.min(3);
            reload.every = reload.every.min(Duration::from_secs(2));
        }
        if let Some(soak) = &mut self.soak {
            self.rounds.window = Duration::from_secs(1);
            (soak.tunnels, soak.slow) = (soak.tunnels.min(10), soak.slow.min(2));
            soak.quicken(self.rounds.window);
        }
    }

    /// A version whose figures can be read, with less certainty: for `suite --short`.
    #[must_use]
    pub fn brief(&self) -> Self {
        let mut brief = self.clone();
        let rounds = &mut brief.rounds;
        rounds.count = rounds.count.min(2);
        rounds.warm_up = rounds.warm_up.min(Duration::from_millis(500));
        rounds.window = rounds.window.min(Duration::from_secs(2));
        brief.brief_loads();
        brief.brief_servers();
        brief
    }

    /// The differences of loads on one server.
    fn brief_loads(&mut self) {
        let rounds = &mut self.rounds;
        if let Some(idle) = &mut self.idle {
            rounds.count = 1;
            // The slope needs few points; the largest number is the question.
            let (first, last) = (idle.clients.first().copied(), idle.clients.last().copied());
            idle.clients = first.into_iter().chain(last).collect();
            // With HTTP/2 some memory is given back after a while only.
            if !idle.http2 {
                idle.settle = idle.settle.min(Duration::from_millis(500));
            }
            if let Some(tunnels) = &mut idle.tunnels {
                tunnels.heartbeat = tunnels.heartbeat.min(Duration::from_secs(6));
                rounds.window = tunnels.heartbeat;
            }
        }
        if self.crowd.is_some() {
            // A tool that hangs on a target that drops connections is waited for and started again, in each round.
            rounds.count = 1;
        }
        if let Some(ladder) = &self.ladder {
            rounds.count = 1;
            if ladder.clients.iter().any(|clients| *clients > 1000) {
                // Thousands of connections take a while to come about.
                rounds.warm_up = Duration::from_millis(1500);
            }
        }
        if self.slow_clients.is_some() || self.slow_stream.is_some() || self.flood.is_some() {
            rounds.count = 1;
            rounds.window = Duration::from_secs(5);
        }
        if let (Some(unfinished), Some(tls)) = (&mut self.unfinished, &mut self.listener.tls) {
            unfinished.clients.iter_mut().for_each(|clients| *clients = clients.div_ceil(4));
            tls.handshake_timeout = tls.handshake_timeout.min(Some(Duration::from_secs(5)));
            rounds.count = 1;
        }
    }

    /// The differences of works with events on the servers: their length is fixed, so there is one round.
    fn brief_servers(&mut self) {
        let rounds = &mut self.rounds;
        if self.queue.is_some() {
            rounds.count = 1;
            rounds.window = Duration::from_secs(5);
        }
        if let Some(outage) = &mut self.outage {
            rounds.count = 1;
            outage.length = outage.length.min(Duration::from_secs(4));
            outage.quiet = outage.quiet.map(|quiet| quiet.min(Duration::from_secs(3)));
            // A target without probes finds out after ten seconds that a server is back.
            let learns = Duration::from_secs(if outage.quiet.is_some() { 11 } else { 2 });
            rounds.window = outage.after + outage.length + learns;
        }
        if let Some(overload) = &mut self.overload {
            (rounds.count, rounds.window) = (1, Duration::from_secs(15));
            overload.after = overload.after.min(Duration::from_secs(15));
        }
        if self.slow.is_some() {
            (rounds.count, rounds.window) = (1, Duration::from_secs(10));
        }
        if self.probes.is_some() {
            (rounds.count, rounds.warm_up, rounds.window) =
                (1, Duration::from_secs(2), Duration::from_secs(6));
        }
        if let Some(persistence) = &mut self.persistence {
            let seen = Duration::from_secs(3);
            persistence.after = seen;
            persistence.length = persistence.settle + seen;
            persistence.requests = persistence.requests.min(30);
            (rounds.count, rounds.window) = (1, persistence.after + 2 * persistence.length);
        }
        if let Some(reload) = &mut self.reload {
            rounds.count = 1;
            reload.times = reload.times.min(5);
            reload.every = reload.every.min(Duration::from_secs(2));
            rounds.window = reload.length();
        }
        if let Some(soak) = &mut self.soak {
            rounds.count = 1;
            rounds.window = Duration::from_secs(60);
            soak.quicken(rounds.window);
        }
    }
}
