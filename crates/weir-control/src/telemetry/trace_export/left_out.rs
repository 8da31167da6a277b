//! The trace export of a build without the feature `traces`: there is none, and a config that asks for it is rejected.

use std::io;
use std::sync::Arc;

use weir_config::Config;
use weir_proxy::net::clock::Instant;
use weir_proxy::state::snapshot::TracePlan;

use crate::features::TRACES;
use crate::telemetry::trace_counts::TraceCounts;
use crate::workers::worker_queries::WorkerQueries;

/// Counts nothing.
pub(crate) struct TraceExport {
    pub(crate) counts: Arc<TraceCounts>,
}

impl TraceExport {
    pub(crate) fn new(_: &Arc<WorkerQueries>, _instance: &str) -> Self {
        Self { counts: Arc::default() }
    }

    /// Nothing is sampled.
    ///
    /// # Errors
    /// When the config names a collector: what is read from a file was checked before, a `Config` made otherwise was not.
    #[expect(clippy::unused_self, reason = "the same calls as with the feature")]
    pub(crate) fn follow(&mut self, config: &Config, _workers: usize) -> io::Result<Option<TracePlan>> {
        match config.traces {
            None => Ok(None),
            Some(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, TRACES.missing_for("`traces.endpoint`")))
            }
        }
    }

    #[expect(clippy::unused_self, reason = "the same calls as with the feature")]
    pub(crate) fn settle(&mut self) {}

    #[expect(clippy::unused_self, reason = "the same calls as with the feature")]
    pub(crate) fn close(self, _end: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_an_error() {
        let text = "listener.web = { address = \":0\", upstream = \"app\" }\nupstream.app.servers = [\"127.0.0.1:1\"]\n";
        let with_traces = format!("{text}traces.endpoint = \"http://127.0.0.1:4318/v1/traces\"\n");
        let follow = |text: &str| {
            let config = Config::parse(text, "weir.toml").expect("it has no mistake");
            TraceExport { counts: Arc::default() }.follow(&config, 1).map_err(|error| error.to_string())
        };
        assert!(matches!(follow(text), Ok(None)));
        let error = follow(&with_traces).map(drop).unwrap_err();
        assert!(error.contains("needs the feature `traces`"), "{error}");
    }
}
