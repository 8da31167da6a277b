//! Carries encoded spans to the collector: one request after the other, again after a while when that may help, and only for as long as
//! the queue behind has room.
//!
//! Says once what is wrong and what can be changed, and once that it is over. Must not know what the bytes mean, apart from the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use tokio::sync::Mutex as AsyncMutex;
use weir_client::{ClientError, HttpClient as SendingClient, HttpDestination, tls_setup};
use weir_config::Collector;
use weir_http::retry_delay;
use weir_observe::TraceLoss;

use crate::telemetry::trace_counts::TraceCounts;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::tracing::trace_queue::TraceQueue;

/// How long is waited before a request is made again: at first, and at most.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How often is looked, while waiting, whether that is still right.
const LOOK: Duration = Duration::from_millis(50);

/// Longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Characters of what a collector says that are told in the log.
const MESSAGE_CHARS_MAX: usize = 200;

/// Shortest time between two complaints about different troubles.
const REPORT_GAP: Duration = Duration::from_secs(10);

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The collector took it, but for some of its spans.
    Taken {
        rejected: u64,
    },
    Lost(TraceLoss),
}

/// Why one request did not help.
#[derive(Debug, PartialEq, Eq)]
struct DeliveryFailure {
    /// 0 when there was no answer.
    status: u16,
    what: String,
    /// Whether it may pass.
    is_passing: bool,
    retry_after: Option<Duration>,
}

#[derive(Debug, Default)]
struct ClientState {
    outcome: Option<Delivery>,
    /// The status and the time of what was complained about last, until it is over.
    reported: Option<(u16, Instant)>,
    /// Requests that have failed since then.
    failed: u64,
}

/// One collector, and the connection to it.
#[derive(Debug)]
pub(super) struct CollectorClient {
    /// Behind a lock that is always free: one batch is sent after the other.
    client: AsyncMutex<SendingClient>,
    collector: Collector,
    /// As it is logged.
    shown_url: String,
    queue: Arc<TraceQueue>,
    counts: Arc<TraceCounts>,
    state: Mutex<ClientState>,
}

impl CollectorClient {
    pub(super) fn new(collector: &Collector, queue: &Arc<TraceQueue>, counts: &Arc<TraceCounts>) -> Self {
        Self {
            client: AsyncMutex::new(SendingClient::new(destination(collector), collector.timeout)),
            shown_url: collector.url.without_secrets().to_string(),
            collector: collector.clone(),
            queue: Arc::clone(queue),
            counts: Arc::clone(counts),
            state: Mutex::default(),
        }
    }

    /// What became of the last batch; `None` when none came here since the last question.
    pub(super) fn last_outcome(&self) -> Option<Delivery> {
        self.lock().outcome.take()
    }

    fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a body until it is taken or refused, or there is no time or no room for it any more.
    async fn deliver(&self, body: &Bytes) -> Delivery {
        let mut backoff = BACKOFF_MIN;
        loop {
            let was_ending = self.queue.is_ending();
            let failure = match self.send(body).await {
                Ok(None) => {
                    self.recover();
                    return Delivery::Taken { rejected: 0 };
                }
                Ok(Some((rejected, failure))) => {
                    self.report_failure(&failure);
                    return Delivery::Taken { rejected };
                }
                Err(failure) => failure,
            };
            self.counts.export_failed();
            self.report_failure(&failure);
            if !failure.is_passing {
                return Delivery::Lost(TraceLoss::Refused);
            }
            if was_ending {
                return Delivery::Lost(TraceLoss::Stopped);
            }
            if !self.wait(failure.retry_after.unwrap_or(backoff).min(BACKOFF_MAX)) {
                return Delivery::Lost(TraceLoss::Undelivered);
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// Waits for the next try, which comes at once when there will be no other; `false` when newer spans need the room.
    fn wait(&self, duration: Duration) -> bool {
        let end = clock::now() + duration;
        while clock::now() < end && !self.queue.is_ending() {
            if self.queue.is_full() {
                return false;
            }
            clock::pause(LOOK);
        }
        true
    }

    /// Makes one request; gives how many spans the collector did not want, and why.
    async fn send(&self, body: &Bytes) -> Result<Option<(u64, DeliveryFailure)>, DeliveryFailure> {
        let mut client = self.client.lock().await;
        let end = clock::now() + self.collector.timeout;
        let request = self.request(body)?;
        let sending = client.send(&request, self.collector.timeout);
        let sent = tokio::time::timeout(self.collector.timeout, sending).await;
        let response = sent.unwrap_or(Err(ClientError::TimedOut));
        let response = response.map_err(|error| DeliveryFailure::unreachable(error.to_string()))?;
        let status = response.head.status.as_u16();
        let retry_after = response.head.headers.get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| retry_delay(value.as_bytes(), clock::date()));
        // Read to its end also when it says nothing, so that the connection can be used again.
        let answer = response.whole(ANSWER_BYTES_MAX, end.saturating_duration_since(clock::now())).await;
        match status {
            200..=299 => Ok(answer.ok().and_then(|answer| rejected(status, answer.body()))),
            _ => Err(DeliveryFailure::answered(status, retry_after)),
        }
    }

    fn request(&self, body: &Bytes) -> Result<Request<Bytes>, DeliveryFailure> {
        let path = &*self.collector.url.path;
        let mut request = Request::post(format!("/{}", path.strip_prefix('/').unwrap_or(path)))
            .header(CONTENT_TYPE, "application/x-protobuf");
        let headers = &self.collector.headers.0;
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(USER_AGENT.as_str())) {
            request = request.header(USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")));
        }
        for (name, value) in headers {
            request = request.header(&**name, &**value);
        }
        let request = request.body(body.clone());
        request.map_err(|error| DeliveryFailure::unreachable(error.to_string()))
    }

    fn report_failure(&self, failure: &DeliveryFailure) {
        let now = clock::now();
        let mut state = self.lock();
        state.failed += 1;
        let is_known = state.reported.is_some_and(|(status, at)| {
            status == failure.status || now.saturating_duration_since(at) < REPORT_GAP
        });
        if is_known {
            return;
        }
        state.reported = Some((failure.status, now));
        tracing::warn!(
            collector = self.shown_url,
            error = failure.what,
            change = failure.change(),
            "spans cannot be exported"
        );
    }

    fn recover(&self) {
        let mut state = self.lock();
        let failed = std::mem::take(&mut state.failed);
        if state.reported.take().is_some() {
            tracing::info!(collector = self.shown_url, failed, "spans are exported again");
        }
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let outcome = self.deliver(request.body()).await;
        self.lock().outcome = Some(outcome);
        Ok(Response::new(Bytes::new()))
    }
}

fn destination(collector: &Collector) -> HttpDestination {
    let tls = collector.url.is_tls.then(|| match &collector.authorities {
        Some(authorities) => tls_setup(authorities, None, &[]),
        None => Err("there are no authorities to verify its certificate".to_owned()),
    });
    HttpDestination::of_authority(&collector.url.authority, tls)
}

/// How many spans an answer says were not wanted, if any.
fn rejected(status: u16, answer: &[u8]) -> Option<(u64, DeliveryFailure)> {
    let partial = ExportTraceServiceResponse::decode(answer).ok()?.partial_success?;
    let rejected = u64::try_from(partial.rejected_spans).ok().filter(|rejected| *rejected > 0)?;
    let said: String = partial.error_message.chars().take(MESSAGE_CHARS_MAX).collect();
    let what = format!("the collector rejected {rejected} spans of a batch: {said}");
    Some((rejected, DeliveryFailure { status, what, is_passing: false, retry_after: None }))
}

impl DeliveryFailure {
    fn unreachable(what: String) -> Self {
        Self { status: 0, what, is_passing: true, retry_after: None }
    }

    fn answered(status: u16, retry_after: Option<Duration>) -> Self {
        // Those that the specification of OTLP calls retryable.
        let is_passing = matches!(status, 429 | 502 | 503 | 504);
        Self { status, what: format!("the collector answered {status}"), is_passing, retry_after }
    }

    /// What can be done about it, naming keys of the config.
    fn change(&self) -> &'static str {
        match self.status {
            0 => {
                "start the collector, or correct `traces.endpoint`: the URL of its receiver for OTLP over HTTP; `traces.ca` says whom to trust"
            }
            401 | 403 => {
                "correct `traces.headers` or `traces.header_files`: the collector does not know who this is"
            }
            301..=308 | 404 | 405 => {
                "correct the path of `traces.endpoint`: collectors usually take traces at `/v1/traces`"
            }
            429 | 503 => "the collector has too much to do: lower `traces.ratio` or `traces.rate`",
            _ => "see the log of the collector",
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn what_may_pass_is_what_the_specification_says() {
        let passing = (100..600).filter(|status| DeliveryFailure::answered(*status, None).is_passing);
        assert_eq!(passing.collect::<Vec<_>>(), [429, 502, 503, 504]);
    }

    #[test]
    fn rejected_spans_are_read_from_any_answer() {
        let answer = |rejected_spans| ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess { rejected_spans, error_message: "x".into() }),
        };
        let (count, failure) = rejected(200, &answer(3).encode_to_vec()).unwrap();
        assert_eq!((count, &*failure.what), (3, "the collector rejected 3 spans of a batch: x"));
        for taken in [&answer(0).encode_to_vec()[..], &answer(-3).encode_to_vec(), b"", b"<html>", &[0xff; 9]]
        {
            assert_eq!(rejected(200, taken), None, "{taken:?}");
        }
    }
}
