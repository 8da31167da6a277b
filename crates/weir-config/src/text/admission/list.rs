//! `[list.NAME]` in the text.

use std::time::Duration;

use crate::config::ListAction;
use crate::key::{OneOrMany, Spanned, section};
use crate::value::Template;

section! {
    /// A list of addresses or other keys, and what becomes of requests that are in it, where `lists` of a listener or a route names it. Of
    /// several lists that a request is in, the entry with the longest network counts, of equal ones the list that is named first; an entry
    /// that is no network counts as the longest.
    #[derive(Debug, Clone)]
    pub(crate) struct ListText at "list.NAME" {
        /// What becomes of requests that are in it.
        action: ListAction = required, like "nginx `allow`, `deny`; HAProxy `http-request deny`, `http-request tarpit`";
        /// What is looked up: the address of the client, in networks; or another text with [placeholders](#placeholders), compared whole. With
        /// `{user}` or `{jwt.NAME}`, once the route has authenticated the client. Where a header came in several lines, one of them in the
        /// list is enough, for `allow` all of them.
        key: Spanned<Template> = "{client_address}", like "nginx `geo`, `map`; HAProxy `acl`";
        /// The entries: networks and addresses, or texts. Behind an entry and a space may stand a text for `{tag}`; without one, it is the
        /// name of the list.
        entries: Vec<Spanned<Box<str>>> = [];
        /// Files with further entries, one a line, as in `entries`; what follows `#` is left out. Read again when the config is, and with
        /// `process.reload = "on-change"` whenever they change.
        file: OneOrMany<Spanned<Box<str>>> = optional, like "HAProxy `acl -f`, `map_ip`";
        /// The status of refusals.
        status: u16 = 403, in 400..=599, like "HAProxy `deny_status`";
        /// How long `tarpit` puts the refusal off. At most 1000 requests wait for it at once; more are refused without delay.
        delay: Duration = "10s", in 1..=600_000, like "HAProxy `timeout tarpit`";
    }
}
