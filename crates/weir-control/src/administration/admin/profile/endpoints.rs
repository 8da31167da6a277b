//! Profiles are taken on a thread of their own, one at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_observe::{ListenerShard, PerWorker, ServerShard, UpstreamShard, WorkerShard};
use weir_traffic::route::query_value;

use super::BELOW;
use crate::administration::admin::one_at_a_time::OneAtATime;
use crate::administration::admin::query::decoded;
use crate::administration::admin::request::AdminRequest;
use crate::administration::admin::response::BufferedResponse;
use crate::administration::admin_operations::Operations;
use crate::administration::statistics::overview::Sources;
use crate::telemetry::profile::cpu;
use crate::telemetry::profile::cpu::{CpuProfile, NoProfile};
use crate::telemetry::profile::memory::{MemoryClass, MemoryProfile};
use weir_proxy::state::snapshot::Snapshot;
use weir_proxy::worker::ObjectSizes;

const SVG: &str = "image/svg+xml";

const SECONDS_DEFAULT: u64 = 10;
const SECONDS_MAX: u64 = 60;

/// The profile that is being taken in this process.
static PROFILE: OneAtATime = OneAtATime::new();

/// Answers what is asked below [`BELOW`]; `None` when there is no such thing.
pub(in crate::administration::admin) async fn answer(
    request: &AdminRequest,
    operations: &Arc<Operations>,
) -> Option<BufferedResponse> {
    match request.path().strip_prefix(BELOW)? {
        b"cpu" => Some(cpu(request).await),
        b"memory" => Some(memory(operations).await),
        _ => None,
    }
}

async fn cpu(request: &AdminRequest) -> BufferedResponse {
    let wanted = match CpuProfileQuery::read(request.query()) {
        Ok(wanted) => wanted,
        Err(what) => return BufferedResponse::plain(400, format!("{what}\n")),
    };
    let make = move |is_wanted: &dyn Fn() -> bool| {
        let profile = cpu::profile(wanted.length, is_wanted).map_err(|why| refusal(&why))?;
        log(&profile);
        Ok(if wanted.is_folded {
            BufferedResponse::plain(200, profile.folded())
        } else {
            BufferedResponse::new(200, SVG, profile.svg())
        })
    };
    on_a_thread(make).await
}

async fn memory(operations: &Arc<Operations>) -> BufferedResponse {
    let operations = Arc::clone(operations);
    let make = move |_: &dyn Fn() -> bool| match MemoryProfile::now(classes(&operations.sources)) {
        Ok(profile) => Ok(BufferedResponse::json(200, &profile)),
        Err(error) => {
            Err(BufferedResponse::plain(503, format!("/proc of this process cannot be read: {error}.\n")))
        }
    };
    on_a_thread(make).await
}

/// Makes the answer on a thread of its own, which can check whether the client still waits.
async fn on_a_thread(
    make: impl FnOnce(&dyn Fn() -> bool) -> Result<BufferedResponse, BufferedResponse> + Send + 'static,
) -> BufferedResponse {
    let Some(slot) = PROFILE.take() else { return refusal(&NoProfile::Busy) };
    let (answered, answer) = oneshot::channel();
    let started = std::thread::Builder::new().name("weir-profile".into()).spawn(move || {
        let answer = make(&|| !answered.is_closed()).unwrap_or_else(|refusal| refusal);
        drop(slot);
        let _gone = answered.send(answer);
    });
    if let Err(error) = started {
        return BufferedResponse::plain(
            503,
            format!("The system gives no thread for the profile: {error}.\n"),
        );
    }
    answer.await.unwrap_or_else(|_| BufferedResponse::plain(500, "The profile failed: the log says why.\n"))
}

fn refusal(why: &NoProfile) -> BufferedResponse {
    let status = if matches!(why, NoProfile::Busy) { 409 } else { 503 };
    BufferedResponse::plain(status, format!("{why}\n"))
}

fn log(profile: &CpuProfile) {
    let (samples, lost) = (profile.stacks.values().sum::<u64>(), profile.lost);
    tracing::info!(seconds = profile.length.as_secs(), samples, lost, "a CPU profile was taken");
}

/// What is wanted of a CPU profile.
#[derive(Debug, PartialEq, Eq)]
struct CpuProfileQuery {
    length: Duration,
    is_folded: bool,
}

