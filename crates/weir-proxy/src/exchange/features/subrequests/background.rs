//! Requests of Weir's own that no exchange waits for: each is a task of this worker, with a client, an exchange and a time limit of its own.
//!
//! How many there are at once is bounded; one more is refused and counted. One that runs is listed among the connections, ends with the worker and does
//! not keep it alive. Must not know what it is for.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::Duration;

use weir_observe::{Cause, Failure, Phase};

use super::subrequest::{self, ResponseTaker};
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::plans::Plans;
use crate::net::clock;
use crate::net::tls::facts::{OwnedTlsFacts, TlsFacts};
use crate::state::snapshot::RoutePlan;
use crate::state::worker::Worker;
use crate::upstream::stream::Servers;

/// What takes the response, and hears how it went.
pub(in crate::exchange) trait BackgroundTaker: ResponseTaker + 'static {
    /// The request is over: its response was taken as far as it was wanted, or this is why not. Not called when the worker ends first.
    fn end(self, outcome: Result<(), Failure>);
}

/// A request that is composed.
pub(in crate::exchange) struct BackgroundRequest {
    /// From [`subrequest::exchange_beside`].
    pub(in crate::exchange) exchange: Box<Exchange>,
    /// The route that it takes.
    pub(in crate::exchange) route: BackgroundRoute,
    pub(in crate::exchange) body: Vec<u8>,
    /// How long it may take in all.
    pub(in crate::exchange) timeout: Duration,
}

/// The route by which a request goes to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exchange) enum BackgroundRoute {
    /// That of the exchange.
    Route,
    /// That of the target of its split in this place.
    Target(usize),
    /// To the mirror with this place, of the route or of a target of its split.
    Mirror { target: Option<usize>, place: usize },
    /// To the server that has the keys of tokens.
    Keys,
}

impl BackgroundRoute {
    fn plan(self, route: &RoutePlan) -> Option<&RoutePlan> {
        match self {
            BackgroundRoute::Route => Some(route),
            BackgroundRoute::Target(place) => route.target(place),
            BackgroundRoute::Mirror { target, place } => {
                let route = target.map_or(Some(route), |target| route.target(target))?;
                route.mirrors.get(place).map(|mirror| &mirror.route)
            }
            BackgroundRoute::Keys => route.keys_route.as_deref(),
        }
    }
}

/// Begins a request for the same client; whether it was not refused.
pub(in crate::exchange) fn begin(
    context: &Context<'_, impl ClientEnd, impl Servers>,
    request: BackgroundRequest,
    taker: impl BackgroundTaker,
) -> bool {
    let Some(permit) = Permit::take(&context.client.worker) else { return false };
    let servers = context.servers.for_background();
    let client = TaskClient { client: context.client.for_task(), _permit: permit };
    let end = BackgroundEnd::new(&*context.stream);
    let address = context.known_client_address;
    tokio::task::spawn_local(run(client, (end, address), servers, request, taker));
    true
}

/// Begins a request that no client has given rise to, unless it is refused: then the taker comes back.
pub(in crate::exchange) fn begin_alone<T: BackgroundTaker>(
    mut client: Client,
    servers: impl Servers,
    request: BackgroundRequest,
    taker: T,
) -> Result<(), T> {
    let Some(permit) = Permit::take(&client.worker) else {
        client.leave_task();
        return Err(taker);
    };
    let client = TaskClient { client, _permit: permit };
    let end = BackgroundEnd { tls: None, local_address: None, is_early: false };
    tokio::task::spawn_local(run(client, (end, None), servers, request, taker));
    Ok(())
}

async fn run<U: Servers>(
    mut own: TaskClient,
    (mut end, known_client_address): (BackgroundEnd, Option<IpAddr>),
    mut servers: U,
    request: BackgroundRequest,
    mut taker: impl BackgroundTaker,
) {
    let BackgroundRequest { mut exchange, route, body, timeout } = request;
    let client = &mut own.client;
    std::future::poll_fn(|cx| {
        client.deadline.enter(cx);
        Poll::Ready(())
    })
    .await;
    client.now = clock::now();
    client.deadline.set_ceiling(Some(client.now + timeout));
    let config = exchange.record.begin_config(client);
    let upstream = exchange.record.upstream;
    let context = Context::new(client, &mut end, &mut servers, &mut exchange, &config);
    let context = &mut Context { known_client_address, ..context };
    let outcome = match (context.route().and_then(|of_exchange| route.plan(of_exchange)), upstream) {
        (Some(route), Some(upstream)) => {
            let plans = Plans::new(&config, route, upstream);
            subrequest::run(context, plans, &body, &mut taker).await
        }
        _ => Err(Failure::weir(Phase::Route, Cause::NoServer).into()),
    };
    taker.end(outcome.map_err(|ended| match ended {
        Ended::Failed(failure) => failure,
        Ended::Closed | Ended::Rerouted => Failure::weir(Phase::Request, Cause::Closed),
    }));
}

/// The end of the client that it is made for, which does not wait for it.
struct BackgroundEnd {
    tls: Option<OwnedTlsFacts>,
    local_address: Option<SocketAddr>,
    /// Whether the request of that client was early: there is no telling later.
    is_early: bool,
}

impl BackgroundEnd {
    fn new(end: &impl ClientEnd) -> Self {
        let owned = |facts: TlsFacts<'_>| {
            let certificate = facts.client_certificate.map(|certificate| Box::new(certificate.clone()));
            OwnedTlsFacts::new(&facts, certificate)
        };
        Self { tls: end.tls().map(owned), local_address: end.local_address(), is_early: end.is_early() }
    }
}

impl ClientEnd for BackgroundEnd {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.tls.as_ref().map(OwnedTlsFacts::get)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.local_address
    }

    fn is_early(&self) -> bool {
        self.is_early
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, _cx: &mut task::Context<'_>, _client: &mut Client) -> Option<Cause> {
        None
    }

    fn body_received(&self) -> u64 {
        0
    }

    fn sent(&self) -> u64 {
        0
    }

    fn stays_open(&self) -> bool {
        false
    }
}

/// The client of one such request.
struct TaskClient {
    client: Client,
    _permit: Permit,
}

impl Drop for TaskClient {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.client.worker.shard.panics.increment();
        }
        self.client.leave_task();
    }
}

/// The place of one among the background requests, and its share of the buffers.
struct Permit(Rc<Worker>);

impl Permit {
    /// `None`, and counted, when there are enough, or when buffers are short: they are for the exchanges of clients.
    fn take(worker: &Rc<Worker>) -> Option<Self> {
        let open = worker.background_open.get();
        if open >= worker.background_max() || worker.exchanges.is_scarce() || !worker.exchanges.try_take() {
            worker.shard.background_refused.increment();
            return None;
        }
        worker.background_open.set(open + 1);
        worker.shard.background_requests.increment();
        worker.shard.background_open.increment();
        Some(Self(Rc::clone(worker)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let worker = &self.0;
        worker.background_open.update(|open| open - 1);
        worker.shard.background_open.decrement();
        worker.exchanges.give_back();
        worker.wake_waiting_for_buffers();
    }
}
