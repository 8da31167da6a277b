//! `[upstream.NAME.ejection]`: ejection of servers on which requests fail.

use std::time::Duration;

use weir_traffic::ejection::EjectionRules;

use crate::config::UpstreamFault;

/// The ejection of servers on which requests fail.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlierEjection {
    /// When servers are ejected, and how long.
    pub rules: EjectionRules,
    /// Status codes that are failures; sorted.
    pub on_status: Vec<u16>,
    /// How often error rates and latencies are compared.
    pub interval: Duration,
}

impl OutlierEjection {
    /// What may not hold of it.
    pub(crate) fn fault(&self) -> Option<UpstreamFault> {
        match &self.rules {
            EjectionRules::Outliers(rules) if rules.base_time > rules.max_time => {
                Some(UpstreamFault::EjectionTimes { base: rules.base_time, max: rules.max_time })
            }
            EjectionRules::Outliers(_) | EjectionRules::MaxFails(_) => None,
        }
    }

    /// Whether servers are compared with each other every [`OutlierEjection::interval`].
    pub fn compares(&self) -> bool {
        match &self.rules {
            EjectionRules::Outliers(rules) => rules.error_rate_percent.is_some() || rules.latency.is_some(),
            EjectionRules::MaxFails(_) => false,
        }
    }
}
