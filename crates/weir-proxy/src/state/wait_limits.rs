//! How long an exchange waits for each party, as the config says.

use std::time::Duration;

use crate::net::pace::PaceLimit;

/// The limits on each wait; `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WaitLimits {
    pub(crate) request_body: Option<PaceLimit>,
    pub(crate) send: Option<PaceLimit>,
    pub(crate) response: Option<Duration>,
    pub(crate) relay: Option<PaceLimit>,
    pub(crate) client_send: Option<PaceLimit>,
}
