//! Fetches the keys of tokens from a server: a request in the background, without any client, that the control plane asks a worker for.
//!
//! Must not decide when, nor what becomes of the document.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_cache::HeadView;
use weir_cache::directives::{MessageTimes, ResponseDirectives};
use weir_config::{RemoteKeys, TokenKeys};
use weir_http::ResponseHead;
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::features::subrequests::background;
use crate::exchange::features::subrequests::background::{
    BackgroundRequest, BackgroundRoute, BackgroundTaker,
};
use crate::exchange::features::subrequests::subrequest::ResponseTaker;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::state::routes::access::{FetchedKeys, KeyDocument, KeyFetch, KeyFetchError, KeyValidators};
use crate::state::snapshot::RoutePlan;
use crate::state::worker::Worker;
use crate::upstream::stream::Servers;

/// What the request has beside `Host`.
const FIELDS: [(&[u8], &[u8]); 2] =
    [(b"Accept", b"application/jwk-set+json, application/json"), (b"User-Agent", b"weir")];

/// The `Host` before it is replaced by that of the server or of the config: a request needs one.
const ANY_HOST: &[u8] = b"localhost";

/// Begins a fetch; its document goes to where it was asked for.
pub(crate) fn begin<U: Servers>(worker: &Rc<Worker>, servers: U, fetch: KeyFetch) {
    let KeyFetch { keys, answer } = fetch;
    let taker = KeyTaker {
        document: KeyDocument::default(),
        asked_with: keys.validators(),
        status: 0,
        is_over: false,
        len_max: keys.settings.body_size.as_usize(),
        answer,
    };
    match request(worker, &keys, &taker.asked_with) {
        Some((client, request)) => {
            if let Err(taker) = background::begin_alone(client, servers, request, taker) {
                taker.answer(Err(KeyFetchError::Busy));
            }
        }
        None => taker.answer(Err(KeyFetchError::Gone)),
    }
}

/// The request, as one of the first route that wants these keys.
fn request(
    worker: &Rc<Worker>,
    keys: &Arc<FetchedKeys>,
    validators: &KeyValidators,
) -> Option<(Client, BackgroundRequest)> {
    let settings = |route: &RoutePlan| -> Option<RemoteKeys> {
        let fetched = route.access.as_ref()?.keys.as_ref()?.fetched()?;
        let jwt = route.config.access.as_ref()?.jwt.as_ref()?;
        match &jwt.keys {
            TokenKeys::Remote(remote) if Arc::ptr_eq(fetched, keys) => Some(remote.clone()),
            TokenKeys::Remote(_) | TokenKeys::File { .. } => None,
        }
    };
    let wants = |route: &RoutePlan| settings(route).is_some();
    let listeners = worker.listeners.borrow();
    let listener = listeners.iter().find(|local| local.plan().route_plans.iter().any(wants))?;
    let client = Client::without_connection(worker, listener);
    let mut exchange = Box::new(Exchange::new());
    let config = exchange.record.begin_config(&client);
    let plan = &config.snapshot.listeners[exchange.record.listener()];
    let mut routes = plan.route_plans.iter().enumerate();
    let (route, settings) = routes.find_map(|(place, route)| Some((place, settings(route)?)))?;
    let record = &mut exchange.record;
    (record.began, record.accounted) = (client.now, client.now);
    (record.route, record.upstream) = (Some(route), Some(settings.upstream.0));
    exchange.body_was_asked_for = true;
    let Exchange { request, request_text, .. } = &mut *exchange;
    let conditions = [
        (&b"If-None-Match"[..], validators.etag.as_deref()),
        (b"If-Modified-Since", validators.last_modified.as_deref()),
    ];
    let conditions = conditions.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let fields = FIELDS.into_iter().chain(conditions);
    request.compose_get(request_text, settings.path.exposed().as_bytes(), ANY_HOST, fields).ok()?;
    let timeout = settings.timeout;
    Some((client, BackgroundRequest { exchange, route: BackgroundRoute::Keys, body: Vec::new(), timeout }))
}

/// Takes a document.
struct KeyTaker {
    document: KeyDocument,
    /// What the request has named.
    asked_with: KeyValidators,
    status: u16,
    /// Whether the document is longer than it may be.
    is_over: bool,
    len_max: usize,
    answer: oneshot::Sender<Result<KeyDocument, KeyFetchError>>,
}

impl KeyTaker {
    fn answer(self, outcome: Result<(), KeyFetchError>) {
        let _not_awaited = self.answer.send(outcome.map(|()| self.document));
    }
}

impl ResponseTaker for KeyTaker {
    fn begin(&mut self, response: &ResponseHead, text: &[u8]) {
        self.status = response.status();
        let head = HeadView { fields: response.fields(), text };
        // What a cache on the way has held for a time is fresh for so much less.
        let age = MessageTimes::new(head).age;
        let max_age = ResponseDirectives::new(head).max_age;
        self.document.max_age = max_age.map(|seconds| Duration::from_secs(seconds.saturating_sub(age)));
        let value = |name: &str| head.first(name).map(Box::from);
        self.document.validators =
            KeyValidators { etag: value("etag"), last_modified: value("last-modified") };
        self.document.text = (self.status == 200).then(Vec::new);
    }

    fn is_enough(&self) -> Result<(), Failure> {
        // Of a response with another status, the body is of no use.
        let excess = Failure::server(Phase::Relay, Cause::ResponseExcess);
        if self.status == 200 { Err(excess) } else { Ok(()) }
    }
}

impl BackgroundTaker for KeyTaker {
    fn end(self, outcome: Result<(), Failure>) {
        let outcome = match (outcome, self.status) {
            _ if self.is_over && self.status == 200 => Err(KeyFetchError::TooLong),
            (Err(failure), _) => Err(KeyFetchError::NoResponse(failure)),
            (Ok(()), 200) => Ok(()),
            (Ok(()), 304) if self.asked_with != KeyValidators::default() => Ok(()),
            (Ok(()), status) => Err(KeyFetchError::Status(status)),
        };
        self.answer(outcome);
    }
}

impl Sink for KeyTaker {
    fn has_room(&self) -> bool {
        !self.is_over
    }

    fn is_waiting(&self) -> bool {
        self.is_over
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        match &mut self.document.text {
            Some(text) if text.len() + data.len() <= self.len_max => text.extend_from_slice(data),
            _ => self.is_over = true,
        }
        data.len()
    }

    fn finish(&mut self, _source: &impl Source) {}

    fn poll_write(&mut self, _cx: &mut Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        Poll::Ready(Err(RelayError::Write(io::ErrorKind::FileTooLarge.into())))
    }
}
