//! What sources have said last, and what is believed of it: reports come in by `report` and `route_report`, and are kept over outages and restarts.

pub(crate) mod believed_store;
pub(crate) mod remembered_servers;
pub(crate) mod state_file;
pub(crate) mod names_in_use;
pub(crate) mod report;
pub(crate) mod route_report;
pub(crate) mod source_state;
