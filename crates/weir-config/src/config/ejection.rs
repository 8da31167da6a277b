//! `[upstream.NAME.ejection]`: what becomes of servers on which requests fail.

use std::time::Duration;

use weir_traffic::ejection::{LatencyRule, MaxFails, Outliers, Rules};

use crate::text::EjectionText;

/// Status codes that are failures where nothing is said: those by which a server says that it cannot serve anybody.
const STATUS_DEFAULT: [u16; 3] = [502, 503, 504];

/// What becomes of servers on which requests fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ejection {
    /// Who is ejected, and how long.
    pub rules: Rules,
    /// Status codes that are failures; sorted.
    pub on_status: Vec<u16>,
    /// How often error rates and latencies are compared.
    pub interval: Duration,
}

impl Ejection {
    /// What the text says; `retried` are the status codes for which requests go again.
    pub(crate) fn new(text: &EjectionText, retried: &[u16]) -> Self {
        let rules = match text.max_fails {
            Some(max_fails) => Rules::MaxFails(MaxFails { max_fails, fail_timeout: text.fail_timeout }),
            None => Rules::Outliers(Outliers {
                consecutive_failures: text.consecutive_failures,
                error_rate_percent: text.error_rate.map(|percent| percent.percent()),
                latency: text
                    .latency_factor
                    .map(|factor| LatencyRule { factor, difference_min: text.latency_difference_min }),
                requests_min: text.requests_min,
                time: text.time,
                time_max: text.time_max,
                servers_max_percent: text.servers_max.percent(),
            }),
        };
        let mut on_status = match (&text.on_status, text.max_fails) {
            (Some(on_status), _) => on_status.clone(),
            (None, Some(_)) => retried.to_vec(),
            (None, None) => STATUS_DEFAULT.to_vec(),
        };
        on_status.sort_unstable();
        Self { rules, on_status, interval: text.interval }
    }

    /// Whether servers are compared with each other every [`Ejection::interval`].
    pub fn compares(&self) -> bool {
        match &self.rules {
            Rules::Outliers(rules) => rules.error_rate_percent.is_some() || rules.latency.is_some(),
            Rules::MaxFails(_) => false,
        }
    }
}

impl Default for Ejection {
    fn default() -> Self {
        Self::new(&EjectionText::default(), &[])
    }
}
