//! The figures of an exchange, for the counters and the access log.

use std::rc::Rc;

use weir_http::FieldSet;
use weir_observe::{AffinityOutcome, CacheResult, Failure, Party, Phase, PhaseTimes};

use super::client::Client;
use super::client_end::ClientEnd;
use crate::net::clock::{self, Instant};
use crate::state::snapshot::Snapshot;
use crate::state::tracing::trace_queue::ExchangeSpan;
use crate::state::worker_config::WorkerConfig;

/// Bytes of a request id that Weir makes: 128 random bits in hexadecimal.
pub(crate) const REQUEST_ID_LEN: usize = 32;

/// Bytes to the server and to the client inside a tunnel.
#[derive(Debug, Default)]
pub(crate) struct TunnelledBytes {
    /// All of them, once the tunnel is over.
    pub(crate) moved: (u64, u64),
    /// Those that its server has been credited with.
    pub(crate) credited: (u64, u64),
}

/// The figures of one exchange.
#[derive(Debug)]
pub(crate) struct Record {
    /// The config that the exchange runs on, and the place of its listener in it.
    config: Option<(Rc<WorkerConfig>, usize)>,
    /// The config that `upstream` and `server` are of, once a reload has come between the route and the server.
    served: Option<Rc<WorkerConfig>>,
    pub(crate) began: Instant,
    /// The moment up to which `times` accounts.
    pub(crate) accounted: Instant,
    pub(crate) times: PhaseTimes,
    pub(crate) route: Option<usize>,
    pub(crate) upstream: Option<usize>,
    pub(crate) server: Option<usize>,
    pub(crate) attempts: u32,
    /// Exchanges that stood before this one in the queue.
    pub(crate) queue_position: u32,
    /// Whether affinity kept or moved the client; `None` without affinity or response.
    pub(crate) affinity: Option<AffinityOutcome>,
    /// Whether the server connection of the last attempt had carried an exchange before.
    pub(crate) reused: bool,
    /// The status sent to the client; 0 as long as none was.
    pub(crate) status: u16,
    pub(crate) bytes_in: u64,
    /// Bytes of the request body that were received, without framing.
    pub(crate) body_in: u64,
    /// Bytes that were sent to the client, with framing.
    pub(crate) bytes_out: u64,
    /// Bytes that were sent to servers, with framing.
    pub(crate) sent_to_server: u64,
    /// Whether the client's connection goes on.
    pub(crate) client_stays: bool,
    /// Whether the body of the response is Weir's own and not that of a server.
    pub(crate) is_own_answer: bool,
    /// What has passed inside a tunnel.
    pub(crate) tunnelled: Option<Box<TunnelledBytes>>,
    /// The party that ended the tunnel, or ended its direction first.
    pub(crate) ended_by: Option<Party>,
    pub(crate) failure: Option<Failure>,
    /// Whether its log leaves it out, by its condition or by chance; means nothing where that has lines of all.
    pub(crate) is_unlogged: bool,
    /// What the cache did.
    pub(crate) cache: Option<CacheResult>,
    /// More about that.
    pub(crate) cache_detail: Option<&'static str>,
    pub(crate) request_id: Vec<u8>,
    pub(crate) trace: Trace,
}

impl Record {
    pub(crate) fn new() -> Self {
        let now = clock::now();
        Self {
            config: None,
            served: None,
            began: now,
            accounted: now,
            times: PhaseTimes::ZERO,
            route: None,
            upstream: None,
            server: None,
            attempts: 0,
            queue_position: 0,
            affinity: None,
            reused: false,
            status: 0,
            bytes_in: 0,
            body_in: 0,
            bytes_out: 0,
            sent_to_server: 0,
            client_stays: false,
            is_own_answer: false,
            tunnelled: None,
            ended_by: None,
            failure: None,
            is_unlogged: false,
            cache: None,
            cache_detail: None,
            request_id: Vec::new(),
            trace: Trace::NONE,
        }
    }

    /// Forgets the exchange.
    pub(crate) fn reset(&mut self) {
        (self.config, self.served) = (None, None);
        self.times.reset();
        (self.route, self.upstream, self.server) = (None, None, None);
        self.attempts = 0;
        self.queue_position = 0;
        self.affinity = None;
        self.reused = false;
        self.status = 0;
        self.bytes_in = 0;
        (self.body_in, self.bytes_out, self.sent_to_server, self.client_stays) = (0, 0, 0, false);
        self.is_own_answer = false;
        self.tunnelled = None;
        self.ended_by = None;
        self.failure = None;
        (self.cache, self.cache_detail) = (None, None);
        self.request_id.clear();
        self.request_id.shrink_to(REQUEST_ID_LEN);
        self.trace = Trace::NONE;
    }

