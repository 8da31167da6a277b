//! `x_accel`: which fields of servers for the proxy in front of them count.

use crate::key::choice;

choice! {
    /// A field by which a server asks the proxy in front of it for something.
    pub enum AccelField {
        /// `X-Accel-Redirect`: the response is that of the route of this path, or with `@` of this name, internal routes included.
        #[default]
        Redirect = "redirect",
        /// `X-Accel-Expires`: how long the `cache` of the route keeps the response, before `Cache-Control` and `Expires`.
        Expires = "expires",
        /// `X-Accel-Buffering`: with `no`, `buffer_responses` of the route does not act on the response.
        Buffering = "buffering",
        /// `X-Accel-Limit-Rate`: the bytes per second that the client gets at most.
        LimitRate = "limit_rate",
        /// None of them counts, and all of them pass: for a listener behind another proxy that acts on them. Only without the others.
        Pass = "pass",
    }
}
