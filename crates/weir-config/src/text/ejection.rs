//! `[upstream.NAME.ejection]` as it is written.

use std::time::Duration;

use weir_traffic::ejection::{EjectionRules, LatencyRule, MaxFailsRules, OutlierRules};

use crate::config::OutlierEjection;
use crate::key::section;
use crate::value::Percent;

section! {
    /// What becomes of servers on which requests fail: they get none for a while, then one to try, and all of their share again when that
    /// succeeds. A failure is a connection that cannot be opened or breaks off before the response, an answer that is not HTTP, one that does
    /// not come in time, or a status of `on_status`; what clients do is none. The last server that is left is never ejected, and health checks are
    /// another matter: what they say of a server and its ejection do not undo each other.
    #[derive(Debug, Clone)]
    pub(crate) struct EjectionText at "upstream.NAME.ejection" {
        /// Failures in a row that eject a server at once.
        consecutive_failures: Option<u32> = 5, in 1..=1000,
            like "Envoy `consecutive_gateway_failure`, HAProxy `error-limit` with `on-error mark-down`";
        /// Status codes that are failures. Without it, 502, 503 and 504; with `max_fails`, those of `retry.on_status`. A server that answers 500 is
        /// there, and one bad URL would take it away from everybody.
        on_status: Vec<u16> = optional, in 400..=599, like "nginx `proxy_next_upstream http_503`";
        /// How far above that of the others the share of failed requests may be, in percentage points. Trouble that all have is nobody's fault.
        error_rate: Option<Percent> = "50%", in 1..=100, like "Envoy `failure_percentage_threshold`, `success_rate_stdev_factor`";
        /// How many times as long as the others a server may take to answer, by the medians of an interval. Off, since slow is not dead: balancing gives
        /// a slow server less, and what it had falls to the others when it is gone.
        latency_factor: Option<u32> = "off", in 2..=1000;
        /// How much longer than the others it has to take in any case.
        latency_difference_min: Duration = "100ms", in 1..=3_600_000;
        /// How often error rates and latencies are compared.
        interval: Duration = "10s", in 100..=3_600_000, like "Envoy `interval`";
        /// Requests that a server must have had in an interval to be compared.
        requests_min: u64 = 50, in 1..=1_000_000, like "Envoy `failure_percentage_request_volume`";
        /// How long a server is ejected the first time; twice as long the second time in a row, three times the third. Each such time in good
        /// standing makes one forgotten.
        base_time: Duration = "10s", in 10..=3_600_000, like "nginx `fail_timeout=`, Envoy `base_ejection_time`";
        /// The longest that a server is ejected. Trying costs one request, which goes elsewhere if it can be repeated.
        max_time: Duration = "1m", in 10..=86_400_000, like "Envoy `max_ejection_time`";
        /// The largest share of the servers that may be ejected at the same time, of the backups and of the others; one always may, while another is
        /// left.
        servers_max: Percent = "50%", in 1..=100, like "Envoy `max_ejection_percent`";
        /// Failures within `fail_timeout` that eject a server, exactly as in nginx, in place of all keys above but `on_status`. No success in between
        /// takes one back; all servers may be ejected, but not one that is the only one of its upstream.
        max_fails: u32 = optional, in 1..=1_000_000, like "nginx `max_fails=`";
        /// With `max_fails`: the time in which failures are counted, and for which the server is ejected.
        fail_timeout: Duration = "10s", in 10..=86_400_000, like "nginx `fail_timeout=`";
    }
}

/// Status codes that are failures where nothing is said: those by which a server says that it cannot serve anybody.
const STATUS_DEFAULT: [u16; 3] = [502, 503, 504];

impl EjectionText {
    /// What it means; `retried` are the status codes for which requests go again.
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
                time: self.base_time,
                time_max: self.max_time,
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
