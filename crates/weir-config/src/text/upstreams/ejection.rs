//! `[upstream.NAME.ejection]` in the text.

use std::time::Duration;

use weir_traffic::ejection::{EjectionRules, LatencyRule, MaxFailsRules, OutlierRules};

use crate::config::OutlierEjection;
use crate::key::section;
use crate::value::Percent;

section! {
    /// Outlier ejection: a server on which requests fail gets none for a while, then one as a trial, and its full share again when that
    /// succeeds. A failure is a connection that cannot be opened or that breaks before the response, a response that is not HTTP or not in
    /// time, or a status of `on_status`; never an error of a client. The last available server is never ejected. Ejection and health checks
    /// are two independent mechanisms: neither reverses the other.
    #[derive(Debug, Clone)]
    pub(crate) struct EjectionText at "upstream.NAME.ejection" {
        /// Consecutive failures that eject a server at once.
        consecutive_failures: Option<u32> = 5, in 1..=1000,
            like "Envoy `consecutive_gateway_failure`, HAProxy `error-limit` with `on-error mark-down`";
        /// Status codes that count as failures. Without it, 502, 503 and 504; with `max_fails`, those of `retry.on_status`. 500 is not
        /// among them: one bad URL would make the server unavailable to all clients.
        on_status: Vec<u16> = optional, in 400..=599, like "nginx `proxy_next_upstream http_503`";
        /// By how many percentage points the error rate of a server may exceed that of the others. Failures on all servers alike eject
        /// none.
        error_rate: Option<Percent> = "50%", in 1..=100, like "Envoy `failure_percentage_threshold`, `success_rate_stdev_factor`";
        /// How many times the median latency of the others the latency of a server may be in an interval. Off by default, since slow is not
        /// dead: balancing sends fewer requests to a slow server, and ejecting it moves its load to the others.
        latency_factor: Option<u32> = "off", in 2..=1000;
        /// The least difference from the latency of the others that counts.
        latency_difference_min: Duration = "100ms", in 1..=3_600_000;
        /// How often error rates and latencies are compared.
        interval: Duration = "10s", in 100..=3_600_000, like "Envoy `interval`";
        /// The least number of requests to a server in an interval for a comparison.
        requests_min: u64 = 50, in 1..=1_000_000, like "Envoy `failure_percentage_request_volume`";
        /// The duration of the first ejection; twice as long for the second in a row, three times for the third. Each such time without an
        /// ejection reduces the count by one.
        base_time: Duration = "10s", in 10..=3_600_000, like "nginx `fail_timeout=`, Envoy `base_ejection_time`";
        /// The longest ejection. A trial costs one request, which is retried on another server if it can be.
        max_time: Duration = "1m", in 10..=86_400_000, like "Envoy `max_ejection_time`";
        /// The maximum share of the servers that may be ejected at the same time, separately for backups and the others; one always may be,
        /// if another server is available.
        servers_max: Percent = "50%", in 1..=100, like "Envoy `max_ejection_percent`";
        /// Failures within `fail_timeout` that eject a server, exactly as in nginx, in place of all keys above except `on_status`.
        /// Successes in between do not reset the count; all servers may be ejected, but not the only one of an upstream.
        max_fails: u32 = optional, in 1..=1_000_000, like "nginx `max_fails=`";
        /// With `max_fails`: the time in which failures are counted, and the duration of the ejection.
        fail_timeout: Duration = "10s", in 10..=86_400_000, like "nginx `fail_timeout=`";
    }
}

/// Status codes that count as failures by default: those with which a server says that it cannot serve requests.
const STATUS_DEFAULT: [u16; 3] = [502, 503, 504];

impl EjectionText {
    /// The checked form; `retried` are the status codes after which requests are repeated.
    pub(crate) fn ejection(&self, retried: &[u16]) -> OutlierEjection {
        let rules = match self.max_fails {
            Some(max_fails) => {
                EjectionRules::MaxFails(MaxFailsRules { max_fails, fail_timeout: self.fail_timeout })
            }
            None => EjectionRules::Outliers(OutlierRules {
                consecutive_failures: self.consecutive_failures,
                error_rate_percent: self.error_rate.map(|percent| percent.percent()),
                latency: self
                    .latency_factor
                    .map(|factor| LatencyRule { factor, difference_min: self.latency_difference_min }),
                requests_min: self.requests_min,
                base_time: self.base_time,
                max_time: self.max_time,
                servers_max_percent: self.servers_max.percent(),
            }),
        };
        let mut on_status = match (&self.on_status, self.max_fails) {
            (Some(on_status), _) => on_status.clone(),
            (None, Some(_)) => retried.to_vec(),
            (None, None) => STATUS_DEFAULT.to_vec(),
        };
        on_status.sort_unstable();
        OutlierEjection { rules, on_status, interval: self.interval }
    }
}

impl Default for OutlierEjection {
    fn default() -> Self {
        EjectionText::default().ejection(&[])
    }
}
