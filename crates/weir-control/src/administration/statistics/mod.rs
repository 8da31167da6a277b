//! The figures of the process: collected from the workers, sampled for rates, and put together for the status page, the API and `/metrics`.

pub(crate) mod metrics_source;
pub(crate) mod overview;
pub(crate) mod tables;
pub(crate) mod live_rates;
pub(crate) mod certificate_reports;
pub(crate) mod collection;
