//! Carries encoded spans to the collector: one request after the other, again after a while when that may help, and only for as long as
//! the queue behind has room.
//!
//! Says once what is wrong and what can be changed, and once that it is over. Must not know what the bytes mean, apart from the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use rustls::crypto::aws_lc_rs;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
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
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

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
    agent: ureq::Agent,
    collector: Collector,
    url: String,
    /// As it is logged.
    shown_url: String,
    queue: Arc<TraceQueue>,
    counts: Arc<TraceCounts>,
    state: Mutex<ClientState>,
}

impl CollectorClient {
    pub(super) fn new(collector: &Collector, queue: &Arc<TraceQueue>, counts: &Arc<TraceCounts>) -> Self {
        Self {
            agent: agent(collector),
            url: collector.url.to_string(),
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
    fn deliver(&self, body: &[u8]) -> Delivery {
        let mut backoff = BACKOFF_MIN;
        loop {
            let was_ending = self.queue.is_ending();
            let failure = match self.send(body) {
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
    fn send(&self, body: &[u8]) -> Result<Option<(u64, DeliveryFailure)>, DeliveryFailure> {
        let mut request = self.agent.post(&self.url).content_type("application/x-protobuf");
        for (name, value) in &self.collector.headers.0 {
            request = request.header(&**name, &**value);
        }
        let mut response = request.send(body).map_err(|error| DeliveryFailure::unreachable(&error))?;
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get("retry-after")
            .and_then(|value| retry_delay(value.as_bytes(), clock::date()));
        // Read to its end also when it says nothing, so that the connection can be used again.
        let answer = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        match status {
            200..=299 => Ok(answer.ok().and_then(|answer| rejected(status, &answer))),
            _ => Err(DeliveryFailure::answered(status, retry_after)),
        }
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
        let outcome = self.deliver(request.body());
        self.lock().outcome = Some(outcome);
        Ok(Response::new(Bytes::new()))
    }
}

/// An HTTP client that takes no proxy from the environment and follows no redirect, which would get its headers.
fn agent(collector: &Collector) -> ureq::Agent {
    let mut tls =
        TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()));
    if let Some(authorities) = &collector.authorities {
        let certificates =
            authorities.certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
        tls = tls.root_certs(RootCerts::from(certificates));
    }
    ureq::Agent::config_builder()
        .tls_config(tls.build())
        .timeout_global(Some(collector.timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
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
    fn unreachable(error: &ureq::Error) -> Self {
        Self { status: 0, what: error.to_string(), is_passing: true, retry_after: None }
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
