//! The settings of traces, made ready for the data path: the sampling, and the queue for sampled exchanges.

use std::sync::Arc;

use weir_config::{AcceptFrom, TraceSettings};
use weir_traffic::sampling::{SampleRate, SampleShare};

use super::trace_queue::TraceSender;

/// How a worker traces.
#[derive(Debug, Clone)]
pub struct TracePlan {
    pub(crate) share: SampleShare,
    /// How many one worker may sample a second.
    pub(crate) pace: SampleRate,
    pub(crate) follow: AcceptFrom,
    pub(crate) outlet: Arc<TraceSender>,
}

impl TracePlan {
    /// What workers do by this config; sampled exchanges go to `outlet`.
    pub fn new(config: &TraceSettings, workers: usize, outlet: &Arc<TraceSender>) -> Self {
        Self {
            share: SampleShare::of_million(config.ratio.of_million()),
            pace: SampleRate::new(config.rate, workers),
            follow: config.accept,
            outlet: Arc::clone(outlet),
        }
    }
}
