//! Objects as YAML, and what they come to: listeners, routes, upstreams, servers and statuses as text. `UPDATE=1` writes the expected texts.

mod golden;
mod incremental;
mod objects;
mod rendering;
