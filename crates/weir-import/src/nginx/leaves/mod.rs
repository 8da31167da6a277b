//! What servers and locations say, beside which of them takes a request: where it goes, and all that is done on the way.
//!
//! Each translation reads the directives that hold at a place and settles them; what none has asked for is settled by [`ignored::sweep`].

use super::{quic, regexes, scope, variables};

// TCP.
pub(super) mod stream;
// What has no meaning, and what nothing has used.
pub(super) mod ignored;
// Directives beside `http`.
pub(super) mod process;
// All that a location says beside where requests go.
pub(super) mod features;
// `proxy_pass` and its like.
pub(super) mod passes;
// Changes of response fields.
mod response_rules;
// TLS with clients.
pub(super) mod tls;
// `access_log`, `log_format`, `error_log`.
mod logs;
// `upstream` blocks, and servers that a URL names.
mod upstreams;
// Sizes and times.
mod units;