    /// Begins with a client that gets no further than its failure: it began with the connection if the TLS handshake failed.
    #[cold]
    pub(crate) fn begin_refused(&mut self, client: &Client, failure: Failure) {
        let began = if failure.phase == Phase::Tls { client.opened_at } else { clock::now() };
        (self.began, self.accounted) = (began, began);
    }

    /// Records the progress of the client stream.
    pub(crate) fn update(&mut self, stream: &impl ClientEnd) {
        self.body_in = stream.body_received();
        self.bytes_out = stream.sent();
        self.client_stays = stream.stays_open();
    }

    /// The config that this exchange runs on, to its end: the present one of the worker when it began.
    pub(crate) fn begin_config(&mut self, client: &Client) -> Rc<WorkerConfig> {
        let begin = || client.listener.config_for_exchange(&client.worker.config.borrow());
        Rc::clone(&self.config.get_or_insert_with(begin).0)
    }

    /// It runs on the config of `other`, to its end.
    pub(crate) fn begin_with(&mut self, other: &Record) {
        self.config.clone_from(&other.config);
    }

    /// The place of its listener in that config.
    pub(crate) fn listener(&self) -> usize {
        self.config.as_ref().map_or(0, |(_, listener)| *listener)
    }

    /// The upstream that it goes to has the place `upstream` in a newer config.
    pub(crate) fn move_on(&mut self, config: &Rc<WorkerConfig>, upstream: usize) {
        self.upstream = Some(upstream);
        self.served = Some(Rc::clone(config));
    }

    /// The config that it runs on; `None` before [`Record::begin_config`].
    pub(crate) fn config(&self) -> Option<&Rc<WorkerConfig>> {
        self.config.as_ref().map(|(config, _)| config)
    }

    /// The config that `upstream` and `server` are of; `None` before [`Record::begin_config`].
    pub(crate) fn served(&self) -> Option<&Rc<WorkerConfig>> {
        self.served.as_ref().or(self.config.as_ref().map(|(config, _)| config))
    }

    /// What it has moved on to, if a reload or a change of servers came between the route and the server.
    #[inline]
    pub(crate) fn moved_to(&self) -> Option<&Snapshot> {
        self.served.as_ref().map(|config| &*config.snapshot)
    }

    /// A long exchange releases the config that it began on, if `config` has its route and upstream by the same names.
    pub(crate) fn settle_on(&mut self, config: &Rc<WorkerConfig>, listener: usize) {
        let Some((before, place)) = &self.config else { return };
        let (old, new) = (&before.snapshot.listeners[*place], &config.snapshot.listeners[listener]);
        let route = self.route.map(|route| new.route_named(&old.route_plans[route].config.name));
        let upstream = self.upstream.zip(self.served()).map(|(upstream, served)| {
            config.snapshot.upstream(&served.snapshot.upstreams[upstream].config.name).map(|(index, _)| index)
        });
        if route != Some(None) && upstream != Some(None) {
            (self.route, self.upstream) = (route.flatten(), upstream.flatten());
            (self.config, self.served) = (Some((Rc::clone(config), listener)), None);
        }
    }

    /// Counts the time since the last call as spent in `phase`.
    pub(crate) fn spend(&mut self, phase: Phase, now: Instant) {
        self.times.add(phase, now.micros_since(self.accounted));
        self.accounted = now;
    }
}

/// The trace of an exchange; empty when traces are off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trace {
    pub(in crate::exchange) own: Option<ExchangeSpan>,
    /// Fields of the request that are not copied.
    pub(in crate::exchange) stripped: FieldSet,
}

impl Trace {
    /// Of no trace.
    pub(crate) const NONE: Self = Self { own: None, stripped: FieldSet::EMPTY };

    /// Its place, if it is sampled.
    #[inline]
    pub(crate) fn sampled(&self) -> Option<&ExchangeSpan> {
        self.own.as_ref().filter(|own| own.traceparent.is_sampled)
    }

    /// The id of the trace, as it is written everywhere.
    pub(crate) fn id_digits(&self) -> Option<[u8; 32]> {
        self.own.as_ref().map(|own| own.traceparent.trace_id_digits())
    }

    /// The id of the trace; 0 when there is none.
    #[inline]
    pub(crate) fn id(&self) -> u128 {
        self.own.as_ref().map_or(0, |own| own.traceparent.trace_id)
    }
}
