//! The body of a response on its way into the store, as fast as the server gives it: clients read it from there, and may leave.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{self, Poll};

use weir_cache::store::{BodyWriter, StoredResponse};
use weir_observe::{Failure, Party};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::waits::Waits;
use crate::exchange::phases::{finish, respond};
use crate::net::clock;
use crate::relay::Relay;
use crate::relay::ends::RelayError;
use crate::relay::failure::of_response_body;
use crate::relay::stored::{BodyBeginning, StoringSink};
use crate::state::caching::cache::CacheState;
use crate::state::connections::activity::Activity;
use crate::state::routes::wait_limits::WaitLimits;
use crate::state::worker::Worker;
use crate::upstream::stream::{Destination, ServerStream, Servers};

/// A response whose head is stored, and the server that gives its body.
pub(in crate::exchange) struct Fill<T> {
    pub(in crate::exchange) responding: RespondingServer<T>,
    relay: Relay,
    sink: StoringSink,
    stored: Arc<StoredResponse>,
    cache: Arc<CacheState>,
}

/// What has come of a body before its response is stored.
pub(in crate::exchange) struct Begun {
    relay: Relay,
    beginning: BodyBeginning,
}

/// Takes what is here of the body of a response.
///
/// # Errors
/// When the server has broken it off already.
pub(in crate::exchange) async fn begin<T: ServerStream>(
    client: &Client,
    responding: &mut RespondingServer<T>,
) -> Result<Begun, RelayError> {
    let mut begun = Begun { relay: Relay::new(), beginning: BodyBeginning::default() };
    let stock = &client.worker.stock;
    let polled = poll_fn(|cx| {
        let server = &mut responding.server;
        Poll::Ready(server.poll_response(cx, &mut begun.relay, &mut begun.beginning, stock))
    })
    .await;
    match polled {
        Poll::Ready(Err(error)) => Err(error),
        Poll::Ready(Ok(())) | Poll::Pending => Ok(begun),
    }
}

impl<T: ServerStream> Fill<T> {
    /// The body of `stored`, which `writer` takes.
    pub(in crate::exchange) fn new(
        (responding, begun): (RespondingServer<T>, Begun),
        (stored, writer): (Arc<StoredResponse>, BodyWriter),
        cache: &Arc<CacheState>,
    ) -> Self {
        let sink = StoringSink::begun(writer, &begun.beginning);
        Self { responding, relay: begun.relay, sink, stored, cache: Arc::clone(cache) }
    }

    fn poll(&mut self, cx: &mut task::Context<'_>, worker: &Worker) -> Poll<Result<(), RelayError>> {
        self.responding.server.poll_response(cx, &mut self.relay, &mut self.sink, &worker.stock)
    }
}

/// Fills the store with the body: at once if it is here already, else in a task of its own. When the server has cut it short, those who read it see that.
pub(in crate::exchange) async fn run<U: Servers, S>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    mut fill: Fill<U::Stream>,
) {
    let polled = poll_fn(|cx| Poll::Ready(fill.poll(cx, &context.client.worker))).await;
    match polled {
        Poll::Ready(Ok(())) => {
            plans.server(fill.responding.slot.server.index()).shard.bytes_in.add(fill.relay.moved);
            fill.sink.complete();
            fill.cache.keep_in_file(&fill.stored);
            finish::run(context, plans, fill.responding);
        }
        Poll::Ready(Err(error)) => {
            respond::count_cut(plans, &fill.responding, Err(of_response_body(&error)));
            context.exchange.record.sent_to_server += fill.responding.server.sent();
            context.servers.drop_stream(fill.responding.server);
        }
        Poll::Pending => go_on(context.client, context.servers, plans, fill),
    }
}

/// Goes on without the client.
fn go_on<U: Servers>(client: &Client, servers: &U, plans: Plans<'_>, mut fill: Fill<U::Stream>) {
    let mut servers = servers.for_background();
    let mut own = BackgroundClient(client.for_task());
    let limits = WaitLimits { relay: plans.upstream.config.timeouts.relay, ..WaitLimits::default() };
    tokio::task::spawn_local(async move {
        let outcome = body(&mut own.0, &mut fill, &limits).await;
        let Fill {
            responding: RespondingServer { server, slot, send_failed, .. },
            relay,
            sink,
            stored,
            cache,
        } = fill;
        let (config, upstream) = slot.location();
        let server_index = slot.server.index();
        let to = Destination {
            config: &config,
            upstream,
            plan: &config.snapshot.upstreams[upstream],
            server: server_index,
            local: config.server(upstream, server_index),
        };
        let shard = &to.local.shard;
        shard.bytes_in.add(relay.moved);
        match outcome {
            Ok(()) => {
                sink.complete();
                cache.keep_in_file(&stored);
                let may_keep = !send_failed && !own.0.worker.is_stopping();
                servers.finish(server, to, &mut own.0.pinned, clock::now(), may_keep);
            }
            Err(failure) => {
                if failure.party == Party::Server {
                    shard.outlier_failures.increment();
                }
                servers.drop_stream(server);
            }
        }
    });
}

/// Waits until the server has said everything.
async fn body<T: ServerStream>(
    client: &mut Client,
    fill: &mut Fill<T>,
    limits: &WaitLimits,
) -> Result<(), Failure> {
    let mut waits = Waits::new();
    waits.begin(limits);
    poll_fn(|cx| {
        client.deadline.enter(cx);
        Poll::Ready(())
    })
    .await;
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = fill.poll(cx, &client.worker) {
            return Poll::Ready(outcome.map_err(|error| of_response_body(&error)));
        }
        waits.poll_over(&mut client.deadline, Activity::ResponseBody, fill.relay.moved).map(Err)
    })
    .await
}

/// The client of the task, as far as it needs one: a deadline, and a place for connections.
struct BackgroundClient(Client);

impl Drop for BackgroundClient {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.worker.shard.panics.increment();
        }
        self.0.leave_task();
    }
}
