//! `error_pages` in the text.

use crate::key::{NonEmpty, OneOrMany, Spanned, section};
use crate::value::StatusRange;

section! {
    /// Pages in place of Weir's own for some statuses. Placeholders in them are [those of headers](#placeholders), `{title}` (the usual
    /// phrase for the status), `{detail}` (a sentence for the client) and `{reason}`; braces around anything else are text. Status,
    /// `weir-reason` and the other headers stay as they are. Files are read when the config is loaded.
    #[derive(Debug, Clone)]
    pub(crate) struct ErrorPageText at "error_pages" {
        /// The statuses: `404`, `"500-599"`.
        status: OneOrMany<StatusRange> = required, like "nginx `error_page`, HAProxy `errorfile`, Traefik `errors`, Caddy `handle_errors`";
        /// The file for clients that prefer HTML, relative to the file of the config.
        html: Spanned<Box<str>> = optional;
        /// The file for clients that prefer JSON.
        json: Spanned<Box<str>> = optional;
        /// Whether responses of servers with such a status are replaced, too.
        of_servers: bool = false, like "nginx `proxy_intercept_errors`";
    }
}

/// The lists of `error_pages`.
pub(crate) type ErrorPagesText = NonEmpty<crate::key::SpannedTable<ErrorPageText>>;
