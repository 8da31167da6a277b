//! `[upstream]` and `[[variant]]`: the keys of `weir.toml` that a simulation knows, with its defaults.
//!
//! A variant inherits the keys that it omits from `[upstream]`, key by key.

use std::time::Duration;

use weir_traffic::balance::{AddressPrefixes, HashKey, LoadFactor, Policy};
use weir_traffic::health::{ProbeTiming, Thresholds};
use weir_traffic::queue::DelayTarget;
use weir_traffic::retry::RetryPolicy;

use super::value::TimeValue;
use super::{HealthChecks, MILLISECOND, QueueModel, SECOND, Timeouts, UpstreamModel, nanos};
use crate::model::error::{did_you_mean, one_of};
use crate::model::table_reader::TableReader;

/// The upstream by the keys of `section`, and by `base` for omitted ones.
pub(super) fn read_upstream(section: &TableReader<'_>, base: &UpstreamModel) -> UpstreamModel {
    let mut upstream = base.clone();
    if let Some(name) = section.optional::<String>("balance") {
        upstream.balance = policy(section, &name);
    }
    read_load_factor(section, &mut upstream.balance);
    let limit = section.or_off("max_requests", Some(u64::from(upstream.max_requests)));
    upstream.max_requests = limit.map_or(0, |limit| u32::try_from(limit).unwrap_or(u32::MAX));
    let slow_start = section.or_off("slow_start", upstream.slow_start.map(TimeValue));
    upstream.slow_start = slow_start.map(|time| time.0);
    if let Some(section) = section.section("queue", "`queue`") {
        read_queue(&section, &mut upstream.queue);
        section.finish();
    }
    if let Some(section) = section.section("timeouts", "`timeouts`") {
        let Timeouts { queue, response } = &mut upstream.timeouts;
        *queue = section.or("queue", TimeValue(*queue)).0;
        *response = section.or("response", TimeValue(*response)).0;
        section.finish();
    }
    if let Some(section) = section.section("retry", "`retry`") {
        read_retry(&section, &mut upstream);
        section.finish();
    }
    if section.has("health") {
        read_health(section, &mut upstream);
    }
    upstream
}

fn policy(section: &TableReader<'_>, name: &str) -> Policy {
    match name {
        "least-requests" => Policy::LeastRequests,
        "round-robin" => Policy::RoundRobin,
        "peak-ewma" => Policy::PeakEwma,
        "power-of-two" => Policy::PowerOfTwo,
        "random" => Policy::Random,
        "consistent-hash" => Policy::ConsistentHash {
            key: HashKey::ClientAddress(AddressPrefixes::default()),
            load_factor: LoadFactor::default(),
        },
        _ => {
            let hint = did_you_mean(name, Policy::NAMES)
                .unwrap_or_else(|| format!("write {}", one_of(Policy::NAMES)));
            section.mistake(section.span_of("balance"), format!("there is no policy `{name}`"), Some(hint));
            Policy::default()
        }
    }
}

fn read_load_factor(section: &TableReader<'_>, policy: &mut Policy) {
    if !section.has("hash_load_factor") {
        return;
    }
    let factor = match section.or_off::<String>("hash_load_factor", None) {
        None => Some(LoadFactor::UNBOUNDED),
        Some(text) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
            percent.and_then(|percent| LoadFactor::from_percent(percent).ok())
        }
    };
    let span = section.span_of("hash_load_factor");
    match (policy, factor) {
        (Policy::ConsistentHash { load_factor, .. }, Some(factor)) => *load_factor = factor,
        (_, None) => {
            let hint = "write a percentage from \"100%\" to \"10000%\", or \"off\"".to_owned();
            section.mistake(span, "this is no load factor".to_owned(), Some(hint));
        }
        (policy, _) => {
            let what = format!("`hash_load_factor` means nothing to `{}`", policy.name());
            section.mistake(span, what, Some("it belongs to `balance = \"consistent-hash\"`".to_owned()));
        }
    }
}

fn read_queue(section: &TableReader<'_>, queue: &mut QueueModel) {
    queue.length_max = section.within("length_max", (0, 10_000_000), queue.length_max as u64) as usize;
    queue.fair_share = section.or("fair_share", queue.fair_share);
    queue.affinity_wait =
        section.or_off("affinity_wait", queue.affinity_wait.map(TimeValue)).map(|time| time.0);
    let before = queue.delay_target;
    let interval_ms = before.map_or(1000, |target| target.interval_ms);
    let interval = section.or("delay_interval", TimeValue(interval_ms * MILLISECOND));
    let target =
        section.or_off("delay_target", before.map(|target| TimeValue(target.target_ms * MILLISECOND)));
    let millis = |time: TimeValue| time.0 / MILLISECOND;
    queue.delay_target =
        target.map(|target| DelayTarget { target_ms: millis(target), interval_ms: millis(interval) });
}

fn read_retry(section: &TableReader<'_>, upstream: &mut UpstreamModel) {
    let RetryPolicy { attempts_max, elapsed_max, on_connection_error, on_timeout, .. } = &mut upstream.retry;
    *attempts_max = section.within("attempts_max", (1, 100), u64::from(*attempts_max)) as u32;
    *elapsed_max = Duration::from_nanos(section.or("elapsed_max", TimeValue(nanos(*elapsed_max))).0);
    *on_connection_error = section.or("on_connection_error", *on_connection_error);
    *on_timeout = section.or("on_timeout", *on_timeout);
    if let Some(text) = section.optional::<String>("budget") {
        match text.strip_suffix('%').and_then(|number| number.parse().ok()) {
            Some(percent) if percent <= 1000 => upstream.budget_percent = percent,
            _ => {
                let hint = Some("write a percentage from \"0%\" to \"1000%\"".to_owned());
                section.mistake(section.span_of("budget"), format!("`{text}` is no budget"), hint);
            }
        }
    }
    let allowance = u64::from(upstream.budget_per_second);
    upstream.budget_per_second = section.within("budget_per_second", (0, 1_000_000), allowance) as u32;
}

fn read_health(section: &TableReader<'_>, upstream: &mut UpstreamModel) {
    if section.is_off("health") {
        upstream.health = None;
        return;
    }
    let Some(section) = section.section("health", "`health`") else { return };
    let interval = section.or("interval", TimeValue(2 * SECOND)).0.max(MILLISECOND);
    let changing = section.or("fast_interval", TimeValue(interval / 4)).0.max(MILLISECOND);
    let timeout = section.or("timeout", TimeValue((interval / 2).min(5 * SECOND))).0;
    let pace = ProbeTiming {
        interval: Duration::from_nanos(interval),
        fast_interval: Duration::from_nanos(changing),
        jitter_percent: section.within("jitter", (0, 50), 10) as u32,
    };
    let rise = section.within("rise", (1, 1000), 2) as u32;
    let fall = section.within("fall", (1, 1000), 3) as u32;
    upstream.health = Some(HealthChecks { pace, thresholds: Thresholds { rise, fall }, timeout });
    section.finish();
}
