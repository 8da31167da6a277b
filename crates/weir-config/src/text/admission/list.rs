//! `[list.NAME]` in the text.

use std::time::Duration;

use crate::config::{ListAction, REFUSAL_STATUSES, TARPIT_DELAY};
use crate::key::{OneOrMany, Spanned, section};
use crate::text::ConditionText;
use crate::value::Template;

section! {
    /// A list of addresses or other keys, and what becomes of requests that are in it, where `lists` of a listener or a route names it. Of
    /// several lists that a request is in, the entry with the longest network counts, of equal ones the list that is named first; an entry
    /// that is no network counts as the longest.
    #[derive(Debug, Clone)]
    pub(crate) struct ListText at "list.NAME" {
        /// What becomes of requests that are in it. A list that only says which peers are trusted, or exempt from limits on connections, needs none.
        action: ListAction = optional, like "nginx `allow`, `deny`, `return 444`; HAProxy `http-request deny`, `http-request tarpit`, `http-request reject`, `http-request silent-drop`";
        /// Key to look up: the client address, matched against networks; or other text with [placeholders](#placeholders), which must equal
        /// an entry. A key with `{user}` or `{jwt.NAME}` is evaluated after authentication. If a header has several lines, one match is
        /// enough; with `allow`, all lines must match.
        key: Spanned<Template> = "{client_address}", like "nginx `geo`, `map`; HAProxy `acl`";
        /// A condition: only requests for which it holds are looked up. Without `entries` and `file`, all of them are in the list. See
        /// [Conditions](#conditions).
        when: ConditionText = optional, like "HAProxy `http-request deny if`, nginx `if` with `return`";
        /// The entries: networks and addresses, or texts. An entry may be followed by a space and a value for `{tag}`; the default is the
        /// name of the list.
        entries: Vec<Spanned<Box<str>>> = [];
        /// Files with further entries, one a line, as in `entries`; what follows `#` is left out. Read again when the config is, and with
        /// `process.reload = "on-change"` whenever they change.
        file: OneOrMany<Spanned<Box<str>>> = optional, like "HAProxy `acl -f`, `map_ip`";
        /// The status of rejected requests.
        status: u16 = 403, in REFUSAL_STATUSES, like "HAProxy `deny_status`";
        /// How long `tarpit` delays the rejection. At most 1000 requests are delayed at a time; further ones are rejected at once.
        delay: Duration = "10s", in TARPIT_DELAY, like "HAProxy `timeout tarpit`";
    }
}
