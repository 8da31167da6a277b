//! Upstreams and their servers: plans, states, and idle connections.

pub(crate) mod upstream;
pub mod pool;
pub(crate) mod method_set;
pub(crate) mod ramp;
pub(crate) mod last_change;
pub mod requested_names;
pub mod plan_inputs;
pub mod due_upstreams;
