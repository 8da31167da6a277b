//! What servers send, rewritten for clients: bodies (`rewrite_body`), places and cookies (`rewrite_location`, `rewrite_cookies`).
//!
//! Behind the cache: what is stored is the response of the server, and each client has its own host and scheme put in. It stands among the fields of
//! heads, since it needs their placeholders and heads need it.

pub(in crate::exchange) mod body;
pub(in crate::exchange) mod fields;
