//! The thread that exports: takes what workers hand over, makes spans of it in batches, and has them delivered.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::runtime::Runtime;
use weir_config::Collector;
use weir_observe::TraceLoss;

use super::collector_client::{Courier, Outcome};
use super::spans::{Moment, spans_of};
use crate::control::threads;
use crate::control::trace_counts::TraceCounts;
use crate::control::worker_queries::Desk;
use crate::net::clock;
use crate::state::trace_queue::{Sampled, TraceMessage, TraceQueue};

/// How long exchanges are gathered into a batch, from the first.
const GATHER_TIME: Duration = Duration::from_millis(200);

/// Exchanges of one batch: a few hundred KiB of spans.
const BATCH_MAX: usize = 256;

/// What the thread is given.
pub(super) struct Work {
    pub(super) receiver: Receiver<TraceMessage>,
    pub(super) queue: Arc<TraceQueue>,
    pub(super) collector: Collector,
    pub(super) instance: Box<str>,
    pub(super) counts: Arc<TraceCounts>,
    /// Where names are kept.
    pub(super) desk: Arc<Desk>,
}

/// The official exporter, which encodes, and who carries what it has encoded.
struct Export {
    exporter: SpanExporter,
    courier: Arc<Courier>,
    /// Polls the exporter. Nothing in it waits but the courier, on this thread.
    runtime: Runtime,
}

/// Starts the thread; what this gives is disconnected when it has ended.
///
/// # Errors
/// When the system refuses the thread.
pub(super) fn start(work: Work) -> io::Result<Receiver<()>> {
    let export = Export::new(&work)?;
    let (alive, ended) = channel();
    std::thread::Builder::new().name("weir-traces".into()).spawn(move || {
        let _enrolled = threads::enrol();
        run(&work, &export);
        drop(alive);
    })?;
    Ok(ended)
}

fn run(work: &Work, export: &Export) {
    loop {
        let mut batch = Vec::new();
        let goes_on = gather(work, &mut batch);
        if !batch.is_empty() {
            export.send(work, &batch);
        }
        if !goes_on {
            return;
        }
    }
}

/// Waits for an exchange, and takes those that follow it at once or soon; `false` when nothing more comes.
fn gather(work: &Work, batch: &mut Vec<Sampled>) -> bool {
    let Ok(TraceMessage::Sampled(first)) = work.receiver.recv() else { return false };
    work.queue.leave();
    batch.push(*first);
    if !work.queue.is_ending() && !work.queue.holds(BATCH_MAX) {
        clock::pause(GATHER_TIME);
    }
    while batch.len() < BATCH_MAX {
        match work.receiver.try_recv() {
            Ok(TraceMessage::Sampled(next)) => {
                work.queue.leave();
                batch.push(*next);
            }
            Err(TryRecvError::Empty) => return true,
            Ok(TraceMessage::End) | Err(TryRecvError::Disconnected) => return false,
        }
    }
    true
}

impl Export {
    fn new(work: &Work) -> io::Result<Self> {
        let courier = Arc::new(Courier::new(&work.collector, &work.queue, &work.counts));
        // Each setting is given, so that none comes from the environment. The courier knows its way itself.
        let builder = SpanExporter::builder()
            .with_http()
            .with_shared_http_client(Arc::<Courier>::clone(&courier))
            .with_endpoint(work.collector.url.to_string())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(work.collector.timeout)
            .with_retry_policy(RetryPolicy::disabled());
        let mut exporter = builder.build().map_err(|error| io::Error::other(error.to_string()))?;
        exporter.set_resource(&resource(work));
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Self { exporter, courier, runtime })
    }

    /// Sends a batch, or loses it; both is counted.
    fn send(&self, work: &Work, batch: &[Sampled]) {
        let (names, moment) = (work.desk.names.all(), Moment::now());
        let spans: Vec<_> = batch.iter().flat_map(|sampled| spans_of(sampled, &names, &moment)).collect();
        let count = spans.len() as u64;
        let exported = self.runtime.block_on(self.exporter.export(spans));
        match (self.courier.last_outcome(), exported) {
            (Some(Outcome::Taken { rejected }), _) => {
                let rejected = rejected.min(count);
                work.counts.exported(count - rejected);
                work.counts.dropped(TraceLoss::Refused, rejected);
            }
            (Some(Outcome::Lost(loss)), _) => work.counts.dropped(loss, count),
            // The exporter did not get as far as the courier.
            (None, exported) => {
                work.counts.dropped(TraceLoss::Refused, count);
                if let Err(error) = exported {
                    tracing::error!(%error, "a batch of spans cannot be sent");
                }
            }
        }
    }
}

/// What all spans have in common. Nothing of it comes from the environment.
fn resource(work: &Work) -> Resource {
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes([
            KeyValue::new("service.name", work.collector.service_name.to_string()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", work.instance.to_string()),
        ])
        .build()
}
