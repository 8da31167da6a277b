//! `[upstream]` and `[[variant]]`: the keys of `weir.toml` that a simulation knows, with its defaults.
//!
//! A variant inherits the keys that it omits from `[upstream]`, key by key.

use std::time::Duration;

use weir_traffic::balance::{AddressPrefixes, HashKey, LoadFactor, Policy};
use weir_traffic::health::{ProbeTiming, Thresholds};
use weir_traffic::queue::DelayTarget;
use weir_traffic::retry::RetryPolicy;

use super::value::TimeValue;
use super::{HealthChecks, MILLISECOND, QueueModel, SECOND, SourceModel, Timeouts, UpstreamModel, nanos};
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
    read_ejection(section, &mut upstream);
    if let Some(section) = section.section("pool", "`pool`") {
        upstream.pool_idle = section.or("idle", TimeValue(upstream.pool_idle)).0;
        section.finish();
    }
    if let Some(section) = section.section("source", "`source`") {
        read_source(&section, &mut upstream.source);
        section.finish();
    }
    upstream.same_start = section.or("same_start", upstream.same_start);
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
        "map-based-hash" => Policy::MapBasedHash { key: HashKey::ClientAddress(AddressPrefixes::default()) },
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
    let RetryPolicy { attempts_max, elapsed_max, on_connection_error, on_timeout, on_status, .. } =
        &mut upstream.retry;
    *attempts_max = section.within("attempts_max", (1, 100), u64::from(*attempts_max)) as u32;
    *elapsed_max = Duration::from_nanos(section.or("elapsed_max", TimeValue(nanos(*elapsed_max))).0);
    *on_connection_error = section.or("on_connection_error", *on_connection_error);
    *on_timeout = section.or("on_timeout", *on_timeout);
    if let Some(listed) = section.optional::<Vec<u64>>("on_status") {
        if let Some(wrong) = listed.iter().find(|status| !(400..600).contains(*status)) {
            let hint = Some("the servers of a simulation answer 503 when they fail".to_owned());
            section.mistake(section.span_of("on_status"), format!("{wrong} is no status of an error"), hint);
        }
        *on_status = listed.iter().map(|status| u16::try_from(*status).unwrap_or(0)).collect();
    }
    upstream.budget_percent = percentage(section, "budget", (0, 1000), upstream.budget_percent);
    let allowance = u64::from(upstream.budget_per_second);
    upstream.budget_per_second = section.within("budget_per_second", (0, 1_000_000), allowance) as u32;
}

/// A percentage with bounds, both included.
fn percentage(section: &TableReader<'_>, key: &'static str, bounds: (u32, u32), default: u32) -> u32 {
    let Some(text) = section.optional::<String>(key) else { return default };
    let number = text.strip_suffix('%').and_then(|number| number.parse().ok());
    number.filter(|percent| (bounds.0..=bounds.1).contains(percent)).unwrap_or_else(|| {
        let hint = Some(format!("write a percentage from \"{}%\" to \"{}%\"", bounds.0, bounds.1));
        section.mistake(section.span_of(key), format!("`{text}` is no `{key}`"), hint);
        default
    })
}

/// The same for a key that may be `"off"`.
fn percentage_or_off(section: &TableReader<'_>, key: &'static str, default: Option<u32>) -> Option<u32> {
    match default {
        _ if section.is_off(key) => None,
        None if !section.has(key) => None,
        default => Some(percentage(section, key, (1, 100), default.unwrap_or(100))),
    }
}

fn read_ejection(section: &TableReader<'_>, upstream: &mut UpstreamModel) {
    upstream.panic_percent = percentage_or_off(section, "panic_threshold", upstream.panic_percent);
    if section.is_off("ejection") {
        upstream.ejection = None;
        return;
    }
    let Some(section) = section.section("ejection", "`ejection`") else { return };
    let mut ejection = upstream.ejection.unwrap_or_default();
    let rules = &mut ejection.rules;
    let failures = section.or_off("consecutive_failures", rules.consecutive_failures.map(u64::from));
    rules.consecutive_failures = failures.map(|failures| u32::try_from(failures).unwrap_or(u32::MAX));
    rules.error_rate_percent = percentage_or_off(&section, "error_rate", rules.error_rate_percent);
    rules.requests_min = section.within("requests_min", (1, 1_000_000), rules.requests_min);
    let time = |key, default: Duration| Duration::from_nanos(section.or(key, TimeValue(nanos(default))).0);
    rules.base_time = time("base_time", rules.base_time);
    rules.max_time = time("max_time", rules.max_time);
    rules.servers_max_percent = percentage(&section, "servers_max", (1, 100), rules.servers_max_percent);
    ejection.interval = section.or("interval", TimeValue(ejection.interval)).0.max(MILLISECOND);
    section.finish();
    upstream.ejection = Some(ejection);
}

fn read_source(section: &TableReader<'_>, source: &mut SourceModel) {
    source.delay = section.or("delay", source.delay.clone());
    let subset = section.or_off("subset", source.subset.map(u64::from));
    if subset == Some(0) {
        let hint = Some("write 1 or more, or \"off\" for all servers".to_owned());
        section.mistake(
            section.span_of("subset"),
            "a balancer without servers answers nothing".to_owned(),
            hint,
        );
    }
    source.subset = subset.map(|subset| u32::try_from(subset).unwrap_or(u32::MAX));
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
