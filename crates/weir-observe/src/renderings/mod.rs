//! What the overview and the counters look like outside: the status page, HAProxy's tables, metrics, flame graphs.

pub mod status_page;
pub mod haproxy;
pub mod prometheus;
pub mod flame;
