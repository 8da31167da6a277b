//! `hsts` of a listener or a route in the text.

use std::time::Duration;

use crate::key::section;

section! {
    /// `Strict-Transport-Security`, on every response over TLS.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct HstsText at "hsts" {
        /// `max-age`: for how long browsers remember it. Begin with minutes, since it cannot be revoked.
        max_age: Duration = "365d", in 0..=315_360_000_000;
        /// Whether it holds for all hosts below this one as well.
        subdomains: bool = false;
        /// Whether browsers may build it in: <https://hstspreload.org>. Needs `subdomains` and a year.
        preload: bool = false;
    }
}