impl CpuProfileQuery {
    fn read(query: &[u8]) -> Result<Self, String> {
        for parameter in query.split(|&byte| byte == b'&').filter(|parameter| !parameter.is_empty()) {
            let name = parameter.split(|&byte| byte == b'=').next().unwrap_or_default();
            if !matches!(name, b"seconds" | b"format") {
                return Err(format!(
                    "`{}` is not known; give seconds or format",
                    String::from_utf8_lossy(name)
                ));
            }
        }
        let seconds = match query_value(query, b"seconds").map(decoded) {
            None => SECONDS_DEFAULT,
            Some(text) => {
                let known = text.parse().ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
                known.ok_or_else(|| format!("`seconds` is a number from 1 to {SECONDS_MAX}, not `{text}`"))?
            }
        };
        let is_folded = match query_value(query, b"format").map(decoded).as_deref() {
            None | Some("svg") => false,
            Some("folded") => true,
            Some(other) => return Err(format!("`format` is svg or folded, not `{other}`")),
        };
        Ok(Self { length: Duration::from_secs(seconds), is_folded })
    }
}

/// What Weir knows to have taken. Sizes are those of the types: what TLS, the event loop and the config keep on the heap is not known.
fn classes(sources: &Sources) -> Vec<MemoryClass> {
    let snapshot = sources.current.load_full();
    let sum = |of: fn(&WorkerShard) -> i64| {
        let all = sources.shards.iter().map(|shard| of(shard)).sum::<i64>();
        u64::try_from(all).unwrap_or(0)
    };
    let buffer_size = snapshot.process.buffer_size.as_usize();
    let idle = snapshot.upstreams.iter().flat_map(|plan| plan.server_shards.iter().flat_map(PerWorker::used));
    let idle = idle.map(|shard| shard.connections_idle.value()).sum::<i64>();
    let exchanges = sum(|shard| shard.exchanges_open.value() + shard.exchanges_kept.value());
    let sizes = ObjectSizes::of_this_build();
    let mut classes = vec![
        MemoryClass::new("buffers in use", sum(|shard| shard.buffers_in_use.value()), buffer_size),
        MemoryClass::new("buffers kept", sum(|shard| shard.buffers_free.value()), buffer_size),
        MemoryClass::new(
            "client connections",
            sum(|shard| shard.connections_open.value()),
            sizes.client_connection,
        ),
        MemoryClass::new("exchanges open and kept", exchanges, sizes.exchange),
        MemoryClass::new(
            "idle server connections",
            u64::try_from(idle).unwrap_or(0),
            sizes.server_connection,
        ),
    ];
    classes.extend(counters(sources, &snapshot));
    classes
}

/// Counters and histograms of all workers.
fn counters(sources: &Sources, snapshot: &Snapshot) -> [MemoryClass; 4] {
    let count = |all: usize| u64::try_from(all).unwrap_or(u64::MAX);
    let listeners = snapshot.listeners.iter().map(|plan| plan.state.shards.len()).sum();
    let upstreams = snapshot.upstreams.iter().map(|plan| plan.shards.used().count()).sum();
    let servers = snapshot.upstreams.iter().flat_map(|plan| &plan.server_shards);
    let servers = servers.map(|shards| shards.used().count()).sum();
    [
        MemoryClass::new("counters of workers", count(sources.shards.len()), size_of::<WorkerShard>()),
        MemoryClass::new("counters of listeners", count(listeners), size_of::<ListenerShard>()),
        MemoryClass::new("counters of upstreams", count(upstreams), size_of::<UpstreamShard>()),
        MemoryClass::new("counters of servers", count(servers), size_of::<ServerShard>()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_from_the_query() {
        let query = |seconds, is_folded| CpuProfileQuery { length: Duration::from_secs(seconds), is_folded };
        for (query, wanted) in [
            ("", query(10, false)),
            ("seconds=1", query(1, false)),
            ("seconds=60&format=folded", query(60, true)),
            ("format=svg", query(10, false)),
        ] {
            assert_eq!(CpuProfileQuery::read(query.as_bytes()), Ok(wanted), "{query}");
        }
        for (query, what) in [
            ("seconds=0", "`seconds` is a number from 1 to 60, not `0`"),
            ("seconds=61", "`seconds` is a number from 1 to 60, not `61`"),
            ("seconds=1s", "`seconds` is a number from 1 to 60, not `1s`"),
            ("format=png", "`format` is svg or folded, not `png`"),
            ("second=1", "`second` is not known; give seconds or format"),
        ] {
            assert_eq!(CpuProfileQuery::read(query.as_bytes()), Err(what.to_owned()), "{query}");
        }
    }
}
