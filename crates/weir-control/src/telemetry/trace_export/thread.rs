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

use super::collector_client::{CollectorClient, Delivery};
use super::spans::{ClockReading, span_count, spans_of};
use crate::system::threads;
use crate::telemetry::trace_counts::TraceCounts;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::clock;
use weir_proxy::state::tracing::trace_queue::{SampledExchange, TraceMessage, TraceQueue};

/// How long exchanges are gathered into a batch, from the first.
const GATHER_TIME: Duration = Duration::from_millis(200);

/// Exchanges of one batch: a few hundred KiB of spans.
const BATCH_MAX: usize = 256;

/// What the thread is given.
pub(super) struct ExportJob {
    pub(super) receiver: Receiver<TraceMessage>,
    pub(super) queue: Arc<TraceQueue>,
    pub(super) collector: Collector,
    pub(super) instance: Box<str>,
    pub(super) counts: Arc<TraceCounts>,
    /// Where names are kept.
    pub(super) queries: Arc<WorkerQueries>,
}

/// The official exporter, which encodes, and who carries what it has encoded.
struct BatchExport {
    exporter: SpanExporter,
    client: Arc<CollectorClient>,
    /// Polls the exporter. Only the client of the collector waits, on this thread.
    runtime: Runtime,
}

/// Starts the thread; what this gives is disconnected when it has ended.
///
/// # Errors
/// When the system refuses the thread.
pub(super) fn start(job: ExportJob) -> io::Result<Receiver<()>> {
    let export = BatchExport::new(&job)?;
    let (alive, ended) = channel();
    std::thread::Builder::new().name("weir-traces".into()).spawn(move || {
        let _registration = threads::register();
        let mut batch = ExportBatch::default();
        weir_tasks::keep_thread("the export of traces", || batch.run(&job, &export));
        drop(alive);
    })?;
    Ok(ended)
}

/// What is under way, over a panic: it is lost and counted.
#[derive(Default)]
struct ExportBatch {
    exchanges: Vec<SampledExchange>,
    /// Nothing more comes.
    is_last: bool,
}

impl ExportBatch {
    fn run(&mut self, job: &ExportJob, export: &BatchExport) {
        let lost = self.exchanges.drain(..).map(|sampled| span_count(&sampled)).sum();
        job.counts.dropped(TraceLoss::Refused, lost);
        while !self.is_last {
            self.is_last = !gather(job, &mut self.exchanges);
            weir_tasks::strike("the export of traces");
            if !self.exchanges.is_empty() {
                export.send(job, &self.exchanges);
                self.exchanges.clear();
            }
        }
    }
}

/// Waits for an exchange, and takes those that follow it at once or soon; `false` when nothing more comes.
fn gather(job: &ExportJob, batch: &mut Vec<SampledExchange>) -> bool {
    let Ok(TraceMessage::Sampled(first)) = job.receiver.recv() else { return false };
    job.queue.leave();
    batch.push(*first);
    if !job.queue.is_ending() && !job.queue.holds(BATCH_MAX) {
        clock::pause(GATHER_TIME);
    }
    while batch.len() < BATCH_MAX {
        match job.receiver.try_recv() {
            Ok(TraceMessage::Sampled(next)) => {
                job.queue.leave();
                batch.push(*next);
            }
            Err(TryRecvError::Empty) => return true,
            Ok(TraceMessage::End) | Err(TryRecvError::Disconnected) => return false,
        }
    }
    true
}

impl BatchExport {
    fn new(job: &ExportJob) -> io::Result<Self> {
        let client = Arc::new(CollectorClient::new(&job.collector, &job.queue, &job.counts));
        // Each setting is given, so that none comes from the environment. The client has its own address.
        let builder = SpanExporter::builder()
            .with_http()
            .with_shared_http_client(Arc::<CollectorClient>::clone(&client))
            .with_endpoint(job.collector.url.to_string())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(job.collector.timeout)
            .with_retry_policy(RetryPolicy::disabled());
        let mut exporter = builder.build().map_err(|error| io::Error::other(error.to_string()))?;
        exporter.set_resource(&resource(job));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { exporter, client, runtime })
    }

    /// Sends a batch, or loses it; both is counted.
    fn send(&self, job: &ExportJob, batch: &[SampledExchange]) {
        let (names, moment) = (job.queries.names.all(), ClockReading::now());
        let spans: Vec<_> = batch.iter().flat_map(|sampled| spans_of(sampled, &names, &moment)).collect();
        let count = spans.len() as u64;
        let exported = self.runtime.block_on(self.exporter.export(spans));
        match (self.client.last_outcome(), exported) {
            (Some(Delivery::Taken { rejected }), _) => {
                let rejected = rejected.min(count);
                job.counts.exported(count - rejected);
                job.counts.dropped(TraceLoss::Refused, rejected);
            }
            (Some(Delivery::Lost(loss)), _) => job.counts.dropped(loss, count),
            // The exporter failed before it called the client.
            (None, exported) => {
                job.counts.dropped(TraceLoss::Refused, count);
                if let Err(error) = exported {
                    tracing::error!(%error, "a batch of spans cannot be sent");
                }
            }
        }
    }
}

/// What all spans have in common. Nothing of it comes from the environment.
fn resource(job: &ExportJob) -> Resource {
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes([
            KeyValue::new("service.name", job.collector.service_name.to_string()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", job.instance.to_string()),
        ])
        .build()
}
