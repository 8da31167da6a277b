//! How long an exchange waits for each party, as the config says.

use std::time::Duration;

use weir_config::ProgressLimit;

/// The limits on each wait; `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WaitLimits {
    pub(crate) request_body: Option<ProgressLimit>,
    pub(crate) send: Option<ProgressLimit>,
    pub(crate) response: Option<Duration>,
    pub(crate) relay: Option<ProgressLimit>,
    pub(crate) client_send: Option<ProgressLimit>,
}

impl WaitLimits {
    /// No limits.
    pub(crate) const NONE: Self =
        Self { request_body: None, send: None, response: None, relay: None, client_send: None };
}
