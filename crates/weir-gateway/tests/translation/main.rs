//! Objects as YAML, and what they come to: listeners, routes, upstreams, servers and statuses as text. `UPDATE=1` writes the expected texts.

#![expect(clippy::unwrap_used, reason = "what reads and renders for tests fails as the tests do")]

mod any_objects;
mod backend_tls;
mod golden;
mod hostile;
mod incremental;
mod ingress;
mod ingress_hsts;
mod ingress_tenants;
mod ingress_tls;
mod leaving;
mod listener_certificates;
mod objects;
mod precedence;
mod regexes;
mod rendering;
