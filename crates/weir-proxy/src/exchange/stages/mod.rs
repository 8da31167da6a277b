//! The stages at which features act, between the phases of [`super::carry`].
//!
//! In which order they act is said by one table, `weir_config::ORDER`; here it is said what each does at its row. A route has a set of rows: where none
//! of them is of a stage, the stage costs one test.

pub(in crate::exchange) mod failed;
pub(in crate::exchange) mod resume;
pub(in crate::exchange) mod request_head;
pub(in crate::exchange) mod before_server;
pub(in crate::exchange) mod upstream_known;
pub(in crate::exchange) mod server_chosen;
pub(in crate::exchange) mod response_fields;
pub(in crate::exchange) mod response_head;
pub(in crate::exchange) mod response_body;
